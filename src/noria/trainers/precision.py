"""Optimisers for every precision: AdamW with float32 or bfloat16 moments, float32 masters of bfloat16 weights.

A bfloat16 number has 8 significant bits, so an update below 0.4 % of a weight would be lost; bfloat16 weights are
therefore trained through float32 copies, which also collect their gradients over the micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import torch

from noria.core.errors import UserError

Moments = Literal["float32", "bfloat16"]
#: From here on a step's share 1 - beta of the second moment is below what bfloat16 resolves.
MAX_BETA_BFLOAT16 = 0.99


class Masters:
    """Float32 copies of the trained weights where these are bfloat16; the weights themselves otherwise.

    `trained` is what the optimiser holds and what gradients are clipped on.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        self.trained: list[torch.nn.Parameter] = []
        self._copies: list[tuple[torch.nn.Parameter, torch.nn.Parameter]] = []
        for parameter in parameters:
            if parameter.dtype != torch.bfloat16:
                self.trained.append(parameter)
                continue
            master = torch.nn.Parameter(parameter.detach().float())
            parameter.register_post_accumulate_grad_hook(_collector(master))  # type: ignore[no-untyped-call]
            self._copies.append((parameter, master))
            self.trained.append(master)

    @torch.no_grad()
    def publish(self) -> None:
        """Round the copies into the weights, after an optimiser step."""
        for parameter, master in self._copies:
            parameter.copy_(master)

    @torch.no_grad()
    def adopt(self) -> None:
        """Take the weights into the copies, after weights were loaded."""
        for parameter, master in self._copies:
            master.copy_(parameter)

    def state(self) -> list[torch.Tensor]:
        """The copies, in order."""
        return [master.detach() for _, master in self._copies]

    @torch.no_grad()
    def restore(self, copies: Sequence[torch.Tensor]) -> None:
        """Continue from what `state` gave."""
        for (_, master), copy in zip(self._copies, copies, strict=True):
            master.copy_(copy)


def _collector(master: torch.nn.Parameter) -> Callable[[torch.Tensor], None]:
    def collect(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        if master.grad is None:
            master.grad = parameter.grad.float()
        else:
            master.grad.add_(parameter.grad)
        parameter.grad = None

    return collect


def adamw(
    parameters: Sequence[torch.nn.Parameter],
    lr: float,
    betas: tuple[float, float],
    weight_decay: float,
    moments: Moments,
) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101).

    Raises:
        UserError: the decay of the second moment is finer than bfloat16 moments can hold.
    """
    if moments == "float32":
        return torch.optim.AdamW(parameters, lr=lr, betas=betas, weight_decay=weight_decay)
    if betas[1] > MAX_BETA_BFLOAT16:
        raise UserError(
            f'betas must not exceed {MAX_BETA_BFLOAT16} with student.trainer.moments = "bfloat16": got {betas} - '
            'lower it, or set moments = "float32"'
        )
    return SmallAdamW(parameters, lr=lr, betas=betas, weight_decay=weight_decay)


class SmallAdamW(torch.optim.Optimizer):
    """AdamW whose two moments are kept in bfloat16 between steps; arithmetic is in float32."""

    def __init__(
        self, parameters: Iterable[torch.nn.Parameter], lr: float, betas: tuple[float, float], weight_decay: float
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "eps": 1e-8})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        state, grad = self.state[parameter], parameter.grad
        assert grad is not None
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(parameter, dtype=torch.bfloat16)
            state["exp_avg_sq"] = torch.zeros_like(parameter, dtype=torch.bfloat16)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        mean = state["exp_avg"].to(grad.dtype).lerp_(grad, 1 - beta1)
        square = state["exp_avg_sq"].to(grad.dtype).mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        state["exp_avg"].copy_(mean)
        state["exp_avg_sq"].copy_(square)
        scale = (square / (1 - beta2 ** state["step"])).sqrt_().add_(group["eps"])
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.addcdiv_(mean, scale, value=-group["lr"] / (1 - beta1 ** state["step"]))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As the base class, which would cast the moments to the parameters' dtype."""
        super().load_state_dict(state_dict)
        for state in self.state.values():
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = state[key].to(torch.bfloat16)
