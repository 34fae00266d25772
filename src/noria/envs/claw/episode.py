"""One task being worked on in a workspace of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from noria.bases.desk import refusal, whole
from noria.core.errors import PolicyError, SandboxError
from noria.core.files import lay_files, take_files
from noria.core.protocols import Sandbox
from noria.core.turns import Progress, State
from noria.core.types import Observation, Outcome, Task
from noria.envs.claw.bench import Bench
from noria.envs.claw.checks import check, fault_of, progress
from noria.tokens.calls import is_torn
from noria.tokens.tool_episode import ToolEpisode

Pay = Literal["all", "share"]


class ClawEpisode(ToolEpisode):
    """A workspace, the tools over it, and the final answer once it is given; a message without calls is that."""

    def __init__(self, task: Task, sandbox: Sandbox, bench: Bench, pay: Pay) -> None:
        super().__init__(bench.box(task.data["harness"]))
        self._task, self._sandbox, self.bench, self._pay = task, sandbox, bench, pay

    def act(self, message: str) -> Observation:
        """Do what a message asks for.

        Raises:
            SandboxError: a command could not be run, so nothing is known about it.
            IllegalTransition: the episode is over.
        """
        refused = refusal(message)
        return super().act(message) if refused is None else refused

    def grade(self) -> Outcome:
        """1 if every line of the check-list holds, or the weighted share of its goals; each line is a part.

        All processes of the agent are dead by now: each ended with the command that started it.
        """
        items = self._task.data["checks"]
        try:
            found = check(items, self.bench.workspace, self._sandbox, self.answer)
        except SandboxError as fault:
            return Outcome.unknown(f"sandbox: {fault}")
        except PolicyError as fault:
            return Outcome(0.0, {"progress": 0.0}, str(fault))
        share = progress(items, found)
        parts = {"progress": share} | {item["name"]: each.share for item, each in zip(items, found, strict=True)}
        done = all(each.share == 1.0 for each in found)
        reward = share if self._pay == "share" else float(done)
        return Outcome(reward, parts, fault_of(items, found))

    def lay(self, folder: Path) -> str:
        """Write the workspace's files (`core.protocols.Folders`); what is to be done."""
        lay_files(whole(self.bench.workspace).files(), folder)
        return f"{self._task.prompt}\nAll paths are below the folder that you are in."

    def take(self, folder: Path, answer: str) -> None:
        """The files as they lie there, and the answer.

        Raises:
            PolicyError: something there is neither file nor link, or it is more than the workspace holds.
        """
        whole(self.bench.workspace).refill(take_files(folder))
        self.answer = "" if is_torn(answer) else answer
        self.progress.to(State.TERMINATED)

    def spill(self, text: str) -> str:
        """Put a long observation into a file that no check looks at; its path."""
        return self.bench.spill(text)

    def fork(self) -> ClawEpisode:
        """An independent episode in the same state, over a copy of the workspace."""
        other = ClawEpisode(self._task, self._sandbox, self.bench.fork(), self._pay)
        other.progress, other.answer, other.ended = Progress(self.progress.state), self.answer, self.ended
        return other

    def close(self) -> None:
        """Give the workspace back."""
        self.bench.workspace.close()
