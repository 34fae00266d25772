"""One problem: what is asked, how it is worked, the answer with its other forms, and typical wrong answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any

Number = int | Fraction


@dataclass(frozen=True, slots=True)
class Problem:
    """See the module.

    type    task type that grades the answer; `spec` is what its grader asks for
    work    the steps, one line each
    wrong   kind of error -> the answer that it leads to
    forms   other texts that are right as well
    check   arithmetic whose value is the answer, "" where there is none
    """

    prompt: str
    type: str
    spec: Mapping[str, Any]
    answer: str
    work: tuple[str, ...]
    wrong: Mapping[str, str]
    forms: tuple[str, ...] = ()
    check: str = ""


#: Draws a problem; None where the numbers drawn make none.
Draw = Callable[[Random], Problem | None]


@dataclass(frozen=True, slots=True)
class Template:
    """A way to draw problems. `unseen` keeps it out of training and of the held-out tasks."""

    subject: str
    draw: Draw
    unseen: bool = field(default=False)


def decimal(value: Number) -> str:
    """A number as a decimal, exact where six places are enough, else a fraction."""
    exact = Fraction(value)
    scaled = exact * 10**6
    if scaled.denominator != 1:
        return f"{exact.numerator}/{exact.denominator}"
    whole, part = divmod(abs(int(scaled)), 10**6)
    digits = f"{part:06d}".rstrip("0")
    return ("-" if exact < 0 else "") + (f"{whole}.{digits}" if digits else str(whole))


def fraction(value: Number) -> str:
    """A number as "3/4", or "3"."""
    exact = Fraction(value)
    return str(exact.numerator) if exact.denominator == 1 else f"{exact.numerator}/{exact.denominator}"


def latex(value: Number) -> str:
    """A number in LaTeX."""
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    return f"{'-' if exact < 0 else ''}\\frac{{{abs(exact.numerator)}}}{{{exact.denominator}}}"


def number(
    prompt: str, value: Number, work: Sequence[str], wrong: Mapping[str, Number], check: str = ""
) -> Problem | None:
    """A problem whose answer is a number; None where the errors lead to fewer than two wrong answers."""
    errors = {kind: fraction(each) for kind, each in wrong.items() if each != value}
    if len(set(errors.values())) < 2:
        return None
    forms = dict.fromkeys([f"\\boxed{{{latex(value)}}}", f"${latex(value)}$", decimal(value)])
    return Problem(
        prompt, "math.expression", {"accepted": [fraction(value)]}, fraction(value), tuple(work), errors,
        tuple(forms), check or fraction(value),
    )  # fmt: skip


def quantity(
    prompt: str,
    value: Number,
    unit: str,
    work: Sequence[str],
    wrong: Mapping[str, Number | str],
    forms: Sequence[str] = (),
    check: str = "",
) -> Problem | None:
    """A problem whose answer is a number with its unit. Errors that are numbers are in this unit."""
    answer = f"{decimal(value)} {unit}"
    errors = {kind: each if isinstance(each, str) else f"{decimal(each)} {unit}" for kind, each in wrong.items()}
    errors = {kind: each for kind, each in errors.items() if each != answer}
    if len(set(errors.values())) < 2:
        return None
    spec = {"value": float(value), "unit": unit, "rel_tol": 1e-3}
    also = (f"\\boxed{{{decimal(value)}\\ \\text{{{unit}}}}}", *forms)
    return Problem(prompt, "stem.quantity", spec, answer, tuple(work), errors, also, check or fraction(value))


def expression(
    prompt: str, answer: str, work: Sequence[str], wrong: Mapping[str, str], forms: Sequence[str] = ()
) -> Problem | None:
    """A problem whose answer is a formula, a set, a pair or a matrix, in LaTeX."""
    errors = {kind: each for kind, each in wrong.items() if each != answer}
    if len(set(errors.values())) < 2:
        return None
    also = (f"\\boxed{{{answer}}}", *forms)
    return Problem(prompt, "math.expression", {"accepted": [answer]}, answer, tuple(work), errors, also)


def sequence(
    prompt: str, terms: Sequence[int], work: Sequence[str], wrong: Mapping[str, Sequence[int]]
) -> Problem | None:
    """A problem whose answer is several numbers in their order."""
    said = {kind: ", ".join(map(str, each)) for kind, each in wrong.items() if list(each) != list(terms)}
    if len(set(said.values())) < 2:
        return None
    items = [str(term) for term in terms]
    return Problem(
        prompt, "math.sequence", {"items": items}, ", ".join(items), tuple(work), said, (f"[{', '.join(items)}]",)
    )


def choice(prompt: str, options: Sequence[str], right: int, work: Sequence[str], wrong: Mapping[str, int]) -> Problem:
    """A problem with options A, B, C, …; errors name the option that is taken instead."""
    letters = "ABCDEFGH"[: len(options)]
    listed = " ".join(f"({letter}) {text}" for letter, text in zip(letters, options, strict=True))
    errors = {kind: letters[at] for kind, at in wrong.items() if at != right}
    return Problem(
        f"{prompt} {listed}", "stem.choice", {"options": list(options), "right": [letters[right]]}, letters[right],
        tuple(work), errors, (f"({letters[right]})", options[right]),
    )  # fmt: skip


def polynomial(coefficients: Sequence[Number], x: str = "x") -> str:
    """A polynomial from its coefficients, the constant first, in LaTeX."""
    parts: list[str] = []
    for power in range(len(coefficients) - 1, -1, -1):
        factor = Fraction(coefficients[power])
        if not factor:
            continue
        size = abs(factor)
        term = "" if size == 1 and power else latex(size)
        term += "" if power == 0 else x if power == 1 else f"{x}^{{{power}}}" if power > 9 else f"{x}^{power}"
        parts.append(("-" if factor < 0 else "+" if parts else "") + term)
    return "".join(parts) or "0"


def signed(value: int) -> str:
    """A number with its sign: "+3" or "-3"."""
    return f"{value:+d}"
