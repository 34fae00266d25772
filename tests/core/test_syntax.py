"""Syntax trees in threads, while a finaliser hands over to another thread in the middle of a tree."""

from __future__ import annotations

import ast
import gc
import sys
import threading
import time
import warnings

import pytest

from noria.core import syntax

TEXT = "total = " + " + ".join("(row * [1, 2, {3: 4}])" for _ in range(40)) + "\n"


class Cycle:
    """Garbage whose finaliser gives way."""

    def __init__(self) -> None:
        self.own = self

    def __del__(self) -> None:
        time.sleep(0)


@pytest.fixture
def switching() -> object:
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    yield None
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("switching")
def test_many_threads_parse_at_once() -> None:
    want, wrong, over = ast.dump(ast.parse(TEXT)), list[str](), threading.Event()

    def parses() -> None:
        for _ in range(40):
            try:
                if ast.dump(syntax.parse(TEXT)) != want:
                    wrong.append("another tree")
            except SystemError as fault:
                wrong.append(str(fault))

    def litters() -> None:
        while not over.wait(1e-4):
            Cycle()

    litter = threading.Thread(target=litters)
    threads = [threading.Thread(target=parses) for _ in range(6)]
    for thread in (litter, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    litter.join()
    assert wrong == []


def test_a_library_that_disturbs_costs_another_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, faults = ast.parse, [SystemError("depth mismatch")] * 3

    def disturbed(*given: object) -> ast.AST:
        if faults:
            raise faults.pop()
        return parse(*given)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(ast, "parse", disturbed)
    assert syntax.literal(" [1, {2: 'x'}]") == [1, {2: "x"}]
    assert faults == []


@pytest.mark.parametrize("text", ["(1", "1 + x", "[" * 9999, "f()", "", "\0"])
def test_what_is_no_literal_is_refused_as_python_does(text: str) -> None:
    with pytest.raises((SyntaxError, ValueError, MemoryError, RecursionError)) as wanted:
        ast.literal_eval(text)
    with pytest.raises(wanted.type):
        syntax.literal(text)


def test_what_a_policy_writes_warns_nobody() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        syntax.parse("x = 1if y else 2\n")
        syntax.parse("x = y is 1\n'\\d'\n")
        assert heard == []
        compile("x = y is 1\n", "<text>", "exec")
    assert [one.category for one in heard] == [SyntaxWarning]
