"""The world `tau2`: the domains of tau2 as the package `inspect-evals` ships them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from noria.bases.outside import OutsideWorld, taken
from noria.bases.package import Package
from noria.bases.world import check_split
from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.protocols import Sandbox
from noria.core.types import Split, Task
from noria.envs.tau2.banking import Banking
from noria.envs.tau2.desk import TRANSFER, Desk, criteria_of
from noria.envs.tau2.episode import Service, scenario_of
from noria.envs.tau2.shops import Airline, Retail
from noria.envs.tau2.telecom import Telecom
from noria.envs.tau2.user import ModelConfig, ModelUser, ScriptedUser, User
from noria.tokens.calls import rendered

NAME = "tau2"
PROJECT = "inspect-evals==0.28.0"
_SYSTEM = (
    "You serve a customer by the policy below. In each message either call tools, whose results you get, or speak to "
    "the customer, who answers.\n\n"
)


_ASKED_BY_NAME = (
    'The customer does the following when asked for it by name in a message, as `name(key="value")`, and tells what '
    "came of it:"
)
DESKS: Mapping[str, type[Desk]] = {"airline": Airline, "retail": Retail, "telecom": Telecom, "banking": Banking}


class Config(Checked):
    """Where the package is, which domains, and who plays the user."""

    type: Literal["tau2"] = "tau2"
    tasks: int = Field(default=40, ge=1, le=10**6, description="training tasks of a round")
    path: str = Field(default="", description='folder that holds inspect_evals, as an unpacked wheel; "" = installed')
    domains: tuple[Literal["airline", "retail", "telecom", "banking"], ...] = Field(
        default=("airline", "retail"), min_length=1, description="domains that tasks are of"
    )
    heldout: Literal["base", "test"] = Field(
        default="base", description="base = measure on all tasks, train on none; test = the published split of both"
    )
    user: ModelConfig | None = Field(default=None, description="chat model that plays the user; none = the stand-in")

    @model_validator(mode="after")
    def _has_splits(self) -> Config:
        if self.heldout == "test" and "banking" in self.domains:
            raise ValueError('heldout must be "base" with banking, of which no split is published: got "test"')
        return self


class Tau2World(OutsideWorld):
    """Tasks, tools, databases and the check are the package's."""

    name = NAME

    def __init__(self, config: Config) -> None:
        super().__init__(solved=True)
        self.config = config
        self.splits: tuple[Split, ...] = ("heldout",) if config.heldout == "base" else ("train", "heldout")
        self._package = Package(
            "inspect_evals", PROJECT, config.path,
            get=f"run `pip install {PROJECT}`, or unpack its wheel and set path to the folder",
        )  # fmt: skip
        if self._package.root.is_file():
            raise UserError(
                f"path must lead to a folder: got the wheel {config.path!r}, whose modules read files beside them - "
                f"unpack it, `python -m zipfile -e {config.path} FOLDER`, and set path to FOLDER"
            )
        self._desks: dict[str, Desk] = {}
        self._user: User = ScriptedUser() if config.user is None else ModelUser(config.user)

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` tasks in an order of the seed. UserError: a split that there is not, or more than there are."""
        check_split(split, self.splits)
        key = "train" if split == "train" else self.config.heldout
        there = [(name, each) for name in self.config.domains for each in self._desk(name).ids[key]]
        random.Random(f"{NAME}:{split}:{seed}").shuffle(there)
        return [self._task(name, each, split) for name, each in taken(there, n, f"{NAME} {split}")]

    def open(self, task: Task) -> Service:
        """A fresh conversation."""
        desk = self._desk(task.data["domain"])
        return Service(desk, desk.tasks[task.data["id"]], self._user)

    def reference(self, task: Task) -> list[str]:
        """The task's actions one by one, those of the user asked for, what is to be told, until the user is content.

        To pass the case on comes last, since it ends the conversation.
        """
        desk = self._desk(task.data["domain"])
        criteria = criteria_of(desk.tasks[task.data["id"]])
        shown = {tool.name.removeprefix(desk.prefix): tool.name for tool in (*desk.tools, *desk.user_tools)}
        actions = sorted(criteria.get("actions") or (), key=lambda action: bool(action["name"] == TRANSFER))
        steps = [_step(shown[action["name"]], action) for action in actions]
        words = f"It is done. {' '.join(criteria.get('communicate_info') or ())}".strip()
        return [words, *steps, words, words, words]

    def close(self) -> None:
        """Let the package go."""
        self._package.close()

    def _desk(self, name: str) -> Desk:
        if name not in self._desks:
            self._desks[name] = DESKS[name](self._package)
        return self._desks[name]

    def _task(self, name: str, number: str, split: Split) -> Task:
        desk = self._desk(name)
        prompt = self._user.first(scenario_of(desk.tasks[number]))
        system = _SYSTEM + desk.policy
        if desk.user_tools and self.config.user is None:
            listed = "\n".join(
                f"{tool.name}({', '.join(tool.parameters)}): {tool.description}" for tool in desk.user_tools
            )
            system += f"\n\n{_ASKED_BY_NAME}\n{listed}"
        data = {"domain": name, "id": number}
        return Task(f"{NAME}-{name}-{number}", NAME, system, prompt, desk.tools, data, split)


def _step(name: str, action: Mapping[str, Any]) -> str:
    """An action of a task as a message: a call, or words that ask the user for it."""
    arguments: Mapping[str, Any] = action["arguments"]
    if (action.get("requestor") or "assistant") == "assistant":
        return rendered(name, {k: v if isinstance(v, str) else json.dumps(v) for k, v in arguments.items()})
    return f"Please do this: {name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})."


def build(config: Config, sandbox: Sandbox | None) -> Tau2World:
    """The world of a config. Raises UserError: the package is not there."""
    return Tau2World(config)
