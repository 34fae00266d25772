"""On-policy distillation as a policy gradient: advantage sg[log pi_T - log pi_ref], clipped ratio (MOPD)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from noria.losses._surrogate import SurrogateConfig, discounted, surrogate
from noria.losses.base import Batch, Denominators, Family, LossOutput, by_route, masked, share

if TYPE_CHECKING:
    from torch import Tensor

SLOT = "loss"
SOURCE = "MOPD eq. 5-9; kl_discount: tinker-cookbook"
FAMILY: Family = "opd"
#: It speaks of sampled tokens only, so it may not train tokens that the policy did not sample as they stand.
ON_POLICY = True


class Config(SurrogateConfig):
    """Which policy the teacher is compared with, and how far ahead a token is credited."""

    adv_ref: Literal["current", "old"] = Field(
        default="current",
        description=(
            "current: log pi of this very mini-batch (exact on each). old: log pi_old, as MOPD's equation 7 has it; "
            "the second mini-batch then follows KL(pi, pi_T) - KL(pi, pi_old). Identical on the first."
        ),
    )
    kl_discount: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="gamma of the return-to-go of later log-ratios; 0 = the token's own only; 1 = MOPD's equation 3.",
    )
    bound: float | None = Field(
        default=None,
        gt=0,
        description="A token's own log-ratio is cut to +- this, nats; unset = not cut (1 is the control of DTDD).",
    )


class K1PolicyGradient:
    """Built term; reads `logp_teacher`, and `position` for a discount."""

    family: Family = FAMILY

    def __init__(self, config: Config) -> None:
        self.config = config
        self.needs: tuple[str, ...] = ("logp_teacher", "position") if config.kl_discount else ("logp_teacher",)

    def __call__(self, batch: Batch, denominators: Denominators) -> LossOutput:
        """Loss share of one micro-batch.

        Raises:
            ValueError: a rollout that is cut although a sequence ratio or a discount needs it whole.
        """
        output = surrogate(batch, denominators, self.config, self.advantage(batch, denominators))
        k1 = masked((batch.logp - batch.need("logp_teacher")).detach(), batch)
        return LossOutput(output.total, output.denominator, output.metrics | monitors(k1, batch, denominators))

    def advantage(self, batch: Batch, denominators: Denominators) -> Tensor:
        """The advantage [T], without gradient, 0 off the mask."""
        reference = batch.logp if self.config.adv_ref == "current" else batch.logp_old
        own = masked((batch.need("logp_teacher") - reference).detach(), batch)
        if self.config.bound is not None:
            own = own.clamp(-self.config.bound, self.config.bound)
        return discounted(own, batch, denominators, self.config.kl_discount)


def monitors(k1: Tensor, batch: Batch, denominators: Denominators) -> dict[str, Tensor]:
    """Shares of mean |k1| (which is not a KL), mean k1 and mean k3 over the trained tokens, and for each route."""
    k3 = (-k1).clamp(max=20.0).exp() - 1 + k1
    out: dict[str, Tensor] = {}
    for name, value in (("abs", k1.abs()), ("k1", k1), ("k3", k3)):
        out[name] = share(value, batch, denominators)
        out |= by_route(name, value, batch, denominators)
    return out


def build(config: Config) -> K1PolicyGradient:
    """The term for one recipe entry."""
    return K1PolicyGradient(config)
