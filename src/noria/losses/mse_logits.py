"""Mean squared difference of student's and teacher's logits, each centred over the vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noria.losses._vocabulary import VocabularyLoss
from noria.losses.base import Family, LossConfig

if TYPE_CHECKING:
    from torch import Tensor

SLOT = "loss"
SOURCE = "MOPD report (MSE); Kim et al. 2105.08919"
FAMILY: Family = "opd"


class Config(LossConfig):
    """Only the aggregation can be chosen."""


def build(config: Config) -> VocabularyLoss:
    """The term for one recipe entry."""
    return VocabularyLoss(config, _kernel)


def _kernel(mine: Tensor, theirs: Tensor) -> Tensor:
    gap = (mine - mine.mean(-1, keepdim=True)) - (theirs - theirs.mean(-1, keepdim=True))
    return gap.square().mean(-1)
