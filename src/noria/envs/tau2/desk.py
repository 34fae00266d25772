"""The desk of a domain: its database, its tools and its policy, from the package."""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from noria.bases.package import Package
from noria.core.errors import PolicyError
from noria.core.types import Tool
from noria.envs.tau2.described import tool_of
from noria.envs.tau2.sharing import shared

TRANSFER = "transfer_to_human_agents"
#: Texts longer than this are cut in what a tool says of an error.
_MOST_CHARS = 400


@dataclass(slots=True)
class Made:
    """A call that was made, by "assistant" or "user"."""

    by: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(slots=True)
class State:
    """The package's tools of both sides over the databases of one conversation, and the calls that were made."""

    agent: Any
    user: Any = None
    made: list[Made] = field(default_factory=list)

    def side(self, by: str) -> Any:
        """The tools of a side."""
        return self.agent if by == "assistant" else self.user


class Desk(ABC):
    """What all conversations of a domain share. Raises UserError: the package cannot be imported.

    A database is read once; conversations share its rows until they take them (`sharing`).
    """

    #: Folder of the domain's data, name of its classes, and what its tools are called beyond their method's name.
    folder = name = title = prefix = ""
    tasks_file, splits_file = "tasks.json", "split_tasks.json"

    def __init__(self, package: Package) -> None:
        self._package = package
        self._data = f"tau2/data/domains/{self.folder or self.name}"
        self.tasks: Mapping[str, Mapping[str, Any]] = {
            str(task["id"]): task for task in json.loads(package.read(f"{self._data}/{self.tasks_file}"))
        }
        self.ids: Mapping[str, Sequence[str]] = {"base": list(self.tasks)}
        if self.splits_file:
            self.ids = json.loads(package.read(f"{self._data}/{self.splits_file}"))
        self._store = package.sibling("inspect_ai.util").Store
        self.refused: type[Exception] = package.sibling("inspect_ai.tool").ToolError
        self._agent_class = self._class("Agent")
        self.policy = self._policy()
        self.tools, self.user_tools = self._tools()
        self._expected: dict[str, State] = {}
        self._first: State | None = None

    def state(self, task: Mapping[str, Any]) -> State:
        """The conversation's state at first."""
        if self._first is None:
            self._first = self._read()
        made = self.copied(self._first)
        self._prepare(made, task.get("initial_state") or {})
        return made

    def copied(self, state: State) -> State:
        """The same state in other objects."""
        return State(self._branched(state.agent), None, list(state.made))

    def call(self, state: State, by: str, name: str, arguments: Mapping[str, Any]) -> str:
        """What a tool of a side says.

        Raises:
            PolicyError: it refuses, or cannot be called so.
        """
        name = name.removeprefix(self.prefix)
        state.made.append(Made(by, name, arguments))
        if name == TRANSFER:
            return "Transfer successful"
        side = state.side(by)
        try:
            given = vars(type(side))[name](side, **arguments)
        except (self.refused, TypeError, ValueError, KeyError, AttributeError, IndexError) as fault:
            raise PolicyError(f"{name}: {fault}"[:_MOST_CHARS]) from fault
        return text_of(given)

    def expected(self, task: Mapping[str, Any]) -> State:
        """What the task's actions make of the state; worked out once, and not to be changed."""
        key = str(task["id"])
        if key not in self._expected:
            right = self.state(task)
            for action in criteria_of(task).get("actions") or ():
                try:
                    self.call(right, action.get("requestor") or "assistant", action["name"], action["arguments"])
                except PolicyError:
                    pass  # what the ground truth tries in vain changes nothing
            self._expected[key] = right
        return self._expected[key]

    @abstractmethod
    def faults(self, state: State, task: Mapping[str, Any]) -> dict[str, str]:
        """What the package's scorer looks at in the state, each with what is wrong about it, "" where it is right."""

    def left_undone(self, state: State, task: Mapping[str, Any]) -> str:
        """The first action of the task that nobody did, "" where all were done; whose arguments count is the task's."""
        equal = self._package.module("tau2.utils").deep_equal_unordered
        for action in criteria_of(task).get("actions") or ():
            if not any(_is_done(action, made, equal) for made in state.made):
                return str(action["name"])
        return ""

    def _policy(self) -> str:
        return self._package.read(f"{self._data}/policy.txt")

    def _class(self, side: str) -> Any:
        name = f"{self.title}{side}Tools"
        return vars(self._package.module(f"tau2.{self.name}.{name}"))[name]

    @abstractmethod
    def _tools(self) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
        """Those of the agent and of the user."""

    def _described(self, module: str, names: Sequence[str]) -> tuple[Tool, ...]:
        wrapped = self._package.module(f"tau2.{self.name}.{module}")
        described = self._package.sibling("inspect_ai.tool").ToolDef
        return tuple(tool_of(described(vars(wrapped)[name]())) for name in names)

    def _listed(self, module: str, key: str) -> tuple[Tool, ...]:
        """The tools of a list that the package has of them."""
        described = self._package.sibling("inspect_ai.tool").ToolDef
        found = vars(self._package.module(f"tau2.{self.name}.{module}"))[key]
        return tuple(tool_of(described(each())) for each in found)

    def _read(self) -> State:
        made = self._agent_class(store=self._store(), instance="noria")
        made.initialize()
        return State(made)

    def _prepare(self, state: State, initial: Mapping[str, Any]) -> None:  # noqa: B027 - most begin as they are
        """Bring the state to where the task begins."""

    def _branched(self, tools: Any) -> Any:
        """Tools of the package with fields of their own; rows of their database are shared until they are taken."""
        made = type(tools)(store=self._store(), instance="noria")
        for name in type(tools).model_fields:
            if name not in ("store", "instance"):
                value = getattr(tools, name)
                setattr(made, name, shared(value) if name == "db" else copy.deepcopy(value))
        return made


def criteria_of(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a task is graded by."""
    return task.get("evaluation_criteria") or {}


def text_of(value: Any) -> str:
    """What a tool gives as a text: its own, or JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


def _is_done(action: Mapping[str, Any], made: Made, equal: Callable[[Any, Any], bool]) -> bool:
    if made.by != (action.get("requestor") or "assistant") or made.name != action["name"]:
        return False
    if made.name == TRANSFER:
        return True
    keys = action.get("compare_args")
    if keys is None:
        return equal(dict(made.arguments), action["arguments"])
    return equal({k: made.arguments.get(k) for k in keys}, {k: action["arguments"].get(k) for k in keys})
