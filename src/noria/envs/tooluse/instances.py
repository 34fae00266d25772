"""Initial states of a domain: a few rows per table, values within their fields, limits kept."""

from __future__ import annotations

import random

from noria.envs.tooluse.rules import faults_of
from noria.envs.tooluse.spec import NOBODY, Domain, Field, Row, State, Table, Value

#: Share of rows that are in the state in which work is done.
_AT_WORK = 0.6
_NOBODY = 0.5
_DRAWS = 60


def draw_state(domain: Domain, rng: random.Random, rows: int) -> State | None:
    """A sound state with `rows` rows in each table (one or two where calls make more); None where none was found."""
    ids: dict[str, list[str]] = {}
    for table in domain.tables:
        count = rng.choice((1, 2)) if table.grows else rows
        ids[table.name] = [f"{table.letter}{number}" for number in sorted(rng.sample(range(1, 10), count))]
    for _ in range(_DRAWS):
        state: State = {
            table.name: {name: _row(table, ids, rng) for name in ids[table.name]} for table in domain.tables
        }
        if not faults_of(domain, state):
            return state
    return None


def _row(table: Table, ids: dict[str, list[str]], rng: random.Random) -> Row:
    return {field.name: _value(field, ids, rng, table.grows) for field in table.fields}


def _value(field: Field, ids: dict[str, list[str]], rng: random.Random, grows: bool) -> Value:
    if field.kind == "enum":
        return field.values[0] if grows or rng.random() < _AT_WORK else rng.choice(field.values)
    if field.kind == "ref":
        return NOBODY if field.optional and rng.random() < _NOBODY else rng.choice(ids[field.table])
    if grows:
        return rng.randint(field.low, min(field.high, 20))
    if field.high - field.low > 50:
        return rng.randint(field.low + 10, field.high - 35)
    return rng.randint(field.low, field.high)
