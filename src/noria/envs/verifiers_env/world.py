"""The world `verifiers_env`: an installed `verifiers` taskset, played by one agent."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from noria.bases.outside import OutsideWorld, taken
from noria.bases.package import Package
from noria.bases.world import check_split
from noria.core.config import Checked
from noria.core.errors import SandboxError, UserError
from noria.core.protocols import Sandbox
from noria.core.types import Split, Task, Tool
from noria.envs.verifiers_env.episode import Driven, Range, fault_of, text_of
from noria.envs.verifiers_env.harness import HARNESS, register
from noria.envs.verifiers_env.rollout import Rollout

NAME = "verifiers_env"
PROJECT = "verifiers==0.4.0"
SPLITS: tuple[Split, ...] = ("train", "heldout")
#: One task in this many is held out.
HELDOUT_ONE_IN = 4
_KINDS = ("string", "integer", "number", "boolean", "array", "object")


class Config(Checked):
    """An environment by the name of its taskset."""

    type: Literal["verifiers_env"] = "verifiers_env"
    tasks: int = Field(default=64, ge=1, le=10**6, description="training tasks of a round")
    taskset: str = Field(min_length=1, description="installed taskset, a module that exports a Taskset")
    options: dict[str, Any] = Field(default_factory=dict, description="options of the taskset's own config")
    most_rows: int = Field(default=10_000, ge=1, le=10**6, description="rows of the taskset that are read at most")
    timeout_s: float = Field(
        default=120.0, gt=0, le=86400, description="seconds that one answer may take, the start of its tools included"
    )
    replay_s: float = Field(
        default=600.0, gt=0, le=86400, description="seconds that a fork may take to say again what was said"
    )
    patience_s: float = Field(
        default=3600.0, gt=0, le=86400, description="seconds that the environment waits for a message of the policy"
    )
    reward_low: float = Field(default=0.0, description="the environment's reward that is 0")
    reward_high: float = Field(default=1.0, description="the environment's reward that is 1, a solved task")
    solutions: str = Field(
        default="", description="field of a task's data that holds its answer, for proofs and `reference`"
    )

    @model_validator(mode="after")
    def _has_a_range(self) -> Config:
        if self.reward_low >= self.reward_high:
            raise ValueError("reward_low must be below reward_high")
        return self


class VerifiersWorld(OutsideWorld):
    """Rows are tasks; the environment's interception writes the trace, its task gives the reward."""

    name, splits = NAME, SPLITS

    def __init__(self, config: Config) -> None:
        super().__init__(solved=bool(config.solutions))
        self.config = config
        self._package = Package(
            "verifiers", PROJECT, "", "taskset", f"run `pip install {PROJECT}`: taskset then names a module of yours"
        )
        register(self._package)
        self._loaders: Any = self._package.module("v1.utils.loaders")
        self._clients: Any = self._package.module("v1.clients")
        self._rows: dict[str, Any] = {}
        self._known_tools: tuple[Tool, ...] | None = None

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` tasks in an order of the seed; a row belongs to one split for good, by the hash of its content.

        Raises:
            UserError: no such taskset, an unknown split, or fewer rows than asked for.
        """
        check_split(split, self.splits)
        rows = [(key, row) for key, row in self._read().items() if _split_of(key) == split]
        random.Random(f"{NAME}:{split}:{seed}").shuffle(rows)
        return [self._task(key, row, split) for key, row in taken(rows, n, f"{self.config.taskset} {split}")]

    def open(self, task: Task) -> Driven:
        """A fresh episode; its rollout begins with the first message."""
        row = self._read()[task.data["key"]]
        scale = Range(self.config.reward_low, self.config.reward_high)
        return Driven(lambda: self._rollout(row), task.tools, scale, self.config.replay_s)

    def reference(self, task: Task) -> list[str]:
        """The field of the data that `solutions` names: a message, or several. UserError: there is none."""
        found = self._read()[task.data["key"]].data.model_dump().get(self.config.solutions)
        if found is None:
            raise UserError(f"solutions must name a field of the tasks: got {self.config.solutions!r}")
        return [str(each) for each in found] if isinstance(found, list) else [str(found)]

    def _read(self) -> dict[str, Any]:
        if not self._rows:
            taskset = self._environment().taskset
            for row in itertools.islice(iter(taskset), self.config.most_rows):
                self._rows.setdefault(row.key, row)
        return self._rows

    def _environment(self) -> Any:
        """The environment anew: each rollout has its own, since one serves one loop."""
        agent = {"harness": {"id": HARNESS}, "runtime": {"type": "subprocess"}}
        wanted = {"taskset": {"id": self.config.taskset, **self.config.options}, "agent": agent}
        try:
            return self._loaders.load_environment(self._loaders.resolve_env_config(wanted))
        except (ImportError, AttributeError, TypeError, ValueError, ValidationError) as fault:
            raise UserError(
                f"taskset must name an installed taskset that one agent plays: got {self.config.taskset!r}, "
                f"{type(fault).__name__}: {str(fault)[:300]}"
            ) from fault

    def _rollout(self, row: Any) -> Rollout:
        environment = self._environment()

        async def run(url: str) -> Any:
            client = self._clients.EvalClientConfig(base_url=url, api_key_var="NORIA_NO_KEY")
            context = self._clients.ModelContext(model="policy", client=client)
            async with environment.serving():
                return await environment.run_episode(row, context)

        return Rollout(run, self.config.timeout_s, self.config.patience_s)

    def _tools(self, row: Any) -> tuple[Tool, ...]:
        """The tools of the first request of a rollout; all tasks of a taskset have the same. Asked for once."""
        if self._known_tools is None:
            taskset = self._environment().taskset
            servers = [*taskset.toolsets(taskset.config), *type(row).toolsets(row.config)]
            for server in servers:
                self._check_starts(server)
            self._known_tools = self._probed(row) if servers else ()
        return self._known_tools

    def _check_starts(self, server: Any) -> None:
        """A tool server that the package starts is the program `python -m MODULE`; one that is none never answers."""
        module = type(server).__module__
        file = None if server.config.url or module not in sys.modules else sys.modules[module].__file__
        if file is None or Path(file).name == "__init__.py":
            return
        if "__main__" not in Path(file).read_text(encoding="utf-8", errors="replace"):
            name = type(server).__name__
            raise UserError(
                f"taskset must have tool servers that can be started: got {self.config.taskset!r}, whose {name} is "
                f"started by `python -m {module}`, which runs nothing - end that module with "
                f'`if __name__ == "__main__": {name}.run()`'
            )

    def _probed(self, row: Any) -> tuple[Tool, ...]:
        rollout = self._rollout(row)
        try:
            kind, found = rollout.next()
            if kind != "asked":
                raise SandboxError(f"it ended before its model was asked: {fault_of(found)}")
            return tuple(_tool(each["function"]) for each in found.get("tools") or ())
        except SandboxError as fault:
            raise UserError(
                f"taskset must start within timeout_s: got {self.config.taskset!r}, {fault} - a tool server of its own "
                "must be importable in a process of its own (PYTHONPATH)"
            ) from fault
        finally:
            rollout.close()

    def _task(self, key: str, row: Any, split: Split) -> Task:
        data = row.data
        said = data.prompt if isinstance(data.prompt, str) else [text_of(m.content) for m in data.prompt or ()]
        prompt = said if isinstance(said, str) else "\n".join(said)
        return Task(f"{NAME}-{key[:16]}", NAME, data.system_prompt or "", prompt, self._tools(row), {"key": key}, split)


def build(config: Config, sandbox: Sandbox | None) -> VerifiersWorld:
    """The world of a config. Raises UserError: the package is not there."""
    return VerifiersWorld(config)


def _split_of(key: str) -> Split:
    return "heldout" if random.Random(key).randrange(HELDOUT_ONE_IN) == 0 else "train"


def _tool(function: Mapping[str, Any]) -> Tool:
    """A tool as a chat API describes it."""
    schema = function.get("parameters") or {}
    required = schema.get("required", ())
    shown = {}
    for key, each in schema.get("properties", {}).items():
        kinds = [each.get("type"), *(part.get("type") for part in each.get("anyOf", ()))]
        kind = next((str(k) for k in kinds if k in _KINDS), "string")
        notes = [str(each.get("description", "")), "" if key in required else "optional"]
        shown[key] = (kind, "; ".join(note for note in notes if note))
    return Tool(str(function["name"]), str(function.get("description", "")).partition("\n")[0], shown)
