"""Runs the plain `test_*` functions of one Python file inside a forked, already limited child.

Standard library only: the fork server loads this file by path, where nothing else of the project exists.
The child first sends the names it found by parsing (no code under test has run yet), then one line per
test, then a last line. Each line starts with a key that only the server and this child know, so text that
the code under test writes to an inherited descriptor is recognised as foreign.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import sys
import types
from collections.abc import Callable
from typing import Any

MAX_MESSAGE = 120
_SYMBOLS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


class _Asserts(ast.NodeTransformer):
    """Makes a failed `assert` without a message say what its left side was. Operands are evaluated once."""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt | list[ast.stmt]:
        if node.msg is not None:
            return node
        test, left, right = node.test, _name("__noria_left__"), _name("__noria_right__")
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            source, symbol = test.left, _SYMBOLS[type(test.ops[0])]
            made: list[ast.stmt] = [
                ast.Assign([_name("__noria_left__", True)], test.left),
                ast.Assign([_name("__noria_right__", True)], test.comparators[0]),
            ]
            check: ast.expr = ast.Compare(left, test.ops, [right])
        else:
            source, symbol, check, right = test, "", left, left
            made = [ast.Assign([_name("__noria_left__", True)], test)]
        span: Any = (source.lineno, source.end_lineno, source.col_offset, source.end_col_offset)
        words: list[ast.expr] = [ast.Constant(span), ast.Constant(symbol), left, right]
        made.append(ast.Assert(check, ast.Call(_name("__noria_explain__"), words, [])))
        return [ast.fix_missing_locations(ast.copy_location(statement, node)) for statement in made]


def _name(name: str, store: bool = False) -> ast.Name:
    return ast.Name(name, ast.Store() if store else ast.Load())


def _short(value: object, room: int) -> str:
    """`repr` cut to `room` characters; an object whose repr fails is named by its type."""
    try:
        text = repr(value)
    except BaseException:  # noqa: BLE001 - repr belongs to the code under test: whatever it raises is its own affair
        text = f"<{type(value).__name__}>"
    return _cut(text, room)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def explain(text: str, span: tuple[int, int, int, int], symbol: str, left: object, right: object) -> str:
    """The message of a failed assert. `span`: first and last line, first and end byte of its left side."""
    first, last, start, end = span
    lines = [line.encode() for line in text.splitlines()[first - 1 : last]]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    source = _cut(" ".join(b" ".join(lines).decode("utf-8", "replace").split()), 56)
    if not symbol:
        return f"{source} is {_short(left, 50)}"
    return f"{source} {symbol} {_short(right, 26)} failed, got {_short(left, 26)}"


def names_of(tree: ast.Module) -> list[str]:
    """Names of the top-level `test_*` functions, in the order of the file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_")]
    return list(dict.fromkeys(found))


def describe(fault: BaseException, here: str) -> str:
    """One line about an exception; says where it arose when that is not the test file."""
    name = type(fault).__name__
    try:
        text = " ".join(str(fault).split())
    except BaseException:  # noqa: BLE001 - str() of an exception class of the code under test may raise anything
        text = ""
    step, where = fault.__traceback__, ""
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if file != here and file.startswith(os.path.dirname(here) + os.sep):
            where = f" ({os.path.basename(file)} line {step.tb_lineno})"
        step = step.tb_next
    if isinstance(fault, AssertionError) and text:
        return _cut(text, MAX_MESSAGE - len(where)) + where
    return _cut(f"{name}: {text}" if text else name, MAX_MESSAGE - len(where)) + where


def warm() -> None:
    """Use the parser and the compiler once, so that forked children find them set up."""
    tree = ast.parse("import os\n\ndef test_it():\n    assert str(1) == '1'\n    assert not [0, {}]\n")
    compile(ast.fix_missing_locations(_Asserts().visit(tree)), "warm", "exec")
    names_of(tree)
    json.dumps(["test_it", explain("x", (1, 1, 0, 1), "==", "1", [2])])


def run_tests(folder: str, test_path: str, report: Callable[[object], None]) -> None:
    """Import `folder/test_path`, run its tests and `report` names, then [name, result] each, then "end"."""
    path = os.path.join(folder, test_path)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        tree = ast.parse(text, path)
        names = names_of(tree)
        code = compile(ast.fix_missing_locations(_Asserts().visit(tree)), path, "exec")
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        report({"broken": describe(fault, path)})
        return
    report({"names": names})
    sys.path[:0] = list(dict.fromkeys([os.path.dirname(path), folder]))
    module = types.ModuleType(os.path.splitext(os.path.basename(path))[0])
    module.__file__ = path
    module.__dict__["__noria_explain__"] = functools.partial(explain, text)
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
    except BaseException as fault:  # noqa: BLE001 - importing the code under test may raise anything
        said = describe(fault, path)
        for name in names:
            report([name, said])
    else:
        # Bound before the first test runs: a test can't be swapped for another by the code it calls.
        for name, function in [(name, module.__dict__.get(name)) for name in names]:
            report([name, _one(function, path)])
    report("end")


def _one(function: object, path: str) -> str:
    if not isinstance(function, types.FunctionType) or function.__code__.co_filename != path:
        return "is not the function that the test file defines"
    if function.__code__.co_flags & 0x80:  # CO_COROUTINE
        return "is a coroutine: only plain functions are run"
    try:
        function()
    except BaseException as fault:  # noqa: BLE001 - a test fails by raising anything at all
        return describe(fault, path)
    return "pass"


def reporter(descriptor: int, key: str) -> Callable[[object], None]:
    """Writes JSON lines that start with `key` to `descriptor`."""

    def report(thing: object) -> None:
        line = (key + json.dumps(thing) + "\n").encode()
        while line:
            line = line[os.write(descriptor, line) :]

    return report


class Tally:
    """What the server makes of a child's lines: a result for every test, or an error."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._rest = b""
        self._names: list[str] | None = None
        self._results: dict[str, str] = {}
        self._ended = False
        self._error = ""

    def feed(self, data: bytes) -> None:
        """Take bytes as they come. Anything that is not exactly what the runner would write is tampering."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not self._error:
                self._take(line)
        if len(self._rest) > 65536:
            self._error, self._rest = self._error or "the report was tampered with", b""

    def _take(self, line: bytes) -> None:
        try:
            thing = json.loads(line[len(self._key) :]) if line.startswith(self._key) else None
        except (ValueError, RecursionError):
            thing = None
        if self._names is None and isinstance(thing, dict):
            self._names = list(thing.get("names", []))
            self._error = str(thing.get("broken", "")) or ("" if self._names else "no test functions found")
        elif isinstance(thing, list) and len(thing) == 2 and thing[0] in (self._names or []):
            if thing[0] in self._results or not isinstance(thing[1], str):
                self._error = "the report was tampered with"
            self._results[thing[0]] = str(thing[1])[: MAX_MESSAGE + 80]
        elif thing == "end" and self._names is not None and not self._ended:
            self._ended = True
        else:
            self._error = "the report was tampered with"

    def verdict(self, why: str) -> tuple[dict[str, str], str]:
        """(results, error). Tests that did not report failed because of `why`, e.g. "timeout after 2 s"."""
        if self._names is None:
            return {}, self._error or why
        results = {name: self._results.get(name, why) for name in self._names}
        if self._error:
            results = {name: "not counted" if got == "pass" else got for name, got in results.items()}
        return results, self._error
