"""Okapi BM25 over words, the embedded search engine.

score(q, d) = Σ over the words t of q: ln(1 + (N - n_t + 0.5) / (n_t + 0.5)) · f / (f + k1 · (1 - b + b · |d| / avg)),
where n_t of N documents hold t, f times in d. The form is that of Lucene 8 and later (Kamphuis et al., "Which BM25 do
you mean?", ECIR 2020), with its k1 and b; so is the default of the package `bm25s`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

#: Lucene's defaults are 1.2 and 0.75; those of bm25s are 1.5 and 0.75, taken here so that the two rank alike.
K1, B = 1.5, 0.75
_WORD = re.compile(r"\w+")


class Index(Protocol):
    """Texts that can be searched: numbers of the best, best first; equals in the order of the texts.

    Texts that share no word with the query are not found.
    """

    def rank(self, query: str, most: int) -> list[int]: ...


def words(text: str) -> list[str]:
    """The words of a text in small letters. Single letters and digits count: names and numbers are made of them."""
    return _WORD.findall(text.casefold())


class Okapi:
    """Weights of each word in each text, made once."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(words(text)) for text in texts]
        lengths = [sum(count.values()) for count in counts]
        mean = sum(lengths) / max(1, len(lengths)) or 1.0
        self._weights: dict[str, list[tuple[int, float]]] = {}
        for at, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            damp = K1 * (1 - B + B * length / mean)
            for word, times in count.items():
                self._weights.setdefault(word, []).append((at, times / (times + damp)))
        total = len(texts)
        self._rarity = {
            word: math.log(1 + (total - len(found) + 0.5) / (len(found) + 0.5)) for word, found in self._weights.items()
        }

    def scores(self, query: str) -> dict[int, float]:
        """Score of each text that shares a word with the query. A word said twice counts twice."""
        total: dict[int, float] = {}
        for word in words(query):
            rarity = self._rarity.get(word, 0.0)
            for at, weight in self._weights.get(word, ()):
                total[at] = total.get(at, 0.0) + rarity * weight
        return total

    def rank(self, query: str, most: int) -> list[int]:
        # Equal scores may differ in their last bits by the order of the words.
        found = sorted(self.scores(query).items(), key=lambda item: (-round(item[1], 9), item[0]))
        return [at for at, _ in found[:most]]
