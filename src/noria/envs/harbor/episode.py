"""One task being worked on with a shell, step by step."""

from __future__ import annotations

from collections.abc import Callable

from noria.core.errors import PolicyError, SandboxError
from noria.core.turns import State
from noria.core.types import Observation, Outcome, Tool
from noria.envs.harbor.admission import Plan, Stage
from noria.envs.harbor.box import Box
from noria.envs.harbor.grading import Graded, outcome, verify
from noria.envs.harbor.schema import Healthcheck
from noria.tokens.tool_episode import ToolEpisode
from noria.tokens.toolbox import Toolbox, tool

BASH = Tool("bash", "Run a command with bash.", {"command": ("string", "what to run")})
_SETUP = "setup.sh"
_SETUP_S = 300.0


class HarborEpisode(ToolEpisode):
    """`begin` makes the box when it is first needed. A message without calls ends the step; the last ends the task."""

    def __init__(
        self, plan: Plan, begin: Callable[[], Box], command_s: float, limit_s: float,
        box: Box | None = None, graded: tuple[Graded, ...] = (), used_s: float = 0.0, staged: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(Toolbox([tool(self.bash, command="what to run")]))
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
        stage = self.stage
        assert stage is not None
        left_s = (self._limit_s if stage.limit_s is None else stage.limit_s) - self._used_s
        if left_s <= 0:
            raise PolicyError("the time for commands is used up: give your final answer")
        if not command.strip() or "\0" in command:
            raise PolicyError("command must not be empty and have no NUL")
        done = self._ready(stage).bash(command, min(left_s, self._command_s))
        self._used_s += done.seconds
        said = done.stdout.rstrip("\n")
        if done.timed_out:
            note = f"[stopped after {min(left_s, self._command_s):g} s]"
        elif done.killed:
            note = f"[killed: {done.killed}]" + (" nothing was kept" if done.killed == "disk" else "")
        else:
            note = f"[exit code {done.code}]" if done.code else ""
        return "\n".join(part for part in (said, note) if part)

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


def _check(box: Box, check: Healthcheck | None) -> None:
    """One try decides: between two, nothing runs that could change it. Raises SandboxError where it fails."""
    if check is not None:
        done = box.bash(check.command, check.timeout_sec)
        if done.code != 0 or done.killed:
            raise SandboxError(f"the task's healthcheck failed: {done.stdout[-200:] or f'exit code {done.code}'}")
