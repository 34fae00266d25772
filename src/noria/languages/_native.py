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
from noria.languages._collected import Collected, step
from noria.languages._lines import lines
from noria.languages._reach import reached
from noria.languages.base import DEPS, MOST_WORD, SLOWEST, WORKSPACE, Layout, Status, Step, Unusable

SUITE_S, TEST_S = 600.0, 30.0
JUNIT, TAP, EXIT = "junit.xml", "report.tap", "exit"
BUILD, COUNTED = ".noria-build", "/tmp/counted-build"
_ENV = (("TZ", "UTC"), ("LC_ALL", "C"), ("TEST_JOBS", "1"))
HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inl")
_TEST = re.compile(r"(^|/)((tests?|testing|unity|googletest|gtest|catch2?|doctest|examples?|fuzz(ing)?)/|test[-_.]|tests?\.)|[-_](unit)?tests?\.\w+$", re.I)  # fmt: skip  # noqa: E501
_SETTINGS = re.compile(r"(^|/)(CMakeLists\.txt|[^/]*\.cmake|GNUmakefile|[Mm]akefile(\.\w+)?|[^/]*\.mk|CTest\w*\.\w+|configure[^/]*)$")  # fmt: skip  # noqa: E501
_TARGET = re.compile(r"(?m)^(check|test)\s*:(?!=)")
_TAP = re.compile(r"^(not )?ok\b(?: +(\d+))?(?: +-)? *([^#\n]*?) *(?:# *(\w+).*)?$")
#: CMake's `find_package` -> the Debian package that has it.
_PACKAGES = {"GTest": "libgtest-dev", "Catch2": "catch2", "doctest": "doctest-dev", "cmocka": "libcmocka-dev"}
#: Functions that end a program, start another, write files, or stand in for what a test calls.
_CALLS = (
    r"[eE]xit|quick_exit|at_quick_exit|atexit|on_exit|signal|sigaction|raise|t?kill|v?fork|exec\w+|fexecve|system|"
    r"popen|posix_spawn\w*|syscall|dlsym|dlv?mopen|dlopen|ptrace|fd?open(?:64)?|freopen(?:64)?|open(?:at)?(?:64)?|"
    r"creat(?:64)?|dup[23]?|(?:sig)?longjmp|(?:sig)?setjmp|pthread_exit|thrd_exit|errx|verrx?|rename(?:at2?)?|"
    r"unlink(?:at)?|f?truncate(?:64)?|mprotect"
)
_REACHING = re.compile(
    rf"\b((?:__builtin_|__libc_|_)*(?:{_CALLS})|abort|err\s*\(\s*0|asm|__asm__|__asm|constructor|destructor|init_priority|"
    r"Unity\w*|UNITY\w*|TEST\w*|RUN_TEST|CTEST\w*|fclose|close|(?:basic_)?ofstream|(?:std::|basic_)fstream|"
    r"(?:basic_)?filebuf|set_terminate|set_unexpected|NDEBUG|__assert\w*|push_macro|pop_macro)\b|"
    r"(##|%:%:|(?:#|%:)\s*include\s+[A-Za-z_]|\?\?=|(?:alias|ifunc|weakref)\s*\(|pragma\s+\w*\s*weak|"
    r"\(\s*_*weak_*\s*[,)])"
)
#: The same as symbols of compiled files.
DENIED = rf"_*(?:libc_)?(?:{_CALLS}|err|clone3?)|_ZNK?St\d+basic_(?:o?fstream|filebuf)\w*|_ZSt\d+set_\w+"
#: Macros that would stand in for a function, a word of the language, or what a test checks with.
_MACRO = re.compile(
    r"(?m)^\s*(?:#|%:)\s*(?:define|undef)\s+(?:[a-z_]\w*|(?:CHECK|REQUIRE|ASSERT|EXPECT|SECTION|NDEBUG)\w*)"
)
#: Headers of the compiler itself.
_SYSTEM = frozenset({"stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "float.h", "limits.h", "iso646.h"})


class Native(Collected):
    """The common part of both plug-ins; `name`, `suffixes` and `compilers` are theirs."""

    name = ""
    suffixes: tuple[str, ...] = ()
    compiler = ""
    watched = ("",)
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
            given: dict[str, Any] = {"program": {"argv": ["make", "-s", how], "to": TAP, "exit": EXIT}}
            return step(report, given, SUITE_S, _ENV)
        return step(report, _given(layout, tests, BUILD, "-O0"), SUITE_S, _ENV)

    def coverage(self, layout: Layout, report: str) -> Step:
        """See `Covering`: another build, counted by gcov; a Makefile's programs are not counted."""
        if layout.fact("how") != "cmake":
            return Step(("true",), SUITE_S, _ENV)
        count = (
            f"mkdir /tmp/gcov; cd {COUNTED} && find . -name '*.gcda' > /tmp/counted; at=0; while read -r each; do "
            'at=$((at+1)); gcov --json-format --stdout "$each" > /tmp/gcov/$at.json 2> /tmp/said; done < /tmp/counted'
        )
        given = _given(layout, None, COUNTED, "-O0 --coverage")
        files = {**given["files"], "gcov-*.json": "/tmp/gcov/*.json"}
        return step(report, {**given, "after": ["sh", "-c", count], "files": files}, 2 * SUITE_S, _ENV)

    def read_coverage(self, reports: Mapping[str, bytes]) -> Mapping[str, Mapping[str, frozenset[int]]]:
        """See `Covering`: lines that any test runs count for each."""
        found: dict[str, set[int]] = defaultdict(set)
        for path, data in reports.items():
            for line in lines(data) if path.startswith("gcov-") else ():
                for file in _objects(line.get("files")):
                    run = {each.get("line_number") for each in _objects(file.get("lines")) if each.get("count")}
                    found[str(file.get("file")).removeprefix(f"{WORKSPACE}/")] |= {n for n in run if isinstance(n, int)}
        by_path = {path: frozenset(run) for path, run in found.items()}
        return {case.id: by_path for case in _junit.cases(reports.get(JUNIT, b""))} if by_path else {}

    def steers(self, layout: Layout, path: str) -> bool:
        """Tests, whatever steers the build, and headers that would be found before those of the system."""
        known = path in layout.tests or path in layout.settings
        name = Path(path).name
        system = path not in layout.sources and (
            "." not in name or name in _SYSTEM or Path("/usr/include", name).exists()
        )
        return known or system or bool(_TEST.search(path) or _SETTINGS.search(path)) or path.startswith(BUILD)

    def tampers(self, before: str, after: str) -> str:
        """See `Wary`: lines that a backslash parts are one, as the compiler reads them."""
        before, after = (re.sub(r"(?:\\|\?\?/)[ \t]*\n", "", text) for text in (before, after))
        new = reached(_REACHING, before, after)
        new |= set(_MACRO.findall(after)) - set(_MACRO.findall(before))
        return ", ".join(sorted(new))

    def read(self, reports: Mapping[str, bytes], result: ExecResult) -> Mapping[str, Status]:
        """See `Language`."""
        found: dict[str, Status] = {case.id: case.status for case in _junit.cases(reports.get(JUNIT, b""))}
        for id_, status, _ in _tap(reports) if not found else ():  # what is printed later does not undo a failure
            found[id_] = status if found.get(id_, "pass") == "pass" else found[id_]
        return found

    def by_hand(self, layout: Layout) -> str:
        """See `Manual`."""
        how = layout.fact("how")
        if how != "cmake":
            return f"make -s {how}"
        options = shlex.join(["-DBUILD_TESTING=ON", f"-DCMAKE_PREFIX_PATH={DEPS}/unpacked/usr", *_own(layout)])
        return f"cmake -S . -B /tmp/build {options} && cmake --build /tmp/build && ctest --test-dir /tmp/build"

    def variables(self, layout: Layout) -> Mapping[str, str]:
        """See `Manual`."""
        return {}

    def read_ended(self, reports: Mapping[str, bytes]) -> Mapping[str, bool]:
        """See `Ending`: by the exit code of what ran them all, else as CTest says of each. No program that was
        compiled from files that reach for more than before.
        """
        if "reaches" in reports:
            return {}
        well = reports.get(EXIT) == b"0"
        whole = {name: well or passed for name, passed in _junit.programs(reports.get(JUNIT, b"")).items()}
        return whole or {"tap": well}

    def program(self, test: str) -> str:
        """See `Ending`."""
        return test.partition("::")[0] if test.startswith("tap::") else test.rpartition("::")[0]

    def unit(self, test: str) -> str:
        """See `Ending`: a program runs all of its tests."""
        return self.program(test)

    def read_said(self, reports: Mapping[str, bytes]) -> Mapping[str, str]:
        """See `Telling`."""
        found = {case.id: case.said for case in _junit.cases(reports.get(JUNIT, b"")) if case.status != "pass"}
        found = found or {id_: said for id_, status, said in _tap(reports) if status != "pass"}
        return {id_: said for id_, said in found.items() if said}

    def read_seconds(self, reports: Mapping[str, bytes]) -> Mapping[str, float]:
        """See `Telling`."""
        return {case.id: case.seconds for case in _junit.cases(reports.get(JUNIT, b""))}


def _given(layout: Layout, tests: Sequence[str] | None, folder: str, flags: str) -> dict[str, Any]:
    """What is collected: set up, built and run below a folder."""
    limit_s = max(10, round(float(layout.fact(SLOWEST, str(TEST_S)))))
    set_up = shlex.join([
        "cmake", "-S", ".", "-B", folder, "-DCMAKE_BUILD_TYPE=Debug", "-DBUILD_TESTING=ON", "-DBUILD_SHARED_LIBS=OFF",
        f"-DCMAKE_C_FLAGS_DEBUG={flags}", f"-DCMAKE_CXX_FLAGS_DEBUG={flags}",
        f"-DCMAKE_PREFIX_PATH={DEPS}/unpacked/usr",
        *_own(layout),
    ])  # fmt: skip
    run = ["ctest", "--test-dir", folder, "--output-junit", f"/tmp/{JUNIT}", "--timeout", str(limit_s), "-Q"]
    if tests is not None:
        names = dict.fromkeys(test.rpartition("::")[0] for test in tests)
        named = f"^({'|'.join(_escaped(name) for name in names)})$"
        run += ["-R", named] if len(named) < MOST_WORD else []
    build = f"{{ [ -f {folder}/CMakeCache.txt ] || {set_up}; }} && cmake --build {folder}"
    return {
        "build": ["sh", "-c", build], "objects": folder, "denied": DENIED,
        "program": {"argv": run, "to": "", "exit": EXIT}, "files": {JUNIT: f"/tmp/{JUNIT}"},
    }  # fmt: skip


def _own(layout: Layout) -> list[str]:
    """Options that only this project has."""
    return layout.fact("options").split()


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
    for line in reports.get(TAP, b"").decode("utf-8", "replace").split("\n"):
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
