"""What the signal files share: the configuration base and statistics over known rewards.

A signal only annotates: it turns rewards, log-probabilities or spans into advantages, weights or a choice of
groups, in float64, and never touches a model. Every file has `SLOT`, `Config` and `build(config)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from noria.core.config import Checked
from noria.core.types import Outcome

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

#: One group's rewards (None: unknown) -> one advantage per rollout.
Advantage: TypeAlias = Callable[[Sequence[float | None]], Floats]


@dataclass(frozen=True)
class Tokens:
    """One rollout as a token weight sees it: streams [T], those of policies in nats and read where `mask` is on.

    `spans` are the half-open token spans of key actions. `advantage` and `entropy` (nats, of the distribution that each
    token was drawn from, by the policy of `logp_old`) are there for weights over whole batches.
    """

    mask: Bools
    roles: tuple[str, ...]
    logp_mu: Floats
    logp_old: Floats
    spans: tuple[tuple[int, int], ...] = ()
    advantage: Floats = field(default_factory=lambda: np.zeros(0))
    entropy: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class Played:
    """One rollout as a group reward sees it.

    `length` counts generated tokens without observations, `parts` is what the verifier measured, `logp` and `logp_ref`
    are log-probabilities [n] of the generated tokens under the sampler and the frozen reference (empty where no
    reward of the phase asks for a reference), `turns` the assistant messages. `states` [turns + 1] are what the
    verifier says before each message and at the end (empty where no reward asks, or they could not be measured).
    """

    length: int
    truncated: bool
    parts: Mapping[str, float] = field(default_factory=dict)
    turns: int = 0
    logp: Floats = field(default_factory=lambda: np.zeros(0))
    logp_ref: Floats = field(default_factory=lambda: np.zeros(0))
    states: tuple[Outcome, ...] = ()


@dataclass(frozen=True)
class Begin:
    """How a rollout is to start and end: after `turns` of the expert's messages, and after `max_turns` in all (0 = the
    recipe's own bound)."""

    turns: int = 0
    max_turns: int = 0


class Weight(Protocol):
    """SLOT "weight": a factor >= 0 per token [T]. `family` says which terms it concerns: "rl", "opd", or "" for all."""

    family: Literal["rl", "opd", ""]

    def weigh(self, tokens: Tokens) -> Floats: ...


@runtime_checkable
class BatchWeight(Protocol):
    """SLOT "weight" too: factors >= 0 of tokens that are compared over all rollouts of a step, [T] for each."""

    family: Literal["rl", "opd", ""]

    def weigh_batch(self, batch: Sequence[Tokens]) -> list[Floats]: ...


class Reward(Protocol):
    """SLOT "reward": final rewards of one finished group [G] from the rewards so far (a transform of the group).

    None is unknown and stays so; what becomes None takes no part in the step.
    """

    needs_reference: bool

    def shape(self, rewards: Sequence[float | None], group: Sequence[Played]) -> list[float | None]: ...


@runtime_checkable
class ReadsOutcomes(Protocol):
    """A reward that takes what it is given for the verifier's own: it comes first, wherever `use` names it."""

    reads_outcomes: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """Which groups of a step are trained on.

    kept, dropped   indices of the groups with and without signal
    refill          further groups to sample; 0 when the batch is full or nothing more may be drawn
    capped          refills were allowed and did not suffice: the batch stays short
    """

    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    refill: int
    capped: bool


class Transform(Protocol):
    """SLOT "transform": chooses among a step's finished groups, after their final rewards; remembers nothing.

    `teaches` says of each group sampled so far, in the order of admission, whether it has signal; `wanted` of those
    make a full batch.
    """

    def __call__(self, teaches: Sequence[bool], wanted: int) -> Selection: ...


class Controller(Protocol):
    """SLOT "controller": sets one coefficient while the phase goes on; `target` is alpha, beta or a term's name."""

    target: str

    def value(self, step: int, steps: int, configured: float) -> float: ...
    def observe(self, facts: Mapping[str, float]) -> None: ...


class Rollout(Protocol):
    """SLOT "rollout": how a rollout begins and ends at a step. `expert_turns` is the length of the expert's episode of
    its task (0 = there is none), `max_turns` the recipe's own bound."""

    needs_expert: bool

    def begin(self, step: int, expert_turns: int, max_turns: int) -> Begin: ...


class View(Protocol):
    """SLOT "view": the positions [N] of a rollout's tokens that the student is trained on, ascending."""

    def keep(self, mask: Bools, roles: tuple[str, ...], seed: int) -> NDArray[np.int64]: ...


class Takeover(Protocol):
    """SLOT "takeover": the token from which on a teacher writes the rest; None = nowhere. `k1` is log pi - log pi_T."""

    max_new_tokens: int

    def start(self, k1: Floats, mask: Bools) -> int | None: ...


class Rewrite(Protocol):
    """SLOT "rewrite": asks the student to say its answer again, and decides what of that becomes a target."""

    per_step: int
    max_new_tokens: int

    def ask(self, answer: str) -> str: ...
    def accepts(
        self, rewrite: Sequence[int], answer: Sequence[int], ended: bool, valid: bool, outcome: Outcome
    ) -> bool: ...


#: The metric that a validation of the phase gives: share of held-out tasks solved, none of them the gate's.
VALIDATED = "validation/solved"


@runtime_checkable
class Observes(Protocol):
    """A reward that hears what controllers hear; with `needs_validation` the phase must measure `VALIDATED`."""

    needs_validation: bool

    def observe(self, facts: Mapping[str, float]) -> None: ...


@runtime_checkable
class PerTurn(Protocol):
    """A reward that credits the turns of a rollout apart: by how much the return from each turn on differs from that of
    the whole rollout [turns]. It needs `Played.states`, and its module says `PER_TURN = True`."""

    needs_states: bool

    def turns(self, played: Played) -> Floats: ...


@runtime_checkable
class Reports(Protocol):
    """A reward with metrics of its own over the groups that it has shaped since the last report."""

    def report(self) -> dict[str, float]: ...


@runtime_checkable
class Stateful(Protocol):
    """A signal that a continued run must find as it was left; `state` is plain data."""

    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any]) -> None: ...


class SignalConfig(Checked):
    """Frozen, and refuses keys it does not know."""


def known(rewards: Sequence[float | None]) -> tuple[Bools, Floats]:
    """Which rewards are known [G] and their values [K] in float64.

    Raises:
        ValueError: a reward that is NaN or infinite (unknown is None, never NaN).
    """
    mask = np.array([reward is not None for reward in rewards], dtype=np.bool_)
    values = np.array([reward for reward in rewards if reward is not None], dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"rewards must be finite, or None for unknown: got {list(rewards)}")
    return mask, values


def met(reward: float, parts: Mapping[str, float], wanted: Sequence[str]) -> float:
    """Share of the checks met: the mean of those measures that are wanted (none named = all), or the reward where the
    verifier gave none of them."""
    found = [value for name, value in parts.items() if name in wanted or not wanted]
    return sum(found) / len(found) if found else reward


def flat(values: Floats) -> bool:
    """Whether rewards carry no signal: fewer than two, or equal up to float64 rounding."""
    if len(values) < 2:
        return True
    return bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


def over_known(rewards: Sequence[float | None], advantage: Callable[[Floats], Floats]) -> Floats:
    """Apply `advantage` to the known rewards; unknown ones and groups without signal get exactly 0."""
    mask, values = known(rewards)
    out = np.zeros(len(mask), dtype=np.float64)
    if not flat(values):
        out[mask] = advantage(values)
    return out


def mean_one(weights: Floats, mask: Bools) -> Floats:
    """Scale `weights` [T] to mean 1 over `mask`, 0 elsewhere: a rollout's total weight does not change.

    If all weights under the mask are 0 they stay 0.
    """
    kept = np.where(mask, weights, 0.0).astype(np.float64)
    total = kept.sum()
    return kept * (mask.sum() / total) if total > 0 else kept
