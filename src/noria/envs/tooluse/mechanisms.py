"""What can be done in a domain. Each mechanism adds fields, operations and limits to tables of a sketch."""

from __future__ import annotations

from noria.envs.tooluse.draft import TOP, Draft, Sketch, id_of, number
from noria.envs.tooluse.spec import Check, Field, Limit, Operation, Pack, Param
from noria.envs.tooluse.themes import (
    AMOUNT_NAMES,
    CAP_NAMES,
    ENUM_ATTRIBUTES,
    INT_ATTRIBUTES,
    NEED_NAMES,
    PACK_SIZES,
    QUOTA_NAMES,
    RANK_NAMES,
    ROOM_NAMES,
)  # fmt: skip

PLACED, DONE, CANCELLED = "placed", "done", "cancelled"


def steps(sketch: Sketch, draft: Draft, guards: list[Check]) -> None:
    """The tools of a lifecycle; `guards` hold where work is left off."""
    assert draft.lifecycle
    noun, cell = draft.noun, f"{draft.noun}.{draft.state}"
    for start, end, verb in draft.lifecycle.steps:
        checks = [Check(f"{cell} == '{start}'", f"{{{noun}}} is {{{cell}}}, must be {start}")]
        if start == draft.work:
            checks += guards
        doc = f"{noun} from {start} to {end}"
        sketch.op(f"{verb}_{noun}", "step", doc, draft, [id_of(draft)], checks, [f"{cell} = '{end}'"])
    if len(draft.lifecycle.states) > 2 and sketch.chance(0.5):
        checks = [Check(f"{cell} != '{draft.work}'", f"{{{noun}}} is {draft.work} already")]
        name, doc = f"{sketch.verb('restart')}_{noun}", f"{noun} to {draft.work}, from wherever"
        sketch.op(name, "restart", doc, draft, [id_of(draft)], checks, [f"{cell} = '{draft.work}'"])


def placing(sketch: Sketch, thing: Draft, place: Draft) -> list[Check]:
    """Things lie in places with room for a few. Returns what must hold before a place is left off."""
    room = sketch.rng.choice([name for name in ROOM_NAMES if not place.has(name)])
    place.fields.append(Field(room, "int", low=1, high=4))
    thing.fields.append(Field(place.noun, "ref", table=place.table))
    ref, target = f"{thing.noun}.{place.noun}", place.noun
    inside = f"count({thing.table}: {place.noun}={target})"
    checks = [
        *(sketch.works(thing) if sketch.chance(0.4) else []),
        *sketch.works(place),
        Check(f"{ref} != {target}", f"{{{thing.noun}}} is in {{{target}}} already"),
        Check(f"{inside} < {target}.{room}", f"{{{target}}} is full, {room} {{{target}.{room}}}"),
    ]
    params = [id_of(thing), id_of(place)]
    name = f"{sketch.verb('place')}_{thing.noun}"
    sketch.op(name, "place", f"{thing.noun} into a {place.noun}", thing, params, checks, [f"{ref} = {target}"])
    sketch.limits.append(Limit(thing.table, place.noun, place.table, room))
    if sketch.chance(0.4):
        return [Check(f"{inside} == 0", f"{{{target}}} holds {{{inside}}} {thing.table}, must hold 0")]
    return []


def holding(sketch: Sketch, thing: Draft, person: Draft, rank: str) -> list[Check]:
    """People hold things, a few each. Returns what must hold before a person is left off."""
    if not any(person.has(name) for name in QUOTA_NAMES):
        person.fields.append(Field(sketch.rng.choice(QUOTA_NAMES), "int", low=1, high=3))
    quota = next(name for name in QUOTA_NAMES if person.has(name))
    thing.fields.append(Field(person.noun, "ref", table=person.table, optional=True))
    ref, who = f"{thing.noun}.{person.noun}", person.noun
    held = f"count({thing.table}: {person.noun}={who})"
    checks = [
        *sketch.works(thing),
        *(sketch.works(person) if sketch.chance(0.8) else []),
        Check(f"{ref} == ''", f"{{{thing.noun}}} has {person.noun} {{{ref}}} already"),
        Check(f"{held} < {who}.{quota}", f"{{{who}}} has {quota} {{{who}.{quota}}}, used up"),
    ]
    if rank:
        need = sketch.rng.choice(NEED_NAMES)
        thing.fields.append(Field(need, "int", low=1, high=3))
        cell = f"{thing.noun}.{need}"
        says = f"{{{who}}} has {rank} {{{who}.{rank}}}, {{{thing.noun}}} asks {{{cell}}}"
        checks.append(Check(f"{who}.{rank} >= {cell}", says))
    give, back = sketch.verb("assign"), sketch.verb("release")
    params = [id_of(thing), id_of(person)]
    doc = f"{thing.noun} to a {who}"
    sketch.op(f"{give}_{thing.noun}", "assign", doc, thing, params, checks, [f"{ref} = {who}"])
    checks = [Check(f"{ref} != ''", f"{{{thing.noun}}} has no {who}")]
    checks += sketch.works(thing) if sketch.chance(0.4) else []
    doc = f"{thing.noun} back from its {who}"
    sketch.op(f"{back}_{thing.noun}", "release", doc, thing, [id_of(thing)], checks, [f"{ref} = ''"])
    if sketch.chance(0.7):
        checks = [
            *sketch.works(person),
            Check(f"{ref} != ''", f"{{{thing.noun}}} has no {who}"),
            Check(f"{ref} != {who}", f"{{{thing.noun}}} has {{{who}}} already"),
            Check(f"{held} < {who}.{quota}", f"{{{who}}} has {quota} {{{who}.{quota}}}, used up"),
        ]
        name, doc = f"{sketch.verb('pass')}_{thing.noun}", f"{thing.noun} from its {who} to another"
        sketch.op(name, "pass", doc, thing, params, checks, [f"{ref} = {who}"])
    sketch.limits.append(Limit(thing.table, person.noun, person.table, quota))
    if sketch.chance(0.4):
        return [Check(f"{held} == 0", f"{{{who}}} holds {{{held}}} {thing.table}, must hold 0")]
    return []


def stocking(sketch: Sketch, store: Draft) -> str:
    """Stores hold a quantity that is added, taken and shifted. Returns the quantity's name."""
    quantity, unit, pack = sketch.rng.choice(sketch.setting.goods)
    size = sketch.rng.choice(PACK_SIZES)
    store.fields.append(Field(quantity, "int", low=0, high=TOP))
    sketch.packs.append(Pack(store.table, quantity, unit, pack, size))
    noun, cell, measures = store.noun, f"{store.noun}.{quantity}", f"{store.table}.{quantity}"
    amount = sketch.rng.choice(AMOUNT_NAMES)
    cap = sketch.rng.choice(CAP_NAMES) if sketch.chance(0.5) else ""
    if cap:
        store.fields.append(Field(cap, "int", low=20, high=90))
        value = number("value", f"{store.table}.{cap}", 20, 90)
        effects = [f"{noun}.{cap} = value"]
        sketch.op(
            f"{sketch.verb('set')}_{cap}", "set", f"{cap} of a {noun}, {unit}s in one call", store,
            [id_of(store), value], sketch.works(store) if sketch.chance(0.5) else [], effects,
        )  # fmt: skip
    note = f"amount in {unit}s, a {pack} is {size}"
    small = [Check(f"{amount} <= {noun}.{cap}", f"{{{noun}}} has {cap} {{{noun}.{cap}}}")] if cap else []
    room = Check(f"{cell} + {amount} <= {TOP}", f"{{{noun}}} holds {{{cell}}} of at most {TOP}")
    enough = Check(f"{amount} <= {cell}", f"{{{noun}}} holds only {{{cell}}}")
    params = [id_of(store), number(amount, measures)]
    add, take = f"{sketch.verb('add')}_{quantity}", f"{sketch.verb('take')}_{quantity}"
    checks = [*sketch.works(store), room]
    sketch.op(add, "add", f"{quantity} into a {noun}; {note}", store, params, checks, [f"{cell} = {cell} + {amount}"])
    checks = [*sketch.works(store), enough, *small]
    sketch.op(take, "take", f"{quantity} from a {noun}; {note}", store, params, checks, [f"{cell} = {cell} - {amount}"])
    if sketch.chance(0.7):
        _shifting(sketch, store, quantity, number(amount, measures), cap)
    if sketch.chance(0.3):
        return f"!{quantity}"
    return quantity


def _shifting(sketch: Sketch, store: Draft, quantity: str, amount: Param, cap: str) -> None:
    """Quantity from one store to another."""
    name = f"{sketch.verb('transfer')}_{quantity}"
    checks = [
        *sketch.works(store, "src"),
        *sketch.works(store, "dst"),
        Check("src != dst", "src and dst must differ"),
        Check(f"{amount.name} <= src.{quantity}", f"{{src}} holds only {{src.{quantity}}}"),
        Check(f"dst.{quantity} + {amount.name} <= {TOP}", f"{{dst}} holds {{dst.{quantity}}} of at most {TOP}"),
    ]
    if cap:
        checks.append(Check(f"{amount.name} <= src.{cap}", f"{{src}} has {cap} {{src.{cap}}}"))
    effects = [f"src.{quantity} = src.{quantity} - {amount.name}", f"dst.{quantity} = dst.{quantity} + {amount.name}"]
    params = [id_of(store, "src"), id_of(store, "dst"), amount]
    sketch.op(name, "transfer", f"{quantity} from src to dst", store, params, checks, effects)


def ordering(sketch: Sketch, order: Draft, person: Draft, store: Draft, quantity: str) -> None:
    """People order from a store; an order can be cancelled, finished and changed."""
    state, amount = "state", sketch.rng.choice(AMOUNT_NAMES)
    order.grows = True
    order.fields += [
        Field(person.noun, "ref", table=person.table),
        Field(store.noun, "ref", table=store.table),
        Field(amount, "int", low=1, high=TOP),
        Field(state, "enum", (PLACED, DONE, CANCELLED)),
    ]
    who, what, noun, cell = person.noun, store.noun, order.noun, f"{store.noun}.{quantity}"
    measures = f"{order.table}.{amount}"
    checks = [
        *(sketch.works(person) if sketch.chance(0.7) else []),
        *sketch.works(store),
        Check(f"{amount} <= {cell}", f"{{{what}}} holds only {{{cell}}}"),
    ]
    quota = next((name for name in QUOTA_NAMES if person.has(name)), "")
    if quota:
        used = f"count({order.table}: {who}={who}, {state}='{PLACED}')"
        checks.append(Check(f"{used} < {who}.{quota}", f"{{{who}}} has {quota} {{{who}.{quota}}}, used up"))
    new = f"new {order.table}: {who}={who}, {what}={what}, {amount}={amount}, {state}='{PLACED}'"
    params = [id_of(person), id_of(store), number(amount, measures)]
    effects = [new, f"{cell} = {cell} - {amount}"]
    sketch.op(f"{sketch.verb('create')}_{noun}", "create", f"new {noun} of {quantity}", order, params, checks, effects)
    open_ = Check(f"{noun}.{state} == '{PLACED}'", f"{{{noun}}} is {{{noun}.{state}}}, must be {PLACED}")
    there, had = f"{noun}.{what}.{quantity}", f"{noun}.{amount}"
    fits = Check(f"{there} + {had} <= {TOP}", f"{{{noun}.{what}}} holds {{{there}}} of at most {TOP}")
    effects = [f"{noun}.{state} = '{CANCELLED}'", f"{there} = {there} + {had}"]
    doc = f"{noun} off, its {quantity} go back"
    sketch.op(f"{sketch.verb('cancel')}_{noun}", "cancel", doc, order, [id_of(order)], [open_, fits], effects)
    name = f"{sketch.verb('finish')}_{noun}"
    sketch.op(name, "finish", f"{noun} is done", order, [id_of(order)], [open_], [f"{noun}.{state} = '{DONE}'"])
    if sketch.chance(0.6):
        checks = [
            open_,
            Check(f"{amount} != {had}", f"{{{noun}}} has {amount} {{{had}}} already"),
            Check(f"{amount} <= {there} + {had}", f"{{{noun}.{what}}} holds only {{{there}}}"),
            Check(f"{there} + {had} <= {TOP} + {amount}", f"{{{noun}.{what}}} holds {{{there}}} of at most {TOP}"),
        ]
        effects = [f"{there} = {there} + {had} - {amount}", f"{had} = {amount}"]
        params = [id_of(order), number(amount, measures)]
        sketch.op(f"{sketch.verb('change')}_{noun}", "change", f"{amount} of a {noun}", order, params, checks, effects)


def booking(sketch: Sketch, order: Draft, person: Draft, thing: Draft) -> None:
    """People book things, one open booking each thing."""
    state = "state"
    order.grows = True
    order.fields += [
        Field(person.noun, "ref", table=person.table),
        Field(thing.noun, "ref", table=thing.table),
        Field(state, "enum", (PLACED, DONE, CANCELLED)),
    ]
    who, what, noun = person.noun, thing.noun, order.noun
    taken = f"count({order.table}: {what}={what}, {state}='{PLACED}')"
    checks = [
        *sketch.works(thing),
        *(sketch.works(person) if sketch.chance(0.6) else []),
        Check(f"{taken} == 0", f"{{{what}}} is taken by another {noun}"),
    ]
    new = f"new {order.table}: {who}={who}, {what}={what}, {state}='{PLACED}'"
    params = [id_of(person), id_of(thing)]
    sketch.op(f"{sketch.verb('create')}_{noun}", "create", f"new {noun} of a {what}", order, params, checks, [new])
    open_ = Check(f"{noun}.{state} == '{PLACED}'", f"{{{noun}}} is {{{noun}.{state}}}, must be {PLACED}")
    effects = [f"{noun}.{state} = '{CANCELLED}'"]
    sketch.op(f"{sketch.verb('cancel')}_{noun}", "cancel", f"{noun} off", order, [id_of(order)], [open_], effects)
    name = f"{sketch.verb('finish')}_{noun}"
    sketch.op(name, "finish", f"{noun} is done", order, [id_of(order)], [open_], [f"{noun}.{state} = '{DONE}'"])


def attribute(sketch: Sketch, draft: Draft) -> None:
    """A free field that can be set, where the row is at work or always."""
    noun = draft.noun
    if sketch.chance(0.5):
        name, values = sketch.rng.choice(ENUM_ATTRIBUTES)
        field, value = Field(name, "enum", values), Param("value", "enum", values=values)
    else:
        name, low, high = sketch.rng.choice(INT_ATTRIBUTES)
        field, value = Field(name, "int", low=low, high=high), number("value", f"{draft.table}.{name}", low, high)
    if draft.has(name):
        return
    draft.fields.append(field)
    checks = sketch.works(draft) if sketch.chance(0.6) else []
    tool = f"{sketch.verb('set')}_{noun}_{name}"
    sketch.op(tool, "set", f"{name} of a {noun}", draft, [id_of(draft), value], checks, [f"{noun}.{name} = value"])


def permission(sketch: Sketch, person: Draft, rank: str) -> None:
    """One or two tools ask for somebody of rank who answers for the call."""
    if not rank:
        return
    open_to = [
        at for at, op in enumerate(sketch.operations)
        if op.kind in ("step", "set", "take", "cancel", "place") and op.table != person.table
    ]  # fmt: skip
    for at in sketch.rng.sample(open_to, min(len(open_to), sketch.rng.choice((1, 1, 2)))):
        op = sketch.operations[at]
        least = sketch.rng.choice((2, 2, 3))
        check = Check(f"by.{rank} >= {least}", f"{{by}} has {rank} {{by.{rank}}}, needs {least}")
        params, checks = (*op.params, id_of(person, "by")), (*op.checks, *sketch.works(person, "by"), check)
        sketch.operations[at] = Operation(op.name, op.kind, op.doc, op.table, params, checks, op.effects)


def reads(sketch: Sketch, draft: Draft) -> None:
    """Tools that look: the whole table, one row, and perhaps rows by a field."""
    noun = draft.noun
    sketch.op(f"list_{draft.table}", "list", f"all {draft.table}", draft, [], [], [])
    sketch.op(f"{sketch.verb('get')}_{noun}", "get", f"one {noun}", draft, [id_of(draft)], [], [])
    fields = [field for field in draft.fields if field.kind != "int"]
    if fields and sketch.chance(0.5):
        field = sketch.rng.choice(fields)
        param = Param(field.name, "enum" if field.kind == "enum" else "id", table=field.table, values=field.values)
        kind = sketch.rng.choice(("find", "find", "count"))
        what = "ids" if kind == "find" else "number"
        name = f"{sketch.verb(kind)}_{draft.table}"
        sketch.op(name, kind, f"{what} of {draft.table} with this {field.name}", draft, [param], [], [])


def rank_of(sketch: Sketch, person: Draft) -> str:
    """The name of a person's rank, "" in domains where all are equal."""
    if not sketch.chance(0.5):
        return ""
    rank = sketch.rng.choice(RANK_NAMES)
    person.fields.append(Field(rank, "int", low=1, high=3))
    return rank
