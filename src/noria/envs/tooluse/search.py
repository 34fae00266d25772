"""Search over the states of a domain: which calls lead where, the least number of calls between two states, and the
ways to get there.

Iterative deepening with an admissible bound: an effect changes one cell, so cells that differ from the target need
calls. Cells of fields that one call may change together form a group; within a group the field that needs most calls
counts, groups add up. A cell whose values are only ever set to constants needs as many calls as its values are steps
apart. Calls that touch no differing cell cannot lower the bound, so they are tried only where there is slack.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from noria.envs.tooluse.backend import backend_of
from noria.envs.tooluse.rules import copy_of
from noria.envs.tooluse.spec import Domain, Operation, State, Value
from noria.envs.tooluse.terms import Cell, Const, Count, Put, Sum, comparison_of, effect_of

Place = tuple[str, str]
#: Cells that differ, as (table, id, field); a row that was made counts as one, as (table, "#number", "").
Diff = frozenset[tuple[str, str, str]]
_FAR = 99


@dataclass(frozen=True, slots=True)
class Move:
    """A call with typed arguments."""

    name: str
    args: tuple[tuple[str, Value], ...]

    @property
    def texts(self) -> dict[str, str]:
        """The arguments as a model writes them."""
        return {key: str(value) for key, value in self.args}


@dataclass(frozen=True, slots=True)
class Found:
    """Ways between two states. `length` is the least number of calls, None where none was found in the budget.

    `settled` tells that fewer calls are impossible; `ways` holds call sequences of that length, at most `Space.most`.
    """

    length: int | None
    ways: tuple[tuple[Move, ...], ...]
    settled: bool
    expanded: int


class BudgetSpent(Exception):
    """More states were looked at than allowed."""


@dataclass(slots=True)
class Space:
    """The states around an initial one. `numbers` are what number parameters try, by what they measure; `budget` is
    how many states a search may make, `most` how many ways it tells."""

    domain: Domain
    start: State
    numbers: Mapping[str, Sequence[int]]
    most: int = 24
    budget: int = 10_000
    expanded: int = 0
    _memo: dict[tuple[object, int], tuple[tuple[Move, ...], ...]] = field(default_factory=dict)

    def moves(self, state: State) -> Iterator[Move]:
        """Every call worth trying; rows that calls made take part."""
        for operation in self.domain.writes:
            yield from self._of(operation, state)

    def random_move(self, state: State, rng: random.Random, operation: Operation | None = None) -> Move | None:
        """One call of an operation, drawn evenly if none is given; None where it has nothing to be called on."""
        operation = operation or rng.choice(self.domain.writes)
        choices = self.choices(operation, state)
        if not all(choices):
            return None
        return Move(
            operation.name, tuple((p.name, rng.choice(c)) for p, c in zip(operation.params, choices, strict=True))
        )

    def _of(self, operation: Operation, state: State) -> Iterator[Move]:
        names = [param.name for param in operation.params]
        for values in itertools.product(*self.choices(operation, state)):
            yield Move(operation.name, tuple(zip(names, values, strict=True)))

    def choices(self, operation: Operation, state: State) -> list[Sequence[Value]]:
        """What each parameter of an operation can be."""
        choices: list[Sequence[Value]] = []
        for param in operation.params:
            if param.kind == "id":
                choices.append(list(state[param.table]))
            elif param.kind == "enum":
                choices.append(param.values)
            else:
                choices.append([n for n in self.numbers.get(param.measures, ()) if param.low <= n <= param.high])
        return choices

    def successors(
        self, state: State, only: Diff | None = None, useful: frozenset[str] | None = None
    ) -> Iterator[tuple[Move, State]]:
        """Calls that go through, with the states they lead to; those that may touch a cell of `only` and are of
        `useful` operations, where these are given."""
        backend = backend_of(self.domain)
        facts = facts_of(self.domain)
        scratch = copy_of(state)
        touching = None if only is None else {(table, name) for table, _, name in only}
        for operation in self.domain.writes:
            if useful is not None and operation.name not in useful:
                continue
            if touching is not None and touching.isdisjoint(facts.writes[operation.name]):
                continue
            tool = backend.tools[operation.name]
            for move in self._of(operation, state):
                if only is not None and not facts.may_touch(operation, move, only):
                    continue
                try:
                    tool(scratch, **dict(move.args))
                except backend.refused:
                    continue
                if scratch != state:
                    self.expanded += 1
                    if self.expanded > self.budget:
                        raise BudgetSpent
                    yield move, scratch
                    scratch = copy_of(state)

    def shortest(self, start: State, target: State, limit: int) -> Found:
        """Ways of least length from `start` to `target`, of at most `limit` calls."""
        self.expanded = 0
        self._memo.clear()
        least = self.bound(start, target, self.differ(start, target))
        try:
            for length in range(least, limit + 1):
                ways = self._ways(start, target, length)
                if ways:
                    return Found(length, ways, True, self.expanded)
        except BudgetSpent:
            return Found(None, (), False, self.expanded)
        return Found(None, (), True, self.expanded)

    def ways(self, start: State, target: State, length: int) -> tuple[tuple[Move, ...], ...]:
        """Ways of exactly this length, at most `most`.

        Raises:
            BudgetSpent: before all were found.
        """
        self.expanded = 0
        return self._ways(start, target, length)

    def differ(self, state: State, target: State) -> Diff:
        """The cells in which two states differ. Rows that the initial state lacks count by content, not by id."""
        return differ(self.domain, self.start, state, target)

    def bound(self, state: State, target: State, diff: Diff) -> int:
        """Calls that are needed at least."""
        facts = facts_of(self.domain)
        needs: dict[Place, int] = {}
        for table, row, name in diff:
            steps = facts.steps.get((table, name)) if name else None
            apart = steps.get((state[table][row][name], target[table][row][name]), _FAR) if steps else 1
            needs[table, name] = needs.get((table, name), 0) + apart
        worst: dict[int, int] = {}
        for place, count in needs.items():
            group = facts.group.get(place, -1)
            if group < 0:
                return _FAR  # nothing writes it
            worst[group] = max(worst.get(group, 0), -(-count // facts.most_cells[place]))
        return sum(worst.values())

    def _ways(self, state: State, target: State, left: int) -> tuple[tuple[Move, ...], ...]:
        diff = self.differ(state, target)
        if not diff:
            return ((),) if left == 0 else ()
        slack = left - self.bound(state, target, diff)
        if left == 0 or slack < 0:
            return ()
        key = (frozen(state), left)
        if key not in self._memo:
            found: list[tuple[Move, ...]] = []
            useful = useful_for(self.domain, frozenset((table, name) for table, _, name in diff))
            for move, after in self.successors(state, diff if slack == 0 else None, useful):
                found += [(move, *rest) for rest in self._ways(after, target, left - 1)]
                if len(found) >= self.most:
                    break
            self._memo[key] = tuple(found[: self.most])
        return self._memo[key]


@dataclass(frozen=True, slots=True)
class Facts:
    """What operations write.

    writes      (table, field) of each effect, by operation
    reads       (table, field) of what its checks and effects look at
    most_cells  how many cells of a field one call changes at most
    group       number of the group that a field is in
    through     operations that write behind a reference, or rows that calls made
    steps       how many calls two values of a field are apart, for fields that are only set to constants
    """

    writes: Mapping[str, frozenset[Place]]
    reads: Mapping[str, frozenset[Place]]
    most_cells: Mapping[Place, int]
    group: Mapping[Place, int]
    through: frozenset[str]
    steps: Mapping[Place, Mapping[tuple[Value, Value], int]]

    def may_touch(self, operation: Operation, move: Move, diff: Diff) -> bool:
        """Whether a call can change one of the cells; rows behind a reference may be any."""
        if operation.name in self.through:
            return True
        args = {value for _, value in move.args}
        wrote = self.writes[operation.name]
        return any((table, name) in wrote and row in args for table, row, name in diff)


@lru_cache(maxsize=512)
def facts_of(domain: Domain) -> Facts:
    """The facts of a domain, derived from the effects of its operations."""
    writes: dict[str, frozenset[Place]] = {}
    most: dict[Place, int] = {}
    through: set[str] = set()
    for operation in domain.writes:
        places: list[Place] = []
        for text in operation.effects:
            effect = effect_of(text)
            if isinstance(effect, Put):
                table = table_of(domain, operation, effect.cell)
                places.append((table, effect.cell.field))
                if effect.cell.via or domain.table[table].grows:
                    through.add(operation.name)
            else:
                table = effect.table
            if domain.table[table].grows:  # a row that a call made counts as one, whatever is changed in it
                places.append((table, ""))
                through.add(operation.name)
        for place in places:
            most[place] = max(most.get(place, 0), places.count(place))
        writes[operation.name] = frozenset(places)
    reads = {operation.name: _read_by(domain, operation) for operation in domain.writes}
    return Facts(writes, reads, most, _groups(list(writes.values())), frozenset(through), _steps(domain))


@lru_cache(maxsize=4096)
def useful_for(domain: Domain, places: frozenset[Place]) -> frozenset[str]:
    """Operations that can help to change these fields: they write them, or what a check of a useful one looks at.

    All other calls can be left out of a solution, and it stays one.
    """
    facts = facts_of(domain)
    wanted, useful = set(places), set[str]()
    while True:
        new = {name for name, wrote in facts.writes.items() if name not in useful and not wanted.isdisjoint(wrote)}
        if not new:
            return frozenset(useful)
        useful |= new
        for name in new:
            wanted |= facts.reads[name]


def _read_by(domain: Domain, operation: Operation) -> frozenset[Place]:
    """(table, field) of everything that a call's checks and effects look at."""
    found: set[Place] = set()

    def look(total: Sum) -> None:
        for _, term in total.terms:
            if isinstance(term, Cell):
                found.add((table_of(domain, operation, term), term.field))
                if term.via:
                    found.add((table_of(domain, operation, Cell(term.row, "", "")), term.via))
            elif isinstance(term, Count):
                found.update((term.table, name) for name, _ in term.where)
                found.add((term.table, ""))
                for _, value in term.where:
                    look(value)

    for check in operation.checks:
        test = comparison_of(check.test)
        look(test.left)
        look(test.right)
    for text in operation.effects:
        effect = effect_of(text)
        if isinstance(effect, Put):
            look(effect.value)
            if effect.cell.via:
                look(Sum(((1, effect.cell),)))
        else:
            for _, value in effect.values:
                look(value)
    for param in operation.params:
        if param.table and domain.table[param.table].grows:
            found.add((param.table, ""))
    return frozenset(found)


def table_of(domain: Domain, operation: Operation, cell: Cell) -> str:
    """The table of the row that a cell stands in."""
    param = operation.param(cell.row)
    assert param
    if not cell.via:
        return param.table
    ref = domain.table[param.table].field(cell.via)
    assert ref
    return ref.table


def _steps(domain: Domain) -> dict[Place, dict[tuple[Value, Value], int]]:
    """Least number of calls from value to value, for every enum that calls only set to constants."""
    edges: dict[Place, set[tuple[str, str]]] = {}
    free: set[Place] = set()
    for operation in domain.writes:
        for text in operation.effects:
            effect = effect_of(text)
            if not isinstance(effect, Put):
                continue
            place = (table_of(domain, operation, effect.cell), effect.cell.field)
            field = domain.table[place[0]].field(place[1])
            value = effect.value.terms[0][1]
            if field is None or field.kind != "enum" or not isinstance(value, Const):
                free.add(place)
                continue
            path = ".".join(filter(None, (effect.cell.row, effect.cell.via, effect.cell.field)))
            only = [
                check.test[len(path) + 5 : -1] for check in operation.checks if check.test.startswith(f"{path} == '")
            ]
            edges.setdefault(place, set()).update((start, str(value.value)) for start in only[:1] or field.values)
    return {place: _distances(found) for place, found in edges.items() if place not in free}


def _distances(edges: set[tuple[str, str]]) -> dict[tuple[Value, Value], int]:
    found: dict[tuple[Value, Value], int] = {}
    for start in {start for start, _ in edges}:
        front, seen, length = {start}, {start}, 0
        while front:
            length += 1
            front = {end for begin, end in edges if begin in front and end not in seen}
            seen |= front
            found.update({(start, end): length for end in front})
    return found


def _groups(sets: Sequence[frozenset[Place]]) -> dict[Place, int]:
    """Places that some call writes together get one number."""
    group: dict[Place, int] = {}
    for number, places in enumerate(sets):
        met = {group[place] for place in places if place in group}
        for place, other in list(group.items()):
            if other in met:
                group[place] = number
        group.update(dict.fromkeys(places, number))
    return group


def frozen(state: State) -> tuple[object, ...]:
    """A key that is equal for equal states."""
    return tuple((name, *row.values()) for rows in state.values() for name, row in rows.items())


def differ(domain: Domain, start: State, state: State, target: State) -> Diff:
    """See `Space.differ`."""
    found: set[tuple[str, str, str]] = set()
    for table, rows in target.items():
        there = state[table]
        if there == rows:
            continue
        for name in start[table]:
            now, then = there[name], rows[name]
            if now is not then and now != then:
                found.update((table, name, key) for key, value in then.items() if now[key] != value)
        if domain.table[table].grows:
            made, wanted = (
                sorted(str(row) for name, row in side.items() if name not in start[table]) for side in (there, rows)
            )
            for text in list(made):
                if text in wanted:
                    made.remove(text)
                    wanted.remove(text)
            found.update((table, f"#{number}", "") for number in range(max(len(made), len(wanted))))
    return frozenset(found)
