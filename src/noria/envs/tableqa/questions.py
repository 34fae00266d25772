"""Templates of questions: the words, the answer, the facts on the way to it, and two ways to find it.

The answer is computed here from the rows; the ways go through the tools. `tests` hold one against the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from noria.envs.tableqa.themes import Tables

Call = tuple[str, dict[str, str]]
#: What is to be known on the way: {"table", "columns"} that must be read, or "any" of which one result column holds.
Fact = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `{i}` in an argument stands for the first cells of what call number i gave, joined by "|".

    form     "number", "text" or "list"
    facts    in the order in which the reference establishes them: each follows from those after it
    steps    calls of typed tools; the last one gives the answer
    query    one statement that does
    slip     a statement that answers something else
    off      how far a number may be off, where it was asked for rounded
    """

    words: str
    answer: tuple[str, ...]
    form: str
    facts: tuple[Fact, ...]
    steps: tuple[Call, ...]
    query: str
    slip: str
    off: float = 0.0


Template = Callable[[Tables, Random], "Question | None"]


def where(table: str, column: str, op: str, value: object, show: str) -> Call:
    """A call of `filter`."""
    return "filter", {"table": table, "column": column, "op": op, "value": str(value), "show": show}


def over(table: str, fn: str, column: str, **rest: str) -> Call:
    """A call of `aggregate`."""
    return "aggregate", {"table": table, "fn": fn, "column": column, **rest}


def _read(table: str, *columns: str) -> Fact:
    return {"table": table, "columns": list(columns)}


def _values(*values: object) -> Fact:
    return {"any": [list(values)]}


def _either(first: list[object], second: list[object]) -> Fact:
    return {"any": [first, second]}


def lookup(tables: Tables, rng: Random) -> Question | None:
    """A cell."""
    t, row = tables.theme, rng.choice(tables.main)
    a = t.a[0]
    return Question(
        f"What is the {a} of {row[0]}?", (str(row[2]),), "number",
        (_read(t.main, t.key, a), _values(row[2])),
        (where(t.main, t.key, "=", row[0], a),),
        f"select {a} from {t.main} where {t.key} = '{row[0]}'",
        f"select {t.b[0]} from {t.main} where {t.key} = '{row[0]}'",
    )  # fmt: skip


def count(tables: Tables, rng: Random) -> Question | None:
    """Rows above a bound that one row meets."""
    t, bound = tables.theme, rng.choice(sorted(row[2] for row in tables.main)[1:-1])
    n, a = sum(row[2] > bound for row in tables.main), t.a[0]
    return Question(
        f"How many {t.main} have {a} over {bound}?", (str(n),), "number",
        (_read(t.main, a), _values(n)),
        (over(t.main, "count", a, where=a, op=">", value=str(bound)),),
        f"select count(*) from {t.main} where {a} > {bound}",
        f"select count(*) from {t.main} where {a} >= {bound}",
    )  # fmt: skip


def total(tables: Tables, rng: Random) -> Question | None:
    """A sum over a group."""
    t, ref = tables.theme, rng.choice(tables.main)[1]
    found, a = [row[2] for row in tables.main if row[1] == ref], t.a[0]
    return Question(
        f"What is the total {a} of the {t.main} of {ref}?", (str(sum(found)),), "number",
        (_read(t.main, t.ref, a), _values(sum(found))),
        (over(t.main, "sum", a, where=t.ref, op="=", value=ref),),
        f"select sum({a}) from {t.main} where {t.ref} = '{ref}'",
        f"select sum({a}) from {t.main}",
    ) if len(found) > 1 else None  # fmt: skip


def mean(tables: Tables, rng: Random) -> Question | None:
    """A mean over a group."""
    t, ref = tables.theme, rng.choice(tables.main)[1]
    found, a = [row[2] for row in tables.main if row[1] == ref], t.a[0]
    value = round(sum(found) / len(found), 2)
    return Question(
        f"What is the mean {a} of the {t.main} of {ref}, to two decimals?", (f"{value:.2f}",), "number",
        (_read(t.main, t.ref, a), _values(value)),
        (over(t.main, "avg", a, where=t.ref, op="=", value=ref),),
        f"select round(avg({a}), 2) from {t.main} where {t.ref} = '{ref}'",
        f"select round(avg({a}), 2) from {t.main}", 0.006,
    ) if len(found) > 1 else None  # fmt: skip


def most(tables: Tables, rng: Random) -> Question | None:
    """Who has most."""
    t, a = tables.theme, tables.theme.a[0]
    best = max(tables.main, key=lambda row: row[2])
    return Question(
        f"Which {t.key} has the highest {a}?", (best[0],), "text",
        (_read(t.main, t.key, a), _values(best[2]), _values(best[0])),
        (over(t.main, "max", a), where(t.main, a, "=", "{0}", t.key)),
        f"select {t.key} from {t.main} order by {a} desc limit 1",
        f"select {t.key} from {t.main} order by {t.b[0]} desc limit 1",
    )  # fmt: skip


def second(tables: Tables, rng: Random) -> Question | None:
    """Who comes second."""
    t, a = tables.theme, tables.theme.a[0]
    best, next_ = sorted(tables.main, key=lambda row: -row[2])[:2]
    return Question(
        f"Which {t.key} has the second highest {a}?", (next_[0],), "text",
        (_read(t.main, t.key, a), _values(best[2]), _values(next_[2]), _values(next_[0])),
        (
            over(t.main, "max", a), over(t.main, "max", a, where=a, op="<", value="{0}"),
            where(t.main, a, "=", "{1}", t.key),
        ),
        f"select {t.key} from {t.main} order by {a} desc limit 1 offset 1",
        f"select {t.key} from {t.main} order by {a} desc limit 1",
    )  # fmt: skip


def spread(tables: Tables, rng: Random) -> Question | None:
    """How far two rows are apart."""
    t, a = tables.theme, tables.theme.a[0]
    low, high = sorted(rng.sample(tables.main, 2), key=lambda row: row[2])
    pair = f"{high[0]}|{low[0]}"
    gap = high[2] - low[2]
    return Question(
        f"By how much is the {a} of {high[0]} higher than that of {low[0]}?", (str(gap),), "number",
        (_read(t.main, t.key, a), _values(gap)),
        (over(t.main, "range", a, where=t.key, op="in", value=pair),),
        f"select max({a}) - min({a}) from {t.main} where {t.key} in ('{high[0]}', '{low[0]}')",
        f"select {a} from {t.main} where {t.key} = '{high[0]}'",
    )  # fmt: skip


def joined(tables: Tables, rng: Random) -> Question | None:
    """A cell of the other table, found through the first."""
    t, row = tables.theme, rng.choice(tables.main)
    place = dict(tables.other)[row[1]]
    return Question(
        f"What is the {t.place} of the {t.ref} of {row[0]}?", (place,), "text",
        (_read(t.main, t.key, t.ref), _values(row[1]), _read(t.other, t.ref, t.place), _values(place)),
        (where(t.main, t.key, "=", row[0], t.ref), where(t.other, t.ref, "=", "{0}", t.place)),
        f"select {t.place} from {t.main} join {t.other} using ({t.ref}) where {t.key} = '{row[0]}'",
        f"select {t.place} from {t.other} where {t.place} != '{place}' limit 1",
    )  # fmt: skip


def total_there(tables: Tables, rng: Random) -> Question | None:
    """A sum over all groups of a place."""
    t, a, place = tables.theme, tables.theme.a[0], rng.choice(tables.other)[1]
    refs = [ref for ref, where_ in tables.other if where_ == place]
    found = [row[2] for row in tables.main if row[1] in refs]
    return Question(
        f"What is the total {a} of all {t.main} whose {t.ref} has the {t.place} {place}?", (str(sum(found)),), "number",
        (_read(t.other, t.ref, t.place), _values(*refs), _read(t.main, t.ref, a), _values(sum(found))),
        (where(t.other, t.place, "=", place, t.ref), over(t.main, "sum", a, where=t.ref, op="in", value="{0}")),
        f"select sum({a}) from {t.main} join {t.other} using ({t.ref}) where {t.place} = '{place}'",
        f"select sum({a}) from {t.main}",
    ) if found else None  # fmt: skip


def best_group(tables: Tables, rng: Random) -> Question | None:
    """The group with the highest total."""
    t, a = tables.theme, tables.theme.a[0]
    sums = _sums(tables)
    ranked = sorted(sums, key=lambda ref: -sums[ref])
    if sums[ranked[0]] == sums[ranked[1]]:
        return None
    return Question(
        f"Which {t.ref} has the highest total {a} over its {t.main}?", (ranked[0],), "text",
        (_read(t.main, t.ref, a), _either(list(sums.values()), [ranked[0]])),
        (over(t.main, "sum", a, by=t.ref),),
        f"select {t.ref} from {t.main} group by {t.ref} order by sum({a}) desc limit 1",
        f"select {t.ref} from {t.main} group by {t.ref} order by sum({a}) limit 1",
    )  # fmt: skip


def place_of_most(tables: Tables, rng: Random) -> Question | None:
    """Three hops: who has most, whose that is, and where."""
    t, a = tables.theme, tables.theme.a[0]
    best = max(tables.main, key=lambda row: row[2])
    place = dict(tables.other)[best[1]]
    return Question(
        f"What is the {t.place} of the {t.ref} of the {t.key} with the highest {a}?", (place,), "text",
        (
            _read(t.main, a), _values(best[2]), _read(t.main, t.ref, a), _values(best[1]),
            _read(t.other, t.ref, t.place), _values(place),
        ),
        (
            over(t.main, "max", a), where(t.main, a, "=", "{0}", t.ref),
            where(t.other, t.ref, "=", "{1}", t.place),
        ),
        f"select {t.place} from {t.main} join {t.other} using ({t.ref}) order by {a} desc limit 1",
        f"select {t.ref} from {t.main} order by {a} desc limit 1",
    )  # fmt: skip


def both(tables: Tables, rng: Random) -> Question | None:
    """All rows that meet two conditions."""
    t, ref, a = tables.theme, rng.choice(tables.main)[1], tables.theme.a[0]
    bound = rng.choice(sorted(row[2] for row in tables.main)[:-1])
    found = [row[0] for row in tables.main if row[1] == ref and row[2] > bound]
    return Question(
        f"List each {t.key} of {ref} with {a} over {bound}.", tuple(found), "list",
        (_read(t.main, t.key, t.ref, a), _values(*found)),
        (where(t.main, t.ref, "=", ref, t.key), where(t.main, t.key, "in", "{0}", f"{t.key}, {a}"),
         ("sql", {"query": f"select {t.key} from {t.main} where {t.ref} = '{ref}' and {a} > {bound}"})),
        f"select {t.key} from {t.main} where {t.ref} = '{ref}' and {a} > {bound}",
        f"select {t.key} from {t.main} where {a} > {bound} or {t.ref} = '{ref}'",
    ) if found and len(found) < sum(row[1] == ref or row[2] > bound for row in tables.main) else None  # fmt: skip


def share(tables: Tables, rng: Random) -> Question | None:
    """A group's part of the whole, in percent."""
    t, a, ref = tables.theme, tables.theme.a[0], rng.choice(tables.main)[1]
    sums = _sums(tables)
    value = round(100 * sums[ref] / sum(sums.values()), 1)
    part = f"round(100.0 * sum(case when {t.ref} = '{ref}' then {a} end) / sum({a}), 1)"
    return Question(
        f"What percent of the total {a} of all {t.main} has {ref}, to one decimal?", (f"{value:.1f}",), "number",
        (_read(t.main, t.ref, a), _values(sums[ref]), _values(value)),
        (over(t.main, "sum", a, where=t.ref, op="=", value=ref), ("sql", {"query": f"select {part} from {t.main}"})),
        f"select {part} from {t.main}",
        f"select sum({a}) from {t.main} where {t.ref} = '{ref}'", 0.06,
    )  # fmt: skip


def large_groups(tables: Tables, rng: Random) -> Question | None:
    """How many groups have at least so many rows."""
    t = tables.theme
    sizes = [sum(row[1] == ref for row in tables.main) for ref in _sums(tables)]
    bound = rng.choice((2, 3))
    n = sum(size >= bound for size in sizes)
    query = f"select count(*) from (select count(*) as n from {t.main} group by {t.ref}) where n >= {bound}"
    return Question(
        f"How many {t.other} have at least {bound} {t.main}?", (str(n),), "number",
        (_read(t.main, t.ref), _values(*sizes), _values(n)),
        (over(t.main, "count", t.key, by=t.ref), ("sql", {"query": query})),
        query,
        f"select count(*) from {t.other}",
    ) if n != len(tables.other) else None  # fmt: skip


def mates(tables: Tables, rng: Random) -> Question | None:
    """There and back: rows in the group of a named row."""
    t, row = tables.theme, rng.choice(tables.main)
    n = sum(other[1] == row[1] for other in tables.main)
    return Question(
        f"How many {t.main} has the {t.ref} of {row[0]}?", (str(n),), "number",
        (_read(t.main, t.key, t.ref), _values(row[1]), _values(n)),
        (where(t.main, t.key, "=", row[0], t.ref), over(t.main, "count", t.key, where=t.ref, op="=", value="{0}")),
        f"select count(*) from {t.main} where {t.ref} = (select {t.ref} from {t.main} where {t.key} = '{row[0]}')",
        f"select count(*) from {t.main}",
    )  # fmt: skip


def _sums(tables: Tables) -> dict[str, int]:
    """Totals of the groups that have rows."""
    refs = dict.fromkeys(row[1] for row in tables.main)
    return {ref: sum(row[2] for row in tables.main if row[1] == ref) for ref in refs}


TEMPLATES: Mapping[str, Template] = {
    "lookup": lookup, "count": count, "total": total, "mean": mean, "most": most, "second": second, "spread": spread,
    "joined": joined, "total_there": total_there, "best_group": best_group, "place_of_most": place_of_most,
    "both": both, "share": share, "large_groups": large_groups, "mates": mates,
}  # fmt: skip
#: Templates that neither training nor held-out tasks use.
UNSEEN = frozenset(("share", "large_groups", "mates"))
