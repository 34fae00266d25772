"""MinHash signatures (Broder 1997) and banding (locality-sensitive hashing, Indyk and Motwani 1998).

The least hash of a set under a random order is that of one of its members at random, so two sets agree in it with the
probability of their Jaccard likeness J. `permutations` orders give a signature; of each minimum one byte is kept
(b-bit minwise hashing, Li and König 2010), in which different minima agree once in 256 by chance.

A signature is cut into bands of `rows` minima. Two sets meet in at least one band with the probability
1 - (1 - J^rows)^bands, a step that is steepest near (1 / bands)^(1 / rows).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noria.core.errors import UserError
from noria.core.shingles import Hashes, mixed

Signature = NDArray[np.uint8]
#: Chance that two different minima have the same byte.
_CHANCE = 1 / 256
#: Hashes that are permuted at once: bounds the memory of one signature, `_BLOCK` × permutations × 8 bytes.
_BLOCK = 1024


class Bands(NamedTuple):
    """How signatures are cut, and the chance that a pair exactly at the threshold is found."""

    bands: int
    rows: int
    recall: float


class Hashed(NamedTuple):
    """A set of shingles: its signature `[permutations]`, and one 64-bit key per band."""

    signature: Signature
    keys: Hashes


def choose_bands(threshold: float, permutations: int, recall: float) -> Bands:
    """The longest bands with which a pair of likeness `threshold` meets with probability `recall` at least.

    Longer bands let fewer unlike pairs meet, which is what a look-up costs. Bands of one row find the most; where even
    those miss the recall, they are taken.
    """
    for rows in range(permutations, 0, -1):
        bands = permutations // rows
        found = meeting(threshold, bands, rows)
        if found >= recall or rows == 1:
            return Bands(bands, rows, found)
    raise UserError(f"permutations must be at least 1: got {permutations} - 128 is usual")


def meeting(likeness: float, bands: int, rows: int) -> float:
    """Probability that two sets of this likeness agree in a whole band."""
    return float(1.0 - (1.0 - likeness**rows) ** bands)


class MinHash:
    """Makes signatures; a pure function of its arguments.

    threshold     likeness from which on two sets count as near duplicates
    permutations  random orders, and bytes of a signature
    recall        least chance that a pair at the threshold meets in a band

    Raises:
        UserError: a number is out of range.
    """

    def __init__(self, threshold: float, permutations: int = 128, recall: float = 0.99, seed: int = 0) -> None:
        if not 0 < threshold <= 1:
            raise UserError(f"threshold must be above 0 and at most 1: got {threshold:g} - 0.8 is usual")
        if not 8 <= permutations <= 1024:
            raise UserError(f"permutations must be from 8 to 1024: got {permutations} - 128 is usual")
        if not 0 < recall < 1:
            raise UserError(f"recall must be above 0 and below 1: got {recall:g} - 0.99 is usual")
        self.threshold, self.permutations = threshold, permutations
        self.bands = choose_bands(threshold, permutations, recall)
        first = np.uint64((seed & 0xFFFFFFFF) << 32)
        self._orders = mixed(np.arange(permutations, dtype=np.uint64) + first)

    def __call__(self, hashes: Hashes) -> Hashed:
        """Signature and band keys of a set of shingles, which must not be empty."""
        least = self._minima(hashes[:_BLOCK])
        for start in range(_BLOCK, len(hashes), _BLOCK):
            np.minimum(least, self._minima(hashes[start : start + _BLOCK]), out=least)
        bands, rows, _ = self.bands
        whole = least[: bands * rows].reshape(bands, rows)
        keys = mixed(np.arange(bands, dtype=np.uint64))
        for row in range(rows):
            keys = mixed(keys ^ whole[:, row])
        return Hashed((least & np.uint64(255)).astype(np.uint8), keys)

    def _minima(self, hashes: Hashes) -> Hashes:
        return np.asarray(mixed(hashes[:, None] ^ self._orders[None, :]).min(axis=0))


def likeness(one: Signature, others: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Estimated Jaccard likeness of a signature `[P]` and each of `others` `[N, P]`.

    Unbiased but for the cut below at 0; its standard deviation is about sqrt(J (1 - J) / P).
    """
    agreeing = (others == one).mean(axis=1)
    return np.asarray(np.maximum(0.0, (agreeing - _CHANCE) / (1 - _CHANCE)))
