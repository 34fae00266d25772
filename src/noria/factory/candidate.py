"""One way to break a repository, and what the lines that tests run say of it."""

from __future__ import annotations

import difflib
import hashlib
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from noria.core.code import Edit, Mutation, Target
from noria.envs.swe.records import TOGETHER
from noria.factory.repository import Coverage, Prepared
from noria.mutations import targets

#: Bytes of a source that is read at most: parsing of generated tables brings nothing.
MOST_BYTES = 1 << 20
#: Sizes of a bug by the lines that it changes, the smallest first, with the most of each.
SIZES: Mapping[str, int] = {"one line": 1, "2 to 9 lines": 9, "10 lines or more": 1 << 30}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to break a repository.

    tests     those that run one of its lines, None where that is not known
    missing   what was cut out whole and is asked for again, in words; "" = nothing
    commit    the commit that it takes back; "" = none
    """

    repo: str
    operator: str
    target: str
    complexity: int
    mutations: tuple[Mutation, ...]
    tests: tuple[str, ...] | None
    missing: str = ""
    commit: str = ""

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All edits, of the sound tree."""
        return tuple(edit for mutation in self.mutations for edit in mutation.edits)

    @property
    def size(self) -> str:
        """Its class of `SIZES`."""
        old = sum(len(mutation.lines) for mutation in self.mutations)
        new = sum(len(edit.text.splitlines()) for edit in self.edits)
        return size_of(max(old, new))

    def key(self, tree: str) -> str:
        """The same for the same change of the same tree."""
        changes = [(edit.path, edit.start, edit.end, edit.text) for edit in self.edits]
        return hashlib.sha256(repr((tree, changes)).encode()).hexdigest()[:16]


@dataclass(slots=True)
class Site:
    """A sound repository that bugs are made in. `tree` is the folder of its sources."""

    prepared: Prepared
    tree: Path
    _by_line: dict[str, dict[int, frozenset[str]]] = field(init=False)

    def __post_init__(self) -> None:
        self._by_line = _by_line(self.prepared.coverage)

    @property
    def name(self) -> str:
        """Of the repository."""
        return self.prepared.repo.name

    def sources(self) -> Iterator[tuple[str, bytes, frozenset[int] | None]]:
        """Path, content and lines that tests run (None: not known) of each source that may be broken."""
        for path in self.prepared.repo.layout.sources:
            if self.prepared.coverage is not None and path not in self._by_line:
                continue
            source = self.source(path)
            if source is not None:
                yield path, source, self.lines(path)

    def source(self, path: str) -> bytes | None:
        """The content of a source; None where it is too large or no UTF-8."""
        place = self.tree / path
        if place.stat().st_size > MOST_BYTES:
            return None
        source = place.read_bytes()
        try:
            source.decode()
        except UnicodeDecodeError:
            return None
        return source

    def lines(self, path: str) -> frozenset[int] | None:
        """Lines of a source that tests run, None where that is not known."""
        return frozenset(self._by_line.get(path, ())) if self.prepared.coverage is not None else None

    def targets(self, path: str, source: bytes) -> list[Target]:
        """Functions, methods and classes of a source."""
        return targets(self.prepared.repo.layout.language, path, source)

    def candidate(self, operator: str, mutations: Sequence[Mutation], missing: str = "", commit: str = "") -> Candidate:
        """The candidate of these mutations, with the tests that look at them."""
        tests: set[str] = set()
        for mutation in mutations:
            by_line = self._by_line.get(mutation.target.path, {})
            found = {test for line in mutation.lines for test in by_line.get(line, ())}
            if not found:  # lines that run at import: whatever runs the target looks at them
                around = range(mutation.target.first_line, mutation.target.last_line + 1)
                found = {test for line in around for test in by_line.get(line, ())}
            tests |= found
        sound = [test for test in self.prepared.repo.tests if test in tests]
        names = TOGETHER.join(sorted({f"{each.target.path}:{each.target.name}" for each in mutations}))
        complexity = sum(mutation.target.complexity for mutation in mutations)
        return Candidate(
            self.name, operator, names, complexity, tuple(mutations), tuple(sound) or None, missing, commit
        )  # fmt: skip


def size_of(lines: int) -> str:
    """The class of `SIZES` of a change of so many lines."""
    return next(name for name, most in SIZES.items() if lines <= most)


def rewrite(operator: str, path: str, old: bytes, new: bytes, targets: Sequence[Target]) -> Mutation:
    """The mutation that makes one text of a file into another, line by line; both are UTF-8 and differ.

    Its target is the smallest that holds the first changed line, else the whole file.
    """
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    edits: list[Edit] = []
    lines: list[int] = []
    for tag, start, end, first, last in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            edits.append(Edit(path, starts[start], starts[end], b"".join(after[first:last]).decode()))
            lines += range(start + 1, max(end, start + 1) + 1)
    holding = [each for each in targets if each.first_line <= lines[0] <= each.last_line]
    whole = Target(path, Path(path).stem, "function", 0, len(old), 1, max(1, len(before)), 1)
    target = min(holding, key=lambda each: each.end - each.start, default=whole)
    return Mutation(operator, target, tuple(edits), tuple(lines))


def woven(streams: Sequence[tuple[float, Iterator[T]]]) -> Iterator[T]:
    """What the streams give, each in proportion to its share as long as it has anything."""
    shares = [share for share, _ in streams]
    given = [0] * len(streams)
    going = [at for at, share in enumerate(shares) if share > 0]
    while going:
        at = min(going, key=lambda each: (given[each] + 1) / shares[each])
        item = next(streams[at][1], None)
        if item is None:
            going.remove(at)
        else:
            given[at] += 1
            yield item


def in_turn(queues: Mapping[str, Sequence[Candidate]], rng: random.Random) -> Iterator[Candidate]:
    """One of each queue after another; within one, targets that were not drawn yet come first.

    Which queue begins is drawn: of many repositories with few tasks each, none has more of the first names.
    """
    ordered = [spread(queues[name], rng) for name in sorted(queues)]
    rng.shuffle(ordered)
    while ordered:
        ordered = [queue for queue in ordered if queue]
        for queue in ordered:
            yield queue.pop()


def spread(candidates: Sequence[Candidate], rng: random.Random) -> list[Candidate]:
    """Targets in turn, one the sooner, the more complex it is; the first candidate stands last."""
    by_target: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_target[candidate.target].append(candidate)
    ranked: list[tuple[float, Candidate]] = []
    for found in by_target.values():
        rng.shuffle(found)
        # Efraimidis and Spirakis 2006: the k-th draw of a target comes after all first draws.
        ranked += [(turn - rng.random() ** (1 / max(1, each.complexity)), each) for turn, each in enumerate(found)]
    return [candidate for _, candidate in sorted(ranked, key=lambda pair: -pair[0])]


def _by_line(coverage: Coverage | None) -> dict[str, dict[int, frozenset[str]]]:
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for test, by_path in (coverage or {}).items():
        for path, lines in by_path.items():
            for line in lines:
                found[path][line].add(test)
    return {path: {line: frozenset(tests) for line, tests in lines.items()} for path, lines in found.items()}
