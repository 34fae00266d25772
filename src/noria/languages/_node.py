"""What JavaScript and TypeScript have in common: packages of npm whose tests run under Node."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noria.languages import _files, _toolchains
from noria.languages._lines import NAME, Lines, lines, unsealed
from noria.languages._reach import reached
from noria.languages.base import DEPS, SEALED, SLOWEST, WORKSPACE, Layout, Step, Unusable

#: Seconds of one test file, and of a run of all.
FILE_S, SUITE_S = 20.0, 300.0
SETTINGS = frozenset({
    "package.json", "package-lock.json", "npm-shrinkwrap.json", ".mocharc.js", ".mocharc.json", ".mocharc.yml",
    ".npmrc", ".babelrc", "tsconfig.json", "yarn.lock", "pnpm-lock.yaml",
})  # fmt: skip
#: Folders of this machine where packages lie that the sandbox would show.
HIDDEN = ("/usr/lib/node_modules", "/usr/local/lib/node_modules", "/usr/share/nodejs")
_TEST = re.compile(
    r"(^|/)((tests?|__tests__|specs?)/|(tests?|specs?)\.[cm]?[jt]sx?$|test[-_.][^/]*$|[^/]*[-_.](test|spec)s?\.[cm]?[jt]sx?$)"
)
_HELPER = re.compile(r"(^|/)(fixtures?|helpers?|support|mocks?|__mocks__|data|utils?|common|setup)(/|\.|$)")
_NODE = re.compile(r"""(require\(\s*|from\s+)['"](node:test|test)['"]""")
_TAPE = re.compile(r"""(require\(\s*|from\s+)['"]tape['"]""")
_ASSERT = re.compile(r"""(require\(\s*|from\s+)['"](node:)?assert(/strict)?['"]|console\.assert""")
_CASES = re.compile(r"\b(it|test)\(\s*['\"`]")
_MODULE = re.compile(r"(?m)^import\b")
_IMPORT = re.compile(r"""(?:require\(\s*|from\s+|import\s+|import\(\s*)['"]([^'".\n][^'"\n]*)['"]""")
_NAME = re.compile(r"(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*")
_RANGE = re.compile(r"[\w.^~<>=|* +-]{1,80}")
_BUILT_IN = frozenset({
    "assert", "async_hooks", "buffer", "child_process", "cluster", "console", "constants", "crypto", "dgram", "dns",
    "diagnostics_channel", "domain", "events", "fs", "http", "http2", "https", "inspector", "module", "net", "os",
    "path", "perf_hooks", "process", "punycode", "querystring", "readline", "repl", "stream", "string_decoder", "sys",
    "test", "timers", "tls", "trace_events", "tty", "url", "util", "v8", "vm", "wasi", "worker_threads", "zlib",
})  # fmt: skip
#: What `_node_expect` stands in for.
_SHIMMED = frozenset({"vitest", "jest", "@jest/globals"})
_FOREIGN = ("jest", "vitest", "ava", "tap", "jasmine", "uvu", "qunit", "lab", "karma", "bun")
#: Words by which a source reaches for the process and the files of its runner.
_REACHING = re.compile(
    r"\b(process\.(?:exit|reallyExit|abort|kill|on|once|emit|binding|stdout|argv|execArgv|mainModule|_\w+)|"
    r"child_process|worker_threads|node:test|require\.(?:cache|main|extensions)|Module\._\w+|module\.(?:parent|children)|"
    r"globalThis\.(?:it|test|describe|process|require)|inspector|node:(?:vm|module)|eval\(|"
    r"new Function|tape|mocha|prepareStackTrace)"
)


def missing() -> str | None:
    """See `Language`."""
    lacking = [program for program in ("node", "npm") if shutil.which(program) is None]
    return f"{lacking[0]} is missing: install Node.js 20 or newer" if lacking else None


def about(root: Path) -> dict[str, Any] | None:
    """package.json, None where there is none; {} where it cannot be read."""
    if not (root / "package.json").is_file():
        return None
    try:
        found = json.loads(_files.text(root, "package.json"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_test(path: str) -> bool:
    """Whether a file belongs to the tests."""
    return _TEST.search(path) is not None


def kinds(texts: Mapping[str, str], tests: Sequence[str], package: Mapping[str, Any], compiled: bool) -> dict[str, str]:
    """The runner of each file that holds tests which we can run; `compiled`: modules are CommonJS when they run."""
    named = stated(package)
    found: dict[str, str] = {}
    for path in tests:
        text = texts[path]
        cases = _CASES.search(text) is not None
        if _HELPER.search(path):
            continue
        if _NODE.search(text):
            found[path] = "node"
        elif _TAPE.search(text):
            found[path] = "tape"
        elif "mocha" in named and cases:
            found[path] = "mocha"
        elif ("jest" in named or "vitest" in named) and cases and (compiled or not _MODULE.search(text)):
            found[path] = "expect"
        elif _ASSERT.search(text) and not cases:
            found[path] = "plain"
    return found


def more(found: Mapping[str, str]) -> list[str]:
    """Packages that the runners of test files need."""
    wanted = {"mocha": ["mocha"], "expect": ["expect", "jest-mock"]}
    return [name for kind in sorted(set(found.values())) for name in wanted.get(kind, [])]


def stated(package: Mapping[str, Any]) -> dict[str, str]:
    """Packages that package.json names, with their ranges."""
    found: dict[str, str] = {}
    for key in ("peerDependencies", "optionalDependencies", "devDependencies", "dependencies"):
        listed = package.get(key)
        if isinstance(listed, dict):
            found.update({str(name): str(range_) for name, range_ in listed.items()})
    return found


def needs(texts: Sequence[str], package: Mapping[str, Any], more: Sequence[str] = ()) -> tuple[str, ...]:
    """Packages that files import, as npm writes them: in the range that is stated, else the newest."""
    ranges, wanted = stated(package), dict.fromkeys(more)
    for text in texts:
        for found in _IMPORT.findall(text):
            name = "/".join(found.split("/")[: 2 if found.startswith("@") else 1])
            if ":" not in name and name not in _BUILT_IN and name not in _SHIMMED and _NAME.fullmatch(name):
                wanted[name] = None
    required = package.get("dependencies")
    for name in required if isinstance(required, dict) else ():
        if _NAME.fullmatch(str(name)):
            wanted[str(name)] = None
    wanted.pop(str(package.get("name")), None)
    return tuple(
        f"{name}@{ranges[name]}" if _RANGE.fullmatch(ranges.get(name, "")) else name for name in sorted(wanted)
    )


def no_tests(package: Mapping[str, Any]) -> Unusable:
    """Why none of the tests can be run."""
    foreign = [name for name in _FOREIGN if name in stated(package)]
    if foreign:
        return Unusable(
            f"its tests run under {foreign[0]}: node:test, tape, mocha, plain assertions, and jest or vitest in "
            "CommonJS or TypeScript are known"
        )
    return Unusable("it has no tests: no file below test/ and no *.test.js that node:test, tape or mocha runs")


class Node(Lines):
    """The common part of both plug-ins."""

    name = ""
    caches: tuple[str, ...] = ("node_modules", ".nyc_output", "coverage", ".cache", "*.tsbuildinfo")
    built: tuple[str, ...] = ()
    watched = ("",)
    key = ".key"

    def missing(self) -> str | None:
        """See `Language`."""
        return missing()

    def shows(self, deps: Path) -> tuple[tuple[str, str], ...]:
        """See `Showing`: packages lie at the root, where Node looks for those of every file."""
        return (("/node_modules", str(deps / "node_modules")), *_toolchains.shown("node", _toolchains.prefix("node")))

    def install(self, layout: Layout) -> tuple[Step, ...]:
        """One step: see `_node_layer`."""
        given = {"needs": layout.needs, "without": layout.fact("package", layout.name)}
        script = str(Path(__file__).with_name("_node_layer.py"))
        return (Step((sys.executable, script, json.dumps(given)), 600.0, place="outside"),)

    def steers(self, layout: Layout, path: str) -> bool:
        """Tests, settings, and packages that would be found before those of the layer."""
        known = path in layout.tests or path in layout.settings
        return known or is_test(path) or "node_modules" in path.split("/") or Path(path).name in SETTINGS

    def by_hand(self, layout: Layout) -> str:
        """See `Manual`: of one of its files of tests, by the runner that most of them have."""
        found = list(json.loads(layout.fact("kinds", "{}")).values())
        words = {"node": "node --test FILE", "tape": "node FILE", "plain": "node FILE",
                 "mocha": "/node_modules/.bin/mocha FILE"}  # fmt: skip
        return words.get(max(found, key=found.count), "") if found and self.name == "javascript" else ""

    def variables(self, layout: Layout) -> Mapping[str, str]:
        """See `Manual`."""
        return {}

    def tampers(self, before: str, after: str) -> str:
        """See `Wary`."""
        return ", ".join(sorted(reached(_REACHING, before, after)))

    def seals(self, layout: Layout) -> bool:
        """See `Sealing`."""
        return bool(layout.fact(SEALED))

    def unsealed(self, reports: Mapping[str, bytes], key: bytes) -> Mapping[str, bytes]:
        """See `Sealing`."""
        return {path: unsealed(data, key) for path, data in reports.items()}

    def read_coverage(self, reports: Mapping[str, bytes]) -> Mapping[str, Mapping[str, frozenset[int]]]:
        """See `Covering`: all tests of a file run what the file runs."""
        tests = list(self.status(reports))
        found: dict[str, Mapping[str, frozenset[int]]] = {}
        for line in lines(reports.get(NAME, b"")):
            for file, by_path in dict(line.get("lines") or {}).items():
                numbers = {path: frozenset(run) for path, run in by_path.items()}
                found |= {test: numbers for test in tests if test.partition("::")[0] == file}
        return found

    def run(self, layout: Layout, tests: Sequence[str] | None, report: str, cover: bool, root: str) -> Step:
        """Run the files that hold these tests, or all, from the folder `root`."""
        kinds = dict(json.loads(layout.fact("kinds", "{}")))
        chosen = list(kinds) if tests is None else _files.files_of(tests, list(kinds))
        options = {
            "limit_s": max(4.0, float(layout.fact(SLOWEST, str(FILE_S)))), "cover": cover, "root": root,
            "compiled": root != WORKSPACE,
            "sources": layout.sources if cover else [], "files": [[path, kinds[path]] for path in chosen],
        }  # fmt: skip
        words = ("node", f"{DEPS}/_node_runner.cjs", f"{report}/{NAME}", json.dumps(options))
        env = (("PATH", _toolchains.path("node")), ("TZ", "UTC"), ("NODE_NO_WARNINGS", "1"))
        return Step(words, SUITE_S, env)
