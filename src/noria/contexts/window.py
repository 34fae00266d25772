"""Sliding window: the newest observations are kept, older ones are left out; everything the policy said stays."""

from __future__ import annotations

from pydantic import Field

from noria.contexts.base import Ask, Fresh, View
from noria.core.config import Checked

SOURCE = "Mach-Mind, context management of DeepSearch (a)"


class Config(Checked):
    """How much is kept."""

    keep: int = Field(default=4, ge=1, description="observations kept; older ones are replaced by `placeholder`")
    slide: int = Field(
        default=1,
        ge=1,
        description="observations by which it slides at once; each slide is a branch, so more means fewer branches",
    )
    placeholder: str = Field(default="[left out]", description="stands for an observation that is left out")


class Window:
    """Built rule."""

    name = "window"

    def __init__(self, config: Config) -> None:
        self.config = config

    def heard(self, view: View) -> Fresh | None:
        """The context changes whenever `slide` observations more than `keep` are in it."""
        c, n = self.config, len(view.turns)
        if n <= c.keep or (n - c.keep) % c.slide:
            return None
        old = n - c.keep
        return Fresh(shown=tuple((k, c.placeholder if k < old else t.observation) for k, t in enumerate(view.turns)))

    def ending(self, view: View, message: str) -> Ask | None:
        return None

    def told(self, view: View, answer: str) -> Fresh | None:
        return None

    def scripted(self, view: View) -> str:
        return ""


def build(config: Config) -> Window:
    """The rule for one recipe."""
    return Window(config)
