"""Forward KL(pi_T || pi) over the teacher's top K tokens and one bucket for all others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field

from noria.losses._vocabulary import VocabularyLoss, kl, top_with_tail
from noria.losses.base import Family, LossConfig

if TYPE_CHECKING:
    from torch import Tensor

SLOT = "loss"
SOURCE = "MOPD report (forward KL top K); tail bucket: verl issue 7856"
FAMILY: Family = "opd"
#: With these options the teacher's K likeliest tokens are all that it reads of the teacher.
FROM_TOP: dict[str, str] = {}


class Config(LossConfig):
    """How many tokens are told apart."""

    top_k: int = Field(
        default=64,
        ge=1,
        description="K of the teacher's most likely tokens; K >= vocabulary is the full forward KL (64: our choice).",
    )


def build(config: Config) -> VocabularyLoss:
    """The term for one recipe entry."""
    return VocabularyLoss(config, partial(_kernel, config), teacher_top=config.top_k)


def _kernel(config: Config, mine: Tensor, theirs: Tensor) -> Tensor:
    logp, logq = theirs.log_softmax(-1), mine.log_softmax(-1)
    return kl(*top_with_tail(logp, logq, logp.topk(min(config.top_k, logp.shape[-1]), -1).indices))
