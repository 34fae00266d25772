"""KL(pi || pi_ref) to a frozen reference as a loss, by estimators with the gradient of the KL (k2, iw_k3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from noria.core.errors import UserError
from noria.losses.base import Batch, Denominators, LossConfig, LossOutput, masked, reduce, share

if TYPE_CHECKING:
    from torch import Tensor

SLOT = "loss"


_REFUSED = {
    "k1": "has zero expected gradient as a loss",
    "k3": "has the gradient of the forward KL as a loss",
}


class Config(LossConfig):
    """Which estimator of the KL; those with another expected gradient are refused."""

    estimator: Literal["k2", "iw_k3"] = Field(
        default="k2",
        description=(
            "k2: half the squared log-ratio; on-policy its gradient is that of the reverse KL. iw_k3: "
            "(pi/pi_old) * k3, exact off-policy too. k1 (zero expected gradient) and plain k3 (gradient of "
            "the forward KL) are refused."
        ),
    )
    log_ratio_bound: float = Field(
        default=20.0,
        gt=0,
        description="Numerical guard: |log ratio| is cut here before exp (20: e^20 = 4.9e8).",
    )

    @field_validator("estimator", mode="before")
    @classmethod
    def _has_the_gradient_of_the_kl(cls, value: object) -> object:
        if value in _REFUSED:
            raise UserError(
                f"estimator must be k2 or iw_k3: got {value}, which {_REFUSED[str(value)]} - set it to k2, "
                "or to iw_k3 (importance-weighted k3)"
            )
        return value


class ReferenceKl:
    """Built term; reads `logp_ref`."""

    needs: tuple[str, ...] = ("logp_ref",)

    def __init__(self, config: Config) -> None:
        self.config = config

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput:
        k1 = masked(batch.logp - batch.need("logp_ref").detach(), batch)
        k3 = self._exp(-k1) - 1 + k1
        per_token = 0.5 * k1.square()
        if self.config.estimator == "iw_k3":
            ratio = self._exp(masked(batch.logp - batch.logp_old.detach(), batch))
            per_token = ratio * k3
        total, denominator = reduce(per_token, batch, denominators, self.config)
        metrics = {"k1": share(k1, batch, denominators), "k3": share(k3, batch, denominators)}
        return LossOutput(total, denominator, metrics)

    def _exp(self, log_ratio: Tensor) -> Tensor:
        bound = self.config.log_ratio_bound
        return log_ratio.clamp(-bound, bound).exp()


def build(config: Config) -> ReferenceKl:
    """Reference KL for one recipe entry."""
    return ReferenceKl(config)
