"""Any signal, built with the examples that its file brings, and inputs that every slot can be asked with."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from examples import needed

from noria.core import registry
from noria.core.types import Outcome
from noria.signals.base import Played, Tokens


def states(turns: int, end: float) -> tuple[Outcome, ...]:
    """What a verifier says before each of `turns` messages, some progress and some back, and at the end."""
    return (*(Outcome(0.0, {"named": (i % 3) / 4, "others": 0.5}) for i in range(turns)), Outcome(end, {"named": end}))


#: Two rollouts solve, one does not, one was cut off; and one that nobody graded.
GROUP = [
    Played(
        n,
        cut,
        {"named": n / 20, "others": 1 - n / 20},
        turns,
        -np.ones(n) * (1 + n / 30),
        -np.ones(n),
        states(turns, 1.0),
    )
    for n, cut, turns in ((4, False, 2), (8, False, 1), (15, True, 5), (6, False, 3))
]
REWARDS: list[float | None] = [1.0, None, 0.0, 1.0]


def make(name: str, **options: Any) -> Any:
    """The signal with the first example of every field that must be given."""
    module = registry.resolve("signals", name)
    return module.build(module.Config(**needed(module.Config, **options)))


def variants(slot: str) -> list[tuple[str, dict[str, Any]]]:
    """Every signal of a slot, once for each of the examples that its file brings: (name, options)."""
    out: list[tuple[str, dict[str, Any]]] = []
    for name in registry.of_slot(slot):
        fields = registry.resolve("signals", name).Config.model_fields
        brought = {key: field.examples for key, field in fields.items() if field.examples}
        out += [(name, dict(zip(brought, chosen, strict=True))) for chosen in product(*brought.values())]
    return out


def id_of(variant: object) -> str:
    return "-".join(map(str, variant.values())) if isinstance(variant, dict) else str(variant)


def tokens(seed: int = 0, gap: float = 0.4, n: int = 12) -> Tokens:
    rng = np.random.default_rng(seed)
    mask = rng.random(n) < 0.6
    roles = tuple(rng.choice(["think", "tool_name", "tool_args", "answer"], n))
    old = -rng.random(n) * 3
    mu, advantage, entropy = old + gap * rng.normal(size=n), rng.normal(size=n), rng.random(n) * 2
    return Tokens(mask, roles, mu, old, ((2, 5),), advantage, entropy)
