"""What C and C++ have in common: CMake with CTest, or a Makefile whose target `check` or `test` prints TAP."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noria.core.protocols import ExecResult
from noria.languages import _files, _junit
from noria.languages._lines import lines
from noria.languages._reach import reached
from noria.languages.base import DEPS, SLOWEST, WORKSPACE, Layout, Status, Step, Unusable

SUITE_S, TEST_S = 600.0, 30.0
BUILD, COUNTED = ".noria-build", "/tmp/counted-build"
_ENV = (("TZ", "UTC"), ("LC_ALL", "C"), ("TEST_JOBS", "1"))
HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inl")
_TEST = re.compile(r"(^|/)((tests?|testing|unity|googletest|gtest|catch2?|doctest|examples?|fuzz(ing)?)/|test[-_.]|tests?\.)|[-_](unit)?tests?\.\w+$", re.I)  # fmt: skip  # noqa: E501
_SETTINGS = re.compile(r"(^|/)(CMakeLists\.txt|[^/]*\.cmake|GNUmakefile|[Mm]akefile(\.\w+)?|[^/]*\.mk|CTest\w*\.\w+|configure[^/]*)$")  # fmt: skip  # noqa: E501
_TARGET = re.compile(r"(?m)^(check|test)\s*:(?!=)")
_TAP = re.compile(r"^(not )?ok\b(?: +(\d+))?(?: +-)? *([^#\n]*?) *(?:# *(\w+).*)?$")
#: CMake's `find_package` -> the Debian package that has it.
_PACKAGES = {"GTest": "libgtest-dev", "Catch2": "catch2", "doctest": "doctest-dev", "cmocka": "libcmocka-dev"}
_REACHING = re.compile(
    r"\b(_?_?[eE]xit|quick_exit|abort|atexit|signal|raise|kill|fork|exec\w+|system|popen|syscall|asm|__asm__|constructor|"
    r"destructor|dlsym|dlopen|ptrace|Unity\w*|UNITY\w*|TEST\w*|RUN_TEST|fopen|freopen|fclose|open|close|dup\d?|ofstream|"
    r"longjmp|setjmp|CTEST\w*)\b"
)
#: Macros that would stand in for a function or a word of the language.
_MACRO = re.compile(r"(?m)^\s*#\s*(?:define|undef)\s+[a-z_]\w*")
#: Headers of the compiler itself.
_SYSTEM = frozenset({"stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "float.h", "limits.h", "iso646.h"})


class Native:
    """The common part of both plug-ins; `name`, `suffixes` and `compilers` are theirs."""

    name = ""
    suffixes: tuple[str, ...] = ()
    compiler = ""
    caches = ("*.o", "*.obj", "*.a", "*.gcda", "*.gcno", "CMakeFiles", "CMakeCache.txt", "Testing")
    built = (f"{BUILD}/",)

    def missing(self) -> str | None:
        """See `Language`."""
        lacking = [program for program in (self.compiler, "cmake", "ctest", "make") if shutil.which(program) is None]
        return f"{lacking[0]} is missing: install gcc, g++, make and CMake 3.21 or newer" if lacking else None

    def detect(self, root: Path) -> Layout | None:
        """See `Language`."""
        found = _files.files(root)
        code = _files.ending(found, self.suffixes)
        if not [path for path in code if not path.endswith(HEADERS)]:
            return None
        how = self._how(root, found)
        if not how:
            return None
        tests = tuple(path for path in found if _TEST.search(path) and not _SETTINGS.search(path))
        sources = tuple(path for path in code if path not in tests)
        if not sources:
            raise Unusable("it has no sources: nothing but tests and examples")
        settings = tuple(path for path in found if _SETTINGS.search(path))
        texts = "\n".join(_files.text(root, path) for path in settings)
        wanted = re.findall(r"find_package\s*\(\s*(\w+)", texts)
        needs = tuple(sorted({_PACKAGES[name] for name in wanted if name in _PACKAGES}))
        facts = {"how": how, "options": " ".join(_options(texts))}
        return Layout(self.name, root.name, sources, tests, settings, needs, (), tuple(sorted(facts.items())))

    def _how(self, root: Path, found: Sequence[str]) -> str:
        """ "cmake", or the target of the Makefile; "" where it has neither."""
        if "CMakeLists.txt" in found:
            texts = [_files.text(root, path) for path in found if _SETTINGS.search(path)]
            if not any(re.search(r"(?i)\b(add_test|enable_testing|gtest_discover_tests)\b", text) for text in texts):
                raise Unusable("it has no tests that CTest would run")
            return "cmake"
        for name in ("GNUmakefile", "makefile", "Makefile"):
            target = _TARGET.search(_files.text(root, name))
            if target is not None:
                return target[1]
        return ""

    def install(self, layout: Layout) -> tuple[Step, ...]:
        """One step: see `_debian_layer`."""
        script = str(Path(__file__).with_name("_debian_layer.py"))
        return (Step((sys.executable, script, *layout.needs), 600.0, place="outside"),)

    def command(self, layout: Layout, tests: Sequence[str] | None, report: str) -> Step:
        """Build what is older than its sources, and run the programs that hold the chosen tests."""
        how = layout.fact("how")
        if how != "cmake":
            words = f"make -s {how} > {report}/report.tap 2> /tmp/said || true; tail -c 4000 /tmp/said >&2"
            return Step(("sh", "-c", words), SUITE_S, _ENV)
        return Step(("sh", "-c", _script(layout, tests, report, BUILD, "-O0")), SUITE_S, _ENV)

    def coverage(self, layout: Layout, report: str) -> Step:
        """See `Covering`: another build, counted by gcov; a Makefile's programs are not counted."""
        if layout.fact("how") != "cmake":
            return Step(("true",), SUITE_S, _ENV)
        count = (
            f"cd {COUNTED} && find . -name '*.gcda' > /tmp/counted; at=0; while read -r each; do at=$((at+1)); "
            f'gcov --json-format --stdout "$each" > {report}/gcov-$at.json 2> /tmp/said; done < /tmp/counted'
        )
        script = _script(layout, None, report, COUNTED, "-O0 --coverage")
        return Step(("sh", "-c", f"{script}; {count}"), 2 * SUITE_S, _ENV)

    def read_coverage(self, reports: Mapping[str, bytes]) -> Mapping[str, Mapping[str, frozenset[int]]]:
        """See `Covering`: lines that any test runs count for each."""
        found: dict[str, set[int]] = defaultdict(set)
        for path, data in reports.items():
            for line in lines(data) if path.startswith("gcov-") else ():
                for file in _objects(line.get("files")):
                    run = {each.get("line_number") for each in _objects(file.get("lines")) if each.get("count")}
                    found[str(file.get("file")).removeprefix(f"{WORKSPACE}/")] |= {n for n in run if isinstance(n, int)}
        by_path = {path: frozenset(run) for path, run in found.items()}
        return {case.id: by_path for case in _junit.cases(reports.get("junit.xml", b""))} if by_path else {}

    def steers(self, layout: Layout, path: str) -> bool:
        """Tests, whatever steers the build, and headers that would be found before those of the system."""
        known = path in layout.tests or path in layout.settings
        name = Path(path).name
        system = path not in layout.sources and (
            "." not in name or name in _SYSTEM or Path("/usr/include", name).exists()
        )
        return known or system or bool(_TEST.search(path) or _SETTINGS.search(path)) or path.startswith(BUILD)

    def tampers(self, before: str, after: str) -> str:
        """See `Wary`."""
        new = reached(_REACHING, before, after)
        new |= set(_MACRO.findall(after)) - set(_MACRO.findall(before))
        return ", ".join(sorted(new))

    def read(self, reports: Mapping[str, bytes], result: ExecResult) -> Mapping[str, Status]:
        """See `Language`."""
        found: dict[str, Status] = {case.id: case.status for case in _junit.cases(reports.get("junit.xml", b""))}
        for id_, status, _ in _tap(reports) if not found else ():  # what is printed later does not undo a failure
            found[id_] = status if found.get(id_, "pass") == "pass" else found[id_]
        return found

    def read_said(self, reports: Mapping[str, bytes]) -> Mapping[str, str]:
        """See `Telling`."""
        found = {case.id: case.said for case in _junit.cases(reports.get("junit.xml", b"")) if case.status != "pass"}
        found = found or {id_: said for id_, status, said in _tap(reports) if status != "pass"}
        return {id_: said for id_, said in found.items() if said}

    def read_seconds(self, reports: Mapping[str, bytes]) -> Mapping[str, float]:
        """See `Telling`."""
        return {case.id: case.seconds for case in _junit.cases(reports.get("junit.xml", b""))}


def _script(layout: Layout, tests: Sequence[str] | None, report: str, folder: str, flags: str) -> str:
    """Set up, build and run below a folder; a failed build ends it with its errors and without a report."""
    limit_s = max(10, round(float(layout.fact(SLOWEST, str(TEST_S)))))
    set_up = shlex.join([
        "cmake", "-S", ".", "-B", folder, "-DCMAKE_BUILD_TYPE=Debug", "-DBUILD_TESTING=ON", "-DBUILD_SHARED_LIBS=OFF",
        f"-DCMAKE_C_FLAGS_DEBUG={flags}", f"-DCMAKE_CXX_FLAGS_DEBUG={flags}",
        f"-DCMAKE_PREFIX_PATH={DEPS}/unpacked/usr",
        *layout.fact("options").split(),
    ])  # fmt: skip
    run = ["ctest", "--test-dir", folder, "--output-junit", f"{report}/junit.xml", "--timeout", str(limit_s), "-Q"]
    if tests is not None:
        names = dict.fromkeys(test.rpartition("::")[0] for test in tests)
        run += ["-R", f"^({'|'.join(_escaped(name) for name in names)})$"]
    return (
        f"[ -f {folder}/CMakeCache.txt ] || {set_up} > /tmp/said 2>&1 || {{ tail -c 2000 /tmp/said >&2; exit 3; }}; "
        f"cmake --build {folder} > /tmp/said 2>&1 || {{ grep -m 5 -i error /tmp/said >&2; exit 4; }}; "
        f"{shlex.join(run)} || true"
    )


def _options(texts: str) -> list[str]:
    """Options of this project that switch its tests on."""
    found = re.findall(r"(?i)option\s*\(\s*(\w*TEST\w*)\b", texts)
    named = [name for name in found if re.search(r"(?i)(build|enable|with).*test|tests?$", name)]
    return [f"-D{name}=ON" for name in dict.fromkeys(named)]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _escaped(name: str) -> str:
    """For CTest's own regular expressions."""
    return re.sub(r"([\\^$.|?*+()\[\]])", r"\\\1", name)


def _tap(reports: Mapping[str, bytes]) -> list[tuple[str, Status, str]]:
    """Tests of a TAP stream: id, status, and the comment after a failure."""
    found: list[tuple[str, Status, str]] = []
    for line in reports.get("report.tap", b"").decode("utf-8", "replace").split("\n"):
        # A failure counts wherever it stands in a line: a source may have printed what is before it.
        got = _TAP.match(line) or _TAP.match(line[line.find("not ok") :] if "not ok" in line else "")
        if got is not None:
            word = (got[4] or "").lower()
            status: Status = "skip" if word in ("skip", "skipped", "todo") else "fail" if got[1] else "pass"
            found.append((f"tap::{' '.join(got[3].split()) or got[2] or len(found) + 1}", status, ""))
        elif line.startswith("#") and found and found[-1][1] == "fail":
            id_, status, said = found[-1]
            found[-1] = (id_, status, f"{said} {line[1:].strip()}".strip()[:500])
    return found
