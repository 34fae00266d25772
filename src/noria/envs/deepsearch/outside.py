"""The package `bm25s` as the search engine: the same ranking, in arrays, for corpora of many thousand pages."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from noria.core.errors import UserError
from noria.envs.deepsearch.bm25 import K1, B, words

#: Scores are compared to this many places: its numbers have 32 bits.
_PLACES = 4


class Bm25s:
    """An index of the package, over the same words as `bm25.Okapi`.

    Raises:
        UserError: the package is not installed.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        try:
            package: Any = importlib.import_module("bm25s")
        except ImportError as fault:
            raise UserError(
                "engine must be one that is installed: got 'bm25s' - pip install bm25s, or set engine = \"own\""
            ) from fault
        self._retriever = package.BM25(method="lucene", k1=K1, b=B)
        self._retriever.index([words(text) for text in texts], show_progress=False)

    def rank(self, query: str, most: int) -> list[int]:
        known = [word for word in words(query) if word in self._retriever.vocab_dict]
        if not known:
            return []
        scores = self._retriever.get_scores(known)
        found = [(-round(float(score), _PLACES), at) for at, score in enumerate(scores) if score > 0]
        return [at for _, at in sorted(found)[:most]]
