"""The world `code`: write a function, try it, hand it in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field

from noria.bases.advice import MALFORMED, act
from noria.bases.world import ScriptedWorld, habit_named
from noria.core.config import Checked
from noria.core.errors import PolicyError, UserError
from noria.core.protocols import Policy, Sandbox
from noria.core.syntax import parse
from noria.core.turns import Progress
from noria.core.types import Observation, Outcome, Split, Task
from noria.envs.code import forgeries
from noria.envs.code.habits import EXPERTS, HABITS, plainly, say
from noria.envs.code.tasks import NAME, SPLITS, TOOLS, draw_tasks
from noria.graders.base import Case, Given
from noria.graders.blocking import BlockingRouter
from noria.graders.calls import SOLUTION, TESTS, calls_file, results
from noria.graders.tests import code_of
from noria.graders.types import TYPES
from noria.tokens.calls import Call, hear
from noria.tokens.tool_episode import ToolEpisode
from noria.tokens.toolbox import Toolbox, Typed

_MAX_MEMO, _MAX_CODE, _MAX_CALL = 20_000, 4000, 200
_NAMES = frozenset(tool.name for tool in TOOLS)
ADVICE: Mapping[str, tuple[str, ...]] = {
    "run": ("Run the examples before you submit.", "Try the code on the examples first.", "Test edges before the end."),
    "write": ("Think of empty inputs when you write.", "Cover every case of the statement.", "Mind the edges."),
    "submit": ("Submit only what ran as it should.", "Mend what fails, then submit.", "Do not submit untried code."),
    "answer": act("Submit when it is done."),
    "malformed": MALFORMED,
}


class Config(Checked):
    """How functions are run and paid for."""

    type: Literal["code"] = "code"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    reward: Literal["all", "share"] = Field(
        default="all", description="all = 1 if every hidden call is right; share = the share of them"
    )
    run_timeout_s: float = Field(default=2.0, gt=0, le=60, description="wall clock of one run in seconds")


class CodeEpisode(ToolEpisode):
    """One function being written. A final message with a fenced block hands that block in."""

    def __init__(self, world: CodeWorld, task: Task, code: str = "") -> None:
        run: dict[str, Callable[..., str]] = {"write": self._write, "run": self._run, "submit": self._submit}
        super().__init__(Toolbox([Typed(each, run[each.name], frozenset(each.parameters)) for each in TOOLS]))
        self._world, self._task, self.code = world, task, code

    def act(self, message: str) -> Observation:
        """Do what a message asks for.

        Raises:
            SandboxError: the sandbox failed.
        """
        seen = super().act(message)
        if seen.done and "```" in self.answer:
            self.code = code_of(self.answer)[:_MAX_CODE]
        return seen

    def grade(self) -> Outcome:
        """Run the hidden calls on what was written; the part `calls` is the share of right ones."""
        if not self.code:
            return Outcome(0.0, {"calls": 0.0}, "no code")
        return self._world.graded(self._task, self.code)

    def fork(self) -> CodeEpisode:
        """An independent episode in the same state."""
        other = CodeEpisode(self._world, self._task, self.code)
        other.answer, other.ended, other.progress = self.answer, self.ended, Progress(self.progress.state)
        return other

    def close(self) -> None:
        """Nothing is held: every run brings its own files."""

    def _write(self, code: str) -> str:
        if self.ended:
            raise PolicyError("it was submitted")
        if len(code) > _MAX_CODE:
            raise PolicyError(f"a file has at most {_MAX_CODE} characters")
        self.code = code
        return "ok"

    def _run(self, call: str) -> str:
        return self._world.ran(self._task, self.code, call)

    def _submit(self) -> str:
        if not self.code:
            raise PolicyError("nothing is written")
        self.ended = True
        return "submitted"


class CodeWorld(ScriptedWorld):
    """Tasks, runs, hidden calls and scripted policies. Results are remembered by content."""

    name = NAME
    habits = HABITS
    experts = EXPERTS
    splits: tuple[Split, ...] = SPLITS
    advice = ADVICE
    remedies: Mapping[str, str] = {"write": "run", "run": "submit", "submit": "run"}

    def __init__(self, config: Config, sandbox: Sandbox | None) -> None:
        super().__init__()
        self.config, self._sandbox = config, sandbox
        self._type = "code.calls" if config.reward == "all" else "code.calls_share"
        self._router = BlockingRouter(Given(sandbox=sandbox), {self._type: TYPES[self._type]})
        self._memo: dict[tuple[str, str], Outcome] = {}

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """See `tasks.draw_tasks`."""
        return draw_tasks(split, n, seed)

    def open(self, task: Task) -> CodeEpisode:
        """A fresh episode."""
        return CodeEpisode(self, task)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy; see `habits.HABITS`."""
        habit = habit_named(HABITS, strategy)
        return lambda heard: say(task, heard, habit, f"{task.id}:{strategy}:{seed}")

    def kind_of(self, call: Call) -> str:
        """The tool. PolicyError: there is none of this name."""
        if call.name not in _NAMES:
            raise PolicyError(f"no tool {call.name}")
        return call.name

    def answer(self, message: str) -> str | None:
        """The code that a message writes last, or has as its answer."""
        heard = hear(message)
        written = [call.args.get("code", "") for call in heard.calls if isinstance(call, Call) and call.name == "write"]
        return (written[-1] if written else heard.answer) or None

    def forgeries(self, task: Task) -> list[list[str]]:
        """See `forgeries.forgeries`."""
        return forgeries.forgeries(task) if self.config.reward == "all" else forgeries.forgeries(task)[:3]

    def secrets(self, task: Task) -> list[str]:
        """See `forgeries.secrets`."""
        return forgeries.secrets(task)

    def graded(self, task: Task, code: str) -> Outcome:
        """The outcome of a file; what is known is remembered, since replays ask again.

        Raises:
            UserError: the world was built without a sandbox.
        """
        key = (task.id, code)
        if key not in self._memo:
            self._has_sandbox()
            found = self._router.grade(Case(self._type, task.prompt, code, task.data["spec"]))
            if not found.known:
                return found
            if len(self._memo) >= _MAX_MEMO:
                self._memo.clear()
            self._memo[key] = found
        return self._memo[key]

    def ran(self, task: Task, code: str, call: str) -> str:
        """The value of an expression with a file loaded, or what it raised.

        Raises:
            PolicyError: it is no expression, or there is no file yet.
            SandboxError: the sandbox failed.
        """
        if not code:
            raise PolicyError("write first")
        try:
            parse(call, "eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
            raise PolicyError("call must be one expression") from fault
        if len(call) > _MAX_CALL or "\n" in call:
            raise PolicyError(f"call must be one line of at most {_MAX_CALL} characters")
        files = {SOLUTION: code, TESTS: calls_file(task.data["function"], [call])}
        report = self._has_sandbox().test(files, TESTS, self.config.run_timeout_s)
        (said,) = results(report, 1)
        return plainly(said) if said is not None else report.error or report.results.get("test_1", "not run")

    def close(self) -> None:
        """End the router; the sandbox belongs to whoever made it."""
        self._router.close()

    def _has_sandbox(self) -> Sandbox:
        if self._sandbox is None:
            raise UserError("code must have a sandbox to run what is written: got none - add a [sandbox] table")
        return self._sandbox


def build(config: Config, sandbox: Sandbox | None) -> CodeWorld:
    """The world; without a sandbox it can draw tasks and play policies, but run nothing."""
    return CodeWorld(config, sandbox)
