"""Texts in the making: pieces that each say one thing, so that one can be left out, and what they are to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Point:
    """Something that a text must say. `ask` is how the prompt puts it, `need` the words that one sentence must hold."""

    ask: str
    need: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, and the number of the point that it makes, None for one that makes none."""

    text: str
    point: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """Lines before, pieces of the body, lines after; `lines` sets every piece on a line of its own."""

    head: tuple[str, ...]
    body: tuple[Piece, ...]
    tail: tuple[str, ...] = ()
    lines: bool = False

    def render(self) -> str:
        """The text."""
        said = [piece.text for piece in self.body]
        body = said if self.lines else [" ".join(said)]
        return "\n".join([*self.head, *(text for text in body if text), *self.tail])

    def without(self, point: int) -> Draft:
        """The draft without what makes a point."""
        return replace(self, body=tuple(piece for piece in self.body if piece.point != point))

    def first(self, n: int) -> Draft:
        """The first pieces alone, without what stands around them."""
        return Draft((), self.body[:n], (), self.lines)


@dataclass(frozen=True, slots=True)
class Brief:
    """What is asked for.

    slots  the genre's own particulars, by name
    least, most   words of the text
    """

    genre: str
    slots: Mapping[str, str]
    points: tuple[Point, ...]
    least: int
    most: int

    def data(self) -> dict[str, Any]:
        """Plain JSON that `brief_of` reads."""
        points = [[point.ask, list(point.need)] for point in self.points]
        return {
            "genre": self.genre,
            "slots": dict(self.slots),
            "points": points,
            "least": self.least,
            "most": self.most,
        }


def brief_of(data: Mapping[str, Any]) -> Brief:
    """The brief of `Brief.data`."""
    points = tuple(Point(ask, tuple(need)) for ask, need in data["points"])
    return Brief(data["genre"], data["slots"], points, data["least"], data["most"])
