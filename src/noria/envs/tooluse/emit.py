"""A specification as the source of a Python backend: standard library only, typed, the same text for the same domain.

The module that is emitted has one function per tool on a plain state, the registry `TOOLS`, the types in
`PARAMETERS`, `call` on arguments as a model writes them, and `validate`, which names what is wrong with a state.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from noria.envs.tooluse.spec import Domain, Operation, Param
from noria.envs.tooluse.terms import Arg, Cell, Const, Count, New, Put, Sum, Term, comparison_of, effect_of, pieces_of

_HEAD = '''"""Backend of the domain {title}: {tools} tools over {tables}."""

from __future__ import annotations

import re
from typing import Any, Callable

Row = dict[str, Any]
State = dict[str, dict[str, Row]]

NUMBER = re.compile(r"[0-9]{{1,6}}")


class Refused(Exception):
    """A call that cannot be done; nothing was changed."""


def _row(data: State, table: str, name: str) -> Row:
    row = data[table].get(name)
    if row is None:
        raise Refused(f"no {{NOUNS[table]}} {{name or '-'}}")
    return row


def _text(value: Any) -> str:
    return str(value) if value or value == 0 else "-"


def _line(table: str, name: str, row: Row) -> str:
    return " ".join([name, *[f"{{field}} {{_text(row[field])}}" for field in FIELDS[table]]])


def _done(changed: dict[str, Row]) -> str:
    rows = [[name, *[f"{{key}} {{_text(value)}}" for key, value in row.items()]] for name, row in changed.items()]
    return "ok " + ", ".join([" ".join(row) for row in rows])


def _count(data: State, table: str, wanted: Row) -> int:
    return sum(1 for row in data[table].values() if all(row[key] == value for key, value in wanted.items()))


def _insert(data: State, table: str, row: Row) -> str:
    rows = data[table]
    name = LETTERS[table] + str(max([int(key[1:]) for key in rows], default=0) + 1)
    rows[name] = row
    return name
'''

_TAIL = '''

def _typed(name: str, key: str, text: str) -> Any:
    kind, table, values, low, high = PARAMETERS[name][key]
    text = text.strip()
    if kind == "int":
        if not NUMBER.fullmatch(text) or not low <= int(text) <= high:
            raise Refused(f"{key} must be a whole number {low} to {high}, got {ascii(text[:12])}")
        return int(text)
    if kind == "enum" and text not in values:
        raise Refused(f"{key} must be one of {', '.join(values)}, got {ascii(text[:12])}")
    if kind == "id" and not (text[:1] == LETTERS[table] and NUMBER.fullmatch(text[1:])):
        raise Refused(f"{key} must be an id like {LETTERS[table]}1, got {ascii(text[:12])}")
    return text


def call(data: State, name: str, args: dict[str, str]) -> str:
    """Run one tool on arguments as text; what is refused starts with "error:" and changes nothing."""
    if name not in TOOLS:
        return f"error: no tool {ascii(name[:24])}"
    wanted = PARAMETERS[name]
    if set(args) != set(wanted):
        return f"error: {name} takes {', '.join(wanted) or 'no argument'}"
    try:
        return TOOLS[name](data, **{key: _typed(name, key, args[key]) for key in wanted})
    except Refused as refusal:
        return f"error: {refusal}"


def validate(data: State) -> list[str]:
    """What is wrong with a state, as `id field value`; [] for a sound one."""
    found: list[str] = []
    for table, fields in FIELDS.items():
        for name, row in data[table].items():
            for field, (kind, there, values, low, high, optional) in fields.items():
                value = row[field]
                if kind == "enum":
                    sound = value in values
                elif kind == "int":
                    sound = isinstance(value, int) and low <= value <= high
                else:
                    sound = value in data[there] or (optional and value == "")
                if not sound:
                    found.append(f"{name} {field} {value}")
    for table, ref, owner, cap in LIMITS:
        for name, row in data[owner].items():
            used = sum(1 for other in data[table].values() if other[ref] == name)
            if used > row[cap]:
                found.append(f"{name} {cap} {used}")
    return found
'''


@lru_cache(maxsize=512)
def source_of(domain: Domain) -> str:
    """The backend's source text."""
    parts = [
        _HEAD.format(
            title=domain.title, tools=len(domain.operations), tables=", ".join(table.name for table in domain.tables)
        )
    ]
    parts += ["\n".join(_function(domain, operation)) for operation in domain.operations]
    parts.append("\n".join(_registry(domain)))
    return "\n\n".join(parts) + _TAIL


def _registry(domain: Domain) -> Iterator[str]:
    yield f"NOUNS: dict[str, str] = { ({table.name: table.noun for table in domain.tables})!r}"
    yield f"LETTERS: dict[str, str] = { ({table.name: table.letter for table in domain.tables})!r}"
    yield "FIELDS: dict[str, dict[str, tuple[str, str, tuple[str, ...], int, int, bool]]] = {"
    for table in domain.tables:
        yield f"    {table.name!r}: {{"
        for f in table.fields:
            yield f"        {f.name!r}: ({f.kind!r}, {f.table!r}, {f.values!r}, {f.low}, {f.high}, {f.optional}),"
        yield "    },"
    yield "}"
    limits = [(limit.table, limit.ref, limit.owner, limit.cap) for limit in domain.limits]
    yield f"LIMITS: list[tuple[str, str, str, str]] = {limits!r}"
    yield "PARAMETERS: dict[str, dict[str, tuple[str, str, tuple[str, ...], int, int]]] = {"
    for operation in domain.operations:
        yield f"    {operation.name!r}: {{"
        for p in operation.params:
            yield f"        {p.name!r}: ({p.kind!r}, {p.table!r}, {p.values!r}, {p.low}, {p.high}),"
        yield "    },"
    yield "}"
    yield "TOOLS: dict[str, Callable[..., str]] = {"
    for operation in domain.operations:
        yield f"    {operation.name!r}: {operation.name},"
    yield "}"


def _function(domain: Domain, operation: Operation) -> Iterator[str]:
    params = ", ".join(f"{param.name}: {_annotation(param)}" for param in operation.params)
    yield f"def {operation.name}(data: State{', ' if params else ''}{params}) -> str:"
    yield f'    """{operation.doc[0].upper()}{operation.doc[1:]}."""'
    for param in operation.params:
        if param.kind == "id":
            yield f"    row_{param.name} = _row(data, {param.table!r}, {param.name})"
    if operation.reads:
        yield f"    {_read(operation)}"
        return
    write = _Writer(domain, operation)
    for check in operation.checks:
        test = comparison_of(check.test)
        yield f"    if not ({write.sum(test.left)} {test.op} {write.sum(test.right)}):"
        yield f"        raise Refused({write.message(check.says)})"
    yield "    changed: dict[str, Row] = {}"
    for text in operation.effects:
        yield from write.effect(effect_of(text))
    yield "    return _done(changed)"


def _annotation(param: Param) -> str:
    return "int" if param.kind == "int" else "str"


def _read(operation: Operation) -> str:
    table = operation.table
    if operation.kind == "get":
        name = operation.params[0].name
        return f"return _line({table!r}, {name}, row_{name})"
    if operation.kind == "list":
        return f'return "; ".join([_line({table!r}, name, row) for name, row in data[{table!r}].items()]) or "none"'
    field = operation.params[0].name
    if operation.kind == "count":
        return f"return str(_count(data, {table!r}, {{{field!r}: {field}}}))"
    names = f"[name for name, row in data[{table!r}].items() if row[{field!r}] == {field}]"
    return f'return ", ".join({names}) or "none"'


class _Writer:
    """Terms and effects of one operation as Python."""

    def __init__(self, domain: Domain, operation: Operation) -> None:
        self._domain, self._operation = domain, operation

    def sum(self, total: Sum) -> str:
        """An expression."""
        text = "".join(f" {'+' if sign > 0 else '-'} {self.term(term)}" for sign, term in total.terms)
        return text.removeprefix(" + ")

    def term(self, term: Term) -> str:
        """An expression of one term."""
        if isinstance(term, Const):
            return repr(term.value)
        if isinstance(term, Arg):
            return term.name
        if isinstance(term, Count):
            wanted = ", ".join(f"{field!r}: {self.sum(value)}" for field, value in term.where)
            return f"_count(data, {term.table!r}, {{{wanted}}})"
        return f"{self._row(term)}[{term.field!r}]"

    def message(self, text: str) -> str:
        """A text with its holes as an f-string."""
        parts = [
            part.replace("{", "{{").replace("}", "}}") if isinstance(part, str) else f"{{{self.term(part)}}}"
            for part in pieces_of(text)
        ]
        return 'f"' + "".join(parts) + '"'

    def effect(self, effect: Put | New) -> Iterator[str]:
        """Statements of an effect, and what they add to the answer."""
        if isinstance(effect, New):
            values = ", ".join(f"{field!r}: {self.sum(value)}" for field, value in effect.values)
            yield f"    made = _insert(data, {effect.table!r}, {{{values}}})"
            yield f"    changed[made] = dict(data[{effect.table!r}][made])"
            return
        cell = effect.cell
        name = f"{cell.row}" if not cell.via else f"row_{cell.row}[{cell.via!r}]"
        yield f"    {self.term(cell)} = {self.sum(effect.value)}"
        yield f"    changed.setdefault({name}, {{}})[{cell.field!r}] = {self.term(cell)}"

    def _row(self, cell: Cell) -> str:
        if not cell.via:
            return f"row_{cell.row}"
        param = self._operation.param(cell.row)
        assert param
        field = self._domain.table[param.table].field(cell.via)
        assert field
        return f"_row(data, {field.table!r}, row_{cell.row}[{cell.via!r}])"
