"""Python text to its syntax tree, from any thread."""

from __future__ import annotations

import ast
import threading
import warnings
from typing import Any, Literal, cast, overload

_ATTEMPTS = 100
_lock = threading.RLock()


@overload
def parse(text: str | bytes, mode: Literal["exec"] = "exec", name: str = "<unknown>") -> ast.Module: ...


@overload
def parse(text: str | bytes, mode: Literal["eval"], name: str = "<unknown>") -> ast.Expression: ...


def parse(
    text: str | bytes, mode: Literal["exec", "eval"] = "exec", name: str = "<unknown>"
) -> ast.Module | ast.Expression:
    """`ast.parse` where other threads parse too.

    Up to Python 3.12 the interpreter counts the depth of all trees that are being built in one place, so that a
    switch of threads in the middle of one raises SystemError ("AST constructor recursion depth mismatch"). Whoever
    parses here waits for its turn; a library that parses elsewhere costs another attempt. What the interpreter warns
    of is no news where a policy wrote the text.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `ast.parse` does.
    """
    for attempt in range(_ATTEMPTS):
        try:
            with _lock, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return cast(ast.Module | ast.Expression, ast.parse(text, name, mode))
        except SystemError:
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def literal(text: str) -> Any:
    """The value that a Python literal writes. Raises what `ast.literal_eval` does."""
    return ast.literal_eval(parse(text.lstrip(" \t"), "eval"))
