"""Reverse KL(pi || pi_T) over the student's own top K tokens and one bucket for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from noria.losses._vocabulary import VocabularyLoss, kl, top_with_tail
from noria.losses.base import Family, LossConfig

if TYPE_CHECKING:
    from torch import Tensor

SLOT = "loss"
SOURCE = "NeoHorse-1 2609.08183; tail bucket: verl issue 7856"
FAMILY: Family = "opd"


class Config(LossConfig):
    """How many tokens are told apart."""

    top_k: int = Field(
        default=64,
        ge=1,
        description="K of the student's most likely tokens; K >= vocabulary is the full reverse KL (64: our choice).",
    )


def build(config: Config) -> VocabularyLoss:
    """The term for one recipe entry."""

    def kernel(mine: Tensor, theirs: Tensor) -> Tensor:
        logp, logq = mine.log_softmax(-1), theirs.log_softmax(-1)
        chosen = logp.detach().topk(min(config.top_k, logp.shape[-1]), -1).indices
        return kl(*top_with_tail(logp, logq, chosen))

    return VocabularyLoss(config, kernel)
