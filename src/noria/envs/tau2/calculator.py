"""The desk's calculator."""

from __future__ import annotations

import ast
import operator
from typing import Any

from noria.core.errors import PolicyError
from noria.core.syntax import parse

_SIGNS = frozenset("0123456789+-*/(). ")
_MOST_DIGITS = 60


def calculated(expression: str) -> str:
    """The value of a sum of numbers, to the cent. Raises PolicyError: it is none."""
    if not expression or len(expression) > _MOST_DIGITS or not set(expression) <= _SIGNS or "**" in expression:
        raise PolicyError(
            f"expression must be a sum of numbers of {_MOST_DIGITS} signs at most: got {expression[:80]!r}"
        )
    try:
        return str(round(float(_value(expression)), 2))
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError) as fault:
        raise PolicyError(f"expression cannot be calculated: {fault}") from fault


_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip


def _value(expression: str) -> float:
    def of(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return float(_OPERATORS[type(node.op)](of(node.left), of(node.right)))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return float(_OPERATORS[type(node.op)](of(node.operand)))
        raise ValueError("only + - * / are known")

    return of(parse(expression.strip(), "eval").body)
