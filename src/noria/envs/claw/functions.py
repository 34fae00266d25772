"""Small functions that scripts are made of: what each should do, a right line, a wrong line, and inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

from noria.envs.claw.draw import PEOPLE, numbers, some

Args = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """One function. `line` returns what `right` does, `bug` what `wrong` does; `draw` gives arguments."""

    name: str
    params: str
    doc: str
    line: str
    bug: str
    right: Callable[..., Any]
    wrong: Callable[..., Any]
    draw: Callable[[Random], Args]

    def source(self, line: str) -> str:
        """The module's text with this line as the body."""
        return f'def {self.name}({self.params}):\n    """{self.doc}"""\n    return {line}\n'


def _ints(rng: Random) -> list[int]:
    """A list in which numbers may occur twice."""
    return [rng.randint(-9, 30) for _ in range(rng.randint(4, 6))]


def _words(rng: Random) -> str:
    return " ".join(some(rng, PEOPLE, rng.randint(2, 4)))


FUNCTIONS: Sequence[Function] = (
    Function(
        "even_sum", "xs", "sum of the even numbers", "sum(x for x in xs if x % 2 == 0)", "sum(x for x in xs if x % 2)",
        lambda xs: sum(x for x in xs if x % 2 == 0), lambda xs: sum(x for x in xs if x % 2), lambda rng: (_ints(rng),),
    ),
    Function(
        "clip", "x, low, high", "x, but at least low and at most high", "max(low, min(x, high))",
        "min(low, max(x, high))", lambda x, low, high: max(low, min(x, high)),
        lambda x, low, high: min(low, max(x, high)), lambda rng: (rng.randint(-9, 60), *sorted(numbers(rng, 2, 0, 50))),
    ),
    Function(
        "last_word", "text", "the last word, in capitals", "text.split()[-1].upper()", "text.split()[0].upper()",
        lambda text: text.split()[-1].upper(), lambda text: text.split()[0].upper(), lambda rng: (_words(rng),),
    ),
    Function(
        "runner_up", "xs", "the second largest of the different numbers", "sorted(set(xs))[-2]", "sorted(set(xs))[1]",
        lambda xs: sorted(set(xs))[-2], lambda xs: sorted(set(xs))[1], lambda rng: (numbers(rng, 5, 0, 40) * 2,),
    ),
    Function(
        "count_over", "xs, k", "how many numbers are greater than k", "sum(x > k for x in xs)",
        "sum(x >= k for x in xs)", lambda xs, k: sum(x > k for x in xs), lambda xs, k: sum(x >= k for x in xs),
        lambda rng: ((xs := _ints(rng)), rng.choice(xs)),
    ),
    Function(
        "initials", "text", "first letters of the words, as capitals", "''.join(w[0] for w in text.split()).upper()",
        "''.join(w[0] for w in text.split())", lambda text: "".join(w[0] for w in text.split()).upper(),
        lambda text: "".join(w[0] for w in text.split()), lambda rng: (_words(rng),),
    ),
    Function(
        "span", "xs", "largest less smallest", "max(xs) - min(xs)", "max(xs) - xs[0]",
        lambda xs: max(xs) - min(xs), lambda xs: max(xs) - xs[0], lambda rng: (_ints(rng),),
    ),
    Function(
        "once", "xs", "the numbers in order, each once", "list(dict.fromkeys(xs))", "sorted(set(xs))",
        lambda xs: list(dict.fromkeys(xs)), lambda xs: sorted(set(xs)), lambda rng: (_ints(rng),),
    ),
    Function(
        "middle", "text", "the text without its first and last letter", "text[1:-1]", "text[1:]",
        lambda text: text[1:-1], lambda text: text[1:], lambda rng: (_words(rng),),
    ),
    Function(
        "steps", "xs", "differences of neighbours", "[b - a for a, b in zip(xs, xs[1:])]",
        "[a - b for a, b in zip(xs, xs[1:])]", lambda xs: [b - a for a, b in pairwise(xs)],
        lambda xs: [a - b for a, b in pairwise(xs)], lambda rng: (_ints(rng),),
    ),
)  # fmt: skip


def inputs(function: Function, rng: Random, n: int) -> list[Args]:
    """`n` different arguments; the wrong line fails on each."""
    found: list[Args] = []
    while len(found) < n:
        args = function.draw(rng)
        if args not in found and function.right(*args) != function.wrong(*args):
            found.append(args)
    return found
