"""A calculator: exact arithmetic of fractions, and nothing else of Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from noria.core.errors import PolicyError
from noria.core.syntax import parse
from noria.envs.problems.problem import decimal

_MAX_CHARS, _MAX_BITS, _MAX_POWER = 200, 400, 64
_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Mod: operator.mod, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


def calculate(expression: str) -> str:
    """The value of an expression, as a decimal or a fraction.

    Raises:
        PolicyError: it is no arithmetic, or too large.
    """
    if len(expression) > _MAX_CHARS:
        raise PolicyError(f"an expression has at most {_MAX_CHARS} characters")
    try:
        tree = parse(expression.strip().replace("^", "**"), "eval")
        return decimal(_value(tree.body))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        raise PolicyError("this is no arithmetic: write as 2*(3 + 1/4)") from fault
    except ZeroDivisionError as fault:
        raise PolicyError("this divides by zero") from fault


def _value(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bounded(Fraction(str(node.value)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, power = _value(node.left), _value(node.right)
        if power.denominator != 1 or abs(power) > _MAX_POWER:
            raise PolicyError(f"a power is a whole number of at most {_MAX_POWER}")
        return _bounded(Fraction(base ** int(power)))
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _bounded(Fraction(_BINARY[type(node.op)](_value(node.left), _value(node.right))))
    raise PolicyError("only numbers, + - * / % ^ and brackets are known")


def _bounded(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > _MAX_BITS or value.denominator.bit_length() > _MAX_BITS:
        raise PolicyError("the number becomes too large")
    return value
