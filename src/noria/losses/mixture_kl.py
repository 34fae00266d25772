"""KL(m || pi_T), m the geometric mixture of the policy, which alone samples, and a second trained one (WDL-OPD)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field

from noria.losses._vocabulary import VocabularyLoss, reverse
from noria.losses.base import Family, LossConfig

if TYPE_CHECKING:
    from torch import Tensor

SLOT = "loss"
SOURCE = "WDL-OPD 2608.09447"
FAMILY: Family = "opd"
#: It reads a second policy, which the phase must have.
AUXILIARY = True


class Config(LossConfig):
    """How much of the mixture is the policy's own."""

    weight: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description=(
            "w of log m = log_softmax(w log pi + (1 - w) log pi_aux); 1 is reverse_kl to the last bit, and the "
            "auxiliary learns nothing (0.5: our choice)."
        ),
    )


def build(config: Config) -> VocabularyLoss:
    """The term for one recipe entry."""
    return VocabularyLoss(config, reverse, partial(_mix, config.weight))


def _mix(weight: float, mine: Tensor, beside: Tensor) -> Tensor:
    # The log-softmax of the mixture forgets what logits lack of being normalised, so they are mixed as they are.
    return weight * mine + (1 - weight) * beside
