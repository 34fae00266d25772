"""Sets that know what they hold, and near duplicates of it: linear time, and memory that does not grow.

    hashed ─► look up one key per band ─► candidates ─► compare signatures ─► the likest one, or none

Tables and signatures are unlinked scratch files, mapped into memory. Their pages are given back to the kernel again and
again, so what the process itself holds stays the same; a thing takes 8 bytes × bands / load and a signature of a file.
They are a cache: whoever keeps the things can build them anew.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noria.core.errors import UserError
from noria.core.minhash import Hashed, MinHash, likeness
from noria.core.shingles import Hashes, mixed

#: Entries of a bucket, and how many buckets from its own on an entry of a band may lie.
_WIDTH, _PROBES = 8, 4
#: Share of a table that is used at most; its size is the next power of 2.
_LOAD = 0.5
#: Look-ups after which the pages are given back. One touches about 25 places, and the kernel maps 64 KiB around each.
_BREATH = 4
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class _Scratch:
    """A file without a name, mapped. It is sparse: room that was never written takes none."""

    def __init__(self, size: int, folder: Path | None) -> None:
        with tempfile.TemporaryFile(dir=folder, prefix=".noria-") as file:
            os.truncate(file.fileno(), size)
            self._map = mmap.mmap(file.fileno(), 0)
        self._used = 0

    def array(self, kind: Any, shape: tuple[int, int]) -> NDArray[Any]:
        return np.frombuffer(self._map, kind, shape[0] * shape[1]).reshape(shape)

    def breathe(self) -> None:
        """Called at every look-up."""
        self._used += 1
        if self._used % _BREATH == 0:
            self._map.madvise(mmap.MADV_DONTNEED)  # of a shared mapping: what was written stays in the file


class KeyTable:
    """64-bit keys with numbers in buckets of eight entries; an entry is half of the key and the number.

    A key is found under another's number about once in 10^9 look-ups. Room for `entries`; scratch space in `folder`.
    """

    def __init__(self, entries: int, folder: Path | None = None) -> None:
        self._buckets = 1 << max(3, int(entries / (_LOAD * _WIDTH)).bit_length())
        self._scratch = _Scratch(self._buckets * _WIDTH * 8, folder)
        self._rows = self._scratch.array(np.uint64, (self._buckets, _WIDTH))

    def put(self, key: int, number: int, probes: int | None = None) -> None:
        """Into the first free entry of so many buckets (None = all) from the key's own on; dropped where all are full.

        Keys that very many things share thus keep the first of them alone.
        """
        bucket, entry = key & (self._buckets - 1), (key >> 32 << 32) | (number + 1)
        for step in range(probes or self._buckets):
            row = self._rows[(bucket + step) & (self._buckets - 1)]
            free = int(np.count_nonzero(row))
            if free < _WIDTH:
                row[free] = entry
                return

    def numbers(self, keys: Hashes, probes: int | None = None) -> NDArray[np.int64]:
        """Ascending numbers of what was put under one of the keys."""
        self._scratch.breathe()
        buckets = (keys & np.uint64(self._buckets - 1)).astype(np.int64)
        marks, found = keys >> _HALF, []
        for step in range(probes or self._buckets):
            rows = self._rows[(buckets + step) & (self._buckets - 1)]
            hits = ((rows >> _HALF) == marks[:, None]) & ((rows & _LOW) != 0)
            found.append(rows[hits] & _LOW)
            full = rows[:, -1] != 0
            if not full.any():
                break
            buckets, marks = buckets[full], marks[full]
        return np.unique(np.concatenate(found)).astype(np.int64) - 1


class ExactIndex:
    """Whether a thing was seen, by any hash of it: a new one counts as seen once in 10^9 times. Room for `capacity`."""

    def __init__(self, capacity: int, folder: Path | None = None) -> None:
        self._table = KeyTable(capacity, folder)

    def __contains__(self, key: int) -> bool:
        return bool(len(self._table.numbers(_spread(key))))

    def add(self, key: int) -> None:
        """Note a thing."""
        self._table.put(int(_spread(key)[0]), 0)


class Match(NamedTuple):
    """The likest thing that is known already: its number, in the order of `add`, and the estimated likeness."""

    number: int
    likeness: float


class NearIndex:
    """Room for `capacity` things, compared by `hasher`'s signatures. Scratch space in `folder`, best one of a disk.

    Raises:
        UserError: a capacity out of range, or from `add` once it is used up.
    """

    def __init__(self, hasher: MinHash, capacity: int, folder: Path | None = None) -> None:
        if not 1 <= capacity < 1 << 31:
            raise UserError(f"capacity must be from 1 to {(1 << 31) - 1}: got {capacity} - split the stream")
        self.hasher, self.capacity, self.size = hasher, capacity, 0
        self._table = KeyTable(capacity * hasher.bands.bands, folder)
        self._scratch = _Scratch(capacity * hasher.permutations, folder)
        self._signatures = self._scratch.array(np.uint8, (capacity, hasher.permutations))

    def nearest(self, hashed: Hashed) -> Match | None:
        """The likest thing among those that share a band, if it reaches the threshold; the first of equals."""
        self._scratch.breathe()
        numbers = self._table.numbers(hashed.keys, _PROBES)
        if not len(numbers):
            return None
        found = likeness(hashed.signature, self._signatures[numbers])
        at = int(found.argmax())
        # half a step of the estimate, or rounding would decide about what is as like as the threshold
        if found[at] < self.hasher.threshold - 0.5 / self.hasher.permutations:
            return None
        return Match(int(numbers[at]), float(found[at]))

    def add(self, hashed: Hashed) -> int:
        """Note a thing; its number."""
        if self.size >= self.capacity:
            raise UserError(f"capacity must be enough: got {self.capacity}, one more is to be added - ask for more")
        number, self.size = self.size, self.size + 1
        self._signatures[number] = hashed.signature
        for key in hashed.keys:
            self._table.put(int(key), number, _PROBES)
        return number


def _spread(key: int) -> Hashes:
    """Keys that differ in a few bits only would crowd into a few buckets."""
    return mixed(np.array([key & 0xFFFFFFFFFFFFFFFF], np.uint64))
