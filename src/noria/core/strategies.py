"""Names of scripted policies, as recipes write them."""

from __future__ import annotations

from noria.core.protocols import World

#: `expert:1` is the first of a world's experts, and so on: a name that worlds share where their habits share none.
EXPERT = "expert:"


def strategy_of(world: World, name: str) -> str | None:
    """The world's own name of a strategy, None where it has none of this name."""
    if name.startswith(EXPERT):
        number = name.removeprefix(EXPERT)
        known = number.isascii() and number.isdigit() and 0 < int(number) <= len(world.experts)
        return world.experts[int(number) - 1] if known else None
    return name if name in world.strategies else None
