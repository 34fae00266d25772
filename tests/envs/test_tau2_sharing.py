"""Rows that are shared between databases until somebody takes one: equal to a copy of all, whatever is done."""

from __future__ import annotations

import copy
import json
import pickle
import random
from typing import Any

import pytest
from pydantic import BaseModel, Field

from noria.envs.tau2.sharing import Shared, differ, shared


class Row(BaseModel):
    """One row."""

    name: str
    many: list[int] = Field(default_factory=list)


class Table(BaseModel):
    """A table as banking has them."""

    data: dict[str, dict[str, Any]] = Field(default_factory=dict)
    notes: str = ""


class Base(BaseModel):
    """A database of each kind of field."""

    rows: dict[str, Row]
    table: Table
    bills: list[Row]


def base() -> Base:
    rows = {f"r{n}": Row(name=f"n{n}", many=[n]) for n in range(6)}
    table = Table(data={f"t{n}": {"n": n, "deep": {"x": [n]}} for n in range(4)}, notes="kept")
    return Base(rows=rows, table=table, bills=[Row(name="b")])


def text(database: Any) -> str:
    return json.dumps(database.model_dump(), sort_keys=True, default=str)


def changed(database: Any, rng: random.Random) -> None:
    """One thing that a tool might do."""
    rows, table = database.rows, database.table.data
    key = rng.choice([*rows, "r9"])
    ways = [
        lambda: rows[next(iter(rows))].many.append(1),
        lambda: rows.get(key, Row(name="none")).many.clear(),
        lambda: rows.__setitem__(f"r{rng.randrange(20)}", Row(name="new", many=[5])),
        lambda: rows.pop(key, None),
        lambda: [each.many.append(7) for each in rows.values() if each.name == "n2"],
        lambda: [each.many.reverse() for _, each in rows.items()],
        lambda: dict(rows)[next(iter(rows))].many.append(3),
        lambda: {**rows}[next(iter(rows))].many.append(4),
        lambda: rows.setdefault(key, Row(name="set")).many.append(2),
        lambda: rows.update({key: Row(name="up")}),
        lambda: table[next(iter(table))]["deep"]["x"].append(9),
        lambda: table.update(a={"n": 1}),
        lambda: database.bills[0].many.append(6),
        lambda: rows.popitem(),
        lambda: copy.deepcopy(rows)[next(iter(rows))].many.append(8),
    ]
    if rows and table:
        rng.choice(ways)()


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_done_it_is_what_a_copy_of_all_would_be(seed: int) -> None:
    rng = random.Random(seed)
    first = base()
    at_first = text(first)
    pairs = [(shared(first), copy.deepcopy(first))]
    for step in range(40):
        mine, plain = pairs[rng.randrange(len(pairs))]
        if rng.random() < 0.2 and len(pairs) < 6:
            pairs.append((shared(mine), copy.deepcopy(plain)))
            continue
        for each in (mine, plain):
            changed(each, random.Random(1000 * seed + step))
        assert [text(one) for one, _ in pairs] == [text(other) for _, other in pairs]
    assert text(first) == at_first
    for one, plain in pairs:
        for two, other in pairs:
            assert (differ(one, two) == "") is (text(plain) == text(other))


def test_only_the_rows_that_are_taken_are_copied() -> None:
    first = base()
    mine = shared(first)
    assert "r1" in mine.rows and len(mine.rows) == 6 and list(mine.rows) == list(first.rows)
    assert dict.__getitem__(mine.rows, "r1") is first.rows["r1"]
    assert mine.rows["r1"] is not first.rows["r1"] and mine.rows["r1"] is mine.rows["r1"]
    assert dict.__getitem__(mine.rows, "r2") is first.rows["r2"]
    other = shared(mine)
    mine.rows["r1"].many.append(5)
    assert other.rows["r1"].many == [1] and differ(mine, other) == "rows" and differ(first, other) == ""


def test_a_number_is_not_its_like_of_another_type_and_types_are_kept() -> None:
    one, two = shared(base()), shared(base())
    one.table.data["t1"]["n"] = 1.0
    assert differ(one, two) == "table" and one.table.notes == "kept" and isinstance(one.table, Table)
    assert type(pickle.loads(pickle.dumps(one.rows))) is dict
    with pytest.raises(KeyError):
        Shared({}).popitem()
    with pytest.raises(KeyError):
        one.rows.pop("none")
