"""The specification played directly: the reference that the emitted backend is tested against.

A call checks its arguments' rows first, then every check in order, then applies its effects; a refusal changes
nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from noria.envs.tooluse.spec import NOBODY, Domain, Field, Operation, Row, State, Table, Value
from noria.envs.tooluse.terms import Arg, Cell, Const, Count, New, Put, Sum, Term, comparison_of, effect_of, pieces_of

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
Args = Mapping[str, Value]


class Refused(Exception):
    """A call that cannot be done. `check` is the number of the check that refused it, -1 for a missing row."""

    def __init__(self, says: str, check: int = -1) -> None:
        super().__init__(says)
        self.check = check


def copy_of(state: State) -> State:
    """An independent copy."""
    return {table: {name: dict(row) for name, row in rows.items()} for table, rows in state.items()}


def line_of(table: Table, name: str, row: Row) -> str:
    """A row as an observation shows it: `B1 state open shelf S2 reader -`."""
    return " ".join([name, *(f"{field.name} {row[field.name] or _none(row[field.name])}" for field in table.fields)])


def play(domain: Domain, state: State, name: str, args: Args) -> str:
    """Run an operation on typed arguments, in place; returns its one line.

    Raises:
        Refused: nothing was changed.
    """
    operation = domain.operation[name]
    for param in operation.params:
        if param.kind == "id":
            _row(domain, state, param.table, args[param.name])
    if operation.reads:
        return _read(domain, state, operation, args)
    for at, check in enumerate(operation.checks):
        test = comparison_of(check.test)
        left = _sum(domain, state, operation, args, test.left)
        if not _COMPARE[test.op](left, _sum(domain, state, operation, args, test.right)):
            raise Refused(_said(domain, state, operation, args, check.says), at)
    changed: dict[str, dict[str, Value]] = {}
    for text in operation.effects:
        effect = effect_of(text)
        if isinstance(effect, New):
            values = {field: _sum(domain, state, operation, args, value) for field, value in effect.values}
            made = next_id(domain.table[effect.table], state[effect.table])
            state[effect.table][made] = values
            changed[made] = dict(values)
        else:
            row_name, row = _target(domain, state, operation, args, effect)
            row[effect.cell.field] = _sum(domain, state, operation, args, effect.value)
            changed.setdefault(row_name, {})[effect.cell.field] = row[effect.cell.field]
    return "ok " + ", ".join(
        " ".join([row_name, *(f"{field} {value or _none(value)}" for field, value in fields.items())])
        for row_name, fields in changed.items()
    )


def next_id(table: Table, rows: Mapping[str, Row]) -> str:
    """The id of the next new row."""
    return f"{table.letter}{max((int(name[1:]) for name in rows), default=0) + 1}"


def faults_of(domain: Domain, state: State) -> list[str]:
    """What is wrong with a state: values outside their fields, references to nothing, limits that are exceeded."""
    found = [
        f"{name} {field.name} {row[field.name]}"
        for table in domain.tables
        for name, row in state[table.name].items()
        for field in table.fields
        if not _fits(state, field, row[field.name])
    ]
    for limit in domain.limits:
        for name, row in state[limit.owner].items():
            used = sum(1 for other in state[limit.table].values() if other[limit.ref] == name)
            if used > int(row[limit.cap]):
                found.append(f"{name} {limit.cap} {used}")
    return found


def _fits(state: State, field: Field, value: Value) -> bool:
    if field.kind == "enum":
        return value in field.values
    if field.kind == "int":
        return isinstance(value, int) and field.low <= value <= field.high
    return value in state[field.table] or (field.optional and value == NOBODY)


def _none(value: Value) -> str:
    return "0" if value == 0 else "-"


def _read(domain: Domain, state: State, operation: Operation, args: Args) -> str:
    table = domain.table[operation.table]
    rows = state[operation.table]
    if operation.kind == "get":
        name = str(args[operation.params[0].name])
        return line_of(table, name, rows[name])
    if operation.kind == "list":
        return "; ".join(line_of(table, name, row) for name, row in rows.items()) or "none"
    field = operation.params[0].name
    names = [name for name, row in rows.items() if row[field] == args[field]]
    return str(len(names)) if operation.kind == "count" else ", ".join(names) or "none"


def _row(domain: Domain, state: State, table: str, name: Value) -> Row:
    row = state[table].get(str(name))
    if row is None:
        raise Refused(f"no {domain.table[table].noun} {name or '-'}")
    return row


def _cell(domain: Domain, state: State, operation: Operation, args: Args, cell: Cell) -> tuple[str, Row]:
    """The id and the row that a cell stands in."""
    param = operation.param(cell.row)
    assert param
    name, table = str(args[cell.row]), param.table
    row = _row(domain, state, table, name)
    if not cell.via:
        return name, row
    field = domain.table[table].field(cell.via)
    assert field
    name = str(row[cell.via])
    return name, _row(domain, state, field.table, name)


def _target(domain: Domain, state: State, operation: Operation, args: Args, put: Put) -> tuple[str, Row]:
    return _cell(domain, state, operation, args, put.cell)


def _sum(domain: Domain, state: State, operation: Operation, args: Args, total: Sum) -> Value:
    values = [(sign, _term(domain, state, operation, args, term)) for sign, term in total.terms]
    if len(values) == 1:
        return values[0][1]
    return sum(sign * int(value) for sign, value in values)


def _term(domain: Domain, state: State, operation: Operation, args: Args, term: Term) -> Value:
    if isinstance(term, Const):
        return term.value
    if isinstance(term, Arg):
        return args[term.name]
    if isinstance(term, Count):
        wanted = [(field, _sum(domain, state, operation, args, value)) for field, value in term.where]
        rows = state[term.table].values()
        return sum(1 for row in rows if all(row[field] == value for field, value in wanted))
    return _cell(domain, state, operation, args, term)[1][term.field]


def _said(domain: Domain, state: State, operation: Operation, args: Args, text: str) -> str:
    parts = [
        part if isinstance(part, str) else str(_term(domain, state, operation, args, part)) for part in pieces_of(text)
    ]
    return "".join(part or NOBODY for part in parts)
