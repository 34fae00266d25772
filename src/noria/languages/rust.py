"""Rust: crates whose tests `cargo test` runs, offline, with the JSON report of its test harness."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from noria.core.protocols import ExecResult
from noria.languages import _files, _toolchains
from noria.languages._collected import Collected, step
from noria.languages._guard import GUARD
from noria.languages._lines import lines
from noria.languages._reach import reached
from noria.languages.base import DEPS, SLOW, SLOWEST, WORKSPACE, Layout, Status, Step, Unusable

SUITE_S, TEST_S = 600.0, 30.0
BUILD = ".noria-target"
_SETTINGS = frozenset({"Cargo.toml", "Cargo.lock", "build.rs", "rust-toolchain", "rust-toolchain.toml", "clippy.toml"})
_TESTED = re.compile(r"#\[(\w+::)*test\b")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_INSIDE = re.compile(r"#\[cfg\(test\)\]")
_EVENTS: dict[str, Status] = {"ok": "pass", "failed": "fail", "ignored": "skip"}
_REACHING = re.compile(
    r"\b(std::process|process::\w+|io::stdout|std::fs|unsafe|libc|extern|asm|global_asm|include(?:_\w+)?|"
    r"catch_unwind|panic::\w+|set_hook|ctor|link_section|no_mangle|export_name|"
    # a macro in the place of one that tests use
    r"(?:macro_rules!|as|macro)\s+(?:debug_)?(?:assert\w*|panic|matches|vec|format|unreachable|(?:e?print|write)(?:ln)?))\b|"
    r"\buse\s[^;]{0,300}?\b(process|fs|panic|intrinsics)\b|(#\[\s*path|cfg!?\s*\(\s*test)"
)


class Rust(Collected):
    """The plug-in. Tests beside the code stand in its files: a change that touches them does not count."""

    name = "rust"
    suffixes = (".rs",)
    watched = ("",)
    caches = ("target", "*.rlib", "*.rmeta")
    built = (f"{BUILD}/",)

    def missing(self) -> str | None:
        """See `Language`."""
        return None if sysroot() is not None else "cargo is missing: install Rust 1.70 or newer"

    def shows(self, deps: Path) -> tuple[tuple[str, str], ...]:
        """See `Showing`."""
        return _toolchains.shown("rust", sysroot())

    def detect(self, root: Path) -> Layout | None:
        """See `Language`."""
        if not (root / "Cargo.toml").is_file():
            return None
        try:
            manifest = tomllib.loads(_files.text(root, "Cargo.toml"))
        except ValueError as fault:
            raise Unusable(f"its Cargo.toml cannot be read: {fault}") from fault
        package = manifest.get("package")
        if not isinstance(package, dict):
            raise Unusable("it is a workspace without a package at its root: name the folder of a member")
        library = manifest.get("lib")
        if isinstance(library, dict) and (library.get("proc-macro") or library.get("proc_macro")):
            raise Unusable("its code runs in the compiler (proc-macro): what it breaks there is no failing test")
        rust = _files.ending(_files.files(root), self.suffixes)
        tests = tuple(path for path in rust if path.startswith("tests/"))
        sources = tuple(path for path in rust if path.startswith("src/"))
        if not sources:
            raise Unusable("it has no sources below src/")
        if not any(_TESTED.search(_files.text(root, path)) for path in (*sources, *tests)):
            raise Unusable("it has no tests: no #[test] in src/ or tests/")
        wanted = {**_table(manifest, "dependencies"), **_table(manifest, "build-dependencies"),
                  **_table(manifest, "dev-dependencies")}  # fmt: skip
        name = str(package.get("name", root.name))
        odd = [each for each in (name, *wanted, *_crates(wanted)) if not _NAME.fullmatch(each)]
        if odd:
            raise Unusable(f"its Cargo.toml names no crate: {odd[0]!r}")
        facts = {"names": json.dumps(sorted(_crates(wanted)))}
        settings = tuple(path for path in _files.files(root) if Path(path).name in _SETTINGS)
        needs = tuple(f"{key} = {_inline(value)}" for key, value in sorted(wanted.items()))
        return Layout(self.name, name, sources, tests, settings, needs, ("/usr/share/cargo",), tuple(facts.items()))

    def install(self, layout: Layout) -> tuple[Step, ...]:
        """One step: see `_rust_layer`."""
        root = sysroot()
        shown = self.shows(Path())
        given = {
            "needs": layout.needs, "names": json.loads(layout.fact("names", "[]")), "without": layout.name,
            "toolchain": f"{shown[0][0] if shown else root}/bin",
        }  # fmt: skip
        script = str(Path(__file__).with_name("_rust_layer.py"))
        return (Step((sys.executable, script, json.dumps(given)), 600.0, place="outside"),)

    def command(self, layout: Layout, tests: Sequence[str] | None, report: str) -> Step:
        """All programs are built; each runs the chosen tests that it has, and none of them ends by its own will."""
        build = ["cargo", "test", "--no-run", "--offline", "--quiet", "--tests"]
        build += ["--message-format", "json-render-diagnostics"]
        for setting in ('source.crates-io.replace-with="layer"', f'source.layer.directory="{DEPS}/vendor"'):
            build += ["--config", setting]
        words = ["-Z", "unstable-options", "--format", "json", "--report-time", "--test-threads", "1"]
        if tests is not None:
            words += ["--exact", *dict.fromkeys(test.partition("::")[2] for test in tests)]
        limit_s = max(10, math.ceil(float(layout.fact(SLOWEST, str(TEST_S)))))
        env = (
            ("PATH", _toolchains.path()), ("CARGO_HOME", "/tmp/cargo"), ("CARGO_TARGET_DIR", BUILD),
            ("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_BUILD_JOBS", "1"),
            ("RUSTC_BOOTSTRAP", "1"), ("RUST_BACKTRACE", "0"), ("TZ", "UTC"),
        )  # fmt: skip
        program = {
            "argv": words, "limit_s": limit_s,
            "env": {"CARGO_MANIFEST_DIR": WORKSPACE, "LD_LIBRARY_PATH": f"{WORKSPACE}/{BUILD}/debug/deps"},
        }  # fmt: skip
        given = {"build": build, "cargo": True, "program": program, "guard": GUARD, "guard_at": f"{BUILD}/guard.so"}
        return step(report, given, SUITE_S, env)

    def steers(self, layout: Layout, path: str) -> bool:
        """Tests, what steers the build, and benchmarks."""
        known = path in layout.tests or path in layout.settings
        return known or path.startswith(("tests/", "benches/", BUILD)) or Path(path).name in _SETTINGS

    def tampers(self, before: str, after: str) -> str:
        """See `Wary`: words that reach out of the code, and tests beside it that are not as they were."""
        new = reached(_REACHING, before, after)
        if not all(_item(after, found.end()) in before for found in _INSIDE.finditer(after)):
            new.add("#[cfg(test)]")
        if len(_TESTED.findall(after)) > len(_TESTED.findall(before)):
            new.add("#[test]")
        return ", ".join(sorted(new))

    def read(self, reports: Mapping[str, bytes], result: ExecResult) -> Mapping[str, Status]:
        """See `Language`."""
        found: dict[str, Status] = {}
        for id_, event in _events(reports):  # what comes later does not undo a failure
            found[id_] = _EVENTS[event["event"]] if found.get(id_, "pass") == "pass" else found[id_]
        return found

    def read_said(self, reports: Mapping[str, bytes]) -> Mapping[str, str]:
        """See `Telling`."""
        found = {id_: _told(str(event.get("stdout", ""))) for id_, event in _events(reports)}
        for data in reports.values():
            found.update({str(line["slow"]): SLOW for line in lines(data) if "slow" in line})
        return {id_: said for id_, said in found.items() if said}

    def read_seconds(self, reports: Mapping[str, bytes]) -> Mapping[str, float]:
        """See `Telling`."""
        return {
            id_: float(event["exec_time"])
            for id_, event in _events(reports)
            if isinstance(event.get("exec_time"), int | float)
        }

    def by_hand(self, layout: Layout) -> str:
        """See `Manual`."""
        return "cargo test --offline --tests"

    def variables(self, layout: Layout) -> Mapping[str, str]:
        """See `Manual`."""
        return {"CARGO_HOME": "/tmp/cargo", "CARGO_TARGET_DIR": "/tmp/target"}

    def read_ended(self, reports: Mapping[str, bytes]) -> Mapping[str, bool]:
        """See `Ending`: by the exit code, for a program that leaves before its end has another."""
        found: dict[str, bool] = {}
        for path, data in reports.items():
            if path.endswith(".json"):
                label = next((str(line["label"]) for line in lines(data) if "label" in line), "")
                well = reports.get(f"{path.removesuffix('.json')}.exit") == b"0"
                found[label] = found.get(label, True) and well
        return found

    def program(self, test: str) -> str:
        """See `Ending`."""
        return test.partition("::")[0]

    def unit(self, test: str) -> str:
        """See `Ending`: each test runs alone."""
        return test


@cache
def sysroot() -> Path | None:
    """The folder of the toolchain that `rustc` on PATH belongs to."""
    if shutil.which("rustc") is None or shutil.which("cargo") is None:
        return None
    try:
        done = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = Path(done.stdout.strip() or "/nowhere")
    return found if done.returncode == 0 and (found / "bin" / "cargo").is_file() else None


def _events(reports: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(reports):
        label = ""
        # A source may have printed what is before an event on its line.
        for line in lines(reports[path].replace(b'{ "type": "test"', b'\n{ "type": "test"')):
            if isinstance(line.get("label"), str) and not label:
                label = line["label"]
            name, event = line.get("name"), line.get("event")
            if line.get("type") == "test" and isinstance(name, str) and isinstance(event, str) and event in _EVENTS:
                yield f"{label}::{' '.join(name.split())}", line


def _told(stdout: str) -> str:
    """What a panic said, without where."""
    found = re.search(r"panicked at [^\n]*\n((?:[^\n]+\n?){1,3})", stdout)
    return found[1].replace("note: run with `RUST_BACKTRACE=1`", "").strip()[:500] if found is not None else ""


def _item(text: str, start: int) -> str:
    """What stands from `start` to the end of its block, or of its statement where it has none."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth <= 0 and text[at] in "};":
            return text[start : at + 1]
    return text[start:]


def _table(manifest: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = manifest.get(key)
    return {str(name): value for name, value in found.items()} if isinstance(found, dict) else {}


def _crates(wanted: Mapping[str, Any]) -> list[str]:
    return [str(value.get("package", name)) if isinstance(value, dict) else name for name, value in wanted.items()]


def _inline(value: Any) -> str:
    """A dependency as a line of TOML; paths and repositories become any version."""
    if isinstance(value, str):
        return json.dumps(value)
    if not isinstance(value, dict):
        return '"*"'
    parts = {"version": json.dumps(str(value.get("version", "*")))}
    if "package" in value:
        parts["package"] = json.dumps(str(value["package"]))
    if value.get("default-features") is False:
        parts["default-features"] = "false"
    if isinstance(value.get("features"), list):
        parts["features"] = json.dumps([str(each) for each in value["features"]])
    return "{ " + ", ".join(f"{key} = {text}" for key, text in parts.items()) + " }"


def build() -> Rust:
    """The plug-in."""
    return Rust()
