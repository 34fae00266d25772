"""One task being worked on with a shell, step by step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from noria.bases.shell import writes
from noria.core.errors import PolicyError, SandboxError
from noria.core.files import lay_files, take_files
from noria.core.protocols import ExecResult
from noria.core.turns import State
from noria.core.types import Observation, Outcome, Tool
from noria.envs.harbor.admission import Plan, Stage
from noria.envs.harbor.box import Box
from noria.envs.harbor.grading import Graded, outcome, verify
from noria.envs.harbor.schema import Healthcheck
from noria.tokens.together import Ahead
from noria.tokens.tool_episode import ToolEpisode
from noria.tokens.toolbox import Toolbox, tool

BASH = Tool("bash", "Run a command with bash.", {"command": ("string", "what to run")})
_ROOT = (
    "The folder that you are in stands for / of the machine that this is about: what is called /x there lies at ./x. "
    "Its working folder is {}."
)
_USED_UP = "the time for commands is used up: give your final answer"
_SETUP = "setup.sh"
_SETUP_S = 300.0


class HarborEpisode(ToolEpisode):
    """`begin` makes the box when it is first needed. A message without calls ends the step; the last ends the task."""

    def __init__(
        self, plan: Plan, begin: Callable[[], Box], command_s: float, limit_s: float,
        box: Box | None = None, graded: tuple[Graded, ...] = (), used_s: float = 0.0, staged: bool = False,
    ) -> None:  # fmt: skip
        looks = lambda command: not writes(command)  # noqa: E731
        super().__init__(Toolbox([tool(self.bash, ahead=self._ahead, looks=looks, command="what to run")]))
        self._making = threading.Lock()
        self._plan, self._begin, self._command_s, self._limit_s = plan, begin, command_s, limit_s
        self._box, self._used_s, self._staged = box, used_s, staged
        self.graded = graded

    @property
    def stage(self) -> Stage | None:
        """The step that is worked on; None when all are over."""
        at = len(self.graded)
        return None if at == len(self._plan.stages) or self._gated else self._plan.stages[at]

    @property
    def _gated(self) -> bool:
        """Whether a threshold keeps the next step from beginning."""
        if not self.graded:
            return False
        return not self.graded[-1].reaches(self._plan.stages[len(self.graded) - 1].least) or bool(self.graded[-1].fault)

    def act(self, message: str) -> Observation:
        """Run the calls of a message; without one, grade the step and show the next.

        Raises:
            SandboxError: the sandbox failed.
            IllegalTransition: the episode is over.
        """
        seen = super().act(message)
        stage = self.stage
        if not seen.done or stage is None or len(self._plan.stages) == 1:
            return seen
        self.graded += (verify(self._plan, stage, self._ready(stage)),)
        self._used_s, self._staged = 0.0, False
        following = self.stage
        if following is None or self.ended:
            return seen
        self.progress.state, self.answer = State.GENERATING, ""
        return Observation(following.instruction)

    def bash(self, command: str) -> str:
        """Run a command with bash."""
        with self._making:
            box, limit_s = self._may(command)
        done = box.bash(command, limit_s)
        self._used_s += done.seconds
        return _told(done, limit_s)

    def _ahead(self, command: str) -> Ahead:
        """Run a command on a copy of the files, beside others."""
        with self._making:
            box, limit_s = self._may(command)
            copy = box.fork()
        done = copy.bash(command, limit_s)

        def keep() -> None:
            if self._left_s <= 0:
                copy.close()
                raise PolicyError(_USED_UP)
            self._used_s += done.seconds
            if not done.changed:
                copy.close()
                return
            self._box = copy
            box.close()

        return Ahead(_told(done, limit_s), done.changed, keep, copy.close)

    @property
    def _left_s(self) -> float:
        stage = self.stage
        assert stage is not None
        return (self._limit_s if stage.limit_s is None else stage.limit_s) - self._used_s

    def _may(self, command: str) -> tuple[Box, float]:
        """The box and the seconds for a command. Raises PolicyError where it may not run."""
        left_s = self._left_s
        if left_s <= 0:
            raise PolicyError(_USED_UP)
        if not command.strip() or "\0" in command:
            raise PolicyError("command must not be empty and have no NUL")
        assert self.stage is not None
        return self._ready(self.stage), min(left_s, self._command_s)

    def lay(self, folder: Path) -> str:
        """Write the task's files below `folder` as below a root (`core.protocols.Folders`); what is to be done.

        Raises:
            SandboxError: the sandbox failed, or the task has several steps, between which it must be graded.
        """
        stage = self.stage
        if stage is None or len(self._plan.stages) > 1:
            raise SandboxError("a task of several steps cannot be worked on from outside")
        lay_files(self._ready(stage).files(), folder)
        return f"{stage.instruction}\n\n{_ROOT.format(self._plan.image.workdir)}"

    def take(self, folder: Path, answer: str) -> None:
        """The files as they lie there; the answer says nothing here.

        Raises:
            PolicyError: something there is neither file nor link, or it is more than the sandbox holds.
        """
        stage = self.stage
        assert stage is not None
        self._ready(stage).refill(take_files(folder))
        self.progress.to(State.TERMINATED)

    def grade(self) -> Outcome:
        """Grade the step that is worked on, beside those that are over; changes nothing."""
        graded, stage = self.graded, self.stage
        try:
            if stage is not None:
                graded = (*graded, verify(self._plan, stage, self._ready(stage)))
        except SandboxError as fault:
            return Outcome.unknown(f"sandbox: {fault}")
        return outcome(self._plan, graded, gated=stage is None)

    def fork(self) -> HarborEpisode:
        """An independent copy; costs no copy of the files."""
        other = HarborEpisode(
            self._plan, self._begin, self._command_s, self._limit_s, self._box.fork() if self._box else None,
            self.graded, self._used_s, self._staged,
        )  # fmt: skip
        other.progress.state, other.answer, other.ended = self.progress.state, self.answer, self.ended
        return other

    def close(self) -> None:
        """Forget the files. Idempotent."""
        if self._box is not None:
            self._box.close()

    def _ready(self, stage: Stage) -> Box:
        """The box, set up for the stage. Raises SandboxError where that fails."""
        if self._box is None:
            self._box = self._begin()
            _check(self._box, self._plan.healthcheck)
        if not self._staged:
            self._staged = True
            workdir = self._plan.image.workdir.rstrip("/")
            if not self._box.put({f"{workdir}/{path}": file for path, file in stage.workdir.items()}):
                raise SandboxError(f"the files of step {stage.name} do not fit beside what lies there")
            if _SETUP in stage.workdir:
                done = self._box.bash(f"bash ./{_SETUP}", _SETUP_S)
                if done.code != 0 or done.killed:
                    raise SandboxError(f"{_SETUP} of step {stage.name} failed: {done.stdout[-200:] or done.killed}")
            _check(self._box, stage.healthcheck)
        return self._box


def _told(done: ExecResult, limit_s: float) -> str:
    """What a command printed, and how it ended where that is not well."""
    said = done.stdout.rstrip("\n")
    if done.timed_out:
        note = f"[stopped after {limit_s:g} s]"
    elif done.killed:
        note = f"[killed: {done.killed}]" + (" nothing was kept" if done.killed == "disk" else "")
    else:
        note = f"[exit code {done.code}]" if done.code else ""
    return "\n".join(part for part in (said, note) if part)


def _check(box: Box, check: Healthcheck | None) -> None:
    """One try decides: between two, nothing runs that could change it. Raises SandboxError where it fails."""
    if check is not None:
        done = box.bash(check.command, check.timeout_sec)
        if done.code != 0 or done.killed:
            raise SandboxError(f"the task's healthcheck failed: {done.stdout[-200:] or f'exit code {done.code}'}")
