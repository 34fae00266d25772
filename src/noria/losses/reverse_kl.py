"""Reverse KL(pi || pi_T) over the whole vocabulary, from the teacher's cached hidden states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noria.losses._vocabulary import VocabularyLoss, kl
from noria.losses.base import Family, LossConfig

if TYPE_CHECKING:
    from torch import Tensor

SLOT = "loss"
SOURCE = "DeepSeek-V4 section 5.2.2; GKD 2306.13649"
FAMILY: Family = "opd"


class Config(LossConfig):
    """Only the aggregation can be chosen."""


def build(config: Config) -> VocabularyLoss:
    """The term for one recipe entry."""

    def kernel(mine: Tensor, theirs: Tensor) -> Tensor:
        return kl(mine.log_softmax(-1), theirs.log_softmax(-1))

    return VocabularyLoss(config, kernel)
