"""Goals by search: a seeded walk finds a state worth asking for, search proves how far it is, and checks show that the
verdict covers it.

A goal is a whole target state, so the verdict has no gaps: what was asked for must be so, and all else as it was.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from noria.core.types import Outcome
from noria.envs.tooluse.backend import backend_of
from noria.envs.tooluse.rules import copy_of
from noria.envs.tooluse.search import BudgetSpent, Diff, Move, Space, differ, facts_of, frozen
from noria.envs.tooluse.spec import Domain, State, Value

#: Chances that a walk takes a call: one that was not possible at the start, one about a row met before, any other.
_ENABLED, _RELATED, _OTHER = 1.0, 0.3, 0.1
_TRIES = 60
_AFTER = 12
_FURTHER = 0.4
_NUMBERS = 3
#: Calls of the least detour: make ready, do, put back.
_DETOUR = 3
_MOST_NUMBERS = 5


@dataclass(frozen=True, slots=True)
class Goal:
    """`ways` are call sequences of least length; `longer` further ways that take one call more and waste none."""

    start: State
    target: State
    diff: Diff
    ways: tuple[tuple[Move, ...], ...]
    longer: tuple[tuple[Move, ...], ...]

    @property
    def length(self) -> int:
        """The least number of calls."""
        return len(self.ways[0])

    @property
    def paths(self) -> int:
        """Distinct sets of calls that reach the target; the order of independent calls does not count."""
        return len({bag_of(way) for way in (*self.ways, *self.longer)})


class Dropped(Exception):
    """Why a goal is not used."""


def judge(domain: Domain, start: State, target: State, final: State) -> Outcome:
    """Reward 1 iff the final state is the target, up to the ids of new rows.

    Parts: `named`, the share of the asked cells that are right, and `others`, whether nothing else was changed.
    """
    asked = differ(domain, start, start, target)
    wrong = differ(domain, start, final, target)
    missed = {cell for cell in wrong if cell in asked}
    parts = {"named": 1.0 - len(missed) / max(1, len(asked)), "others": float(wrong == missed)}
    if not wrong:
        return Outcome(1.0, parts, "all as required")
    table, row, field = min(wrong)
    if not field:
        return Outcome(0.0, parts, f"new rows of {table} are not as required")
    return Outcome(0.0, parts, f"{row} {field} is {final[table][row][field]}, required {target[table][row][field]}")


def draw_goal(
    domain: Domain, start: State, rng: random.Random, *, least: int, most: int, asks: int, budget: int, hidden: float
) -> Goal:
    """A goal of `least` to `most` calls that changes at most `asks` cells.

    A share `hidden` of the draws asks for what is refused at first: something must be made ready and put back.

    Raises:
        Dropped: this draw led to none; says why.
    """
    numbers = _numbers(domain, start, rng)
    space = Space(domain, start, numbers)
    blocked = most >= _DETOUR and rng.random() < hidden
    target = _blocked(space, rng, most) if blocked else _walk(space, rng, rng.randint(least, most))
    if target is None:
        raise Dropped("nothing that is refused at first" if blocked else "walk ended early")
    diff = differ(domain, start, start, target)
    if not diff:
        raise Dropped("walk came back to its start")
    if len(diff) > asks:
        raise Dropped("changes too much to be said")
    space = Space(domain, start, _with_target(domain, numbers, start, target), budget=budget)
    found = space.shortest(start, target, most)
    if not found.settled:
        raise Dropped("least length not settled in the budget")
    if found.length is None:
        raise Dropped("not reachable in the steps allowed")
    if found.length < least:
        raise Dropped("needs too few calls")
    goal = Goal(start, target, diff, found.ways, _longer(space, start, target, found.ways))
    for fault in uncovered(domain, goal, rng):
        raise Dropped(fault)
    return goal


def bag_of(way: Sequence[Move]) -> tuple[tuple[str, tuple[tuple[str, Value], ...]], ...]:
    """The calls of a way without their order."""
    return tuple(sorted((move.name, move.args) for move in way))


def uncovered(domain: Domain, goal: Goal, rng: random.Random) -> Iterator[str]:
    """What shows that the verdict does not cover the goal: each attempt is graded as an episode would be."""
    backend = backend_of(domain)

    def solved(final: State) -> bool:
        return judge(domain, goal.start, goal.target, final).solved

    if solved(goal.start):
        yield "doing nothing is enough"
    for way in (*goal.ways, *goal.longer):
        final = run(domain, goal.start, way)
        if final is None or not solved(final):
            yield "a way of the search does not reach the target"
        elif backend.validate(final):
            yield "the target breaks an invariant"
    for table, row, name in goal.diff:
        if name:
            final = copy_of(goal.target)
            final[table][row][name] = goal.start[table][row][name]
            if solved(final):
                yield "a field of the goal is not looked at"
    for wrong in wrong_rows(goal, rng):
        final = run(domain, goal.start, wrong, skip=True)
        if final is not None and solved(final) and bag_of(wrong) not in {bag_of(w) for w in (*goal.ways, *goal.longer)}:
            yield "another row does as well"
    space = Space(domain, goal.target, _numbers(domain, goal.start, rng))
    for _ in range(_TRIES):
        move = space.random_move(goal.target, rng)
        after = run(domain, goal.target, [move]) if move else None
        if after and after != goal.target and solved(after):
            yield "a change beside the goal is not seen"


def wrong_rows(goal: Goal, rng: random.Random) -> Iterator[tuple[Move, ...]]:
    """The first way with one row taken for another of its table, everywhere."""
    way = goal.ways[0]
    named = {str(value) for move in way for _, value in move.args}
    for rows in goal.start.values():
        names = list(rows)
        for name in sorted(named & set(names)):
            others = [other for other in names if other != name]
            if others:
                other = rng.choice(others)
                yield tuple(
                    Move(move.name, tuple((key, other if value == name else value) for key, value in move.args))
                    for move in way
                )


def run(domain: Domain, start: State, way: Sequence[Move], skip: bool = False) -> State | None:
    """The state after some calls; None where one is refused, unless refused calls are skipped."""
    backend = backend_of(domain)
    state = copy_of(start)
    for move in way:
        if backend.call(state, move.name, move.texts).startswith("error:") and not skip:
            return None
    return state


def _walk(space: Space, rng: random.Random, calls: int) -> State | None:
    """The state after some calls that build on each other; None where none was found in time."""
    backend, domain = backend_of(space.domain), space.domain
    state, seen, met = space.start, {frozen(space.start)}, set[Value]()
    for _ in range(calls):
        best: tuple[Move, State] | None = None
        for _ in range(_TRIES):
            move = space.random_move(state, rng)
            if move is None:
                continue
            after = copy_of(state)
            try:
                backend.tools[move.name](after, **dict(move.args))
            except backend.refused:
                continue
            if frozen(after) in seen:
                continue
            best = (move, after)
            related = any(value in met for _, value in move.args)
            enabled = run(domain, space.start, [move]) is None
            if rng.random() < (_ENABLED if enabled else _RELATED if related else _OTHER):
                break
        if best is None:
            return None
        move, state = best
        seen.add(frozen(state))
        met.update(value for _, value in move.args if isinstance(value, str))
    return state


def _blocked(space: Space, rng: random.Random, most: int) -> State | None:
    """What a call that is refused at first would change, and nothing of what it needs; with another call where there
    is room. None where none was found in time."""
    backend, domain, start = backend_of(space.domain), space.domain, space.start

    def played(state: State, move: Move | None) -> State | None:
        after = copy_of(state)
        try:
            if move is not None:
                backend.tools[move.name](after, **dict(move.args))
        except backend.refused:
            return None
        return None if move is None or after == state else after

    for _ in range(_TRIES):
        first = space.random_move(start, rng)
        ready = played(start, first)
        if first is None or ready is None:
            continue
        for _ in range(_AFTER):
            second = _leaning(space, ready, first, rng)
            if second is None or second.name == first.name:
                continue
            done = played(ready, second)
            if done is None or run(domain, start, [second]) is not None:
                continue
            if _cells(start, ready) & _cells(ready, done):
                continue  # the second takes the first back, or goes on from it
            target = _with_changes(start, ready, done)
            further = Space(domain, target, space.numbers)
            more = _walk(further, rng, 1) if most > _DETOUR and rng.random() < _FURTHER else None
            return more or target
    return None


def _leaning(space: Space, state: State, first: Move, rng: random.Random) -> Move | None:
    """A call that looks at what `first` changed, with the row of `first` where one of that table is asked for."""
    facts = facts_of(space.domain)
    wrote = facts.writes[first.name]
    leaning = [op for op in space.domain.writes if not wrote.isdisjoint(facts.reads[op.name])]
    if not leaning:
        return None
    move = space.random_move(state, rng, rng.choice(leaning))
    if move is None:
        return None
    rows = {p.table: value for p, (_, value) in zip(space.domain.operation[first.name].params, first.args, strict=True)}
    params = space.domain.operation[move.name].params
    same = [at for at, param in enumerate(params) if param.kind == "id" and param.table in rows]
    if not same:
        return move
    swapped = rng.choice(same)
    args = [(key, rows[params[at].table] if at == swapped else value) for at, (key, value) in enumerate(move.args)]
    return Move(move.name, tuple(args))


def _cells(before: State, after: State) -> set[tuple[str, str]]:
    """(id, field) of what differs."""
    return {
        (name, key)
        for table, rows in after.items()
        for name, row in rows.items()
        for key, value in row.items()
        if before[table].get(name, {}).get(key) != value
    }


def _with_changes(start: State, before: State, after: State) -> State:
    """`start` with what differs between two later states."""
    target = copy_of(start)
    for table, rows in after.items():
        for name, row in rows.items():
            if name not in before[table]:
                target[table][name] = dict(row)
                continue
            changes = {key: value for key, value in row.items() if before[table][name][key] != value}
            if changes and name in target[table]:
                target[table][name].update(changes)
    return target


def _longer(
    space: Space, start: State, target: State, ways: Sequence[tuple[Move, ...]]
) -> tuple[tuple[Move, ...], ...]:
    """Ways of one call more that hold no shortest way and no call that could be left out, one of each set of calls."""
    shortest = [set(way) for way in ways]
    found: dict[object, tuple[Move, ...]] = {}
    try:
        for way in space.ways(start, target, len(ways[0]) + 1):
            if any(calls <= set(way) for calls in shortest):
                continue
            spare = any(_reaches(space, start, target, [*way[:at], *way[at + 1 :]]) for at in range(len(way)))
            if not spare:
                found.setdefault(bag_of(way), way)
    except BudgetSpent:
        pass
    return tuple(found.values())


def _reaches(space: Space, start: State, target: State, way: Sequence[Move]) -> bool:
    final = run(space.domain, start, way)
    return final is not None and not space.differ(final, target)


def _numbers(domain: Domain, start: State, rng: random.Random) -> dict[str, list[int]]:
    """A few numbers for each thing that parameters measure: whole packs where people count in packs."""
    sizes = {f"{pack.table}.{pack.field}": pack.size for pack in domain.packs}
    found: dict[str, list[int]] = {}
    for operation in domain.writes:
        for param in operation.params:
            if param.kind != "int" or param.measures in found:
                continue
            size = sizes.get(param.measures, 0)
            if size:
                found[param.measures] = [size * times for times in rng.sample((1, 2, 3), 2)] + [rng.randint(2, 20)]
            elif domain.table[param.measures.split(".")[0]].grows:
                found[param.measures] = rng.sample(range(2, 16), _NUMBERS)
            else:
                span = range(param.low, param.high + 1)
                found[param.measures] = rng.sample(span, min(len(span), _NUMBERS))
    return found


def _with_target(
    domain: Domain, numbers: Mapping[str, Sequence[int]], start: State, target: State
) -> dict[str, list[int]]:
    """Numbers worth trying on the way: those of the walk, the values to reach, and all differences to them."""
    found: dict[str, list[int]] = {}
    for measures, tried in numbers.items():
        table, name = measures.split(".")
        wanted: list[int] = []
        for row, values in target[table].items():
            then = int(values[name])
            now = int(start[table][row][name]) if row in start[table] else 0
            if then != now:
                wanted += [abs(then - now), then]
        found[measures] = sorted(dict.fromkeys([*wanted, *tried][:_MOST_NUMBERS]))
    return found
