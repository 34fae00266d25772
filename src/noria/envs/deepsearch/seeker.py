"""Finding what fits all clues from what was seen alone, and saying what must be looked up next.

A seeker is run anew on each turn. It reasons as if everything were known, and stops with `MissingError` at the first
thing that is not: the calls in it are its next message. Its knowledge of the question is the clues; of the country it
knows nothing but what the tools said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noria.envs.deepsearch.belief import Belief, Hit, gather
from noria.envs.deepsearch.clues import Attr, Query, Rel, Same, edges

#: Costs of beginning at a thing: it is named, one of its words is known, a range is known, nothing is.
_NAMED, _WORD, _RANGE, _NOTHING, _SEAM = 0, 20, 25, 30, 40


@dataclass(frozen=True, slots=True)
class Way:
    """How somebody looks for it. The defaults are right.

    meet      makes a list for every chain of clues and keeps what is on all of them, instead of following the rarest
              clue and testing the others on what it leads to
    one_chain follows one chain only
    values    heeds clues about values
    relation  heeds which relation a link stands for
    listed    takes the first on a list for what was looked for
    """

    meet: bool = False
    one_chain: bool = False
    values: bool = True
    relation: bool = True
    listed: bool = False


class Seeker:
    """Candidates for variables of a question, from a belief."""

    def __init__(self, query: Query, belief: Belief, way: Way) -> None:
        self._query, self._belief, self._way = query, belief, way
        self._names = query.names()

    def find(self) -> list[str]:
        """Ids that variable 0 may be, in a fixed order. MissingError: what to look up first."""
        if self._way.meet:
            members = {hit.id for hit in self._kind(0)}
            return [id_ for id_ in self._candidates(0, None) if id_ in members]
        return self._candidates(0, None)

    def _candidates(self, v: int, parent: int | None) -> list[str]:
        """What `v` may be by its own clues and by all that hangs on it, away from `parent`."""
        if v in self._names:
            return [hit.id for hit in self._belief.hits(_rarest(self._names[v])) if hit.title == self._names[v]][:1]
        below = self._below(v, parent)
        if not below:
            found = [hit.id for hit in self._kind(v)]
        elif self._way.meet and not self._way.one_chain:
            lists = gather(lambda edge: self._generate(v, *edge), below)
            found = [id_ for id_ in lists[0] if all(id_ in one for one in lists[1:])]
        else:
            (clue, other), *rest = below
            found = self._generate(v, clue, other)
            if not self._way.one_chain:
                for edge in rest:
                    fits = gather(lambda id_, edge=edge: self._reaches(id_, v, *edge), found)  # type: ignore[misc]
                    found = [id_ for id_, fit in zip(found, fits, strict=True) if fit]
        return self._keeping(v, list(dict.fromkeys(found)))

    def _below(self, v: int, parent: int | None) -> list[tuple[Rel | Same, int]]:
        """The clues between `v` and other things than `parent`, the rarest first."""
        found = [(clue, other) for clue, other in edges(self._query, v) if other != parent]
        return sorted(found, key=lambda edge: self._cost(edge[1], v) + (_SEAM if isinstance(edge[0], Same) else 0))

    def _cost(self, v: int, parent: int) -> int:
        """How rare the best clue is that leads to `v`; a link further is a little dearer."""
        if v in self._names:
            return _NAMED
        own = [_WORD if one.bound == "is" else _RANGE for one in self._values(v)]
        seam = {other: _SEAM * isinstance(clue, Same) for clue, other in edges(self._query, v)}
        deeper = [self._cost(other, v) + 1 + seam[other] for _, other in edges(self._query, v) if other != parent]
        return min([*own, *deeper, _NOTHING])

    def _generate(self, v: int, clue: Rel | Same, other: int) -> list[str]:
        """What `v` may be as far as one clue about it and `other` tells."""
        theirs = self._candidates(other, v)
        if isinstance(clue, Same):
            dates = {date for page in self._belief.pages(theirs) if (date := page.values.get(_date(clue, other)))}
            mine = [hit.id for hit in self._kind(v)]
            pages = self._belief.pages(mine)
            return [id_ for id_, page in zip(mine, pages, strict=True) if page.values.get(_date(clue, v)) in dates]
        if clue.o == v:
            pages = self._belief.pages(theirs)
            return [link for page in pages for link in self._links(page.links, clue)]
        return [id_ for found in gather(lambda target: self._subjects(target, clue, v), theirs) for id_ in found]

    def _subjects(self, target: str, clue: Rel, v: int) -> list[str]:
        """Pages of the kind of `v` that link to `target` by the relation of the clue."""
        (page,) = self._belief.pages([target])
        hits = self._belief.hits(_rarest(page.name)) if page.name else []
        ids = [hit.id for hit in hits if hit.kind == self._query.kinds[v] and hit.id != target]
        if self._way.listed:
            return ids[:1]
        pages = self._belief.pages(ids)
        return [id_ for id_, one in zip(ids, pages, strict=True) if target in self._links(one.links, clue)]

    def _links(self, links: dict[str, str], clue: Rel) -> list[str]:
        """Where the relation of a clue leads; anywhere, for those who do not heed which relation it is."""
        if not self._way.relation:
            return list(links.values())
        return [links[clue.relation]] if clue.relation in links else []

    def _reaches(self, id_: str, v: int, clue: Rel | Same, other: int) -> bool:
        """Whether `id_`, taken for `v`, keeps a clue and all that hangs on it."""
        (page,) = self._belief.pages([id_])
        if isinstance(clue, Same):
            date = page.values.get(_date(clue, v))
            theirs = self._belief.pages(self._candidates(other, v))
            return date is not None and any(one.values.get(_date(clue, other)) == date for one in theirs)
        ids = self._links(page.links, clue) if clue.s == v else self._subjects(id_, clue, other)
        return any(gather(lambda found: self._fits(found, other, v), ids))

    def _fits(self, id_: str, v: int, parent: int) -> bool:
        """Whether `id_` may be `v`: by name, by its values, and by all that hangs on it away from `parent`."""
        if v in self._names:
            (page,) = self._belief.pages([id_])
            return page.name == self._names[v]
        return bool(self._keeping(v, [id_])) and all(self._reaches(id_, v, *edge) for edge in self._below(v, parent))

    def _keeping(self, v: int, ids: Sequence[str]) -> list[str]:
        """Those that keep the clues about values of `v`."""
        wanted = self._values(v)
        if not wanted or not self._way.values:
            return list(ids)
        pages = self._belief.pages(ids)
        return [
            id_
            for id_, page in zip(ids, pages, strict=True)
            if all(one.holds(page.values.get(one.attribute)) for one in wanted)
        ]

    def _values(self, v: int) -> list[Attr]:
        return [clue for clue in self._query.clues if isinstance(clue, Attr) and clue.v == v]

    def _kind(self, v: int) -> Iterator[Hit]:
        """All pages of the kind of `v`."""
        kind = self._query.kinds[v]
        return (hit for hit in self._belief.hits(kind) if hit.kind == kind)


def _date(clue: Same, v: int) -> str:
    return clue.attribute if v == clue.v else clue.other


def _rarest(name: str) -> str:
    """The word of a name that fewest others share: the family name."""
    return name.rpartition(" ")[2]
