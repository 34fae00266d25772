"""Carriers and aggregations that every loss term shares. Works on flat token streams, knows no model.

A loss term is a file of this folder with `Config`, `build(config)` and a one-line docstring. It can be
configured and built without torch: tensors are only ever touched through their own methods.

Convention: a term's gradient must not depend on how the global batch is cut into micro-batches, so every
denominator comes from a `Denominators` object that was counted once over the *global* batch, and each call
returns this micro-batch's share. Shares (and metrics) of the micro-batches add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from pydantic import Field, field_validator, model_validator

from noria.aggregates.base import Aggregate
from noria.aggregates.base import Denominators as Denominators
from noria.core import named
from noria.core.config import Checked
from noria.losses.states import Head, TeacherStates

if TYPE_CHECKING:
    from torch import Tensor

Balance = Literal["none", "route"]

#: Fields of `Batch` that are no streams, and streams of whole states [T, D].
_NO_STREAMS, _STATES = ("head", "auxiliary_head", "teachers"), ("hidden", "auxiliary")

#: Which of the two big parts of the loss a term belongs to: beta scales "rl", alpha scales "opd", neither scales "".
Family = Literal["rl", "opd", ""]


@dataclass(frozen=True)
class Batch:
    """Equal-length 1-D streams [T] of one packed micro-batch; masked positions may hold anything.

    logp         log pi of the token, nats; the only stream with a gradient besides `entropy`
    logp_old     the trainer's recomputation before the first step of the batch, nats
    logp_mu      behaviour policy of the engine, nats
    advantage    per-token advantage
    weight       product of all token weights; detached by every loss
    mask         bool, tokens that this term trains
    segment      long, rollout index in [0, S) over the global batch
    group        long, prompt-group index in [0, G) over the global batch
    route        long, teacher-route index in [0, R); one index is spent on "no teacher"
    entropy      entropy of the policy at the token, nats; needed by `entropy`
    logp_ref     frozen reference policy, nats; needed by `kl_ref`
    logp_teacher the routed teacher, nats; with joint weights Σ_i w_i log pi_Ti
    position     long, index of the token in its rollout
    solved       1.0 on tokens of rollouts that are known to have succeeded, else 0.0
    hidden       [T, D], the policy's hidden state that predicts the token; with a gradient
    auxiliary    [T, D'], the same of the second policy that is trained beside it

    `head` and `auxiliary_head` are the policies' heads and `teachers` the teachers' states, for losses over the whole
    vocabulary.
    """

    logp: Tensor
    logp_old: Tensor
    logp_mu: Tensor
    advantage: Tensor
    weight: Tensor
    mask: Tensor
    segment: Tensor
    group: Tensor
    route: Tensor
    entropy: Tensor | None = None
    logp_ref: Tensor | None = None
    logp_teacher: Tensor | None = None
    position: Tensor | None = None
    solved: Tensor | None = None
    hidden: Tensor | None = None
    auxiliary: Tensor | None = None
    head: Head | None = None
    auxiliary_head: Head | None = None
    teachers: tuple[TeacherStates, ...] = ()

    def __post_init__(self) -> None:
        streams = self.streams()
        shapes = {tuple(stream.shape[:1] if name in _STATES else stream.shape) for name, stream in streams.items()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise ValueError(f"streams of a batch must be 1-D and of one length, got shapes {sorted(shapes)}")

    def streams(self) -> dict[str, Tensor]:
        """The streams that are present, by name."""
        pairs = ((item.name, self.__dict__[item.name]) for item in fields(self))
        return {name: stream for name, stream in pairs if stream is not None and name not in _NO_STREAMS}

    def select(self, index: Tensor) -> Batch:
        """The same streams at `index` (long positions or a bool mask), in that order."""
        teachers = tuple(states.select(index, len(self.logp)) for states in self.teachers)
        streams: dict[str, Any] = {name: stream[index] for name, stream in self.streams().items()}
        return replace(self, teachers=teachers, **streams)

    def index(self, name: Literal["segment", "group", "route"]) -> Tensor:
        """An index stream, 0 where the mask is off (padding may carry any number)."""
        stream = self.streams()[name]
        return stream.where(self.mask.bool(), stream.new_zeros(()))

    def need(self, name: str) -> Tensor:
        """An optional stream that a term needs.

        Raises:
            ValueError: the caller did not compute it although the term's `needs` names it.
        """
        stream = self.streams().get(name)
        if stream is None:
            raise ValueError(f"batch must hold the stream {name!r}: compute it, the loss term names it in `needs`")
        return stream


@dataclass(frozen=True)
class LossOutput:
    """One term's share from one micro-batch: `value = total / denominator`, with gradient.

    `metrics` are detached scalars. They add up over micro-batches to the mean over the global batch, except
    names that end in `_max`, of which the largest counts.
    """

    total: Tensor
    denominator: Tensor
    metrics: dict[str, Tensor]

    @property
    def value(self) -> Tensor:
        return self.total / self.denominator


class Loss(Protocol):
    """A built loss term. `needs` names the optional streams of `Batch` that it reads, `family` its part of the loss.

    It can be pickled: the learner may be another process.
    """

    needs: tuple[str, ...]
    family: Family

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput: ...


@runtime_checkable
class ReadsTop(Protocol):
    """A loss over the vocabulary; `teacher_top` is K where the teacher's K likeliest tokens are enough, else None."""

    teacher_top: int | None


def teacher_top(terms: Iterable[Loss]) -> int | None:
    """How many of a teacher's likeliest tokens the terms read: 0 = none, None = the whole vocabulary."""
    tops = [term.teacher_top if isinstance(term, ReadsTop) else None for term in terms if "hidden" in term.needs]
    known = [top for top in tops if top is not None]
    return None if len(known) < len(tops) else max(known, default=0)


class LossConfig(Checked):
    """What every loss term can be told about aggregation."""

    aggregate: named.Named = Field(
        default="token",
        description=(
            "An aggregate by name, or a table of its type and options. token: mean over all action tokens (DAPO). "
            "sequence: mean in each rollout, then over rollouts (GRPO, GSPO). prompt: mean over the tokens of a "
            "prompt's group, then over prompts (ScaleRL). constant: sum per rollout over constant_tokens, then mean "
            "over rollouts (Dr.GRPO)."
        ),
    )
    constant_tokens: int | None = Field(
        default=None, gt=0, description="Divisor of aggregate = constant: usually max_tokens (Dr.GRPO)."
    )
    balance: Balance = Field(
        default="none",
        description="route: one denominator per teacher route, then the mean over routes that have tokens.",
    )

    @field_validator("aggregate")
    @classmethod
    def _aggregate_is_there(cls, value: named.Named) -> named.Named:
        return value if value == "constant" else named.checked("aggregate", "aggregates", value)

    @model_validator(mode="after")
    def _constant_is_given(self) -> LossConfig:
        if (self.aggregate == "constant") != (self.constant_tokens is not None):
            raise ValueError(
                "constant_tokens must be set with aggregate = constant and only then: "
                f"got aggregate = {self.aggregate}, constant_tokens = {self.constant_tokens}"
            )
        return self

    def aggregation(self) -> Aggregate:
        """The aggregate that the term names, built."""
        more = {} if self.constant_tokens is None else {"constant_tokens": self.constant_tokens}
        module, config = named.configured("aggregates", self.aggregate, more)
        built: Aggregate = module.build(config)
        return built


def token_scale(batch: Batch, denominators: Denominators, config: LossConfig) -> tuple[Tensor, Tensor]:
    """Coefficients [T] and a scalar denominator: the loss is sum(coefficient * l) / denominator."""
    inner, per_route, overall = config.aggregation().scale(batch, denominators)
    if config.balance == "route":
        outer = per_route.to(inner).clamp(min=1.0)[batch.index("route")]
        present = (denominators.route_tokens > 0).to(inner.dtype).sum()
        return inner / outer, present.clamp(min=1.0)
    return inner, overall.to(inner).clamp(min=1.0)


def reduce(per_token: Tensor, batch: Batch, denominators: Denominators, config: LossConfig) -> tuple[Tensor, Tensor]:
    """Weigh, mask and aggregate a per-token loss [T]; returns (total, denominator) of this micro-batch."""
    scale, denominator = token_scale(batch, denominators, config)
    weighted = per_token * masked(batch.weight.detach(), batch) * scale
    return masked(weighted, batch).sum(), denominator


def masked(values: Tensor, batch: Batch) -> Tensor:
    """`values` [T] with exact zeros where the mask is off, whatever stood there (inf and NaN included)."""
    return values.where(batch.mask.bool(), values.new_zeros(()))


def share(values: Tensor, batch: Batch, denominators: Denominators) -> Tensor:
    """This micro-batch's share of the global mean of `values` [T] over action tokens: a metric."""
    total = masked(values.detach(), batch).sum()
    return total / denominators.action_tokens.to(total).clamp(min=1.0)


def by_route(name: str, values: Tensor, batch: Batch, denominators: Denominators) -> dict[str, Tensor]:
    """Shares of the mean of `values` [T] over each teacher route's tokens, as `name/route`; {} where there is one."""
    tokens = denominators.route_tokens
    present = [route for route, count in enumerate(tokens.tolist()) if count]
    if len(present) < 2:
        return {}
    kept, index = masked(values.detach(), batch), batch.index("route")
    return {f"{name}/{r}": kept.where(index == r, kept.new_zeros(())).sum() / tokens[r].to(kept) for r in present}


def merge_metrics(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
    """Metrics of the micro-batches -> metrics of the global batch, as plain numbers."""
    merged: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            number = float(value)
            if name not in merged:
                merged[name] = number
            elif name.endswith("_max"):
                merged[name] = max(merged[name], number)
            else:
                merged[name] += number
    return merged
