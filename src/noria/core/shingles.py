"""Texts as sets of shingles: hashes of every run of `size` tokens, so that likeness is the share of runs in common.

Tokens are the words of a statement or the lexemes of a program. The hashes are the same on every machine and in every
process, and 64 bits wide: two of a million different shingles agree by chance once in 40 million texts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Lexer = Callable[[str], list[str]]

_WORD = re.compile(r"\w+|[^\w\s]")
#: Names, numbers, texts in quotes, and everything else sign by sign. Line comments are none of them.
_LEXEME = re.compile(
    r"(?P<comment>(?:\#|//)[^\n]*)|[^\W\d]\w*|\d[\w.]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[^\w\s]"
)
#: Multiplier and finaliser of SplitMix64 (Steele, Lea and Flood 2014).
_GAMMA, _MIX_1, _MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_EMPTY = np.uint64(0x6A09E667F3BCC909)


def words(text: str) -> list[str]:
    """Words and signs of a text; case and spaces make no difference."""
    return _WORD.findall(text.lower())


def code(text: str) -> list[str]:
    """Lexemes of a program in a language with the usual quotes; layout and comments to the line's end do not count."""
    return [found.group() for found in _LEXEME.finditer(text) if not found.group("comment")]


def leaves(data: Any) -> Iterator[str]:
    """The scalars of plain JSON data as texts, in the order of their keys; the keys themselves are not among them."""
    if isinstance(data, Mapping):
        for key in sorted(data):
            yield from leaves(data[key])
    elif isinstance(data, Sequence) and not isinstance(data, str):
        for item in data:
            yield from leaves(item)
    elif data is not None:
        yield str(data)


def shingles(tokens: Sequence[str], size: int) -> Hashes:
    """Distinct hashes of all runs of `size` tokens, ascending; a shorter text is one run. Never empty.

    Raises:
        ValueError: `size` below 1.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1: got {size}")
    if not tokens:
        return np.array([_EMPTY])
    hashed = np.fromiter((_token(token) for token in tokens), np.uint64, len(tokens))
    size = min(size, len(tokens))
    runs = np.full(len(tokens) - size + 1, np.uint64(size))
    for at in range(size):
        runs = mixed(runs ^ hashed[at : at + len(runs)])
    return np.unique(runs)


def of_text(text: str, size: int, kind: Literal["words", "code"] = "words") -> Hashes:
    """`shingles` of a text's words, or of a program's lexemes."""
    return shingles(code(text) if kind == "code" else words(text), size)


def jaccard(a: Hashes, b: Hashes) -> float:
    """Share of common shingles among all of both."""
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common)


def mixed(values: Hashes) -> Hashes:
    """SplitMix64's finaliser of each value: a bijection in which every bit of the input moves half of the output's."""
    values = values + _GAMMA
    values = (values ^ (values >> np.uint64(30))) * _MIX_1
    values = (values ^ (values >> np.uint64(27))) * _MIX_2
    return values ^ (values >> np.uint64(31))


@lru_cache(maxsize=1 << 14)
def _token(token: str) -> int:
    digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")
