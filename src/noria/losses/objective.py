"""The one loss L = sum of coefficient times term; a term whose coefficient is 0 is not computed at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from noria.losses.base import Batch, Denominators, Loss

if TYPE_CHECKING:
    from torch import Tensor


def objective(
    terms: Mapping[str, Loss],
    coefficients: Mapping[str, float],
    batches: Mapping[str, tuple[Batch, Denominators]],
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """Value of one micro-batch to call `backward` on, and metrics as `<term>/<metric>` and `loss/<term>`.

    A term with coefficient 0 is skipped: switching it off leaves the gradients of the others bit-identical.
    Returns (None, {}) when every coefficient is 0. The caller may change the coefficients at any step.

    Raises:
        ValueError: the three mappings do not name the same terms.
    """
    if not (set(terms) == set(coefficients) == set(batches)):
        raise ValueError(
            "terms, coefficients and batches must name the same losses: "
            f"got {sorted(terms)}, {sorted(coefficients)}, {sorted(batches)}"
        )
    value: Tensor | None = None
    metrics: dict[str, Tensor] = {}
    for name, loss in terms.items():
        if coefficients[name] == 0:
            continue
        batch, denominators = batches[name]
        output = loss(batch, denominators)
        scaled = output.value if coefficients[name] == 1 else coefficients[name] * output.value
        value = scaled if value is None else value + scaled
        metrics[f"loss/{name}"] = output.value.detach()
        metrics |= {f"{name}/{metric}": number for metric, number in output.metrics.items()}
    return value, metrics
