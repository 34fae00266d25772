"""What aggregates share: the counts over the global batch that every denominator comes from.

An aggregate is a file of this folder with `SLOT`, `SOURCE`, `Config` and `build(config)`. It gives every token a
coefficient and the batch a denominator; both may depend on the counts of the *global* batch and on nothing else, so
that the gradient is the same however the batch is cut. Works on tensors through their own methods, without torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from noria.core.config import Checked

if TYPE_CHECKING:
    from torch import Tensor


class Streams(Protocol):
    """What an aggregate reads of a micro-batch: 1-D streams [T] (see `losses.base.Batch`)."""

    @property
    def logp(self) -> Tensor: ...
    @property
    def mask(self) -> Tensor: ...
    @property
    def segment(self) -> Tensor: ...
    @property
    def group(self) -> Tensor: ...
    @property
    def route(self) -> Tensor: ...

    def index(self, name: Literal["segment", "group", "route"]) -> Tensor: ...


class Scale(NamedTuple):
    """The loss is sum(coefficient * l) / denominator.

    coefficient    [T], of each token
    per_route      [R], the denominator of each teacher route alone, for `balance = "route"`
    denominator    scalar, of the whole batch
    """

    coefficient: Tensor
    per_route: Tensor
    denominator: Tensor


class Aggregate(Protocol):
    """A built aggregate."""

    def scale(self, batch: Streams, counts: Denominators) -> Scale: ...


class AggregateConfig(Checked):
    """Frozen, and refuses keys it does not know."""


@dataclass(frozen=True)
class Denominators:
    """Counts over the global batch, taken before any token weight; made once per optimiser step and term.

    Rollouts, prompts and routes without a trained token do not count. Tensors are float64:
    `sequence_tokens` [S], `group_tokens` [G], `route_tokens`, `route_sequences`, `route_prompts` [R]; the
    rest are scalars. A sequence that is one branch of a rollout has that rollout's tokens in `rollout_tokens` [S], and
    the branches count as one in `sequences` and `route_sequences`.
    """

    action_tokens: Tensor
    sequences: Tensor
    prompts: Tensor
    sequence_tokens: Tensor
    group_tokens: Tensor
    route_tokens: Tensor
    route_sequences: Tensor
    route_prompts: Tensor
    rollout_tokens: Tensor

    @classmethod
    def of(cls, mask: Tensor, segment: Tensor, group: Tensor, route: Tensor) -> Denominators:
        """Count over flat streams [T] of the whole global batch (all micro-batches, all ranks).

        Raises:
            ValueError: negative indices, or a rollout that lies in two groups, or a group with two routes.
        """
        keep = mask.bool()
        segment, group, route = segment[keep], group[keep], route[keep]
        if segment.numel() and min(int(index.min()) for index in (segment, group, route)) < 0:
            raise ValueError("segment, group and route must be indices >= 0 wherever the mask is on")
        one = segment.double().fill_(1.0)
        sequence_tokens, group_tokens, route_tokens = (_sums(index, one) for index in (segment, group, route))
        group_of = _owner(segment, group, "a rollout", "prompt group")
        route_of = _owner(group, route, "a prompt group", "teacher route")
        has_tokens, group_has_tokens = sequence_tokens > 0, group_tokens > 0
        routes = len(route_tokens)
        return cls(
            action_tokens=one.sum(),
            sequences=has_tokens.double().sum(),
            prompts=group_has_tokens.double().sum(),
            sequence_tokens=sequence_tokens,
            group_tokens=group_tokens,
            route_tokens=route_tokens,
            route_sequences=_counts(route_of[group_of[has_tokens]], routes),
            route_prompts=_counts(route_of[group_has_tokens], routes),
            rollout_tokens=sequence_tokens,
        )

    @classmethod
    def of_batches(cls, batches: Sequence[Streams]) -> Denominators:
        """The same, from all micro-batches of the global batch."""
        from torch import cat

        streams = zip(*((b.mask, b.segment, b.group, b.route) for b in batches), strict=True)
        return cls.of(*(cat(parts) for parts in streams))


def _sums(index: Tensor, value: Tensor) -> Tensor:
    """Sum `value` [N] by `index` [N]; the result is one longer than the largest index, at least 1."""
    return value.new_zeros(int(index.max()) + 1 if index.numel() else 1).index_add(0, index, value)


def _counts(index: Tensor, size: int) -> Tensor:
    return index.bincount(minlength=size).double()


def _owner(child: Tensor, parent: Tensor, child_name: str, parent_name: str) -> Tensor:
    """For each child index its one parent index; refuses a child with two parents."""
    owner = child.new_zeros(int(child.max()) + 1 if child.numel() else 1)
    owner[child] = parent
    if bool((owner[child] != parent).any()):
        raise ValueError(f"{child_name} must have one {parent_name}")
    return owner
