"""Reverse KL(pi || pi_T) over the whole vocabulary, from the teacher's cached hidden states."""

from __future__ import annotations

from noria.losses._vocabulary import VocabularyLoss, reverse
from noria.losses.base import Family, LossConfig

SLOT = "loss"
SOURCE = "DeepSeek-V4 section 5.2.2; GKD 2306.13649"
FAMILY: Family = "opd"


class Config(LossConfig):
    """Only the aggregation can be chosen."""


def build(config: Config) -> VocabularyLoss:
    """The term for one recipe entry."""
    return VocabularyLoss(config, reverse)
