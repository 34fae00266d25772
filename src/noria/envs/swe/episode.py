"""One repository being repaired in a workspace of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from noria.bases.desk import NOWHERE, refusal, whole
from noria.core.errors import PolicyError, SandboxError
from noria.core.files import lay_files, take_files
from noria.core.protocols import Equipment, Layered, Sandbox, Workspace
from noria.core.turns import Progress, State
from noria.core.types import Observation, Outcome
from noria.envs.swe.grading import grade, taken
from noria.envs.swe.records import Repo, SweTask
from noria.envs.swe.tools import Tools
from noria.envs.swe.trial import Bench
from noria.languages.base import DEPS, Manual
from noria.tokens.calls import is_torn
from noria.tokens.tool_episode import ToolEpisode


class Start:
    """What every episode of a task begins with. `files`: path -> content over the layers, None = not there."""

    def __init__(
        self,
        task: SweTask,
        repo: Repo,
        bench: Bench,
        desk: Sandbox,
        broken: Mapping[str, bytes],
        hidden: tuple[str, ...],
        git: Mapping[str, bytes],
        shown: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """`bench` runs the tests, `desk` is where a policy works, `git` what lies there beside the layers.

        `shown`: (place, folder of this machine), what the desk has around the repository.
        """
        self.git, self.shown = git, shown
        language = bench.language
        self.by_hand = language.by_hand(repo.layout) if isinstance(language, Manual) else ""
        self.variables = language.variables(repo.layout) if isinstance(language, Manual) else {}
        self.task, self.repo, self.bench, self.desk, self.broken = task, repo, bench, desk, broken
        self.files: dict[str, bytes | None] = {**broken, **dict.fromkeys(hidden)}

    def workspace(self) -> Workspace:
        """A fresh one. Raises SandboxError: it does not fit into the sandbox."""
        try:
            space = self.desk.workspace(
                {path: data.decode("utf-8", "surrogateescape") for path, data in {**self.broken, **self.git}.items()}
            )
        except PolicyError as fault:
            raise SandboxError(f"the bug does not fit into the sandbox: {fault}") from fault
        if not isinstance(space, Layered):
            raise SandboxError("the sandbox does not show layers")
        for path, data in self.files.items():
            if data is None:
                space.remove(path)
        return space


class SweEpisode(ToolEpisode):
    """`begin` gives what the task starts with when it is first needed; a message without calls is the final answer."""

    def __init__(self, begin: Callable[[], Start], prompt: str, limits: tuple[float, float]) -> None:
        self._begin, self._prompt, self._limits = begin, prompt, limits
        self._start: Start | None = None
        self._tools: Tools | None = None
        super().__init__(Tools(NOWHERE, 0.0, 0.0).box())

    def act(self, message: str) -> Observation:
        """Do what a message asks for.

        Raises:
            SandboxError: a command could not be run, so nothing is known about it.
            IllegalTransition: the episode is over.
        """
        refused = refusal(message)
        if refused is not None:
            return refused
        if "<call" in message:
            self._ready()
        return super().act(message)

    def grade(self) -> Outcome:
        """See `grading.grade`; an episode that did nothing is graded like any other."""
        try:
            tools, start = self._ready()
            changes = taken(tools.workspace, start.files, start.repo, start.bench)
            return grade(start.task, start.repo, start.bench, start.broken, changes)
        except SandboxError as fault:
            return Outcome.unknown(f"sandbox: {fault}")

    def lay(self, folder: Path) -> str:
        """Write the repository (`core.protocols.Folders`); what is to be done. Raises SandboxError."""
        tools, start = self._ready()
        lay_files(whole(tools.workspace).files(), folder)
        how = f" Its tests are run by `{start.by_hand}`." if start.by_hand else ""
        return f"{self._prompt}\nThe repository is the folder that you are in.{how}"

    def equipment(self) -> Equipment:
        """The dependency layer, and what is shown beside it (`core.protocols.Equipped`). Raises SandboxError."""
        _, start = self._ready()
        return Equipment(start.shown, (f"{DEPS}/bin",), start.variables)

    def take(self, folder: Path, answer: str) -> None:
        """The repository as it lies there.

        Raises:
            PolicyError: something there is neither file nor link, or it is more than the workspace holds.
        """
        tools, _ = self._ready()
        whole(tools.workspace).refill(take_files(folder))
        self.answer = "" if is_torn(answer) else answer
        self.progress.to(State.TERMINATED)

    def spill(self, text: str) -> str:
        """Put a long observation into a file that does not count; its path."""
        tools, _ = self._ready()
        return tools.spill(text)

    def fork(self) -> SweEpisode:
        """An independent episode in the same state, over a copy of the workspace."""
        other = SweEpisode(self._begin, self._prompt, self._limits)
        if self._tools is not None:
            other._start, other._tools = self._start, self._tools.fork()
            other.box = other._tools.box()
        other.progress, other.answer, other.ended = Progress(self.progress.state), self.answer, self.ended
        return other

    def close(self) -> None:
        """Give the workspace back. Idempotent."""
        if self._tools is not None:
            self._tools.workspace.close()

    def _ready(self) -> tuple[Tools, Start]:
        if self._tools is None or self._start is None:
            self._start = self._begin()
            self._tools = Tools(self._start.workspace(), *self._limits, variables=self._start.variables)
            self.box = self._tools.box()
        return self._tools, self._start
