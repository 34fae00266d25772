"""Restart from a progress summary: the policy writes down where it stands and goes on from there in a new context.

The context at which it is asked to rises from restart to restart, as a search that is under way needs more room than
one that begins.
"""

from __future__ import annotations

from pydantic import Field

from noria.contexts.base import Ask, Fresh, View
from noria.core.config import Checked
from noria.tokens.calls import parts

SOURCE = "Mach-Mind, context management of DeepSearch (b), (c)"
QUESTION = (
    "The context is nearly full and will be replaced by your summary. Call no tool now. Write:\n"
    "Done: what you did\nFound: facts, exactly\nOpen: what is still unknown\nNext: what to do next"
)
HEADING = "Your progress so far:"


class Config(Checked):
    """When it restarts, and with what."""

    begin: float = Field(default=0.5, gt=0, le=1, description="share of max_tokens at which the first summary is due")
    rise: float = Field(default=0.1, ge=0, le=1, description="added to that share by every restart; 0 = it stays")
    end: float = Field(default=0.8, gt=0, le=1, description="greatest share; what is above it is room for the summary")
    keep: int = Field(default=0, ge=0, description="newest turns that the new context shows beside the summary")
    question: str = Field(default=QUESTION, description="what the policy is asked")
    scripted_words: int = Field(
        default=12, ge=1, description="words of each observation in the summary of a policy that is a script"
    )


class Restart:
    """Built rule."""

    name = "restart"

    def __init__(self, config: Config) -> None:
        self.config = config

    def threshold(self, view: View) -> float:
        """Tokens of the context from which a summary is due."""
        c = self.config
        return min(c.end, c.begin + c.rise * view.branches) * view.max_tokens

    def heard(self, view: View) -> Ask | None:
        return Ask(self.config.question) if view.tokens >= self.threshold(view) else None

    def ending(self, view: View, message: str) -> Ask | None:
        return None

    def told(self, view: View, answer: str) -> Fresh:
        """Thoughts and calls are no part of a summary."""
        n, keep = len(view.turns), self.config.keep
        shown = tuple((k, view.turns[k].observation) for k in range(max(0, n - keep), n))
        return Fresh(f"{HEADING}\n{words_of(answer)}", shown)

    def scripted(self, view: View) -> str:
        """What was called and how each answer begins."""
        lines = ["Done:"]
        for turn in view.turns:
            names = [part.name for part in parts(turn.message) if not isinstance(part, str)]
            seen = " ".join(turn.observation.split()[: self.config.scripted_words])
            lines.append(f"- {', '.join(names) or 'said'}: {seen}")
        return "\n".join(lines)


def words_of(message: str) -> str:
    """A message without its thoughts and calls."""
    said = "".join(part for part in parts(message) if isinstance(part, str))
    while "<think>" in said:
        before, _, rest = said.partition("<think>")
        said = before + rest.partition("</think>")[2]
    return said.strip()


def build(config: Config) -> Restart:
    """The rule for one recipe."""
    return Restart(config)
