"""Token efficiency: pays correct rollouts shorter than their group's median correct length (HMPO)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from noria.signals.base import Played, SignalConfig, flat, known

SLOT = "reward"
SOURCE = "HMPO, eq. 4 of the MOPD report"
#: A phase has one such reward: a second one would read what this one paid.
READS_OUTCOMES = True


class Config(SignalConfig):
    """Constants of R_token = min(1, cos(pi n / 2b) + lam)."""

    lam: float = Field(default=0.8, ge=0, le=1, description="Offset of the cosine (HMPO: 0.8): the pay at n = b.")
    boundary: Literal["strict", "inclusive"] = Field(
        default="strict",
        description=(
            "strict: n < b is paid (HMPO's equation 4; a single correct rollout gets nothing). inclusive: "
            "n <= b is paid, n = b gets lam (as the released code does; recommended for training)."
        ),
    )


@dataclass(frozen=True, slots=True)
class HmpoGroup:
    """What one group got.

    rewards   R = R_acc * R_token per rollout, None where unknown
    lengths   generated tokens of the correct rollouts, ascending
    accuracy  share of the known rollouts that are correct
    silent    the known rewards are all equal: no signal although the group was scored
    drop      no correct rollout: the group must not be trained on
    """

    rewards: tuple[float | None, ...]
    lengths: tuple[int, ...]
    accuracy: float
    silent: bool
    drop: bool


class Hmpo:
    """Built group reward. Works on whole groups only: the budget b is a statistic of the group."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._seen: list[HmpoGroup] = []

    def __call__(self, rewards: Sequence[float | None], lengths: Sequence[int], truncated: Sequence[bool]) -> HmpoGroup:
        """Score one group [G].

        `rewards` are verifier outcomes (1 is correct, None unknown), `lengths` generated tokens without
        observations (the sum of the action mask), `truncated` whether the token limit cut the rollout off,
        which counts as incorrect.
        """
        rows = list(zip(rewards, lengths, truncated, strict=True))
        known(rewards)
        correct = [reward is not None and reward >= 1.0 and not cut for reward, _, cut in rows]
        spans = sorted(length for length, ok in zip(lengths, correct, strict=True) if ok)
        budget = float(np.median(spans)) if spans else 0.0
        paid = tuple(
            None if reward is None else (self._token_reward(length, budget) if ok else 0.0)
            for (reward, length, _), ok in zip(rows, correct, strict=True)
        )
        judged = [value for value in paid if value is not None]
        return HmpoGroup(
            rewards=paid,
            lengths=tuple(spans),
            accuracy=len(spans) / len(judged) if judged else 0.0,
            silent=flat(np.array(judged, dtype=np.float64)),
            drop=not spans,
        )

    needs_reference, reads_outcomes = False, READS_OUTCOMES

    def shape(self, rewards: Sequence[float | None], group: Sequence[Played]) -> list[float | None]:
        """The same as a group reward; a group without a correct rollout becomes unknown, so that it is dropped."""
        paid = self(rewards, [played.length for played in group], [played.truncated for played in group])
        self._seen.append(paid)
        return [None] * len(group) if paid.drop else list(paid.rewards)

    def report(self) -> dict[str, float]:
        """`diagnose` of the groups shaped since the last report."""
        seen, self._seen = self._seen, []
        return diagnose(seen)

    def _token_reward(self, length: int, budget: float) -> float:
        paid = length < budget or (self.config.boundary == "inclusive" and length <= budget)
        if not paid:
            return 0.0
        angle = np.pi * length / (2 * budget) if budget > 0 else np.pi / 2
        return float(min(1.0, np.cos(angle) + self.config.lam))


def diagnose(groups: Sequence[HmpoGroup]) -> dict[str, float]:
    """Shares over the groups of one step.

    `hmpo/correct_frac` groups with a correct rollout, `hmpo/silent_frac` groups with one and yet no signal,
    `hmpo/long_accuracy` mean accuracy on prompts whose every correct answer is longer than the step's median
    correct length (they lose most if efficiency is bought with accuracy), `hmpo/long_frac` their share.
    """
    if not groups:
        return {}
    scored = [group for group in groups if not group.drop]
    every = [length for group in scored for length in group.lengths]
    middle = float(np.median(every)) if every else 0.0
    long = [group.accuracy for group in scored if group.lengths[0] > middle]
    return {
        "hmpo/correct_frac": len(scored) / len(groups),
        "hmpo/silent_frac": sum(group.silent for group in scored) / len(groups),
        "hmpo/long_frac": len(long) / len(groups),
        "hmpo/long_accuracy": float(np.mean(long)) if long else 0.0,
    }


def build(config: Config) -> Hmpo:
    """The group reward for one recipe entry."""
    return Hmpo(config)
