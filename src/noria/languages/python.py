"""Python: packages whose tests run under pytest."""

from __future__ import annotations

import ast
import json
import os
import re
import site
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from noria.core.protocols import ExecResult
from noria.core.syntax import parse
from noria.languages import _lines, _pytest_runner, _python_names
from noria.languages._python_reach import reaches
from noria.languages.base import (
    DEPS,
    DIED,
    GIVEN,
    LEFT_OUT,
    MOST_WORD,
    SEALED,
    SLOW,
    SLOWEST,
    WORKSPACE,
    Layout,
    Status,
    Step,
    Unusable,
)

#: Folders that are neither sources nor tests, anywhere, and those at the root alone.
_ASIDE = frozenset({".git", ".hg", ".tox", ".nox", ".venv", "venv", "node_modules", "__pycache__"})
_ASIDE_AT_ROOT = frozenset({
    "build", "dist", "docs", "doc", "examples", "example", "benchmarks", "benchmark", "scripts", "tools", "bench", "ci",
    "tasks", "debian",
})  # fmt: skip
_ROOT_FILES = frozenset({"setup.py", "noxfile.py", "conftest.py", "tasks.py", "fabfile.py", "versioneer.py"})
_SETTINGS = frozenset({
    "conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "setup.py", "pyproject.toml", ".coveragerc",
    "sitecustomize.py", "usercustomize.py", "noxfile.py", "MANIFEST.in", "PKG-INFO",
})  # fmt: skip
#: What pytest and its plugins are made of: a package that is one of these would test itself with itself.
_RUNNER = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "packaging"})
_TEST = re.compile(r"(^|/)(test_[^/]*|[^/]*_test|tests?|conftest)\.py$")
_TEST_FOLDER = re.compile(r"(^|/)(tests?|testing)/")
#: Modules of pytest that every run needs.
_PARTS = (
    "assertion.rewrite", "cacheprovider", "capture", "compat", "config", "debugging", "doctest", "faulthandler",
    "fixtures", "freeze_support", "helpconfig", "junitxml", "legacypath", "logging", "main", "mark", "monkeypatch",
    "pastebin", "python", "python_api", "raises", "recwarn", "reports", "runner", "setuponly", "setupplan", "skipping",
    "stepwise", "subtests", "terminal", "terminalprogress", "threadexception", "tmpdir", "unittest",
    "unraisableexception", "warnings",
)  # fmt: skip
_STATUSES = frozenset(get_args(Status))
SUITE_S, TEST_S = 300.0, 20.0


class Python:
    """The plug-in. `suite_s` and `test_s` bound a run of all tests and each of them."""

    name = "python"
    suffixes = (".py",)
    watched = suffixes
    caches = ("__pycache__", "*.pyc", ".pytest_cache", ".mypy_cache", ".ruff_cache", "*.egg-info", ".hypothesis")

    built = (".noria-pyc/",)
    key = _pytest_runner.KEY
    warm = (f"{DEPS}/site", "pytest", *(f"_pytest.{name}" for name in _PARTS))

    def missing(self) -> str | None:
        """Tests run under the interpreter that runs this."""
        return None if find_spec("pip") is not None else "pip is missing: run `python -m ensurepip`"

    def detect(self, root: Path) -> Layout | None:
        """See `Language`."""
        files = sorted(_files(root))
        python = [path for path in files if path.endswith(".py")]
        if not python:
            return None
        tests = [path for path in files if is_test(path)]
        if not any(_collected(path) for path in tests):
            raise Unusable("it has no tests: no test_*.py or *_test.py")
        base = "src" if any(path.startswith("src/") for path in python) else ""
        local = _top_level(python, base)
        sources = [path for path in python if not is_test(path) and _is_source(path, base, local)]
        if not sources:
            raise Unusable("it has no sources: no module or package at its root or below src/")
        if local & _RUNNER:
            raise Unusable(f"{sorted(local & _RUNNER)[0]} is part of the test runner itself")
        about = _python_names.metadata(root)
        known = local | _folders_of(tests)
        facts = {"path": json.dumps([f"{WORKSPACE}/{base}".rstrip("/"), *([WORKSPACE] if base else [])]),
                 "version": about["version"], "local": json.dumps(sorted(local)), SEALED: "1"}  # fmt: skip
        return Layout(
            self.name, about["name"], tuple(sources), tuple(tests),
            tuple(path for path in files if Path(path).name in _SETTINGS and path not in tests),
            _python_names.needs(root, tests, known, about), _site_folders(), tuple(sorted(facts.items())),
        )  # fmt: skip

    def steers(self, layout: Layout, path: str) -> bool:
        """Tests, settings, and whatever would be imported in place of something else: new names beside the package."""
        name = Path(path).name
        if path in layout.tests or path in layout.settings or is_test(path) or name in _SETTINGS:
            return True
        base = "src/" if json.loads(layout.fact("path", "[]"))[:1] == [f"{WORKSPACE}/src"] else ""
        top = path.removeprefix(base).split("/")[0]
        known = set(json.loads(layout.fact("local", "[]")))
        code = name.endswith((".py", ".so", ".pth", ".pyc")) or top == "__pycache__"
        return code and top.removesuffix(".py") not in known

    def tampers(self, before: str, after: str) -> str:
        """See `Wary`."""
        return ", ".join(sorted(reaches(after) - reaches(before)))

    def install(self, layout: Layout) -> tuple[Step, ...]:
        """One step: see `_python_layer`."""
        given = {
            "needs": layout.needs,
            "without": json.loads(layout.fact("local", "[]")),
            "about": {"name": layout.name, "version": layout.fact("version", "0")},
            "path": json.loads(layout.fact("path", "[]")),
        }
        script = str(Path(__file__).with_name("_python_layer.py"))
        return (Step((sys.executable, script, json.dumps(given)), 600.0, place="outside"),)

    def command(self, layout: Layout, tests: Sequence[str] | None, report: str) -> Step:
        """pytest over the test files, or those that hold the chosen tests."""
        return self._run(layout, tests, report, None)

    def warmed(self, layout: Layout, step: Step) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """See `Warm`."""
        path = ":".join([*json.loads(layout.fact("path", "[]")), f"{DEPS}/site"])
        return step.argv[1:], {**dict(step.env), "PYTHONPATH": path, "PYTHONNOUSERSITE": "1"}

    def by_hand(self, layout: Layout) -> str:
        """See `Manual`."""
        return "python -m pytest"

    def variables(self, layout: Layout) -> Mapping[str, str]:
        """See `Manual`: the repository's own options of pytest may ask for plugins that the layer has not."""
        return {"PYTEST_ADDOPTS": " ".join(f"-o {option}" for option in _pytest_runner.WITHOUT)}

    def coverage(self, layout: Layout, report: str) -> Step:
        """The same with lines traced; slower by a factor of 3 to 10."""
        return self._run(layout, None, report, [f"{WORKSPACE}/{path}" for path in layout.sources])

    def read(self, reports: Mapping[str, bytes], result: ExecResult) -> Mapping[str, Status]:
        """See `Language`: a run that was cut short says nothing of the tests that it did not end."""
        return {
            str(line["id"]): line["status"]
            for line in _told(reports)
            if isinstance(line.get("id"), str) and isinstance(line.get("status"), str) and line["status"] in _STATUSES
        }

    def read_said(self, reports: Mapping[str, bytes]) -> Mapping[str, str]:
        """See `Telling`."""
        found: dict[str, str] = {}
        running = ""
        for line in _told(reports):
            if isinstance(line.get("slow"), str):
                found[line["slow"]] = SLOW
            elif isinstance(line.get("said"), str) and line["said"]:
                found[str(line.get("id", line.get("file")))] = line["said"]
            if isinstance(line.get("at"), str):
                running = line["at"]
            elif line.get("id") == running or "end" in line:
                running = ""
        if running:
            found.setdefault(running, DIED)
        return found

    def read_known(self, reports: Mapping[str, bytes]) -> tuple[str, ...]:
        """See `Knowing`."""
        found = [line["known"] for line in _told(reports) if isinstance(line.get("known"), list)]
        return tuple(str(id_) for each in found for id_ in each)

    def seals(self, layout: Layout) -> bool:
        """See `Sealing`."""
        return bool(layout.fact(SEALED))

    def unsealed(self, reports: Mapping[str, bytes], key: bytes) -> Mapping[str, bytes]:
        """See `Sealing`."""
        return {path: _lines.unsealed(data, key) for path, data in reports.items()}

    def read_seconds(self, reports: Mapping[str, bytes]) -> Mapping[str, float]:
        """See `Telling`."""
        return {
            str(line["id"]): float(line["seconds"])
            for line in _told(reports)
            if "id" in line and isinstance(line.get("seconds"), int | float)
        }

    def read_coverage(self, reports: Mapping[str, bytes]) -> Mapping[str, Mapping[str, frozenset[int]]]:
        """See `Covering`."""
        found: dict[str, Mapping[str, frozenset[int]]] = {}
        for line in _told(reports):
            for test, by_path in dict(line.get("lines") or {}).items():
                found[test] = {path.removeprefix(f"{WORKSPACE}/"): frozenset(lines) for path, lines in by_path.items()}
        return found

    def quote(self, layout: Layout, test: str, read: Callable[[str], str]) -> str:
        """See `Quoting`."""
        path, *names = test.partition("[")[0].split("::")
        try:
            source = read(path)
            body: list[ast.stmt] = parse(source).body
        except (OSError, SyntaxError, ValueError):
            return ""
        found: ast.stmt | None = None
        for name in names:
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            found = next((node for node in body if isinstance(node, kinds) and node.name == name), None)
            body = found.body if isinstance(found, kinds) else []
        if found is None or found.end_lineno is None:
            return ""
        return textwrap.dedent("\n".join(source.split("\n")[found.lineno - 1 : found.end_lineno]))

    def _run(self, layout: Layout, tests: Sequence[str] | None, report: str, trace: list[str] | None) -> Step:
        limit_s = float(layout.fact(SLOWEST, str(TEST_S))) * (20 if trace else 1)
        without = json.loads(layout.fact(LEFT_OUT, "[]")) if tests is None else []
        chosen = list(tests) if tests is not None else None
        options = {"limit_s": limit_s, "chosen": chosen, "without": without, "trace": trace}
        if tests is None:
            files = [path for path in layout.tests if _collected(path)]
        else:
            files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        text = json.dumps(options)
        long = len(text) > MOST_WORD
        words = (f"{DEPS}/bin/python", f"{DEPS}/_pytest_runner.py", f"{report}/report.jsonl", GIVEN if long else text)
        env = (("PATH", f"{DEPS}/bin:/usr/local/bin:/usr/bin:/bin"), ("PYTHONHASHSEED", "0"), ("TZ", "UTC"),
               ("PYTHONPYCACHEPREFIX", f"{WORKSPACE}/{self.built[0]}"), ("PYTHONDONTWRITEBYTECODE", ""))  # fmt: skip
        return Step((*words, *files), SUITE_S * (4 if trace else 1), env, given=text if long else "")


def is_test(path: str) -> bool:
    """Whether a file belongs to the tests."""
    return bool(_TEST.search(path) or _TEST_FOLDER.search(path))


def _collected(path: str) -> bool:
    """Whether pytest looks for tests in the file."""
    name = Path(path).name
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _files(root: Path) -> list[str]:
    found: list[str] = []
    for folder, inner, names in os.walk(root):
        below = Path(folder).relative_to(root).as_posix()
        aside = _ASIDE | _ASIDE_AT_ROOT if below == "." else _ASIDE
        inner[:] = [name for name in inner if name not in aside and not name.endswith(".egg-info")]
        found += [name if below == "." else f"{below}/{name}" for name in names]
    return found


def _top_level(python: Sequence[str], base: str) -> set[str]:
    """Names of the packages and modules that the repository holds."""
    found: set[str] = set()
    inside = f"{base}/" if base else ""
    for path in python:
        parts = path.removeprefix(inside).split("/") if path.startswith(inside) else []
        if len(parts) == 2 and parts[1] == "__init__.py" and not is_test(path):
            found.add(parts[0])
        elif len(parts) == 1 and parts[0] not in _ROOT_FILES and not is_test(path):
            found.add(parts[0].removesuffix(".py"))
    return found


def _is_source(path: str, base: str, local: set[str]) -> bool:
    inside = path.removeprefix(f"{base}/") if base else path
    if base and inside == path:
        return False
    return inside.split("/")[0].removesuffix(".py") in local


def _folders_of(tests: Sequence[str]) -> set[str]:
    """Names by which tests import each other."""
    found: set[str] = set()
    for path in tests:
        found.update(part.removesuffix(".py") for part in path.split("/"))
    return found


def _site_folders() -> tuple[str, ...]:
    """Where packages of this machine lie that the sandbox would show."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    places = [
        f"{sys.base_prefix}/lib/python{version}/site-packages", "/usr/lib/python3/dist-packages",
        f"/usr/local/lib/python{version}/dist-packages", f"/usr/local/lib/python{version}/site-packages",
        sysconfig.get_path("purelib") if sys.prefix == sys.base_prefix else "", site.USER_SITE or "",
    ]  # fmt: skip
    return tuple(dict.fromkeys(os.path.realpath(each) for each in places if each and os.path.isdir(each)))


def _told(reports: Mapping[str, bytes]) -> list[dict[str, Any]]:
    return list(_lines.lines(reports.get("report.jsonl", b"")))


def build() -> Python:
    """The plug-in."""
    return Python()
