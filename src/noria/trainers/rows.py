"""Rows: one rollout as arrays, and packing of rows into rectangular micro-batches.

Several rollouts share one line of a micro-batch; a block-diagonal causal mask and positions that restart keep them
apart, so that the loss of a pack is the sum of the losses of its members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from noria.losses.base import Batch
from noria.losses.states import Head, TeacherStates


@dataclass(slots=True)
class Channel:
    """What one loss term, or one family of terms, trains in a row [T] where it differs from the row's own streams."""

    mask: NDArray[np.bool_]
    weight: NDArray[np.float64]
    advantage: NDArray[np.float64]


@dataclass(slots=True)
class Seen:
    """What a teacher reads instead of the row's own tokens: `ids` [S], and where in it each token stands, `at` [T]."""

    ids: NDArray[np.int64]
    at: NDArray[np.int64]


@dataclass(slots=True)
class Scored:
    """A teacher's hidden states [n, D] that predict the row's tokens `at` [n], and the teacher's share."""

    head: Head
    hidden: torch.Tensor
    at: NDArray[np.int64]
    share: float = 1.0


@dataclass(slots=True)
class Row:
    """One rollout to train on or to score. All arrays have the rollout's length [T].

    ids        token ids
    mask       bool, tokens that carry loss
    advantage, weight, logp_old, logp_mu, logp_teacher   float64, read where `mask` is on
    group      index of the prompt group; `route` index of the teacher
    logp_ref   frozen reference policy, where a term needs it
    solved     whether the rollout is known to have succeeded
    roles      what each token is, where a token weight asks; `spans` token spans of its key actions
    channels   streams of single terms (by name) or families ("rl", "opd"); a term of a family without one takes no part
    seen       what the teacher reads, where that is not the row itself
    scored     cached states of the teachers
    """

    ids: NDArray[np.int64]
    mask: NDArray[np.bool_]
    advantage: NDArray[np.float64]
    weight: NDArray[np.float64]
    logp_old: NDArray[np.float64]
    logp_mu: NDArray[np.float64]
    logp_teacher: NDArray[np.float64]
    group: int = 0
    route: int = 0
    logp_ref: NDArray[np.float64] | None = None
    solved: bool = False
    roles: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    channels: dict[str, Channel] = field(default_factory=dict)
    seen: Seen | None = None
    scored: list[Scored] = field(default_factory=list)

    @classmethod
    def plain(cls, ids: Sequence[int], mask: Sequence[int], group: int = 0, route: int = 0) -> Row:
        """A row without signal yet: advantage 0, weight 1."""
        n = len(ids)
        if n != len(mask):
            raise ValueError(f"ids and mask must have one length: got {n} and {len(mask)}")
        zeros = [np.zeros(n) for _ in range(4)]
        return cls(
            np.asarray(ids, dtype=np.int64), np.asarray(mask, dtype=np.bool_), zeros[0], np.ones(n),
            zeros[1], zeros[2], zeros[3], group, route,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Micro:
    """One rectangular micro-batch of R lines and T columns.

    `attention` is bool [R, 1, T, T]; `segment` is flat [R·T], the index of the row in the global batch, -1 on padding;
    `places` says for each member (row index, flat start, length).
    """

    ids: torch.Tensor
    positions: torch.Tensor
    attention: torch.Tensor
    segment: torch.Tensor
    places: tuple[tuple[int, int, int], ...]


def pack(lengths: Sequence[int], line_tokens: int) -> list[list[int]]:
    """First-fit decreasing: indices of rows for each line. A row longer than a line gets one of its own."""
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


def micro_batches(rows: Sequence[Row], line_tokens: int, tokens: int) -> list[Micro]:
    """Cut rows into micro-batches of at most `tokens` tokens, padding included (at least one line each).

    Rows with cached states are cut teacher by teacher, so that each teacher's head is read once.
    """
    routes = sorted({row.route if row.scored else -1 for row in rows})
    out: list[Micro] = []
    for route in routes:
        members = [i for i, row in enumerate(rows) if (row.route if row.scored else -1) == route]
        out += _cut(rows, members, line_tokens, tokens)
    return out


def _cut(rows: Sequence[Row], members: Sequence[int], line_tokens: int, tokens: int) -> list[Micro]:
    lines = [[members[i] for i in line] for line in pack([len(rows[i]) for i in members], line_tokens)]
    widths = [sum(len(rows[i]) for i in line) for line in lines]
    order = sorted(range(len(lines)), key=lambda k: -widths[k])
    out: list[Micro] = []
    at = 0
    while at < len(order):
        width = widths[order[at]]
        count = max(1, tokens // width)
        out.append(_rectangle(rows, [lines[k] for k in order[at : at + count]], width))
        at += count
    return out


def _rectangle(rows: Sequence[Row], lines: list[list[int]], width: int) -> Micro:
    shape = (len(lines), width)
    ids, positions = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    segment = np.full(shape, -1, dtype=np.int64)
    places = []
    for r, line in enumerate(lines):
        start = 0
        for i in line:
            n = len(rows[i])
            part = slice(start, start + n)
            ids[r, part], positions[r, part], segment[r, part] = rows[i].ids, np.arange(n), i
            places.append((i, r * width + start, n))
            start += n
    seg = torch.from_numpy(segment)
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    attention = ((seg[:, :, None] == seg[:, None, :]) & causal)[:, None]
    return Micro(torch.from_numpy(ids), torch.from_numpy(positions), attention, seg.reshape(-1), tuple(places))


def flat(rows: Sequence[Row], micro: Micro, name: str, fill: float = 0.0) -> NDArray[np.float64]:
    """The stream `name` of the micro-batch's members, flat [R·T]."""
    out = np.full(micro.segment.numel(), fill, dtype=np.float64)
    for i, start, n in micro.places:
        out[start : start + n] = _STREAMS[name](rows[i])
    return out


_STREAMS: dict[str, Callable[[Row], Any]] = {
    "mask": lambda row: row.mask,
    "advantage": lambda row: row.advantage,
    "weight": lambda row: row.weight,
    "logp_old": lambda row: row.logp_old,
    "logp_mu": lambda row: row.logp_mu,
    "logp_teacher": lambda row: row.logp_teacher,
    "logp_ref": lambda row: 0.0 if row.logp_ref is None else row.logp_ref,
    "solved": lambda row: float(row.solved),
}


def batch_of(
    rows: Sequence[Row], micro: Micro, logp: torch.Tensor, entropy: torch.Tensor | None, segments: Sequence[int]
) -> Batch:
    """The loss batch of a micro-batch: `logp` [R·T] with gradient, streams beside it.

    `segments` numbers the rows in the global batch.
    """
    dtype = logp.dtype

    def stream(name: str) -> torch.Tensor:
        return torch.from_numpy(flat(rows, micro, name)).to(dtype)

    index = {"segment": list(segments), "group": [r.group for r in rows], "route": [r.route for r in rows]}
    members = micro.segment.clamp(min=0)
    numbers: dict[str, Any] = {key: torch.tensor(values, dtype=torch.long)[members] for key, values in index.items()}
    referred = bool(rows) and all(rows[i].logp_ref is not None for i, _, _ in micro.places)
    return Batch(
        logp=logp,
        logp_old=stream("logp_old"),
        logp_mu=stream("logp_mu"),
        advantage=stream("advantage"),
        weight=stream("weight"),
        mask=stream("mask") > 0,
        entropy=entropy,
        logp_teacher=stream("logp_teacher"),
        logp_ref=stream("logp_ref") if referred else None,
        solved=stream("solved"),
        position=micro.positions.reshape(-1),
        **numbers,
    )


def with_states(batch: Batch, rows: Sequence[Row], micro: Micro, hidden: torch.Tensor, head: Head) -> Batch:
    """The batch with what a loss over the whole vocabulary needs; `hidden` [R·T, D] are those that predict."""
    teachers = []
    for slot in range(max((len(rows[i].scored) for i, _, _ in micro.places), default=0)):
        by_head: dict[str, list[tuple[int, int]]] = {}
        for i, start, _ in micro.places:
            if slot < len(rows[i].scored):
                by_head.setdefault(rows[i].scored[slot].head.name, []).append((i, start))
        for members in by_head.values():
            found = [rows[i].scored[slot] for i, _ in members]
            at = [start + scored.at for scored, (_, start) in zip(found, members, strict=True)]
            shares = np.repeat([scored.share for scored in found], [len(where) for where in at])
            teachers.append(
                TeacherStates(
                    found[0].head, torch.from_numpy(np.concatenate(at)), torch.cat([s.hidden for s in found]),
                    torch.from_numpy(shares),
                )
            )  # fmt: skip
    return replace(batch, hidden=hidden, head=head, teachers=tuple(teachers))


def own_channel(row: Row, mask: NDArray[np.bool_] | None = None) -> Channel:
    """The row's own streams as a channel, under a mask of their own if one is given."""
    return Channel(row.mask if mask is None else mask, row.weight, row.advantage)


def trained_positions(row: Row) -> NDArray[np.int64]:
    """Positions of the row's masked tokens; the first token has no prediction and never counts."""
    return np.flatnonzero(row.mask[1:]) + 1
