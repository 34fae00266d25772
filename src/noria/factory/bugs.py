"""Candidates for bugs of a repository: mutations where tests look, features removed, commits taken back, a model's."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

from noria.core.code import Mutation
from noria.core.errors import UserError
from noria.envs.swe.records import COMBINED
from noria.factory import features, history, proposed
from noria.factory.candidate import SIZES, Candidate, Site, in_turn, woven
from noria.factory.proposed import Proposals
from noria.mutations import combine, operators, propose

#: Mutations of one file at most.
PER_FILE = 400
#: Kinds of bugs that are no mutations of one place, with their share of the candidates of a repository that has them.
KINDS = {features.OPERATOR: 0.1, history.OPERATOR: 0.3, proposed.OPERATOR: 0.3}
#: Share of each size among mutations, as long as there are any of it.
SHARES = dict(zip(SIZES, (0.5, 0.3, 0.2), strict=True))


def names() -> tuple[str, ...]:
    """What may be asked for: the operators of mutations, and the other kinds."""
    return (*operators(), *KINDS)


def candidates(
    site: Site, seed: int, wanted: Sequence[str] | None = None, proposals: Proposals | None = None
) -> Iterator[Candidate]:
    """All candidates in an order of the seed: kinds by their share, sizes by theirs, operators and targets in turn.

    `wanted`: names of operators and kinds, None = all. A target is drawn the sooner, the more complex it is. Nothing is
    read before the first is asked for.

    Raises:
        UserError: an unknown name.
        EngineError: the server of `proposals` fails again and again.
    """
    known = names()
    for name in wanted or ():
        if name not in known:
            raise UserError(f"operators must be of docs/mutations.md: got {name!r} - some are {', '.join(known[:4])}")
    asked = None if wanted is None else [name for name in wanted if name not in KINDS]
    rng = random.Random(f"{seed}/{site.name}/candidates")
    streams: list[tuple[float, Iterator[Candidate]]] = []
    for name, share in KINDS.items():
        if wanted is not None and name not in wanted:
            continue
        if name == features.OPERATOR:
            streams.append((share, in_turn({"": list(features.features(site))}, rng)))
        elif name == history.OPERATOR and site.prepared.reverts:
            streams.append((share, history.taken_back(site)))
        elif name == proposed.OPERATOR and proposals is not None:
            streams.append((share, proposed.written(site, proposals, seed)))
    if asked is None or asked:
        streams.insert(0, (1 - sum(share for share, _ in streams), _mutations(site, seed, asked, rng)))
    yield from woven(streams)


def combinations(proven: Sequence[Candidate], site: Site, seed: int, limit: int) -> list[Candidate]:
    """Up to `limit` pairs of proven mutations, of one file or else of one folder."""
    singles = [each.mutations[0] for each in proven if each.operator not in KINDS]
    pairs: dict[tuple[Mutation, ...], None] = {}
    for across in (False, True):
        found = combine(singles, seed, size=2, limit=limit - len(pairs), across=across) if limit else []
        pairs.update(dict.fromkeys(found))
    return [site.candidate(COMBINED, pair) for pair in list(pairs)[:limit]]


def _mutations(site: Site, seed: int, wanted: Sequence[str] | None, rng: random.Random) -> Iterator[Candidate]:
    language = site.prepared.repo.layout.language
    queues: dict[str, dict[str, list[Candidate]]] = {size: defaultdict(list) for size in SIZES}
    for path, source, covered in site.sources():
        lines = _heads(site, path, source, covered) if covered is not None else None
        for mutation in propose(language, path, source, seed, lines=lines, operators=wanted, limit=PER_FILE):
            candidate = site.candidate(mutation.operator, [mutation])
            queues[candidate.size][mutation.operator].append(candidate)
    return woven([(SHARES[size], in_turn(found, rng)) for size, found in queues.items()])


def _heads(site: Site, path: str, source: bytes, covered: frozenset[int]) -> set[int]:
    """Lines that tests run, and the heads of the functions and classes that hold one."""
    wanted = set(covered)
    for target in site.targets(path, source):
        if any(line in covered for line in range(target.first_line, target.last_line + 1)):
            wanted.add(target.first_line)
    return wanted
