"""The world `tableqa`: questions about two small tables, looked up step by step or with one query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from noria.core.config import Checked
from noria.core.errors import PolicyError
from noria.core.protocols import Policy, Sandbox
from noria.core.registry import nearest
from noria.core.types import Message, Split, Task
from noria.envs.tableqa.advice import ADVICE, REMEDIES
from noria.envs.tableqa.desk import schemas
from noria.envs.tableqa.episode import TableEpisode
from noria.envs.tableqa.forgeries import forged, secrets
from noria.envs.tableqa.habits import EXPERTS, HABITS, make_policy
from noria.envs.tableqa.questions import TEMPLATES
from noria.envs.tableqa.tasks import NAME, SPLITS, draw_tasks
from noria.tokens.calls import parse

_MAX_TURNS = 12


class Config(Checked):
    """Questions about tables, with a reward for the way in `parts` and one for the answer."""

    type: Literal["tableqa"] = "tableqa"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    rows: tuple[int, int] = Field(default=(6, 9), description="rows of the main table: fewest and most, 5 to 12")
    templates: tuple[str, ...] = Field(default=(), description="templates that questions are drawn from; [] = all")

    @field_validator("templates")
    @classmethod
    def _are_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in TEMPLATES:
                raise ValueError(f"{name!r} is no template{nearest(name, list(TEMPLATES))}: {', '.join(TEMPLATES)}")
        return value

    @model_validator(mode="after")
    def _has_a_span(self) -> Config:
        if not 5 <= self.rows[0] <= self.rows[1] <= 12:
            raise ValueError(f"rows must be two numbers from 5 to 12, the smaller first: got {list(self.rows)}")
        return self


class TableWorld:
    """Tasks, tools, verifier, reference solutions and scripted policies."""

    name = NAME
    experts = EXPERTS
    strategies: Mapping[str, float] = {name: habit.weight for name, habit in HABITS.items()}
    advice = ADVICE
    remedies: Mapping[str, str] = REMEDIES
    splits: tuple[Split, ...] = SPLITS

    def __init__(self, config: Config) -> None:
        self.config = config
        self._tools = frozenset(tool.name for tool in schemas())

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of "train", "heldout" or "unseen" (templates that training never shows)."""
        return draw_tasks(split, n, seed, self.config.rows, self.config.templates)

    def open(self, task: Task) -> TableEpisode:
        """A fresh episode."""
        return TableEpisode(task)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy; see `habits.HABITS`."""
        return make_policy(task, strategy, seed)

    def reference(self, task: Task) -> list[str]:
        """Assistant messages of a solution: what the careful expert says."""
        episode, policy = self.open(task), self.policy(task, EXPERTS[0], 0)
        messages: list[Message] = []
        try:
            for _ in range(_MAX_TURNS):
                messages.append(Message("assistant", policy(messages)))
                seen = episode.act(messages[-1].content)
                if seen.done:
                    break
                messages.append(Message("tool", seen.text))
        finally:
            episode.close()
        return [message.content for message in messages if message.role == "assistant"]

    def kind(self, message: str) -> str:
        """The tool of the first call, "answer" without a call, "malformed" where it cannot be run."""
        try:
            calls = parse(message).calls
        except PolicyError:
            return "malformed"
        if not calls:
            return "answer"
        return calls[0].name if calls[0].name in self._tools else "malformed"

    def answer(self, message: str) -> str | None:
        """The answer that a final message gives, None where it calls a tool or cannot be read."""
        try:
            heard = parse(message)
        except PolicyError:
            return None
        return heard.answer or None if not heard.calls else None

    def advice_for(self, strategy: str) -> str | None:
        """The kind whose advice a right habit obeys, None for a wrong habit."""
        return HABITS[strategy].advice

    def forgeries(self, task: Task) -> list[list[str]]:
        """See `forgeries.forged`."""
        return forged(task)

    def secrets(self, task: Task) -> list[str]:
        """See `forgeries.secrets`."""
        return secrets(task)

    def close(self) -> None:
        """Nothing is held."""


def build(config: Config, sandbox: Sandbox | None) -> TableWorld:
    """The world of a config; it needs no sandbox."""
    return TableWorld(config)
