"""Rows: one rollout as arrays, and what a loss sees of those that a micro-batch holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from noria.losses.base import Batch, Denominators
from noria.losses.states import Head, TeacherStates
from noria.trainers.packing import Micro, Place


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
    rollout    the rollout that it is a branch of; branches of one count as one sequence, "" = it is all of a rollout
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
    rollout: str = ""
    solved: bool = False
    roles: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    channels: dict[str, Channel] = field(default_factory=dict)
    seen: Seen | None = None
    scored: list[Scored] = field(default_factory=list)

    @classmethod
    def plain(
        cls, ids: Sequence[int] | NDArray[Any], mask: Sequence[int] | NDArray[Any], group: int = 0, route: int = 0
    ) -> Row:
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

    def opening(self) -> int:
        """How many tokens stand before the first one that is trained or compared; 0 where none is."""
        masks = [self.mask, *(channel.mask for channel in self.channels.values())]
        firsts = [int(mask.argmax()) for mask in masks if mask.any()]
        firsts += [int(scored.at.min()) for scored in self.scored if len(scored.at)]
        return min(firsts, default=0)


def flat(rows: Sequence[Row], micro: Micro, name: str, fill: float = 0.0) -> NDArray[np.float64]:
    """The stream `name` of the micro-batch's members, flat [R·T]."""
    out = np.full(micro.segment.numel(), fill, dtype=np.float64)
    for place in micro.places:
        values = np.broadcast_to(_STREAMS[name](rows[place.row]), len(rows[place.row]))
        out[place.flat] = values[place.own]
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
    referred = bool(rows) and all(rows[place.row].logp_ref is not None for place in micro.places)
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
    for slot in range(max((len(rows[place.row].scored) for place in micro.places), default=0)):
        by_head: dict[str, list[Place]] = {}
        for place in micro.places:
            if slot < len(rows[place.row].scored):
                by_head.setdefault(rows[place.row].scored[slot].head.name, []).append(place)
        for members in by_head.values():
            found = [rows[place.row].scored[slot] for place in members]
            at = [place.at(scored.at) for place, scored in zip(members, found, strict=True)]
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


def joined(counts: Denominators, rows: Sequence[Row]) -> Denominators:
    """Counts in which the branches of a rollout are one sequence, of as many tokens as all of them have."""
    if not any(row.rollout for row in rows):
        return counts
    numbers: dict[str | int, int] = {}
    of_row = torch.tensor([numbers.setdefault(row.rollout or i, len(numbers)) for i, row in enumerate(rows)])
    own = counts.sequence_tokens.new_zeros(len(rows))
    own[: len(counts.sequence_tokens)] = counts.sequence_tokens
    whole = own.new_zeros(len(numbers)).index_add(0, of_row, own)
    routes = torch.zeros(len(numbers), dtype=torch.long)
    routes[of_row] = torch.tensor([row.route for row in rows])
    return replace(
        counts,
        sequences=(whole > 0).double().sum(),
        rollout_tokens=whole[of_row][: len(counts.sequence_tokens)],
        route_sequences=routes[whole > 0].bincount(minlength=len(counts.route_tokens)).double(),
    )


def denominators(rows: Sequence[Row]) -> Denominators:
    """Counts over a global batch of rows."""
    lengths = [len(row) for row in rows]
    mask = torch.from_numpy(np.concatenate([_trained(row) for row in rows]))
    of_row = (range(len(rows)), [row.group for row in rows], [row.route for row in rows])
    segment, group, route = (torch.from_numpy(np.repeat(numbers, lengths)) for numbers in of_row)
    return joined(Denominators.of(mask, segment, group, route), rows)


def _trained(row: Row) -> NDArray[np.bool_]:
    """The first token of a row has no prediction, so it never counts."""
    return np.concatenate([[False], row.mask[1:]]).astype(np.bool_)
