"""What constraints say together: a proof that no answer keeps them, or that one of them says nothing new.

Every constraint claims bounds of countable properties. `AXIOMS` and `_own_axioms` relate properties of any text
whatever (a sentence holds a word, so sentences <= words). Bounds are narrowed along them until nothing changes; where
a least bound passes a greatest one, no text keeps all constraints. The converse does not hold: what passes here still
has to be built (`admission`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from noria.envs.instructions.grammar import Bounds, Constraint, bounds

#: (small, factor, big): `factor * small <= big` in every text.
AXIOMS: tuple[tuple[str, int, str], ...] = (
    ("sentences", 1, "words"),
    ("paragraphs", 1, "lines"),
    ("paragraphs", 1, "words"),
    ("bullets", 1, "lines"),
    ("items", 1, "lines"),
    ("items", 1, "stops"),
    ("items", 1, "words"),
    ("answers", 1, "words"),
    ("answers", 1, "lines"),
    ("numbers", 1, "words"),
    ("titles", 1, "lines"),
    ("titles", 1, "words"),
    ("boxed", 1, "words"),
    ("loud", 1, "words"),
    ("loud", 1, "upper"),
    ("commonest", 1, "words"),
    ("shortest sentence", 1, "longest sentence"),
    ("longest sentence", 1, "words"),
)
_ROUNDS = 6
_FREE: Bounds = (0.0, math.inf)


def conflict(constraints: Sequence[Constraint]) -> str:
    """Why no text keeps all of them, "" where no reason is known."""
    return _narrowed(constraints)[1] if len(constraints) > 1 else ""


def redundant(constraints: Sequence[Constraint]) -> str:
    """The name of a constraint that the others imply, "" without one."""
    for at, constraint in enumerate(constraints):
        own = bounds(constraint.kind.relation, constraint.values)
        others = [other for index, other in enumerate(constraints) if index != at]
        if not own or not constraint.kind.facet or not others:
            continue
        known = _narrowed(others, [constraint.facet()])[0]
        lo, hi = known.get(constraint.facet(), _FREE)
        if own[0] <= lo and hi <= own[1]:
            return constraint.kind.name
    return ""


def _narrowed(constraints: Iterable[Constraint], more: Sequence[str] = ()) -> tuple[dict[str, Bounds], str]:
    """Bounds by property, and the first contradiction."""
    known: dict[str, Bounds] = {}
    for constraint in constraints:
        for facet, (lo, hi) in constraint.claims().items():
            least, most = known.get(facet, _FREE)
            known[facet] = (max(lo, least), min(hi, most))
    for facet in more:
        known.setdefault(facet, _FREE)
    axioms: list[tuple[str, int, str]] = []
    spoken = 0
    for _ in range(_ROUNDS):
        for facet, (lo, hi) in known.items():
            if lo > hi:
                return known, f"{facet} would have to be at least {lo:g} and at most {hi:g}"
        before = dict(known)
        if len(known) != spoken:
            spoken = len(known)
            axioms = [one for one in (*AXIOMS, *_own_axioms(list(known))) if one[0] in known or one[2] in known]
        for small, factor, big in axioms:
            _order(known, small, factor, big)
        _products(known)
        if known == before:
            break
    return known, ""


def _order(known: dict[str, Bounds], small: str, factor: int, big: str) -> None:
    """Narrow both sides of `factor * small <= big`."""
    small_lo, small_hi = known.get(small, _FREE)
    big_lo, big_hi = known.get(big, _FREE)
    known[small] = (small_lo, min(small_hi, big_hi if math.isinf(big_hi) else big_hi // factor))
    known[big] = (max(big_lo, factor * small_lo), big_hi)


def _own_axioms(facets: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Axioms about the words and letters that are spoken of."""
    said = [facet.removeprefix("count:") for facet in facets if facet.startswith("count:")]
    letters = [facet.removeprefix("letter:") for facet in facets if facet.startswith("letter:")]
    starts = [facet.removeprefix("initials:") for facet in facets if facet.startswith("initials:")]
    for word in said:
        yield f"count:{word}", 1, "words"
        yield f"count:{word}", 1, "commonest"
        if word.isascii():
            yield f"count:{word}", len(word), "latin"
        for letter in letters:
            if letter in word:
                yield f"count:{word}", word.count(letter), f"letter:{letter}"
        for letter in starts:
            if word.startswith(letter):
                yield f"count:{word}", 1, f"initials:{letter}"
        for facet in facets:
            if facet.startswith("long:") and len(word) >= int(facet.removeprefix("long:")):
                yield f"count:{word}", 1, facet
    for letter in starts:
        yield f"initials:{letter}", 1, f"letter:{letter}"
        yield f"initials:{letter}", 1, "words"
    for letter in letters:
        yield f"letter:{letter}", 1, "latin"
    for facet in facets:
        if facet.startswith("long:"):
            yield facet, 1, "words"
        if facet.startswith("sections:"):
            label = facet.removeprefix("sections:").lower()
            yield facet, 1, f"count:{label}"
            yield facet, 1, "numbers"
            yield facet, 1, "lines"


def _products(known: dict[str, Bounds]) -> None:
    """What is not linear: words of all sentences together, the longest word, shares of capitals."""
    shortest, words = known.get("shortest sentence", _FREE), known.get("words", _FREE)
    count = known.get("sentences", _FREE)
    if shortest[0] > 0:
        count = (max(count[0], 1.0), min(count[1], words[1] if math.isinf(words[1]) else words[1] // shortest[0]))
        known["sentences"] = count
        known["words"] = (max(words[0], shortest[0] * count[0]), words[1])
    for facet, (lo, _) in list(known.items()):
        least = 0
        if facet.startswith("count:") and lo >= 1:
            least = len(facet.removeprefix("count:"))
        elif facet.startswith("long:") and lo >= 1:
            least = int(facet.removeprefix("long:"))
        if least:
            low, high = known.get("longest word", _FREE)
            known["longest word"] = (max(low, float(least)), high)
    share = known.get("upper share")
    if share and share[0] > 0:
        low, high = known.get("upper", _FREE)
        known["upper"] = (max(low, 1.0), high)
    if known.get("upper", _FREE)[1] == 0 and share:
        known["upper share"] = (share[0], 0.0)
    if known.get("lower", _FREE)[1] == 0 and known.get("upper", _FREE)[0] > 0:
        known["upper share"] = (100.0, 100.0)
