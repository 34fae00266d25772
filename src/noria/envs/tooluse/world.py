"""The world `tooluse`: tasks over made domains, judged by the final state alone."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from noria.bases.world import ScriptedWorld, check_split
from noria.core.config import Checked
from noria.core.errors import PolicyError, UserError
from noria.core.protocols import Policy, Sandbox
from noria.core.types import Observation, Outcome, Split, Task
from noria.envs.tooluse.advice import ADVICE, REMEDIES
from noria.envs.tooluse.desk import Desk
from noria.envs.tooluse.folder import load_domains
from noria.envs.tooluse.forgeries import forged
from noria.envs.tooluse.goals import judge
from noria.envs.tooluse.habits import EXPERTS, HABITS, make_policy
from noria.envs.tooluse.spec import Domain
from noria.envs.tooluse.tasks import (
    ASK,
    NAME,
    SPLITS,
    SUBMIT,
    Knobs,
    domain_named,
    draw_tasks,
    gold_of,
    is_unseen,
    sampled_domains,
    start_of,
)  # fmt: skip
from noria.envs.tooluse.themes import kinds_by_verb
from noria.envs.tooluse.user import ModelConfig, ModelUser, ScriptedUser, User
from noria.tokens.calls import Call, render_call


class Config(Checked):
    """Stateful domains with typed tools, made from a seed or taken from a folder."""

    type: Literal["tooluse"] = "tooluse"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    folder: str = Field(default="", description="folder that `noria tasks make tooluse` made; empty: made as needed")
    domains: int = Field(default=12, ge=1, le=500, description="domains to draw tasks from, where there is no folder")
    domain_seed: int = Field(default=0, ge=0, description="the same seed makes the same domains")
    fields: int = Field(default=16, ge=6, le=60, description="fields of all tables of a domain together, at most")
    rows: int = Field(default=3, ge=2, le=8, description="rows of a table at the start")
    tools: int = Field(default=10, ge=1, le=40, description="tools shown with a task, if those it needs are fewer")
    steps_min: int = Field(default=2, ge=1, le=6, description="calls that a shortest solution has at least")
    steps_max: int = Field(default=4, ge=1, le=6, description="calls that a shortest solution has at most")
    asks: int = Field(default=3, ge=1, le=8, description="cells that a task changes at most")
    ask_share: float = Field(default=0.2, ge=0, le=1, description="share of tasks that keep a detail back until asked")
    hidden_share: float = Field(
        default=0.8, ge=0, le=1, description="share of goals that are sought among what is refused at first"
    )
    budget: int = Field(default=500, ge=100, description="states that the search for one task may look at")
    user: ModelConfig | None = Field(default=None, description="a chat model that plays the user; empty: a script")

    @property
    def knobs(self) -> Knobs:
        """What drawing needs."""
        return Knobs(
            self.rows, self.steps_min, self.steps_max, self.asks, self.tools, self.ask_share, self.budget, self.fields,
            self.hidden_share,
        )  # fmt: skip


class DeskEpisode:
    """One task being worked on; `grade` looks at nothing but the state."""

    def __init__(self, desk: Desk, done: bool = False) -> None:
        self.desk, self._done = desk, done

    def act(self, message: str) -> Observation:
        """Run the calls of a message in order; `submit` ends the episode, later calls are not run.

        Raises:
            SandboxError: the model that plays the user did not answer.
        """
        if self._done:
            return Observation("", done=True)
        lines, self._done = self.desk.run(message)
        return Observation("" if self._done else "\n".join(lines), self._done)

    def grade(self) -> Outcome:
        """Reward 1 iff what was asked is so and all else is as it was."""
        desk = self.desk
        return judge(desk.domain, start_of(desk.task), desk.task.data["target"], desk.state)

    def fork(self) -> DeskEpisode:
        """An independent episode in the same state."""
        return DeskEpisode(self.desk.copy(), self._done)

    def close(self) -> None:
        """Nothing is held."""


class ToolWorld(ScriptedWorld):
    """Tasks, transitions, verifier, reference solution and scripted policies."""

    name, habits, experts, splits = NAME, HABITS, EXPERTS, SPLITS
    advice, remedies = ADVICE, REMEDIES

    def __init__(self, config: Config) -> None:
        if config.steps_max < config.steps_min:
            raise UserError(
                f"steps_max must be at least steps_min: got {config.steps_max} and {config.steps_min} - raise steps_max"
            )
        super().__init__()
        self.config = config
        self._user: User = ModelUser(config.user) if config.user else ScriptedUser()
        self._made = {domain.name: domain for domain in load_domains(Path(config.folder))} if config.folder else {}

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of "train", "heldout" or "unseen" (domains that training never shows)."""
        check_split(split, SPLITS)
        if self._made:
            return draw_tasks(self._domains(split == "unseen"), split, n, seed, self.config.knobs)
        config = self.config
        return list(_drawn(split, n, seed, config.domain_seed, config.domains, config.knobs))

    def open(self, task: Task) -> DeskEpisode:
        """A fresh episode."""
        details = task.data["details"]
        return DeskEpisode(Desk(self.domain(task), task, lambda said: self._user.answer(task.id, details, said)))

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy; see `habits.HABITS`."""
        return make_policy(task, self.domain(task), strategy, seed)

    def kind_of(self, call: Call) -> str:
        """What the call's verb stands for; PolicyError: nothing."""
        if call.name in (SUBMIT, ASK):
            return call.name
        kind = kinds_by_verb().get(call.name.split("_")[0])
        if kind is None:
            raise PolicyError(f"no tool {call.name}")
        return kind

    def forgeries(self, task: Task) -> list[list[str]]:
        """Attempts that must not score 1; see `forgeries.forged`."""
        return forged(self.domain(task), task)

    def secrets(self, task: Task) -> list[str]:
        """The calls of a solution: nothing that is shown may spell one out."""
        return [render_call(move.name, **move.texts) for move in gold_of(task)]

    def domain(self, task: Task) -> Domain:
        """The domain of a task."""
        name = str(task.data["domain"])
        return self._made.get(name) or domain_named(name)

    def _domains(self, unseen: bool) -> list[Domain]:
        """Those of the folder on one side of the split."""
        found = [domain for domain in self._made.values() if is_unseen(domain) == unseen]
        if not found:
            raise UserError(f"folder must hold {'unseen' if unseen else 'training'} domains: got none - make more")
        return found


@lru_cache(maxsize=16)
def _drawn(split: Split, n: int, seed: int, domain_seed: int, domains: int, knobs: Knobs) -> tuple[Task, ...]:
    """Tasks of sampled domains, kept, since stages ask for the same ones again."""
    sampled = sampled_domains(domain_seed, domains, split == "unseen", knobs.most_fields)
    return tuple(draw_tasks(sampled, split, n, seed, knobs))


def build(config: Config, sandbox: Sandbox | None) -> ToolWorld:
    """The world of a config; it needs no sandbox."""
    return ToolWorld(config)
