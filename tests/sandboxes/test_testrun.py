"""The test runner through the process sandbox: names, results and messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noria.core.errors import PolicyError, SandboxError
from noria.core.protocols import TestReport
from noria.sandboxes import process
from noria.sandboxes._testrun import MAX_MESSAGE, Tally, explain


@pytest.fixture(scope="module")
def box() -> Iterator[process.ProcessSandbox]:
    sandbox = process.build(process.Config(type="process", servers=1))
    yield sandbox
    sandbox.close()


def results(box: process.ProcessSandbox, test: str, solution: str = "", timeout_s: float = 5.0) -> dict[str, str]:
    report = box.test({"solution.py": solution, "test_solution.py": test}, "test_solution.py", timeout_s)
    assert report.error == "", report
    return dict(report.results)


def test_pass_fail_and_order(box: process.ProcessSandbox) -> None:
    test = """
from solution import add

def test_b():
    assert add(1, 2) == 3

def helper():
    raise AssertionError

def test_a():
    assert add(1, 0) == 1

class Test:
    def test_inner(self):
        pass
"""
    got = results(box, test, "def add(a, b):\n    return a - b\n")
    assert list(got.items()) == [("test_b", "add(1, 2) == 3 failed, got -1"), ("test_a", "pass")]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("assert f(2) == 4", "f(2) == 4 failed, got 3"),
        ("assert f( 2 )==[f(2), 'x']", "f( 2 ) == [3, 'x'] failed, got 3"),
        ("assert f(2) in (1, 2)", "f(2) in (1, 2) failed, got 3"),
        ("assert f(2) is None", "f(2) is None failed, got 3"),
        ("assert f(2) > f(4)", "f(2) > 5 failed, got 3"),
        ("assert not f(2)", "not f(2) is False"),
        ("assert f(2) and []", "f(2) and [] is []"),
        ("assert 1 < f(2) < 3", "1 < f(2) < 3 is False"),
        ("assert f(2) == 4, 'two and two'", "two and two"),
        ("assert f(2) == 4, f(2)", "3"),
        ("assert (f(2)\n        == 4)", "f(2) == 4 failed, got 3"),
        ("assert f(\n        2) == 4", "f( 2) == 4 failed, got 3"),
        ("é = 'é'; assert é == f(2)", "é == 3 failed, got 'é'"),
        ("raise AssertionError", "AssertionError"),
        ("raise ValueError('no\\n  way')", "ValueError: no way"),
        ("f()", "TypeError: f() missing 1 required positional argument: 'x'"),
        ("g()", "ZeroDivisionError: division by zero (solution.py line 5)"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_messages(box: process.ProcessSandbox, statement: str, message: str) -> None:
    solution = "def f(x):\n    return x + 1\n\ndef g():\n    return 1 / 0\n"
    assert results(box, f"from solution import *\ndef test_it():\n    {statement}\n", solution) == {"test_it": message}


def test_operands_are_evaluated_once_and_in_order(box: process.ProcessSandbox) -> None:
    test = """
log = []

def f(x):
    log.append(x)
    return x

def test_a():
    assert f(1) != f(2)

def test_b():
    assert log == [1, 2]
    assert f(3)
    assert log == [1, 2, 3]
"""
    assert results(box, test) == {"test_a": "pass", "test_b": "pass"}


def test_long_and_hostile_values_are_cut(box: process.ProcessSandbox) -> None:
    solution = """
class Odd(Exception):
    def __repr__(self):
        raise RuntimeError
    def __str__(self):
        raise SystemExit
"""
    test = """
from solution import Odd

def test_long():
    assert list(range(1000)) + list(range(1000)) + list(range(1000)) == "x" * 1000

def test_repr():
    assert Odd() == 1

def test_str():
    raise Odd
"""
    got = results(box, test, solution)
    assert len(got["test_long"]) <= MAX_MESSAGE
    assert got["test_long"].startswith("list(range(1000)) + list(range(1000))")
    assert got["test_repr"] == "Odd() == 1 failed, got <Odd>"
    assert got["test_str"] == "Odd"


def test_broken_import_fails_every_test(box: process.ProcessSandbox) -> None:
    test = "from solution import f\ndef test_a():\n    pass\ndef test_b():\n    pass\n"
    wrong = "SyntaxError: invalid syntax (solution.py, line 1)"
    assert results(box, test, "def f(:\n") == {"test_a": wrong, "test_b": wrong}
    missing = "ImportError: cannot import name 'f' from 'solution'"
    assert all(said.startswith(missing) for said in results(box, test).values())


@pytest.mark.parametrize(
    ("test", "error"),
    [
        ("x = 1\n", "no test functions found"),
        ("def test_(:\n", "SyntaxError: invalid syntax (test_solution.py, line 1)"),
        ("def test_a(): pass\n\0", "SyntaxError: source code string cannot contain null bytes"),
    ],
)
def test_unusable_test_files_are_errors(box: process.ProcessSandbox, test: str, error: str) -> None:
    assert box.test({"test_solution.py": test}, "test_solution.py", 5.0) == TestReport(error=error)
    assert not TestReport().passed


def test_missing_test_file_and_bad_paths(box: process.ProcessSandbox) -> None:
    assert box.test({}, "test_x.py", 5.0).error.startswith("FileNotFoundError")
    for files, path in [({"../x": ""}, "x"), ({"/x": ""}, "x"), ({"x": "", "x/y": ""}, "x"), ({}, "../x")]:
        with pytest.raises(PolicyError):
            box.test(files, path, 5.0)


def test_early_exit_keeps_what_was_reported(box: process.ProcessSandbox) -> None:
    test = "import os\ndef test_a():\n    pass\ndef test_b():\n    os._exit(0)\ndef test_c():\n    pass\n"
    why = "exited early (code 0)"
    assert results(box, test) == {"test_a": "pass", "test_b": why, "test_c": why}
    slow = "def test_a():\n    pass\ndef test_b():\n    while True:\n        pass\n"
    assert results(box, slow, "", 0.3) == {"test_a": "pass", "test_b": "timeout after 0.3 s"}


def test_code_under_test_cannot_swap_a_test(box: process.ProcessSandbox) -> None:
    solution = """
import sys
def f():
    sys._getframe(1).f_globals["test_b"] = lambda: None
    sys.modules["test_solution"].test_c = lambda: None
"""
    test = "import solution\ndef test_a():\n    solution.f()\n"
    test += "def test_b():\n    assert 0\ndef test_c():\n    assert 0\n"
    assert results(box, test, solution) == {"test_a": "pass", "test_b": "0 is 0", "test_c": "0 is 0"}
    early = "import sys\nsys._getframe(6).f_globals.update(test_a=lambda: None)\n"
    replaced = "def test_a():\n    assert 0\nfrom solution import *\n"
    assert results(box, replaced, "test_a = lambda: None\n") == {
        "test_a": "is not the function that the test file defines"
    }
    assert results(box, replaced, early)["test_a"] != "pass"


def test_async_and_subfolders(box: process.ProcessSandbox) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/m.py": "def one():\n    return 1\n",
        "tests/test_m.py": (
            "from pkg.m import one\ndef test_a():\n    assert one() == 1\nasync def test_b():\n    pass\n"
        ),
    }
    report = box.test(files, "tests/test_m.py", 5.0)
    assert report.results == {"test_a": "pass", "test_b": "is a coroutine: only plain functions are run"}


def test_runs_are_independent_and_repeatable(box: process.ProcessSandbox) -> None:
    test = """
import random, sys
def test_state():
    assert not hasattr(sys, "seen")
    sys.seen = True
def test_hash():
    assert hash("noria") == 0
"""
    first, second = results(box, test), results(box, test)
    assert first == second
    assert first["test_state"] == "pass"


def test_tally_refuses_foreign_lines() -> None:
    lines = {
        "names": b'K{"names": ["test_a", "test_b"]}\n',
        "a": b'K["test_a", "pass"]\n',
        "b": b'K["test_b", "pass"]\n',
        "end": b'K"end"\n',
    }
    whole = Tally("K")
    for byte in b"".join(lines.values()):
        whole.feed(bytes([byte]))
    assert whole.verdict("late") == ({"test_a": "pass", "test_b": "pass"}, "")
    for bad in (
        b'["test_a", "pass"]\n',
        b"\n",
        lines["a"] * 2,
        b'K["test_x", "pass"]\n',
        b"K[1]\n",
        b"K" + b"[" * 60_000 + b"\n",
        b"x" * 70_000,
    ):
        tally = Tally("K")
        tally.feed(lines["names"] + bad)
        results_, error = tally.verdict("late")
        assert error == "the report was tampered with"
        assert "pass" not in results_.values()
    assert Tally("K").verdict("late") == ({}, "late")


def test_explain_takes_bytes_as_offsets() -> None:
    assert explain("é = f(x) + 1", (1, 1, 5, 9), "==", 1, 2) == "f(x) == 2 failed, got 1"


def test_closed_sandbox_says_so() -> None:
    sandbox = process.build(process.Config(type="process"))
    sandbox.close()
    sandbox.close()
    with pytest.raises(SandboxError, match="closed"):
        sandbox.test({"test_x.py": ""}, "test_x.py", 1.0)
