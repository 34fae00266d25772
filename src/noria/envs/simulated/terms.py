"""Terms over a state: expressions in a small part of Python's syntax.

    tickets[ticket].state == 'solved' and count(agents[a].load > 2 for a in agents) == 0

Names are the top level of the state, the arguments of a call, and what a caller adds, as `was` for the state before it.
A dot and brackets both look a key up. A term is held to the language before it is compiled: what is left has no
attribute, no import and no call but the functions below, so nothing else of Python can be reached. Terms are the
house's own; what a model says is a value in them, never a part of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from noria.core.syntax import parse

Names = Mapping[str, Any]

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "len": len, "sum": sum, "min": min, "max": max, "all": all, "any": any, "sorted": sorted, "list": list, "abs": abs,
    "range": range, "count": lambda found: sum(1 for each in found if each), "first": lambda found: next(iter(found)),
    "join": lambda found: "; ".join(found), "both": lambda found: " and ".join(found),
    "none": lambda text: text or "none",
}  # fmt: skip
_LANGUAGE = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Attribute, ast.Subscript, ast.UnaryOp, ast.Not,
    ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.IfExp, ast.BoolOp, ast.And, ast.Or, ast.Compare, ast.Eq,
    ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Call, ast.GeneratorExp, ast.comprehension,
    ast.List, ast.Dict, ast.JoinedStr, ast.FormattedValue,
)  # fmt: skip


class TermError(ValueError):
    """A term that cannot be evaluated."""


def value(term: str, names: Names) -> Any:
    """What a term stands for.

    Raises:
        TermError: it is outside the language, or does not fit the names.
    """
    code = _compiled(term)
    try:
        return eval(code, {"__builtins__": {}, **_FUNCTIONS, **names})
    except (LookupError, TypeError, NameError, StopIteration, ValueError) as fault:
        raise TermError(f"{term!r}: {type(fault).__name__} {fault}") from fault


def holds(term: str, names: Names) -> bool:
    """Whether a condition is so. Raises TermError as `value` does, also where it is neither true nor false."""
    found = value(term, names)
    if not isinstance(found, bool):
        raise TermError(f"{term!r} must be true or false: got {found!r}")
    return found


def filled(template: str, names: Names) -> str:
    """A text with the terms in its braces replaced by their values. Raises TermError."""
    return str(value(f"f'''{template}'''", names)) if "{" in template else template


@lru_cache(maxsize=8192)
def _compiled(term: str) -> CodeType:
    try:
        tree = parse(term, "eval")
    except (SyntaxError, ValueError) as fault:
        raise TermError(f"{term!r} is no term: {fault}") from fault
    for node in ast.walk(tree):
        called = isinstance(node, ast.Call) and (not isinstance(node.func, ast.Name) or node.keywords)
        if not isinstance(node, _LANGUAGE) or called:
            raise TermError(f"{term!r} is outside the language of terms: {ast.unparse(node)!r}")
    return compile(ast.fix_missing_locations(_Dotless().visit(tree)), "<term>", "eval")


class _Dotless(ast.NodeTransformer):
    """A dot looks a key up, as brackets do."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.Subscript:
        self.generic_visit(node)
        return ast.Subscript(node.value, ast.Constant(node.attr), ast.Load())
