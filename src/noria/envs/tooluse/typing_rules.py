"""Whether a specification means something: names, references and the types on both sides of every check and effect."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

from noria.envs.tooluse.spec import Domain, Field, Operation, Param
from noria.envs.tooluse.terms import (
    Arg,
    BadTerm,
    Cell,
    Const,
    Count,
    New,
    Sum,
    Term,
    Test,
    comparison_of,
    effect_of,
    pieces_of,
)  # fmt: skip

#: Names that emitted functions use themselves.
_RESERVED = frozenset(
    ("data", "changed", "made", "name", "row", "call", "validate", "re", "str", "int", "sum", "dict", "list", "set")
)  # fmt: skip
#: Texts stand in the source of the backend: nothing may end its strings.
_TEXT = re.compile(r"[A-Za-z0-9 ,;:()._={}-]+")
LEAST_TOOLS, MOST_TOOLS = 10, 30


def faults_in(domain: Domain) -> list[str]:
    """Everything that is badly typed or named; [] for a sound specification."""
    found = [*_names(domain)]
    for operation in domain.operations:
        try:
            found += [f"{operation.name}: {fault}" for fault in _operation(domain, operation)]
        except BadTerm as fault:
            found.append(f"{operation.name}: {fault}")
    return found


def _names(domain: Domain) -> Iterator[str]:
    if not LEAST_TOOLS <= len(domain.operations) <= MOST_TOOLS:
        yield f"{len(domain.operations)} tools, expected {LEAST_TOOLS} to {MOST_TOOLS}"
    for what, names in (
        ("table", [table.name for table in domain.tables]),
        ("letter", [table.letter for table in domain.tables]),
        ("tool", [operation.name for operation in domain.operations]),
        *((f"field of {table.name}", [field.name for field in table.fields]) for table in domain.tables),
        *((f"parameter of {op.name}", [param.name for param in op.params]) for op in domain.operations),
    ):
        if len(set(names)) < len(names):
            yield f"two have one {what}: {', '.join(sorted({name for name in names if names.count(name) > 1}))}"
        for name in names:
            if not re.fullmatch(r"[A-Za-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name in _RESERVED:
                yield f"{what} {name!r} is no name"
    for table in domain.tables:
        for field in table.fields:
            if field.kind == "ref" and field.table not in domain.table:
                yield f"{table.name}.{field.name} points to no table"
            if field.kind == "enum" and not field.values:
                yield f"{table.name}.{field.name} has no values"
    texts = [domain.title, *(op.doc for op in domain.operations)]
    texts += [check.says for op in domain.operations for check in op.checks]
    for text in texts:
        if not _TEXT.fullmatch(text):
            yield f"text {text!r} must be words without quotes"
    for limit in domain.limits:
        if not (_field(domain, limit.table, limit.ref) and _field(domain, limit.owner, limit.cap)):
            yield f"the limit of {limit.table} by {limit.owner} names no fields"


def _operation(domain: Domain, operation: Operation) -> Iterator[str]:
    if operation.table not in domain.table:
        yield f"no table {operation.table}"
        return
    for param in operation.params:
        if param.kind == "id" and param.table not in domain.table:
            yield f"parameter {param.name} is of no table"
            return
        if param.kind == "int" and not 0 <= param.low <= param.high:
            yield f"parameter {param.name} has no values"
        if param.measures and not _field(domain, *param.measures.split(".", 1)):
            yield f"parameter {param.name} measures no field"
    for check in operation.checks:
        yield from _test(domain, operation, comparison_of(check.test))
        for piece in pieces_of(check.says):
            if not isinstance(piece, str):
                yield from _typed(domain, operation, piece)[1]
    for text in operation.effects:
        effect = effect_of(text)
        if isinstance(effect, New):
            yield from _new(domain, operation, effect)
        else:
            wanted, faults = _typed(domain, operation, effect.cell)
            yield from faults
            yield from _agree(domain, operation, wanted, effect.value, text)


def _test(domain: Domain, operation: Operation, test: Test) -> Iterator[str]:
    left, faults = _sum_type(domain, operation, test.left)
    yield from faults
    yield from _agree(domain, operation, left, test.right, test.op)
    if left != "int" and test.op not in ("==", "!="):
        yield f"{test.op} compares {left}"


def _new(domain: Domain, operation: Operation, new: New) -> Iterator[str]:
    table = domain.table.get(new.table)
    if table is None or not table.grows:
        yield f"{new.table} gets no rows"
        return
    if [name for name, _ in new.values] != [field.name for field in table.fields]:
        yield f"a new row of {new.table} needs every field, in order"
    for name, value in new.values:
        field = table.field(name)
        if field:
            yield from _agree(domain, operation, _type_of(field), value, name)


def _agree(domain: Domain, operation: Operation, wanted: str, value: Sum, where: str) -> Iterator[str]:
    """That a sum has the wanted type: "int", "id of <table>", or "one of a|b"."""
    got, faults = _sum_type(domain, operation, value)
    yield from faults
    if got == wanted or "?" in (got, wanted):
        return
    constants = [term.value for _, term in value.terms if isinstance(term, Const)]
    if wanted.startswith("one of ") and constants and set(constants) <= set(wanted[7:].split("|")):
        return
    if wanted.startswith("id of ") and constants == [""]:
        return
    yield f"{where}: {got}, expected {wanted}"


def _sum_type(domain: Domain, operation: Operation, total: Sum) -> tuple[str, list[str]]:
    kinds = [_typed(domain, operation, term) for _, term in total.terms]
    faults = [fault for _, found in kinds for fault in found]
    if len(kinds) > 1 and any(kind != "int" for kind, _ in kinds):
        faults.append("only numbers can be added")
    return kinds[0][0], faults


def _typed(domain: Domain, operation: Operation, term: Term) -> tuple[str, list[str]]:
    """The type of a term, "?" where it has none, and what is wrong with it."""
    if isinstance(term, Const):
        return ("int", []) if isinstance(term.value, int) else ("text", [])
    if isinstance(term, Arg):
        param = operation.param(term.name)
        return (_type_of(param), []) if param else ("?", [f"no parameter {term.name}"])
    if isinstance(term, Count):
        table = domain.table.get(term.table)
        faults = [] if table else [f"no table {term.table}"]
        for name, value in term.where:
            field = table.field(name) if table else None
            faults += _agree(domain, operation, _type_of(field), value, name) if field else [f"no field {name}"]
        return "int", faults
    return _cell(domain, operation, term)


def _cell(domain: Domain, operation: Operation, cell: Cell) -> tuple[str, list[str]]:
    param = operation.param(cell.row)
    if param is None or param.kind != "id":
        return "?", [f"no row {cell.row}"]
    table = param.table
    if cell.via:
        ref = _field(domain, table, cell.via)
        if ref is None or ref.kind != "ref":
            return "?", [f"{cell.row}.{cell.via} is no reference"]
        table = ref.table
    field = _field(domain, table, cell.field)
    return (_type_of(field), []) if field else ("?", [f"{table} has no {cell.field}"])


def _type_of(thing: Field | Param) -> str:
    if thing.kind == "int":
        return "int"
    return f"one of {'|'.join(thing.values)}" if thing.kind == "enum" else f"id of {thing.table}"


def _field(domain: Domain, table: str, name: str) -> Field | None:
    found = domain.table.get(table)
    return found.field(name) if found else None
