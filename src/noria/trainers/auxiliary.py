"""A second policy that is trained beside the student by the same loss; it never samples and is not deployed.

The student, the anchor, is a `LocalTrainer` as ever: rollouts, scores, checkpoints and the policy that is promoted are
its alone. Losses that ask for it are given the second policy's states of the same tokens, so that one backward pass
reaches both; each has an optimiser and a bound of the gradient norm of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from noria.core.errors import UserError
from noria.losses.base import Batch, Loss
from noria.losses.states import Head
from noria.trainers.local import BadStep, Config, LocalTrainer, prepared
from noria.trainers.packing import Micro
from noria.trainers.rows import Row

NAME = "the auxiliary policy"


class Second(LocalTrainer):
    """The second policy: what a step of the pair needs of it."""

    def read(self, micro: Micro, temperature: float, frozen: bool) -> tuple[torch.Tensor, Head]:
        """Its hidden states [R·T, D] that predict each token, and its head."""
        head = self.head(NAME, temperature)
        if not frozen:
            return micro.predicting(self._states(micro)), head
        with torch.no_grad():
            return micro.predicting(self._states(micro)), replace(head, load=lambda: head.load().detach())

    def gradient_norm(self) -> torch.Tensor:
        """Over everything that it trains; 0 where there is no gradient."""
        return torch.nn.utils.get_total_norm([p.grad for p in self._masters.trained if p.grad is not None])

    def apply(self, total: torch.Tensor) -> None:
        """Take the step along gradients of this norm."""
        self._apply(total)


class PairedTrainer(LocalTrainer):
    """The anchor with the second policy beside it.

    Args:
        lr: its AdamW learning rate, which follows the phase's schedule; 0 = frozen, None = as the anchor's.
        origin: says what the second policy began as; a state goes on with nothing else.
    """

    def __init__(self, config: Config, model: Any, second: Second, lr: float | None, origin: str = "") -> None:
        super().__init__(config, model)
        self.second, self.second_lr, self.origin = second, lr, origin
        self._ratio, self._wanted, self._norm = 1.0, False, 0.0
        if not second.traits.packs:
            self._line_tokens = 0

    def configure(self, lr: float, betas: tuple[float, float], weight_decay: float, grad_norm: float) -> None:
        """Start a fresh AdamW for each of the two."""
        super().configure(lr, betas, weight_decay, grad_norm)
        own = lr if self.second_lr is None else self.second_lr
        self._ratio = own / lr
        self.second.configure(own, betas, weight_decay, grad_norm)

    def set_lr(self, lr: float) -> None:
        """The anchor's rate; the second policy's keeps its proportion."""
        super().set_lr(lr)
        self.second.set_lr(lr * self._ratio)

    def step(
        self,
        rows: Sequence[Row],
        terms: Mapping[str, Loss],
        coefficients: Mapping[str, float],
        temperature: float = 1.0,
        tokens: int = 4096,
        annotate: Callable[[Batch], Batch] | None = None,
    ) -> dict[str, float]:
        """One step of both on one global batch; where it is not finite neither is changed."""
        optimiser = self.second.optimiser
        assert optimiser is not None
        optimiser.zero_grad(set_to_none=True)
        self._wanted = any("auxiliary" in term.needs for name, term in terms.items() if coefficients[name])
        try:
            facts = super().step(rows, terms, coefficients, temperature, tokens, annotate)
        finally:
            optimiser.zero_grad(set_to_none=True)
        return facts | ({"auxiliary/grad_norm": self._norm} if self._wanted else {})

    def joined(self, batch: Batch, micro: Micro, temperature: float) -> Batch:
        """The batch with the second policy's states that predict its tokens."""
        if not self._wanted:
            return batch
        hidden, head = self.second.read(micro, temperature, frozen=self._ratio == 0)
        return replace(batch, auxiliary=hidden, auxiliary_head=head)

    def _apply(self, total: torch.Tensor) -> float:
        second = self.second.gradient_norm()
        if not torch.isfinite(second):
            assert self.optimiser is not None
            self.optimiser.zero_grad(set_to_none=True)
            raise BadStep(f"a step must be finite: the gradient norm of {NAME} is not - lower auxiliary.lr")
        self._norm = float(second)
        if self._wanted and self._ratio > 0:
            self.second.apply(second)
        return super()._apply(total)

    def state(self) -> dict[str, Any]:
        """Everything that a bit-identical continuation of both needs."""
        return super().state() | {"auxiliary": self.second.state(), "auxiliary_origin": self.origin}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` gave.

        Raises:
            UserError: the second policy began as another model.
        """
        if state.get("auxiliary_origin") != self.origin:
            raise UserError("auxiliary.model must be what the phase began with: it is another model - put that back")
        super().restore(state)
        self.second.restore(state["auxiliary"])


def paired(config: Config, folder: Path, second: Path, lr: float | None, origin: str) -> PairedTrainer:
    """The pair that starts from two checkpoint folders of one vocabulary; see `PairedTrainer`."""
    return PairedTrainer(config, prepared(config, folder), Second(config, prepared(config, second)), lr, origin)
