"""What the losses over a vocabulary share: the term itself, and sums over top entries with the rest in one bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noria.losses.base import Batch, Denominators, Family, LossConfig, LossOutput, by_route, reduce, share
from noria.losses.states import Kernel, divergence

if TYPE_CHECKING:
    from torch import Tensor


class VocabularyLoss:
    """Built term: a divergence of next-token distributions, from hidden states; the states visited are constants."""

    needs: tuple[str, ...] = ("hidden",)
    family: Family = "opd"

    def __init__(
        self, config: LossConfig, kernel: Kernel, mix: Kernel | None = None, teacher_top: int | None = None
    ) -> None:
        """With `mix` it is the divergence of a mixture of the policy and a second one.

        `teacher_top` is K where the teacher's K likeliest tokens are all that it reads of it, None where it reads more.
        """
        self.config, self.kernel, self.mix, self.teacher_top = config, kernel, mix, teacher_top
        if mix is not None:
            self.needs = ("hidden", "auxiliary")

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput:
        """Loss share of one micro-batch.

        Raises:
            UserError: a teacher, or a second policy, with another vocabulary.
        """
        per_token = divergence(batch, self.kernel, self.mix)
        total, denominator = reduce(per_token, batch, denominators, self.config)
        metrics = {"divergence": share(per_token, batch, denominators)}
        return LossOutput(total, denominator, metrics | by_route("divergence", per_token, batch, denominators))


def kl(logp: Tensor, logq: Tensor) -> Tensor:
    """KL(p || q) over the last dimension, from log-probabilities."""
    return (logp.exp() * (logp - logq)).sum(-1)


def reverse(mine: Tensor, theirs: Tensor) -> Tensor:
    """KL(pi || pi_T) for each row of two logits [C, V]."""
    return kl(mine.log_softmax(-1), theirs.log_softmax(-1))


def top_with_tail(logp: Tensor, other: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Both [C, V] reduced to the entries `chosen` [C, K] and one bucket of all others: two [C, K + 1].

    With K = V there is no bucket and nothing is lost.
    """
    from torch import cat

    def reduced(values: Tensor) -> Tensor:
        top = values.gather(-1, chosen)
        if chosen.shape[-1] == values.shape[-1]:
            return top
        rest = values.scatter(-1, chosen, float("-inf")).logsumexp(-1, keepdim=True)
        return cat([top, rest], -1)

    return reduced(logp), reduced(other)
