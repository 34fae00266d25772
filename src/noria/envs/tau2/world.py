"""The world `tau2`: two domains of tau2 as the package `inspect-evals` ships them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from noria.bases.outside import OutsideWorld, taken
from noria.bases.package import Package
from noria.bases.world import check_split
from noria.core.config import Checked
from noria.core.protocols import Sandbox
from noria.core.types import Split, Task
from noria.envs.tau2.desk import Domain
from noria.envs.tau2.episode import Service
from noria.envs.tau2.user import ModelConfig, ModelUser, ScriptedUser, User
from noria.tokens.calls import rendered

NAME = "tau2"
PROJECT = "inspect-evals==0.28.0"
_SYSTEM = (
    "You serve a customer by the policy below. In each message either call tools, whose results you get, or speak to "
    "the customer, who answers.\n\n"
)


class Config(Checked):
    """Where the package is, which domains, and who plays the user."""

    type: Literal["tau2"] = "tau2"
    tasks: int = Field(default=40, ge=1, le=10**6, description="training tasks of a round")
    path: str = Field(
        default="", description='wheel of inspect-evals, or folder that holds inspect_evals; "" = installed'
    )
    domains: tuple[Literal["airline", "retail"], ...] = Field(
        default=("airline", "retail"), min_length=1, description="domains that tasks are of"
    )
    heldout: Literal["base", "test"] = Field(
        default="base", description="base = measure on all tasks, train on none; test = the published split of both"
    )
    user: ModelConfig | None = Field(default=None, description="chat model that plays the user; none = the stand-in")


class Tau2World(OutsideWorld):
    """Tasks, tools, databases and the check are the package's."""

    name = NAME

    def __init__(self, config: Config) -> None:
        super().__init__(solved=True)
        self.config = config
        self.splits: tuple[Split, ...] = ("heldout",) if config.heldout == "base" else ("train", "heldout")
        self._package = Package("inspect_evals", PROJECT, config.path)
        self._domains: dict[str, Domain] = {}
        self._user: User = ScriptedUser() if config.user is None else ModelUser(config.user)

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` tasks in an order of the seed. UserError: a split that there is not, or more than there are."""
        check_split(split, self.splits)
        key = "train" if split == "train" else self.config.heldout
        there = [(name, each) for name in self.config.domains for each in self._domain(name).ids[key]]
        random.Random(f"{NAME}:{split}:{seed}").shuffle(there)
        return [self._task(name, each, split) for name, each in taken(there, n, f"{NAME} {split}")]

    def open(self, task: Task) -> Service:
        """A fresh conversation."""
        domain = self._domain(task.data["domain"])
        return Service(domain, domain.tasks[task.data["id"]], self._user)

    def reference(self, task: Task) -> list[str]:
        """The task's actions one by one, then what is to be told, until the stand-in is content."""
        found = self._domain(task.data["domain"]).tasks[task.data["id"]]
        criteria: Mapping[str, Any] = found["evaluation_criteria"] or {}
        calls = [
            rendered(a["name"], {k: v if isinstance(v, str) else json.dumps(v) for k, v in a["arguments"].items()})
            for a in criteria.get("actions") or ()
        ]
        words = f"It is done. {' '.join(criteria.get('communicate_info') or ())}".strip()
        return [words, *calls, words, words, words]

    def close(self) -> None:
        """Let the package go."""
        self._package.close()

    def _domain(self, name: str) -> Domain:
        if name not in self._domains:
            self._domains[name] = Domain(self._package, name)
        return self._domains[name]

    def _task(self, name: str, number: str, split: Split) -> Task:
        domain = self._domain(name)
        prompt = self._user.first(domain.tasks[number]["user_scenario"]["instructions"])
        data = {"domain": name, "id": number}
        return Task(f"{NAME}-{name}-{number}", NAME, _SYSTEM + domain.policy, prompt, domain.tools, data, split)


def build(config: Config, sandbox: Sandbox | None) -> Tau2World:
    """The world of a config. Raises UserError: the package is not there."""
    return Tau2World(config)
