"""Candidates for bugs of a repository: mutations on lines that tests run, operators and targets in turn."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from noria.core.code import Edit, Mutation
from noria.envs.swe.records import COMBINED, TOGETHER
from noria.factory.repository import Coverage, Prepared
from noria.mutations import combine, propose, targets

#: Mutations of one file at most.
PER_FILE = 400
#: Bytes of a source that is mutated at most: parsing of generated tables brings nothing.
MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to break a repository. `tests`: those that run one of its lines, None where that is not known."""

    repo: str
    operator: str
    target: str
    complexity: int
    mutations: tuple[Mutation, ...]
    tests: tuple[str, ...] | None

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All edits, of the sound tree."""
        return tuple(edit for mutation in self.mutations for edit in mutation.edits)

    def key(self, tree: str) -> str:
        """The same for the same change of the same tree."""
        changes = [(edit.path, edit.start, edit.end, edit.text) for edit in self.edits]
        return hashlib.sha256(repr((tree, changes)).encode()).hexdigest()[:16]


def candidates(
    prepared: Prepared, tree: Path, seed: int, operators: Sequence[str] | None = None
) -> Iterator[Candidate]:
    """All candidates, in an order of the seed: operators take turns, and each takes its targets in turn.

    A target is drawn the sooner, the more complex it is. Raises UserError for an unknown operator.
    """
    layout, coverage = prepared.repo.layout, prepared.coverage
    by_line = _by_line(coverage)
    queues: dict[str, list[Candidate]] = defaultdict(list)
    for path in layout.sources:
        place = tree / path
        if coverage is not None and path not in by_line:
            continue
        if place.stat().st_size > MOST_BYTES:
            continue
        source = place.read_bytes()
        try:
            source.decode()
            lines = _wanted(layout.language, path, source, by_line.get(path)) if coverage is not None else None
            found = propose(layout.language, path, source, seed, lines=lines, operators=operators, limit=PER_FILE)
        except UnicodeDecodeError:
            continue
        for mutation in found:
            queues[mutation.operator].append(_candidate(prepared, mutation, by_line.get(path)))
    yield from _in_turn(queues, random.Random(f"{seed}/{prepared.repo.name}/candidates"))


def combinations(proven: Sequence[Candidate], seed: int, limit: int) -> list[Candidate]:
    """Up to `limit` pairs of proven bugs, of one file or else of one folder; those of one repository."""
    by_mutation = {candidate.mutations[0]: candidate for candidate in proven}
    pairs: dict[tuple[Mutation, ...], None] = {}
    for across in (False, True):
        found = combine(list(by_mutation), seed, size=2, limit=limit - len(pairs), across=across) if limit else []
        pairs.update(dict.fromkeys(found))
    out: list[Candidate] = []
    for pair in list(pairs)[:limit]:
        parts = [by_mutation[mutation] for mutation in pair]
        known = [part.tests for part in parts if part.tests is not None]
        tests = tuple(dict.fromkeys(test for each in known for test in each)) if len(known) == len(parts) else None
        names = TOGETHER.join(sorted({part.target for part in parts}))
        out.append(
            Candidate(parts[0].repo, COMBINED, names, sum(part.complexity for part in parts), tuple(pair), tests)
        )
    return out


def _candidate(prepared: Prepared, mutation: Mutation, by_line: Mapping[int, frozenset[str]] | None) -> Candidate:
    target = mutation.target
    tests: set[str] = set()
    for line in mutation.lines:
        tests |= (by_line or {}).get(line, frozenset())
    if not tests:  # lines that run at import: whatever runs the target looks at them
        for line in range(target.first_line, target.last_line + 1):
            tests |= (by_line or {}).get(line, frozenset())
    sound = [test for test in prepared.repo.tests if test in tests] if prepared.coverage is not None else []
    return Candidate(
        prepared.repo.name, mutation.operator, f"{target.path}:{target.name}", target.complexity, (mutation,),
        tuple(sound) or None,
    )  # fmt: skip


def _by_line(coverage: Coverage | None) -> dict[str, dict[int, frozenset[str]]]:
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for test, by_path in (coverage or {}).items():
        for path, lines in by_path.items():
            for line in lines:
                found[path][line].add(test)
    return {path: {line: frozenset(tests) for line, tests in lines.items()} for path, lines in found.items()}


def _wanted(language: str, path: str, source: bytes, by_line: Mapping[int, frozenset[str]] | None) -> set[int]:
    """Lines that tests run, and the heads of the functions and classes that hold one."""
    wanted = set(by_line or ())
    covered = frozenset(wanted)
    for target in targets(language, path, source):
        if any(line in covered for line in range(target.first_line, target.last_line + 1)):
            wanted.add(target.first_line)
    return wanted


def _in_turn(queues: Mapping[str, list[Candidate]], rng: random.Random) -> Iterator[Candidate]:
    """One of each operator after another; within one, targets that were not drawn yet come first."""
    ordered: list[list[Candidate]] = []
    for name in sorted(queues):
        by_target: dict[str, list[Candidate]] = defaultdict(list)
        for candidate in queues[name]:
            by_target[candidate.target].append(candidate)
        ranked: list[tuple[float, Candidate]] = []
        for found in by_target.values():
            rng.shuffle(found)
            # Efraimidis and Spirakis 2006: the k-th draw of a target comes after all first draws.
            ranked += [(turn - rng.random() ** (1 / max(1, each.complexity)), each) for turn, each in enumerate(found)]
        ordered.append([candidate for _, candidate in sorted(ranked, key=lambda pair: -pair[0])])
    while ordered:
        ordered = [queue for queue in ordered if queue]
        for queue in ordered:
            yield queue.pop()
