"""Names, numbers and small tables for families: short words, no two alike in one job."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

PEOPLE = (
    "ana", "ben", "cleo", "dan", "eva", "finn", "gus", "hana", "ivo", "jan", "kim", "leo", "mia", "ned", "ola", "pia",
    "rex", "sam", "tom", "una", "vic", "wes", "yan", "zoe",
)  # fmt: skip
CITIES = ("Oslo", "Rome", "Lima", "Bern", "Cairo", "Delhi", "Paris", "Quito", "Seoul", "Tunis")
ITEMS = ("pen", "cup", "hat", "bag", "lamp", "book", "fan", "mug", "rope", "tent", "vase", "bell")
TEAMS = ("red", "blue", "green", "gold", "grey", "pink")
SERVICES = ("auth", "mail", "pay", "web", "cron", "disk")
STEMS = ("team", "list", "data", "staff", "crew", "club", "group", "roster")
TITLES = ("Setup", "Usage", "Limits", "Errors", "Credits", "History", "Options", "Files", "Notes", "Support", "Tests")
WORDS = ("slow", "lost", "full", "late", "down", "busy", "open", "bad")


def some(rng: Random, pool: Sequence[str], n: int) -> list[str]:
    """`n` different entries in random order."""
    return rng.sample(list(pool), n)


def numbers(rng: Random, n: int, low: int, high: int) -> list[int]:
    """`n` different whole numbers from `low` to `high` in random order."""
    return rng.sample(range(low, high + 1), n)


def csv(header: str, rows: Sequence[Sequence[object]]) -> str:
    """A CSV text; no cell needs quotes."""
    return "".join(",".join(map(str, row)) + "\n" for row in [header.split(","), *rows])


def cells(header: str, rows: Sequence[Sequence[object]]) -> list[list[str]]:
    """The rows of such a text, header included."""
    return [header.split(","), *([str(cell) for cell in row] for row in rows)]


def inserts(table: str, rows: Sequence[Sequence[object]]) -> str:
    """SQL that fills a table."""
    values = ", ".join("(" + ", ".join(repr(cell) for cell in row) + ")" for row in rows)
    return f"insert into {table} values {values};\n"
