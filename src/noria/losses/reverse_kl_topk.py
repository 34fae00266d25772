"""Reverse KL(pi || pi_T) over the top K tokens of the student, or of the teacher, and one bucket for all others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from noria.losses._vocabulary import VocabularyLoss, kl, top_with_tail
from noria.losses.base import Family, LossConfig

if TYPE_CHECKING:
    from torch import Tensor

SLOT = "loss"
SOURCE = "NeoHorse-1 2609.08183; tail bucket: verl issue 7856"
FAMILY: Family = "opd"
#: With these options the teacher's K likeliest tokens are all that it reads of the teacher.
FROM_TOP: dict[str, str] = {"support": "teacher"}


class Config(LossConfig):
    """How many tokens are told apart."""

    top_k: int = Field(
        default=64,
        ge=1,
        description="K of the most likely tokens; K >= vocabulary is the full reverse KL (64: our choice).",
    )
    support: Literal["student", "teacher"] = Field(
        default="student",
        description="whose K tokens they are; a teacher on a server knows its own alone (teacher: our choice).",
    )


def build(config: Config) -> VocabularyLoss:
    """The term for one recipe entry."""
    top = config.top_k if config.support == "teacher" else None
    return VocabularyLoss(config, partial(_kernel, config), teacher_top=top)


def _kernel(config: Config, mine: Tensor, theirs: Tensor) -> Tensor:
    logp, logq = mine.log_softmax(-1), theirs.log_softmax(-1)
    whose = logq if config.support == "teacher" else logp.detach()
    chosen = whose.topk(min(config.top_k, logp.shape[-1]), -1).indices
    return kl(*top_with_tail(logp, logq, chosen))
