"""Drawing mutations: balanced over operators and targets, each parsed before it is handed out."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from types import ModuleType

from noria.core import registry
from noria.core.code import Edit, Mutation, Target, apply
from noria.core.errors import UserError
from noria.mutations._code import Change, Code, read
from noria.mutations._edits import touched
from noria.mutations._node import faults, parser

#: An operator's changes at one place that it may be asked for; more would only be variants of the same bug.
MAX_VARIANTS = 4


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[ModuleType, frozenset[str]]]:
    found = {}
    for name in registry.names("mutations"):
        module = registry.resolve("mutations", name)
        found[name] = module, frozenset(module.LANGUAGES)
    return found


def operators(language: str | None = None) -> tuple[str, ...]:
    """Names of the operators, of one language if it is given, in order."""
    return tuple(name for name, (_, known) in _table().items() if language is None or language in known)


def targets(language: str, path: str, source: bytes) -> list[Target]:
    """Functions, methods and classes of a file in source order, nested ones included.

    Raises:
        UserError: unknown language, or tree-sitter is not installed.
        UnicodeDecodeError: `source` is not UTF-8.
    """
    return list(read(language, path, source).targets)


def propose(
    language: str,
    path: str,
    source: bytes,
    seed: int,
    *,
    lines: Collection[int] | None = None,
    operators: Sequence[str] | None = None,
    limit: int = 100,
) -> list[Mutation]:
    """Up to `limit` different mutations of one file, the same for the same arguments.

    Each parses as well as the original did, differs from it, and touches one of `lines` where those are given.
    Operators take turns, and each takes its targets in turn; so any prefix of the result is balanced too.
    `operators` are names of files of this folder, those that don't know the language are passed over; None is all.

    Raises:
        UserError: unknown language or operator, or tree-sitter is not installed.
        UnicodeDecodeError: `source` is not UTF-8.
    """
    table = _table()
    for name in operators or ():
        if name not in table:
            raise UserError(
                f"operators must name files of mutations/: got {name!r}{registry.nearest(name, list(table))} - "
                "see docs/mutations.md"
            )
    code = read(language, path, source)
    wanted = frozenset(lines) if lines is not None else None
    queues = []
    for name, (module, known) in table.items():
        if language in known and (operators is None or name in operators):
            rng = random.Random(f"{seed}/{path}/{name}")
            queues.append((name, _turns(_candidates(code, name, module, wanted), rng)))
    random.Random(f"{seed}/{path}").shuffle(queues)
    return _drawn(code, [queue for _, queue in queues], limit)


def _drawn(code: Code, queues: list[Iterator[Mutation]], limit: int) -> list[Mutation]:
    drawn: list[Mutation] = []
    sound = _Sound(code)
    while queues and len(drawn) < limit:
        going = []
        for queue in queues:
            mutation = next((found for found in queue if sound(found)), None)
            if mutation is not None:
                drawn.append(mutation)
                going.append(queue)
            if len(drawn) == limit:
                break
        queues = going
    return drawn


class _Sound:
    """Whether a mutation makes a new program that parses as well as the old one did.

    Only the part of the file around the target is parsed: a whole module takes ten times as long.
    """

    def __init__(self, code: Code) -> None:
        self._code = code
        self._parser = parser(code.syntax.grammar)
        self._known: dict[tuple[int, int], tuple[int, set[bytes]]] = {}

    def __call__(self, mutation: Mutation) -> bool:
        start, end = self._code.around(self._code.targets.index(mutation.target))
        start = min(start, mutation.edits[0].start)
        end = max(end, mutation.edits[-1].end)
        before = self._code.source[start:end]
        if (start, end) not in self._known:
            self._known[start, end] = self._faults(before), {before}
        fine, seen = self._known[start, end]
        moved = [replace(edit, start=edit.start - start, end=edit.end - start) for edit in mutation.edits]
        after = apply({self._code.path: before}, moved)[self._code.path]
        if after in seen:
            return False
        seen.add(after)
        return not self._idle(mutation) and self._faults(after) <= fine

    def _idle(self, mutation: Mutation) -> bool:
        """Whether the line now assigns something to itself: nobody writes that; `assignment_removed` does as much."""
        source, first, last = self._code.source, mutation.edits[0], mutation.edits[-1]
        start, end = source.rfind(b"\n", 0, first.start) + 1, source.find(b"\n", last.end)
        end = len(source) if end < 0 else end
        moved = [replace(edit, start=edit.start - start, end=edit.end - start) for edit in mutation.edits]
        line = apply({self._code.path: source[start:end]}, moved)[self._code.path]
        return re.fullmatch(rb"\s*([^\n=]+?) = \1;?\s*", line) is not None

    def _faults(self, part: bytes) -> int:
        header = b"" if self._code.syntax.braces else b"if 1:\n" if part[:1].isspace() else b""
        return faults(self._parser.parse(header + part))


def _candidates(code: Code, name: str, module: ModuleType, wanted: frozenset[int] | None) -> list[Mutation]:
    found = []
    sites: dict[int, int] = defaultdict(int)
    for change in module.changes(code):
        mutation = _mutation(code, name, change)
        if mutation is None or (wanted is not None and wanted.isdisjoint(mutation.lines)):
            continue
        sites[change.at.start] += 1
        if sites[change.at.start] <= MAX_VARIANTS:
            found.append(mutation)
    return found


def _mutation(code: Code, name: str, change: Change) -> Mutation | None:
    if not change.at.live or change.at.owner < 0 or code.broken(change.at.owner):
        return None
    pieces = sorted(change.pieces)
    if all(code.source[start:end] == text.encode() for start, end, text in pieces):
        return None
    if any(before[1] > after[0] for before, after in pairwise(pieces)):
        return None
    edits = tuple(Edit(code.path, *piece) for piece in pieces)
    return Mutation(name, code.targets[change.at.owner], edits, touched(code.source, pieces))


def _turns(found: list[Mutation], rng: random.Random) -> Iterator[Mutation]:
    """Target after target, each with its own in random order."""
    by_target: dict[Target, list[Mutation]] = defaultdict(list)
    for mutation in found:
        by_target[mutation.target].append(mutation)
    groups = list(by_target.values())
    rng.shuffle(groups)
    for group in groups:
        rng.shuffle(group)
    while groups:
        for group in groups:
            yield group.pop()
        groups = [group for group in groups if group]


def combine(
    mutations: Sequence[Mutation], seed: int, *, size: int = 2, limit: int = 20, across: bool = False
) -> list[tuple[Mutation, ...]]:
    """Up to `limit` different sets of `size` mutations that were validated alone, to be applied together.

    Those of a set are of one file, or with `across` of one folder, touch no common line and have different targets
    where enough are at hand. `apply` takes the edits of all of them at once: their offsets are those of the original.
    """
    rng = random.Random(f"{seed}/combine")
    groups: dict[str, list[Mutation]] = defaultdict(list)
    for mutation in mutations:
        path = mutation.target.path
        groups[path.rpartition("/")[0] if across else path].append(mutation)
    sets: dict[frozenset[Mutation], tuple[Mutation, ...]] = {}
    for _ in range(4 * limit):
        usable = [group for group in groups.values() if len(group) >= size]
        if not usable or len(sets) == limit:
            break
        chosen = _apart(rng.choice(usable), size, rng)
        if len(chosen) == size:
            sets.setdefault(frozenset(chosen), chosen)
    return list(sets.values())


def _apart(group: list[Mutation], size: int, rng: random.Random) -> tuple[Mutation, ...]:
    order = rng.sample(group, len(group))
    chosen: list[Mutation] = []
    for fresh in (True, False):
        for one in order:
            if len(chosen) == size:
                break
            known = {other.target for other in chosen}
            if one not in chosen and not (fresh and one.target in known) and all(_clear(one, o) for o in chosen):
                chosen.append(one)
    return tuple(sorted(chosen, key=lambda m: (m.target.path, m.edits[0].start)))


def _clear(one: Mutation, other: Mutation) -> bool:
    """Whether no line is between the first and the last of both."""
    if one.target.path != other.target.path:
        return True
    return one.lines[-1] < other.lines[0] or other.lines[-1] < one.lines[0]
