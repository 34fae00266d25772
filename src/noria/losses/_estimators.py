"""What the KL terms on sampled tokens share: the estimators whose gradient is that of the reverse KL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from noria.core.errors import UserError
from noria.losses.base import Batch, Denominators, LossConfig, LossOutput, masked, reduce, share

if TYPE_CHECKING:
    from torch import Tensor

_REFUSED = {
    "k1": "has zero expected gradient as a loss",
    "k3": "has the gradient of the forward KL as a loss",
}


class EstimatorConfig(LossConfig):
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
        default=20.0, gt=0, description="Numerical guard: |log ratio| is cut here before exp (20: e^20 = 4.9e8)."
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


def estimate(other: Tensor, batch: Batch, denominators: Denominators, config: EstimatorConfig) -> LossOutput:
    """The KL from the policy to the one whose log-probabilities of the sampled tokens are `other` [T]."""

    def exp(log_ratio: Tensor) -> Tensor:
        return log_ratio.clamp(-config.log_ratio_bound, config.log_ratio_bound).exp()

    k1 = masked(batch.logp - other.detach(), batch)
    k3 = exp(-k1) - 1 + k1
    per_token = 0.5 * k1.square()
    if config.estimator == "iw_k3":
        per_token = exp(masked(batch.logp - batch.logp_old.detach(), batch)) * k3
    total, denominator = reduce(per_token, batch, denominators, config)
    metrics = {"k1": share(k1, batch, denominators), "k3": share(k3, batch, denominators)}
    return LossOutput(total, denominator, metrics)
