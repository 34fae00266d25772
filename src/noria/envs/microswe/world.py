"""The world itself: a file with a bug, four tools, and tests that run in the sandbox."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from noria.bases.turn import carried_out
from noria.bases.world import ScriptedWorld
from noria.core.config import Checked
from noria.core.errors import PolicyError, SandboxError, UserError
from noria.core.files import read_plain
from noria.core.proofs import Judge
from noria.core.protocols import Policy, Sandbox, TestReport
from noria.core.types import Message, Observation, Outcome, Split, Task
from noria.envs.microswe import forgeries, given, policies
from noria.envs.microswe.edits import follow, read
from noria.envs.microswe.mistakes import mistakes
from noria.envs.microswe.plain import plain
from noria.envs.microswe.tasks import APP, RESET, TESTS, TOOLS, draw_tasks
from noria.tokens.calls import Call

_ARGUMENTS: Mapping[str, frozenset[str]] = {tool.name: frozenset(tool.parameters) for tool in (*TOOLS, RESET)}
_MAX_MEMO, _MAX_SAID = 50_000, 60

ADVICE: Mapping[str, tuple[str, ...]] = {
    "view": (
        "Read the file before you edit it.",
        "View the code first, then change it.",
        "Look at the file before any edit.",
    ),
    "edit": (
        "Compare each line with the docstring, then write the wrong one anew.",
        "Find the line that breaks the docstring and fix it.",
        "Edit only the line that does not do what the docstring says.",
    ),
    "test": (
        "Run the tests after your edit, before you submit.",
        "Test your edit before you submit it.",
        "Check each edit by running the tests.",
    ),
    "submit": (
        "Submit only when all tests pass.",
        "When tests fail, mend your edit and test again.",
        "Do not submit while a test fails.",
    ),
    "answer": ("Act through the tools, not in prose.", "Use a tool in each message.", "Call a tool."),
    "malformed": (
        "Write each call in full, with its closing tag.",
        "Close every tag of a call.",
        "Use only the tools that exist, with their arguments.",
    ),
}


class Config(Checked):
    """`tasks` training tasks of a round; a test run is stopped after `test_timeout_s` seconds."""

    type: Literal["microswe"]
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    test_timeout_s: float = Field(default=2.0, gt=0, description="seconds of one test run at most")
    path: str | None = Field(
        default=None, description="file with tasks of real functions; None = families of templates"
    )
    longest: int | None = Field(
        default=None, ge=2, description="lines of a function at most, of those in `path`; None = all are played"
    )
    part: str | None = Field(
        default=None,
        pattern=r"^[1-9]\d{0,2}(-[1-9]\d{0,2})?/[1-9]\d{0,2}$",
        description="parts of the functions in `path` to train on: 1/3, or 2-3/3; None = all",
    )
    reset: bool = Field(default=False, description="a fifth tool, `reset`, puts the file back as it was at first")


class MicroSweEpisode:
    """One file being repaired."""

    def __init__(self, world: MicroSwe, task: Task, text: str, done: bool = False) -> None:
        self._world, self._task, self._text, self._done = world, task, text, done

    @property
    def text(self) -> str:
        """The file as it stands."""
        return self._text

    def act(self, message: str) -> Observation:
        """Run the calls of a message in order, up to `submit`.

        Raises:
            SandboxError: the tests could not be run, so nothing is known about the file.
        """
        if self._done:
            return Observation("error: already submitted", done=True)
        said = carried_out(message, self._call, lambda: self._done, "call a tool")
        return Observation("\n".join(said), self._done)

    def grade(self) -> Outcome:
        """Run the original tests on the file as it stands, and calls that no test shows, in fresh copies of all."""
        world, task = self._world, self._task
        try:
            report = world.test(task, self._text)
            total, passed = len(task.data["calls"]), _passed(report)
            if passed < total:
                return Outcome(0.0, {"tests": passed / total}, _terse(task, report))
            unseen = world.test(task, self._text, "unseen_tests")
        except SandboxError as fault:
            return Outcome.unknown(f"sandbox: {fault}")
        if unseen.error or any(said != "pass" for said in unseen.results.values()):
            return Outcome(0.0, {"tests": 1.0}, "passes the tests that it sees alone")
        return Outcome(1.0, {"tests": 1.0}, "")

    def lay(self, folder: Path) -> str:
        """Write the file and the tests that are shown (`core.protocols.Folders`); what is to be done."""
        (folder / APP).write_text(self._text, "utf-8")
        (folder / TESTS).write_text(self._task.data["tests"], "utf-8")
        return (
            f"{APP} has a bug: its function does not do what its docstring says, so {TESTS} fails. Mend the function. "
            "The file may hold nothing else, and no imports."
        )

    def take(self, folder: Path, answer: str) -> None:
        """The file as it lies there; a missing one is empty.

        Raises:
            PolicyError: it is no plain file, or holds more than a function of this world needs.
        """
        text = read_plain(folder / APP) or ""
        if not plain(text):
            raise PolicyError(f"{APP} must hold plain code of the function")
        self._text = text

    def fork(self) -> MicroSweEpisode:
        """An independent copy."""
        return MicroSweEpisode(self._world, self._task, self._text, self._done)

    def close(self) -> None:
        """Nothing to free: every test run brings its own files."""

    def _call(self, call: Call) -> str:
        tools = [tool.name for tool in self._task.tools]
        if call.name not in tools:
            raise PolicyError(f"no tool {call.name[:20]}: use {', '.join(tools)}")
        wanted = _ARGUMENTS[call.name]
        if set(call.args) != wanted:
            raise PolicyError(f"{call.name} takes {', '.join(sorted(wanted)) or 'no arguments'}")
        if call.name == "view":
            return _numbered(self._text)
        if call.name == "test":
            return _terse(self._task, self._world.test(self._task, self._text))
        if call.name == "submit":
            self._done = True
            return "submitted"
        if call.name == RESET.name:
            self._text = self._task.data["app"]
            return "ok"
        self._text = follow(self._text, read(call.args))
        return "ok"


class MicroSwe(ScriptedWorld):
    """The world of one-line bugs. `sandbox` runs the tests; results are remembered by content."""

    name = "microswe"
    habits, experts = policies.HABITS, policies.EXPERTS
    advice = ADVICE
    remedies: Mapping[str, str] = {"edit": "test", "test": "submit", "view": "test"}
    splits: tuple[Split, ...] = ("train", "heldout", "unseen")

    def __init__(self, config: Config, sandbox: Sandbox | None) -> None:
        super().__init__()
        self.config = config
        self._sandbox = sandbox
        self._memo: dict[tuple[str, str], TestReport] = {}
        self._given = _given(config)
        if self._given is not None:
            self.splits = tuple(split for split, tasks in self._given.items() if tasks)

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """See `tasks.draw_tasks`, or `given.draw` where there is a file of tasks."""
        if self._given is None:
            drawn = draw_tasks(split, n, seed)
        else:
            drawn = given.draw(self._given.get(split, ()), split, n, seed)
        return [replace(task, tools=(*task.tools, RESET)) for task in drawn] if self.config.reset else drawn

    def open(self, task: Task) -> MicroSweEpisode:
        """Start on the file with the bug."""
        return MicroSweEpisode(self, task, task.data["app"])

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """See `policies.policy`."""
        return policies.policy(task, strategy, seed)

    def flawed(self, task: Task, seed: int) -> tuple[Policy, Judge]:
        """A habit drawn by weight (`core.proofs.Flawed`), and `mistakes.mistakes`."""
        (habit,) = random.Random(f"flawed/{task.id}/{seed}").choices(*zip(*self.strategies.items(), strict=True))
        return self.policy(task, habit, seed), partial(mistakes, task, partial(self._passes, task))

    def _passes(self, task: Task, text: str) -> bool:
        """Whether a file passes the tests that are shown and those that are not."""
        reports = (self.test(task, text, which) for which in ("tests", "unseen_tests"))
        return all(report.passed for report in reports)

    def kind_of(self, call: Call) -> str:
        """The tool, "edit" for what takes edits back; PolicyError: there is no such tool."""
        if call.name not in _ARGUMENTS:
            raise PolicyError(f"no tool {call.name}")
        return "edit" if call.name == RESET.name else call.name

    def reference(self, task: Task) -> list[str]:
        """The assistant messages of the gold solution: look, mend, submit."""
        play, said = policies.policy(task, "direct", 0), [policies.VIEW]
        said.append(play([Message("assistant", policies.VIEW)]))
        return [*said, policies.SUBMIT]

    def forgeries(self, task: Task) -> list[list[str]]:
        """See `forgeries.forgeries`."""
        return forgeries.forgeries(task)

    def secrets(self, task: Task) -> list[str]:
        """See `forgeries.secrets`."""
        return forgeries.secrets(task)

    def close(self) -> None:
        """Forget all test results; the sandbox belongs to whoever made it."""
        self._memo.clear()

    def test(self, task: Task, text: str, which: str = "tests") -> TestReport:
        """Run the task's original tests on `text`, or its "unseen_tests".

        The code is deterministic, so one result per content is kept: replays ask for the same again.

        Raises:
            UserError: the world was built without a sandbox.
            SandboxError: the sandbox failed; nothing is remembered then.
        """
        key = (text, task.data[which])
        if key not in self._memo:
            if self._sandbox is None:
                raise UserError("microswe must have a sandbox to run tests: got none - add a [sandbox] table")
            files = {APP: text, TESTS: task.data[which]}
            report = self._sandbox.test(files, TESTS, self.config.test_timeout_s)
            if len(self._memo) >= _MAX_MEMO:
                self._memo.clear()
            self._memo[key] = report
        return self._memo[key]


def build(config: Config, sandbox: Sandbox | None) -> MicroSwe:
    """The world; without a sandbox it can draw tasks and play policies, but not run a test."""
    return MicroSwe(config, sandbox)


def _given(config: Config) -> Mapping[Split, tuple[Task, ...]] | None:
    if config.path is None:
        for name, value in (("longest", config.longest), ("part", config.part)):
            if value is not None:
                raise UserError(f"env {name} must go with path: got {value} without - name a file of tasks")
        return None
    found = given.load(config.path)
    found = found if config.longest is None else given.short(found, config.longest)
    return found if config.part is None else given.part(found, config.part)


def _numbered(text: str) -> str:
    return "\n".join(f"{number} {line}" for number, line in enumerate(text.rstrip("\n").split("\n"), 1))


def _passed(report: TestReport) -> int:
    return 0 if report.error else sum(result == "pass" for result in report.results.values())


def _terse(task: Task, report: TestReport) -> str:
    """`pass 4/4`, or `fail 2/4: clamp(7,0,5)=7 want 5`: how many failed and the first of them."""
    calls: Sequence[str] = task.data["calls"]
    total, passed = len(calls), _passed(report)
    if passed == total:
        return f"pass {total}/{total}"
    head = f"fail {total - passed}/{total}: "
    for number, call in enumerate(calls, 1):
        said = report.results.get(f"test_{number}", report.error or "not run")
        if said.startswith(f"{call}="):
            return head + said[:_MAX_SAID]
        if said != "pass":
            return head + f"{call} {said.partition(':')[0].partition(' ')[0]}"[:_MAX_SAID]
    return head + report.error.partition(":")[0][:_MAX_SAID]
