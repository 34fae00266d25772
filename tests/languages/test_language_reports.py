"""What plug-ins read of reports and repositories, and what they refuse; no program of a language runs here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from noria.core.protocols import ExecResult
from noria.languages import _collected, c, cpp, go, java, javascript, rust, typescript
from noria.languages._lines import gathered
from noria.languages.base import GIVEN, Language, Unusable, Wary

NOTHING = ExecResult(0, "", "", 0.0)
JUNIT = b"""<?xml version="1.0"?><testsuite name="x">
<testcase name="one" classname="one" time="0.25" status="run"><system-out/></testcase>
<testcase name="two" classname="two" time="1" status="fail"><failure message="Failed"/>
<system-out>check.c:3: assertion failed: a == b</system-out></testcase>
<testcase name="three" classname="three" time="0" status="run"><system-out>tests/t.c:1:test_a:PASS
tests/t.c:9:test_b:FAIL: Expected 1 Was 2
tests/t.c:11:test_c:IGNORE</system-out></testcase>
<testcase name="four" classname="four" time="0" status="notrun"><skipped message="no"/></testcase></testsuite>"""


def rows(*events: Mapping[str, object]) -> bytes:
    return "\n".join(json.dumps(event) for event in events).encode()


def test_junit_of_ctest_with_the_single_tests_of_unity() -> None:
    plugin, reports = cpp.build(), {"junit.xml": JUNIT}
    assert plugin.read(reports, NOTHING) == {
        "one::whole": "pass", "two::whole": "fail", "three::test_a": "pass", "three::test_b": "fail",
        "three::test_c": "skip", "four::whole": "skip",
    }  # fmt: skip
    said = plugin.read_said(reports)
    assert said["three::test_b"] == "Expected 1 Was 2" and "assertion failed" in said["two::whole"]
    assert plugin.read_seconds(reports)["one::whole"] == 0.25


@pytest.mark.parametrize("data", [b"", b"<testsuite", JUNIT.replace(b"<testsuite", b"<!DOCTYPE a><testsuite", 1)])
def test_a_broken_report_has_no_tests(data: bytes) -> None:
    assert c.build().read({"junit.xml": data}, NOTHING) == {}


def test_tap() -> None:
    text = b"1..4\nok 1 - adds\nnot ok 2 - takes away\n# got 3\n# want 2\nok 3 # SKIP later\nnot ok 4 x # todo\nnoise\n"
    plugin, reports = c.build(), {"report.tap": text}
    assert plugin.read(reports, NOTHING) == {
        "tap::adds": "pass", "tap::takes away": "fail", "tap::3": "skip", "tap::x": "skip"
    }  # fmt: skip
    assert plugin.read_said(reports) == {"tap::takes away": "got 3 want 2"}


def test_events_of_rust() -> None:
    report = rows(
        {"label": "tests/a.rs"},
        {"type": "test", "event": "started", "name": "x::one"},
        {"type": "test", "event": "ok", "name": "x::one", "exec_time": 0.5},
        {"type": "test", "event": "failed", "name": "two", "stdout": "\nthread 'two' panicked at a.rs:1:2:\nno: 3\n"},
        {"type": "suite", "event": "failed"},
        {"slow": "tests/a.rs"},
    )
    plugin, reports = rust.build(), {"a.json": report, "b.json": b"[1]\n{"}
    assert plugin.read(reports, NOTHING) == {"tests/a.rs::x::one": "pass", "tests/a.rs::two": "fail"}
    assert plugin.read_said(reports) == {"tests/a.rs::two": "no: 3", "tests/a.rs": "ran longer than its limit"}
    assert plugin.read_seconds(reports) == {"tests/a.rs::x::one": 0.5}


def test_events_of_go() -> None:
    one = {"Package": "e.org/p", "Test": "TestA"}
    report = rows(
        {"Action": "run", **one},
        {"Action": "output", **one, "Output": "=== RUN   TestA\n"},
        {"Action": "output", **one, "Output": "    a_test.go:7: got 1, want 2\n"},
        {"Action": "fail", **one, "Elapsed": 0.01},
        {"Action": "pass", "Package": "e.org/p", "Test": "TestB/x", "Elapsed": 0},
        {"Action": "fail", "Package": "e.org/p", "Elapsed": 0.3},
    )
    plugin, reports = go.build(), {"report.jsonl": report}
    assert plugin.read(reports, NOTHING) == {"e.org/p::TestA": "fail", "e.org/p::TestB/x": "pass"}
    assert plugin.read_said(reports) == {"e.org/p::TestA": "got 1, want 2"}
    assert plugin.read_seconds(reports) == {"e.org/p::TestA": 0.3, "e.org/p::TestB/x": 0.3}


def test_lines_that_tests_run() -> None:
    counted = {"file": "/workspace/a.c", "lines": [{"line_number": 3, "count": 2}, {"line_number": 4, "count": 0}, 1]}
    reports = {"junit.xml": JUNIT, "gcov-1.json": rows({"files": [counted, {"file": 7}]}), "gcov-2.json": b"{"}
    found = c.build().read_coverage(reports)
    assert found["one::whole"]["a.c"] == frozenset({3}) and len(found) == 6
    assert c.build().read_coverage({"junit.xml": JUNIT}) == {}
    reports = {
        "module": b"e.org/p",
        "cover.out": b"mode: set\ne.org/p/in/a.go:2.5,4.2 1 1\ne.org/p/in/a.go:9.1,9.8 1 0\nodd\n",
        "report.jsonl": rows({"Action": "pass", "Package": "e.org/p", "Test": "TestA"}),
    }
    assert go.build().read_coverage(reports) == {"e.org/p::TestA": {"in/a.go": frozenset({2, 3, 4})}}


def test_lines_of_our_runners() -> None:
    report = rows(
        {"id": "a::x", "status": "pass", "seconds": 0.1, "said": ""},
        {"id": "a::y", "status": "fail", "seconds": 0.1, "said": "no"},
        {"id": "a::y", "status": "pass"},
        {"id": "a::z", "status": "better than ever"},
        {"id": ["a"], "status": ["pass"]},
        {"slow": "b"},
    )
    for plugin in (javascript.build(), java.build(), typescript.build()):
        assert plugin.read({"report.jsonl": report + b"\nnull\n{"}, NOTHING) == {"a::x": "pass", "a::y": "fail"}
        assert plugin.read_said({"report.jsonl": report}) == {"a::y": "no", "b": "ran longer than its limit"}


TAMPERING = [
    (javascript.build(), "f()", "process.exit(0)", "process.exit"),
    (typescript.build(), "f()", "require('child_process')", "child_process"),
    (java.build(), "f();", "System.exit(0);", "System.exit"),
    (c.build(), "f();", "exit(0);", "exit"),
    (cpp.build(), "f();", "std::quick_exit(0);", "quick_exit"),
    (javascript.build(), "f()", "'\n// '; process.exit(0)", "process.exit"),
    (go.build(), "f()", "os.Exit(0)", "os.Exit"),
    (rust.build(), "f();", "std::process::exit(0);", "std::process"),
    (c.build(), "int a;", "#define strcmp(a, b) 0\nint a;", "strcmp"),
    (go.build(), "f()", 'import "os/exec"', "os/exec"),
    (go.build(), "f()", 'import (\n\to "os"\n)', 'o "os"'),
    (go.build(), "f()", 'import "os\\u002fexec"', "u002f"),
    (rust.build(), "f();", "use std::{process as p};", "process"),
    (rust.build(), "f();", "macro_rules! assert_eq { () => {} }", "assert_eq"),
    (rust.build(), "f();", "if cfg!(test) { g() }", "cfg!(test"),
    (rust.build(), "f();", '#[path = "a.txt"]\nmod a;', "path"),
    (java.build(), "f();", "S\\u0079stem.exit(0);", "System.exit"),
    (java.build(), "f();", "class Assert { }", "class Assert"),
    (c.build(), "f();", "ex\\\nit(0);", "exit"),
    (c.build(), "f();", "__builtin_exit(0);", "__builtin_exit"),
    (c.build(), "f();", "#define P(a, b) a##b\n", "##"),
    (c.build(), "f();", "errx(0, 0);", "errx"),
    (cpp.build(), "f();", "#define NDEBUG\n", "NDEBUG"),
    (rust.build(), "f();\n#[cfg(test)]\nmod t { a }\n", "f();\n#[cfg(test)]\nmod t { }\n", "#[cfg(test)]"),
]


@pytest.mark.parametrize(("plugin", "before", "after", "word"), TAMPERING)
def test_reaching_for_the_runner_is_seen(plugin: Wary, before: str, after: str, word: str) -> None:
    assert word in plugin.tampers(before, after)
    assert plugin.tampers(after, after) == "" and plugin.tampers(before, before + "\n") == ""


HONEST = [
    (javascript.build(), "console.log(process.env.HOME)\n// never process.exit(1)\n"),
    (java.build(), 'System.out.println(System.getProperty("x")); Thread.sleep(1);'),
    (c.build(), 'printf("%d\\n", a); fputs(getenv("HOME"), stderr);\n  // not exit\n'),
    (cpp.build(), "std::cout << 1;"),
    (go.build(), 'fmt.Println(1); log.Printf("x")'),
    (rust.build(), 'println!("{}", std::env::args().count()); use std::collections::HashMap; use std::mem;'),
    (rust.build(), 'let path = "a"; let processed = text.process(path) as u8;'),
    (go.build(), 'import (\n\t"os"\n\t"strings"\n)\nvar tab = "a\\tb"\n'),
    (cpp.build(), "namespace alias = other; // a weak name\nint weakest = 1 / 2;"),
    (c.build(), "int err = f(); if (err) { rename_all(); ASSERT(err > 1); } /* an alias of clone() */\n"),
    (java.build(), "class Testing { Object test; String assertion; }"),
]


@pytest.mark.parametrize(("plugin", "code"), HONEST)
def test_printing_is_no_reaching(plugin: Wary, code: str) -> None:
    assert plugin.tampers("", code) == ""


def test_what_a_source_prints_undoes_no_failure() -> None:
    tap = b"ok 1 - a\nok 2 - b\nxnot ok 1 - a\n#not ok 3 - c\nok 3 - c\n"
    assert c.build().read({"report.tap": tap}, NOTHING) == {"tap::a": "fail", "tap::b": "pass", "tap::c": "fail"}
    printed = "a.c:1:one:PASS\n a.c:1:one:FAIL\na.c:2:two:PASS\n"
    unity = f'<t><testcase name="u" status="fail"><system-out>{printed}</system-out></testcase></t>'
    assert cpp.build().read({"junit.xml": unity.encode()}, NOTHING) == {"u::one": "fail", "u::two": "pass"}
    silent = unity.replace(" a.c:1:one:FAIL\n", "")
    assert set(cpp.build().read({"junit.xml": silent.encode()}, NOTHING).values()) == {"error"}
    passed = unity.replace(" a.c:1:one:FAIL\n", "").replace('status="fail"', 'status="run"')
    assert set(cpp.build().read({"junit.xml": passed.encode()}, NOTHING).values()) == {"pass"}
    told = [{"Action": action, "Package": "p", "Test": "T"} for action in ("fail", "pass")]
    assert go.build().read({"report.jsonl": rows(*told)}, NOTHING) == {"p::T": "fail"}


def test_how_programs_ended() -> None:
    fail = {"type": "test", "event": "failed", "name": "a"}
    reports = {
        "0.json": rows({"label": "tests/a.rs"}, {"type": "test", "event": "ok", "name": "a"}), "0.exit": b"0",
        "1.json": b'{"label": "b"}\nnoise' + json.dumps(fail).encode().replace(b'{"type', b'{ "type'), "1.exit": b"101",
        "2.json": rows({"label": "c"}),
    }  # fmt: skip
    assert rust.build().read_ended(reports) == {"tests/a.rs": True, "b": False, "c": False}
    assert rust.build().read(reports, NOTHING) == {"tests/a.rs::a": "pass", "b::a": "fail"}
    assert (rust.build().program("b::x::a"), rust.build().unit("b::x::a")) == ("b", "b::x::a")
    events = [{"Action": "pass", "Package": "p", "Test": "T"}, {"Action": "fail", "Package": "p"}]
    events.append({"Action": "pass", "Package": "q"})
    assert go.build().read_ended({"report.jsonl": rows(*events)}) == {"p": False, "q": True}
    assert (go.build().program("e/p::T/a/b"), go.build().unit("e/p::T/a/b")) == ("e/p", "e/p::T")
    assert c.build().read_ended({"report.tap": b"ok 1 - a\n", "exit": b"2"}) == {"tap": False}
    assert c.build().read_ended({"report.tap": b"ok 1 - a\n", "exit": b"0"}) == {"tap": True}
    junit = {"junit.xml": JUNIT, "exit": b"8"}
    assert cpp.build().read_ended(junit) == {"one": True, "two": False, "three": True, "four": True}
    assert cpp.build().read_ended({**junit, "reaches": b"exit"}) == {}
    assert (cpp.build().program("a::b::whole"), c.build().program("tap::x::y")) == ("a::b", "tap")


def collected(place: Path, given: Mapping[str, object]) -> tuple[str, bytes]:
    """The key, and the sealed report of a run on this machine."""
    key = "5" * 32
    (place / ".key").write_text(key)
    step = _collected.step(str(place), given, 60.0, ())
    (place / GIVEN).write_text(step.given)
    subprocess.run(step.argv, check=True, timeout=60)
    assert not (place / ".key").exists()
    return key, (place / "report.sealed").read_bytes()


def test_what_programs_print_is_sealed_and_what_they_write_is_not(tmp_path: Path) -> None:
    forged = f"""echo '00 ["to", "forged"]' >> {tmp_path}/report.sealed; test ! -e {tmp_path}/.key && echo no key"""
    script = f"(sleep 300; echo late) & echo one; {forged}; exit 3"
    given = {"program": {"argv": ["sh", "-c", script], "to": "to", "exit": "code"}, "texts": {"name": "x"}}
    key, data = collected(tmp_path, given)
    assert gathered(data, key.encode()) == {"to": b"one\nno key\n", "code": b"3", "name": b"x", "end": b""}
    assert gathered(data, b"another") == {}


def test_a_build_that_fails_runs_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    build = ["sh", "-c", "echo a.c:1: error: no such thing >&2; exit 1"]
    given = {"build": build, "program": {"argv": ["touch", str(tmp_path / "ran")], "to": "to", "exit": "code"}}
    key, data = collected(tmp_path, given)
    assert gathered(data, key.encode()) == {"end": b""} and not (tmp_path / "ran").exists()
    assert "a.c:1: error: no such thing" in capfd.readouterr().err


REFUSED = [
    (javascript.build(), {"package.json": "{}", "index.js": "1", "test/a.js": "it('x', 1)"}, "no tests"),
    (javascript.build(), {"package.json": '{"devDependencies": {"ava": "1"}}', "index.js": "1"}, "run under ava"),
    (rust.build(), {"Cargo.toml": '[package]\nname="a"\n', "src/lib.rs": "fn f() {}"}, "no tests"),
    (rust.build(), {"Cargo.toml": '[package]\nname="a"\n[lib]\nproc-macro = true\n'}, "in the compiler"),
    (rust.build(), {"Cargo.toml": "[workspace]\n", "src/lib.rs": ""}, "without a package"),
    (rust.build(), {"Cargo.toml": "[", "src/lib.rs": ""}, "cannot be read"),
    (go.build(), {"go.mod": "module a.b/c\n", "a.go": "package a"}, "no tests"),
    (java.build(), {"Main.java": "class Main {}"}, "no tests"),
    (java.build(), {"src/A.java": "", "test/B.java": "import org.junit.jupiter.api.X; @Test"}, "JUnit 5"),
    (c.build(), {"CMakeLists.txt": "project(a)", "a.c": "int a;"}, "no tests"),
]  # fmt: skip


@pytest.mark.parametrize(("plugin", "files", "reason"), REFUSED)
def test_what_no_tasks_can_be_made_of(plugin: Language, files: dict[str, str], reason: str, tmp_path: Path) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    with pytest.raises(Unusable, match=reason):
        plugin.detect(tmp_path)


def test_code_behind_the_tests_of_rust_may_change() -> None:
    tests = "#[cfg(test)]\nmod tests { fn a() { b(); } }\n"
    assert rust.build().tampers(f"{tests}fn f() {{ 1 }}", f"{tests}fn f() {{ 2 }}") == ""


def test_a_crate_has_a_plain_name(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "lib.rs").write_text("#[test] fn a() {}")
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "../../x"\n')
    with pytest.raises(Unusable, match="names no crate"):
        rust.build().detect(tmp_path)


def test_headers_of_the_system_cannot_be_replaced(tmp_path: Path) -> None:
    for path, text in {"a.c": "int a;", "Makefile": "check: a\n\t./a\n"}.items():
        (tmp_path / path).write_text(text)
    layout = c.build().detect(tmp_path)
    assert layout is not None and layout.sources == ("a.c",)
    assert c.build().steers(layout, "include/stdbool.h") and cpp.build().steers(layout, "vector")
    assert not c.build().steers(layout, "more.c") and not c.build().steers(layout, "a.c")


def test_a_folder_of_another_language_is_none_of_theirs(tmp_path: Path) -> None:
    (tmp_path / "thing.py").write_text("pass")
    for module in (c, cpp, go, java, javascript, rust, typescript):
        assert module.build().detect(tmp_path) is None


def test_what_a_node_package_needs(tmp_path: Path) -> None:
    about = {"name": "p", "dependencies": {"a": "^1.2"}, "devDependencies": {"tape": "5.x", "b": "git+ssh://x/y"}}
    (tmp_path / "package.json").write_text(json.dumps(about))
    (tmp_path / "p.js").write_text("require('fs'); require('./x'); require('@s/q/deep'); import('b')")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "t.js").write_text("const test = require('tape'); const p = require('p');")
    layout = javascript.build().detect(tmp_path)
    assert layout is not None and layout.needs == ("@s/q", "a@^1.2", "b", "tape@5.x")
    assert layout.sources == ("p.js",) and layout.tests == ("test/t.js",) and layout.settings == ("package.json",)
    assert json.loads(layout.fact("kinds")) == {"test/t.js": "tape"}
    steers = javascript.build().steers
    assert steers(layout, "test/new.js") and steers(layout, "node_modules/tape/index.js")
    assert not steers(layout, "more.js")
