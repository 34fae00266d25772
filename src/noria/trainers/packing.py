"""Packing of rows into micro-batches.

Several rollouts share one line of a micro-batch; positions that restart and a block-diagonal causal mask, or attention
row by row, keep them apart, so that the loss of a pack is the sum of the losses of its members. Rollouts that begin
with the same tokens before anything is trained in them (one prompt, many answers) share these too: the first of them in
a line is there whole, and the others follow with their own tokens only, which see the shared ones.

    tokens      p p p a a a b b      "p" shared, "a" the first row's own, "b" the second's
    positions   0 1 2 3 4 5 3 4
    source      - 0 1 2 3 4 2 6      where each token is predicted
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from noria.losses.logprobs import sources
from noria.models.attention import Reads, reads_of


class Packed(Protocol):
    """What packing needs to know of a row."""

    ids: NDArray[np.int64]
    route: int

    @property
    def scored(self) -> Sequence[object]: ...

    def opening(self) -> int:
        """How many tokens stand before the first one that is trained or compared; 0 where none is."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where row `row` lies: `n` of its tokens, those from `skip` on, begin at `start` of the flat micro-batch."""

    row: int
    start: int
    n: int
    skip: int = 0

    @property
    def flat(self) -> slice:
        """The part of a flat stream that is the row's."""
        return slice(self.start, self.start + self.n)

    @property
    def own(self) -> slice:
        """The part of the row that lies there."""
        return slice(self.skip, self.skip + self.n)

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions in the row as positions in the flat micro-batch; none may lie among the shared ones."""
        return positions + (self.start - self.skip)


@dataclass(frozen=True, slots=True)
class Micro:
    """One rectangular micro-batch of R lines and T columns.

    `attention` is bool [R, 1, T, T], or None where `reads` says what each row reads; `segment` is flat [R·T], the index
    of the row in the global batch, -1 on padding; `source` [R·T] says at which flat position a token is predicted (-1 =
    nowhere); `places` where each member lies.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    attention: torch.Tensor | None
    segment: torch.Tensor
    source: torch.Tensor
    places: tuple[Place, ...]
    reads: Reads | None = None

    def predicting(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states [R·T, D] such that each predicts the token of its own position; meaningless at a start."""
        return hidden[self.source.clamp(min=0).to(hidden.device)]


def pack(lengths: Sequence[int], line_tokens: int) -> list[list[int]]:
    """First-fit decreasing: indices of items for each line. One longer than a line gets a line of its own."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    lines: list[list[int]] = []
    rooms: list[int] = []
    for i in order:
        for k, room in enumerate(rooms):
            if lengths[i] <= room:
                lines[k].append(i)
                rooms[k] -= lengths[i]
                break
        else:
            lines.append([i])
            rooms.append(max(0, line_tokens - lengths[i]))
    return lines


def micro_batches(rows: Sequence[Packed], line_tokens: int, tokens: int) -> list[Micro]:
    """Cut rows into micro-batches of at most `tokens` tokens, padding included (at least one line each).

    Rows with cached states are cut teacher by teacher, so that each teacher's head is read once. With `line_tokens` 0
    every row is alone in its line.
    """
    return [micro for members in _by_route(rows) for micro in _cut(rows, members, line_tokens, tokens)]


def _by_route(rows: Sequence[Packed]) -> list[list[int]]:
    """Rows with cached states teacher by teacher, after those without."""
    routes = [row.route if row.scored else -1 for row in rows]
    return [[i for i, each in enumerate(routes) if each == route] for route in sorted(set(routes))]


def joined_batches(rows: Sequence[Packed], tokens: int) -> list[Micro]:
    """The same with all rows of a micro-batch in one line without padding, and `reads` instead of a mask.

    Rows share whatever they begin with alike, as far as nothing is trained or compared there in either.
    """
    return [micro for members in _by_route(rows) for micro in _join(rows, members, tokens)]


def _join(rows: Sequence[Packed], members: Sequence[int], tokens: int) -> list[Micro]:
    keys = {i: rows[i].ids[: rows[i].opening()].tolist() for i in members}
    order = sorted(members, key=lambda i: (keys[i], -len(rows[i]), i))
    shared = {b: _alike(keys[a], keys[b]) for a, b in itertools.pairwise(order)}
    whole = len(rows[order[0]]) + sum(len(rows[i]) - shared[i] for i in order[1:])
    most = -(-whole // -(-whole // tokens))
    out: list[Micro] = []
    part: list[int] = []
    size = 0
    for i in order:
        own = len(rows[i]) - (shared[i] if part else 0)
        if part and (size + own > tokens or size >= most):
            out.append(_line(rows, part, shared))
            part, size, own = [], 0, len(rows[i])
        part.append(i)
        size += own
    return [*out, _line(rows, part, shared)]


def _alike(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two lists begin with alike."""
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n


def _line(rows: Sequence[Packed], order: Sequence[int], shared: Mapping[int, int]) -> Micro:
    """Rows one after the other; each reads the tokens that it shares where the row before reads them."""
    ids, positions, segment, source = [], [], [], []
    places: list[Place] = []
    reads: list[NDArray[np.int64]] = []
    start = 0
    for i in order:
        skip = shared[i] if places else 0
        n = len(rows[i]) - skip
        place = Place(i, start, n, skip)
        read = np.concatenate([reads[-1][:skip], np.arange(start, start + n)]) if skip else np.arange(start, start + n)
        ids.append(rows[i].ids[place.own])
        positions.append(np.arange(skip, skip + n))
        segment.append(np.full(n, i))
        source.append(np.concatenate([[-1], read[:-1]])[place.own])
        places.append(place)
        reads.append(read)
        start += n
    flat = [torch.from_numpy(np.concatenate(parts)) for parts in (ids, positions, segment, source)]
    return Micro(
        flat[0][None], flat[1][None], None, flat[2], flat[3], tuple(places),
        reads_of(reads, [place.n for place in places]),
    )  # fmt: skip


@dataclass(slots=True)
class _Bundle:
    """Rows that stand one after the other and share their first `shared` tokens."""

    members: list[int]
    shared: int
    width: int


def _bundles(rows: Sequence[Packed], members: Sequence[int], line_tokens: int) -> list[_Bundle]:
    """Rows by what they share, each bundle no wider than a line unless one row alone is."""
    out: list[_Bundle] = []
    fitting: dict[bytes, list[_Bundle]] = {}
    for i in sorted(members, key=lambda i: (-len(rows[i]), i)):
        first = rows[i].opening()
        bundles = fitting.setdefault(rows[i].ids[:first].tobytes() if first > 1 else b"", [])
        own = len(rows[i]) - first
        room = (b for b in bundles if b.width + own <= line_tokens) if first > 1 else iter(())
        bundle = next(room, None)
        if bundle is None:
            out.append(_Bundle([i], first, len(rows[i])))
            bundles.append(out[-1])
        else:
            bundle.members.append(i)
            bundle.width += own
    return out


def _cut(rows: Sequence[Packed], members: Sequence[int], line_tokens: int, tokens: int) -> list[Micro]:
    bundles = _bundles(rows, members, line_tokens)
    lines = [[bundles[k] for k in line] for line in pack([bundle.width for bundle in bundles], line_tokens)]
    widths = [sum(bundle.width for bundle in line) for line in lines]
    order = sorted(range(len(lines)), key=lambda k: -widths[k])
    out: list[Micro] = []
    at = 0
    while at < len(order):
        width = widths[order[at]]
        count = max(1, tokens // width)
        out.append(_rectangle(rows, [lines[k] for k in order[at : at + count]], width))
        at += count
    return out


def _rectangle(rows: Sequence[Packed], lines: list[list[_Bundle]], width: int) -> Micro:
    size = len(lines) * width
    ids, positions = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    segment = np.full(size, -1, dtype=np.int64)
    # A token of a row that follows sees the tokens whose `offered` is its `asked`.
    offered, asked = np.full(size, -1, dtype=np.int64), np.full(size, -2, dtype=np.int64)
    places: list[Place] = []
    begins: list[tuple[int, int]] = []
    for r, line in enumerate(lines):
        start = r * width
        for bundle in line:
            leader = start
            for i in bundle.members:
                skip = 0 if start == leader else bundle.shared
                place = Place(i, start, len(rows[i]) - skip, skip)
                part = place.flat
                ids[part], positions[part] = rows[i].ids[place.own], np.arange(place.skip, place.skip + place.n)
                segment[part] = i
                if skip:
                    asked[part] = leader
                    begins.append((start, leader + skip - 1))
                places.append(place)
                start += place.n
            offered[leader : leader + bundle.shared] = leader
    seg = torch.from_numpy(segment)
    source = sources(seg)
    for token, predictor in begins:
        source[token] = predictor
    grid = seg.reshape(len(lines), width)
    seen = grid[:, :, None] == grid[:, None, :]
    if begins:
        ask, offer = (torch.from_numpy(marks).reshape(len(lines), width) for marks in (asked, offered))
        seen |= ask[:, :, None] == offer[:, None, :]
    attention = (seen & torch.ones(width, width, dtype=torch.bool).tril())[:, None]
    return Micro(
        torch.from_numpy(ids).reshape(len(lines), width), torch.from_numpy(positions).reshape(len(lines), width),
        attention, seg, source, tuple(places),
    )  # fmt: skip
