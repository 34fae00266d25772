"""A teacher of which only the K likeliest tokens are known: kept as states, read as logits.

Losses that tell at most these K tokens apart and take all others as one bucket read of such logits exactly what they
would read of the teacher's own. What the others have together is known, and which of them has what does not matter to
these losses: it is spread evenly. That leaves each below the K, since none is likelier than the last of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from noria.core.errors import UserError
from noria.losses.states import Head

if TYPE_CHECKING:
    from torch import Tensor

#: What single-precision log-probabilities tell of the mass of the rest; a smaller one is not known.
RESOLUTION = 1e-7
#: How far below the last of the K a token of the rest stays, in nats, so that rounding does not exchange the two.
BELOW = 1e-5


@dataclass(frozen=True)
class TopHead(Head):
    """Makes logits [N, V] of states [N, 2K] that `pack` made; its matrix [V, 0] only says V."""

    def logits(self, hidden: Tensor, matrix: Tensor) -> Tensor:
        ids, logp = hidden[:, : hidden.shape[1] // 2].long(), hidden[:, hidden.shape[1] // 2 :]
        rest = len(matrix) - ids.shape[1]
        logp = logp if logp.element_size() >= 4 else logp.float()
        left = (1 - logp.double().exp().sum(1, keepdim=True)).clamp(min=RESOLUTION).log()
        even = (left - math.log(max(1, rest))).to(logp.dtype).minimum(logp.amin(1, keepdim=True) - BELOW)
        return even.expand(-1, len(matrix)).scatter(1, ids, logp)


def top_head(name: str, vocabulary: int) -> TopHead:
    """The head of a teacher over `vocabulary` tokens."""
    return TopHead(name, partial(_empty, vocabulary))


def _empty(vocabulary: int) -> Tensor:
    from torch import empty

    return empty(vocabulary, 0)


def pack(tops: Sequence[Sequence[tuple[int, float]]], k: int, vocabulary: int) -> Tensor:
    """States [N, 2K] of N tokens, for each the (id, log-probability) of the teacher's `k` likeliest.

    Raises:
        UserError: an id that is no token of the student's vocabulary.
    """
    from torch import tensor

    wrong = {i for top in tops for i, _ in top if not 0 <= i < vocabulary}
    if wrong:
        raise UserError(
            f"a divergence needs one vocabulary: the student has {vocabulary} tokens and the teacher names the token "
            f"{min(wrong, key=abs)} - choose a teacher with the student's tokenizer"
        )
    return tensor([[float(i) for i, _ in top] + [logp for _, logp in top] for top in tops]).reshape(-1, 2 * k)
