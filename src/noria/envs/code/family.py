"""What a family of functions is: a statement, a solution, typical wrong solutions, and inputs.

Texts hold `{f}` for the function's name and `{k}`, `{j}` for the constants of an instance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Args = tuple[Any, ...]
#: Constants of the instance by name -> one tuple of arguments.
Inputs = Callable[[Random, Mapping[str, int]], Args]


@dataclass(frozen=True, slots=True)
class Family:
    """See the module.

    names    synonyms of the function's name
    head     parameters
    says     what the function returns, after "that returns "
    body     lines of the solution
    errors   kind of error -> (text of the body, what it is replaced by)
    inputs   draws arguments
    edges    arguments that are always among the candidates
    consts   name -> inclusive range
    unseen   kept out of training and of the held-out tasks
    """

    names: tuple[str, ...]
    head: str
    says: str
    body: str
    errors: Mapping[str, tuple[str, str]]
    inputs: Inputs
    edges: tuple[Args, ...] = ()
    consts: Mapping[str, tuple[int, int]] | None = None
    unseen: bool = False

    def code(self, name: str, consts: Mapping[str, int], error: str = "") -> str:
        """The solution, or one with an error of a kind, as a file."""
        body = self.body
        if error:
            old, new = self.errors[error]
            assert old in body, (self.names, error)
            body = body.replace(old, new, 1)
        lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
        return filled(f"def {{f}}({self.head}):\n{lines}", name, consts)

    def statement(self, name: str, consts: Mapping[str, int]) -> str:
        """What is asked for."""
        return filled(f"Write {{f}}({self.head}) that returns {self.says}.", name, consts)


def filled(text: str, name: str, consts: Mapping[str, int]) -> str:
    """The text with the name and the constants in their places; other braces stay."""
    text = text.replace("{f}", name)
    for key, value in consts.items():
        text = text.replace(f"{{{key}}}", str(value))
    return text


def ints(rng: Random, low: int = -9, high: int = 20, least: int = 0, most: int = 7) -> list[int]:
    """A list of numbers."""
    return [rng.randint(low, high) for _ in range(rng.randint(least, most))]


def word(rng: Random, letters: str = "abcde", least: int = 0, most: int = 8) -> str:
    """A word of few letters."""
    return "".join(rng.choice(letters) for _ in range(rng.randint(least, most)))


def words(rng: Random, least: int = 0, most: int = 5) -> str:
    """Words with blanks between them."""
    return " ".join(word(rng, "abc", 1, 4) for _ in range(rng.randint(least, most)))


def lists(*edges: Sequence[int]) -> tuple[Args, ...]:
    """Lists as lone arguments."""
    return tuple((list(edge),) for edge in edges)
