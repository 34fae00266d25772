"""Jensen-Shannon divergence beta KL(pi_T || m) + (1 - beta) KL(pi || m), m = beta pi_T + (1 - beta) pi."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field

from noria.losses._vocabulary import VocabularyLoss, kl
from noria.losses.base import Family, LossConfig

if TYPE_CHECKING:
    from torch import Tensor

SLOT = "loss"
SOURCE = "GKD 2306.13649"
FAMILY: Family = "opd"


class Config(LossConfig):
    """How the two are mixed."""

    beta: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="Share of the teacher in the mixture; 0.5 is symmetric (GKD tries 0.1, 0.5, 0.9).",
    )


def build(config: Config) -> VocabularyLoss:
    """The term for one recipe entry."""
    return VocabularyLoss(config, partial(_kernel, config.beta))


def _kernel(beta: float, mine: Tensor, theirs: Tensor) -> Tensor:
    logp, logq = theirs.log_softmax(-1), mine.log_softmax(-1)
    middle = (logp + math.log(beta)).logaddexp(logq + math.log1p(-beta))
    return beta * kl(logp, middle) + (1 - beta) * kl(logq, middle)
