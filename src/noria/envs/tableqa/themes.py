"""What tables are about: a main table whose rows refer to those of a second one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

_PEOPLE = (
    "Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jan", "Kim", "Leo", "Mia", "Ned", "Ola", "Pia",
    "Rex", "Sam", "Tom", "Una", "Vic", "Wes", "Yan", "Zoe",
)  # fmt: skip
_PLACES = ("Oslo", "Rome", "Lima", "Bern", "Cairo", "Delhi", "Paris", "Quito", "Seoul", "Tunis")
_TITLES = ("Rain", "Stone", "River", "Night", "Glass", "Salt", "Ember", "Harbor", "Cedar", "Mirror", "Tide", "Lantern")


@dataclass(frozen=True, slots=True)
class Theme:
    """Names of two tables and their columns.

    main, other   the tables; `other` has one row for each value of `ref`
    key, ref      name of a main row, and the row of `other` that it belongs to
    a, b          numbers of the main table with their lowest and highest values
    place         a text of `other`, of which two rows may share one
    keys, refs    what the names are drawn from
    """

    main: str
    other: str
    key: str
    ref: str
    a: tuple[str, int, int]
    b: tuple[str, int, int]
    place: str
    keys: Sequence[str]
    refs: Sequence[str]


THEMES: Sequence[Theme] = (
    Theme("players", "teams", "player", "team", ("goals", 1, 60), ("age", 17, 39), "city", _PEOPLE,
          ("Reds", "Blues", "Lions", "Bears", "Hawks", "Foxes")),
    Theme("staff", "units", "name", "unit", ("pay", 20, 99), ("years", 1, 30), "site", _PEOPLE,
          ("Sales", "Stock", "Legal", "Design", "Press", "Audit")),
    Theme("books", "authors", "title", "author", ("pages", 90, 700), ("copies", 1, 40), "home", _TITLES,
          ("Moor", "Lind", "Abel", "Voss", "Quist", "Renn")),
    Theme("films", "studios", "film", "studio", ("minutes", 70, 190), ("awards", 0, 20), "town", _TITLES,
          ("Argus", "Beacon", "Comet", "Delta", "Echo", "Falcon")),
    Theme("boats", "owners", "boat", "owner", ("length", 5, 60), ("crew", 1, 25), "port", _TITLES,
          ("Moor", "Lind", "Abel", "Voss", "Quist", "Renn")),
    Theme("runners", "clubs", "runner", "club", ("minutes", 100, 299), ("starts", 1, 40), "city", _PEOPLE,
          ("Swift", "Pace", "Stride", "Dash", "Sprint", "Trail")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tables:
    """Both tables. Rows are (key, ref, a, b) and (ref, place)."""

    theme: Theme
    main: tuple[tuple[Any, ...], ...]
    other: tuple[tuple[Any, ...], ...]

    def data(self) -> dict[str, Any]:
        """Table -> its columns and rows, as plain JSON."""
        theme = self.theme
        return {
            theme.main: {
                "columns": [[theme.key, "text"], [theme.ref, "text"], [theme.a[0], "int"], [theme.b[0], "int"]],
                "rows": [list(row) for row in self.main],
            },
            theme.other: {
                "columns": [[theme.ref, "text"], [theme.place, "text"]],
                "rows": [list(row) for row in self.other],
            },
        }


def draw_tables(rng: Random, fewest: int, most: int) -> Tables:
    """Tables of a random theme; numbers of one column are all different where their range allows."""
    theme, n = rng.choice(THEMES), rng.randint(fewest, most)
    refs = rng.sample(theme.refs, 4)
    places = rng.sample(_PLACES, 3)
    spots = [places[0], places[0], places[1], places[2]]
    rng.shuffle(spots)
    belongs = [refs[i % 4] for i in range(n)]
    rng.shuffle(belongs)
    columns = [_numbers(rng, n, low, high) for _, low, high in (theme.a, theme.b)]
    keys = rng.sample(theme.keys, n)
    main = tuple(zip(keys, belongs, *columns, strict=True))
    return Tables(theme, main, tuple(zip(refs, spots, strict=True)))


def _numbers(rng: Random, n: int, low: int, high: int) -> list[int]:
    return rng.sample(range(low, high + 1), n) if high - low >= n else [rng.randint(low, high) for _ in range(n)]
