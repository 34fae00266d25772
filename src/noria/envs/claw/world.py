"""The world `claw`: work on files, databases and programs with real tools in a real sandbox."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from noria.core.config import Checked
from noria.core.errors import PolicyError, UserError
from noria.core.protocols import Policy, Sandbox
from noria.core.registry import nearest
from noria.core.types import Split, Task
from noria.envs.claw.advice import ADVICE, REMEDIES
from noria.envs.claw.bench import HARNESSES, Bench
from noria.envs.claw.episode import ClawEpisode, Pay
from noria.envs.claw.families import FAMILIES
from noria.envs.claw.forgeries import forged, secrets
from noria.envs.claw.habits import EXPERTS, HABITS, as_shell
from noria.envs.claw.habits import make_policy as policy_of
from noria.envs.claw.tasks import EASY, HARD, NAME, SPLITS, draw_tasks
from noria.tokens.calls import parse, render_call

_SHARES = {EASY: 0.0, HARD: 1.0}


class Config(Checked):
    """Work on files, databases and programs, judged by a check-list on what is left at the end."""

    type: Literal["claw"] = "claw"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    level: Literal["easy", "mixed-hard", "both"] = Field(
        default="both", description="easy: one job; mixed-hard: several jobs in folders, idle files and a trap"
    )
    hard_share: float = Field(default=0.3, ge=0, le=1, description="share of mixed-hard tasks; only for both")
    jobs: tuple[int, int] = Field(default=(2, 3), description="jobs of a mixed-hard task: fewest and most, 2 to 6")
    shell_share: float = Field(
        default=0.25, ge=0, le=1, description="share of tasks that offer nothing but a shell; the others have all tools"
    )
    families: tuple[str, ...] = Field(default=(), description="families that tasks are drawn from; [] = all")
    reward: Pay = Field(
        default="all", description="all: 1 if every check holds; share: the weighted share of the goals"
    )
    command_s: float = Field(default=5.0, gt=0, le=600, description="seconds of one command")
    budget_s: float = Field(default=60.0, gt=0, le=3600, description="seconds of all commands of an episode together")

    @field_validator("families")
    @classmethod
    def _are_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in FAMILIES:
                raise ValueError(f"{name!r} is no family{nearest(name, list(FAMILIES))}: {', '.join(FAMILIES)}")
        return value

    @model_validator(mode="after")
    def _has_a_span(self) -> Config:
        if not 2 <= self.jobs[0] <= self.jobs[1] <= 6:
            raise ValueError(f"jobs must be two numbers from 2 to 6, the smaller first: got {list(self.jobs)}")
        return self


class ClawWorld:
    """Tasks, tools, check-lists, reference solutions and scripted policies."""

    name = NAME
    experts = EXPERTS
    strategies: Mapping[str, float] = {name: habit.weight for name, habit in HABITS.items()}
    advice = ADVICE
    remedies: Mapping[str, str] = REMEDIES
    splits: tuple[Split, ...] = SPLITS

    def __init__(self, config: Config, sandbox: Sandbox | None) -> None:
        self.config, self._sandbox = config, sandbox

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of "train", "heldout" or "unseen" (families that training never shows)."""
        config = self.config
        share = _SHARES.get(config.level, config.hard_share)
        return draw_tasks(split, n, seed, share, config.shell_share, config.jobs, config.families)

    def open(self, task: Task) -> ClawEpisode:
        """A fresh workspace with the task's files and databases.

        Raises:
            UserError: the world was built without a sandbox.
        """
        if self._sandbox is None:
            raise UserError("claw must have a sandbox to work in: got none - add a [sandbox] table")
        files: dict[str, str] = dict(task.data["files"])
        files |= {path: _database(script) for path, script in task.data["databases"].items()}
        bench = Bench(self._sandbox.workspace(files), self.config.command_s, self.config.budget_s)
        return ClawEpisode(task, self._sandbox, bench, self.config.reward)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy; see `habits.HABITS`."""
        return policy_of(task, strategy, seed)

    def reference(self, task: Task) -> list[str]:
        """Assistant messages of a solution: look, work, answer."""
        said: list[str] = []
        for listed in [task.data["first"], *(part[key] for part in task.data["parts"] for key in ("look", "shell"))]:
            said.append(self._message(task, listed))
        said.append(self._message(task, task.data["last"]))
        end = "; ".join(part["answer"] for part in task.data["parts"] if part["answer"])
        return [*filter(None, said), end or "done"]

    def kind(self, message: str) -> str:
        """The tool of the first call, "answer" without a call, "malformed" where it cannot be run."""
        try:
            calls = parse(message).calls
        except PolicyError:
            return "malformed"
        if not calls:
            return "answer"
        return calls[0].name if calls[0].name in HARNESSES["full"] else "malformed"

    def advice_for(self, strategy: str) -> str | None:
        """The kind whose advice a right habit obeys, None for a wrong habit."""
        return HABITS[strategy].advice

    def forgeries(self, task: Task) -> list[list[str]]:
        """See `forgeries.forged`; with a reward of shares, less work earns less than 1 as well."""
        return forged(task)

    def secrets(self, task: Task) -> list[str]:
        """See `forgeries.secrets`."""
        return secrets(task)

    def close(self) -> None:
        """Nothing is held; the sandbox belongs to whoever made it."""

    @staticmethod
    def _message(task: Task, listed: list[Any]) -> str:
        steps = [(str(name), dict(args)) for name, args in listed]
        if task.data["harness"] == "shell":
            steps = [as_shell(step) for step in steps]
        return "".join(render_call(name, **args) for name, args in steps)


@lru_cache(maxsize=1024)
def _database(script: str) -> str:
    """The bytes of a SQLite file that a script fills, as a text that stands for them (surrogate escapes)."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(script)
        connection.commit()
        return connection.serialize().decode("utf-8", "surrogateescape")
    finally:
        connection.close()


def build(config: Config, sandbox: Sandbox | None) -> ClawWorld:
    """The world; without a sandbox it can draw tasks and tell policies, but open none."""
    return ClawWorld(config, sandbox)
