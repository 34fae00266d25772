"""reasoning-gym's scorers, in a child process.

Some of them hand the answer to Python's or sympy's `eval`, which would run whatever a policy writes. Their answers are
read here first: a list must be a literal, an expression may hold numbers, letters and known functions alone.
"""

from __future__ import annotations

import ast
import math
import re
from functools import cache
from typing import Any

import reasoning_gym
from reasoning_gym.factory import DATASETS

from noria.core.errors import boundary

#: Datasets whose scorer evaluates lists, and those whose scorer evaluates expressions.
LISTS = frozenset({"string_insertion", "spiral_matrix", "binary_matrix", "n_queens", "number_sorting"})
EXPRESSIONS = frozenset(
    {"simple_integration", "intermediate_integration", "polynomial_multiplication", "puzzle24", "countdown"}
)
_EXPRESSION = re.compile(r"[\w\s+\-*/^().,|]*", re.ASCII)
_NAMES = frozenset(
    {"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "sec", "csc", "cot", "exp", "log", "ln",
     "sqrt", "Abs", "pi"}
)  # fmt: skip
#: Exponents and numbers beyond this are no answer to any of these problems.
_MAX_DIGITS = 12


def work(payload: dict[str, Any]) -> float | str | None:
    """The score in [0, 1]; "fault" where the answer cannot be scored, None for an unknown dataset."""
    name, answer = payload["dataset"], payload["answer"]
    if name not in DATASETS:
        return None
    if not is_harmless(name, answer):
        return "fault"
    scorer = _scorer(name)
    score: float = boundary(lambda: float(scorer.score_answer(answer, payload["entry"])), lambda fault: math.nan)
    return "fault" if math.isnan(score) else min(1.0, max(0.0, score))


def is_harmless(dataset: str, answer: str) -> bool:
    """Whether the scorer of a dataset may see an answer."""
    if dataset in LISTS:
        return _is_literal(answer)
    return dataset not in EXPRESSIONS or _is_expression(answer)


def _is_literal(answer: str) -> bool:
    """A Python literal, or a text that is no Python at all: digits, letters and spaces."""
    if re.fullmatch(r"[\w\s\-.,Q_]*", answer, re.ASCII) and "__" not in answer:
        return not re.search(r"[A-Za-z]\.|\.[A-Za-z]", answer)
    try:
        ast.literal_eval(answer)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return False
    return True


def _is_expression(answer: str) -> bool:
    if not _EXPRESSION.fullmatch(answer) or "__" in answer or re.search(r"\.\s*[A-Za-z_]", answer):
        return False
    if re.search(rf"\d{{{_MAX_DIGITS}}}", answer) or re.search(r"(?:\*\*|\^)[^+\-]*(?:\*\*|\^)", answer):
        return False
    return all(len(name) == 1 or name in _NAMES for name in re.findall(r"[A-Za-z_]+", answer))


@cache
def _scorer(name: str) -> Any:
    return reasoning_gym.create_dataset(name, seed=0, size=1)
