"""Token weight by role (reasoning, tool choice, tool arguments, answer), renormalised to mean 1 (Claw)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from noria.signals.base import Floats, SignalConfig, Tokens, mean_one

SLOT = "weight"
SOURCE = "MOPD report, Claw agent (no numbers given)"
#: It is about rewards, so it weighs reinforcement terms alone.
FAMILY: Literal["rl", "opd", ""] = "rl"


class Config(SignalConfig):
    """Relative weights; the report names the four roles and no numbers, so all start at 1."""

    reasoning: float = Field(default=1.0, ge=0, description="Weight of reasoning tokens (role think).")
    tool_selection: float = Field(default=1.0, ge=0, description="Weight of the chosen tool's name (role tool_name).")
    tool_arguments: float = Field(default=1.0, ge=0, description="Weight of tool arguments (role tool_args).")
    final_answer: float = Field(default=1.0, ge=0, description="Weight of the answer (role answer).")


class RoleCredit:
    """Built token weight."""

    family: Literal["rl", "opd", ""] = FAMILY

    def __init__(self, config: Config) -> None:
        self.by_role: dict[str, float] = {
            "think": config.reasoning,
            "tool_name": config.tool_selection,
            "tool_args": config.tool_arguments,
            "answer": config.final_answer,
        }

    def __call__(self, mask: Sequence[int], roles: Sequence[str]) -> Floats:
        """Action mask [T] and token roles [T] -> weights [T], 0 off the mask; other sampled roles count 1."""
        raw = [self.by_role.get(role, 1.0) for _, role in zip(mask, roles, strict=True)]
        return mean_one(np.array(raw, dtype=np.float64), np.asarray(mask, dtype=np.bool_))

    def weigh(self, tokens: Tokens) -> Floats:
        return self(tokens.mask.astype(int).tolist(), tokens.roles)


def build(config: Config) -> RoleCredit:
    """The token weight for one recipe entry."""
    return RoleCredit(config)
