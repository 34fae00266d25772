"""Self-check: before its final answer counts, the policy holds it against the task, and redoes the task if it fails.

The world hears a final answer only once it has passed. A try that failed is a branch of its own; the next one begins
with the task, the world as it was at first, and what the policy found wrong.
"""

from __future__ import annotations

from pydantic import Field

from noria.contexts.base import Ask, Fresh, View
from noria.contexts.restart import words_of
from noria.core.config import Checked
from noria.tokens.calls import Call, hear

SOURCE = "Mach-Mind, context management of DeepSearch (d)"
QUESTION = (
    "Before this counts: check it against every constraint of the task, one by one. "
    "Write PASS if all hold, or FAIL and what is wrong."
)
HEADING = "An earlier try failed your own check. Do not repeat its fault:"


class Config(Checked):
    """What is checked, and how often it may be redone."""

    tries: int = Field(default=1, ge=1, description="times that the task is redone at most")
    finals: list[str] = Field(
        default=["submit", "answer", "finish"],
        description="tools that end the episode; a message without calls always counts as a final answer",
    )
    passed: str = Field(default="PASS", min_length=1, description="word that lets the answer through")
    failed: str = Field(
        default="FAIL", min_length=1, description="word that asks for a redo; without either word the answer counts"
    )
    question: str = Field(default=QUESTION, description="what the policy is asked")


class SelfCheck:
    """Built rule."""

    name = "self_check"

    def __init__(self, config: Config) -> None:
        self.config = config

    def heard(self, view: View) -> None:
        return None

    def ending(self, view: View, message: str) -> Ask | None:
        """A final answer is asked about while there are tries left."""
        calls = hear(message).calls
        final = not calls or any(isinstance(call, Call) and call.name in self.config.finals for call in calls)
        return Ask(self.config.question) if final and view.branches < self.config.tries else None

    def told(self, view: View, answer: str) -> Fresh | None:
        said = words_of(answer)
        failed, passed = said.find(self.config.failed), said.find(self.config.passed)
        if failed < 0 or 0 <= passed < failed:
            return None
        feedback = said[failed + len(self.config.failed) :].strip(" :.,-\n")
        return Fresh(f"{HEADING}\n{feedback}", redo=True)

    def scripted(self, view: View) -> str:
        return self.config.passed


def build(config: Config) -> SelfCheck:
    """The rule for one recipe."""
    return SelfCheck(config)
