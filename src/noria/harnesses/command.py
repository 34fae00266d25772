"""A command plays each rollout: any program that talks to a server of the OpenAI API, against the policy as it is.

The policy is served inside the worker. Each rollout is a session of that server (`server.sessions`): its calls, token
by token as they were sampled, are the trajectory. What the program leaves behind is graded by the world's own verifier:
the files of its folder where the episode has files (`core.protocols.Folders`), else what it answered.
"""

from __future__ import annotations

import os
import string
import sys
import tempfile
import threading
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from noria.core.config import Checked
from noria.core.errors import PolicyError, SandboxError, UserError, boundary
from noria.core.files import read_plain
from noria.core.protocols import Episode, Equipment, Equipped, Folders, World
from noria.core.types import Outcome, Task, Trajectory
from noria.harnesses._guest import HOME, ROOT, named, real_python, run_guest
from noria.harnesses._process import Cell, Ended, remove, run, sweep
from noria.sandboxes._jail import find_bwrap
from noria.sandboxes.guest import Guests
from noria.sandboxes.guest import Limits as GuestLimits
from noria.server.record import Terms
from noria.stages.jobs import Job, Limits
from noria.tokens.calls import hear
from noria.tokens.record import RecordBuilder
from noria.tokens.renderer import Renderer

if TYPE_CHECKING:  # what loads torch waits until a worker is built
    from noria.harnesses._rollouts import Policy, Rollouts

#: What a command may name in braces.
NAMED = ("base_url", "api_key", "model", "task_file", "answer_file", "workdir", "python")
#: Variable with the folders of programs that the world shows: a harness that makes a PATH of its own puts them first.
FIRST = "NORIA_PATH"
#: Start of the names of folders for rollouts; a process's number follows.
PREFIX = "noria-harness-"
#: Letters of a harness's last words that a reason holds.
TOLD = 300
_WARNING = (
    "rollout.harness runs with isolation = \"none\": its program has the host's network and reads the host's files, "
    "and its memory, processes and disk are not limited"
)


class Config(Checked):
    """The program and its bounds.

    `command` and the values of `env` may name {base_url}, {api_key}, {model}, {task_file}, {answer_file}, {workdir} and
    {python}, this installation's interpreter; braces that stand for themselves are doubled.
    """

    type: Literal["command"]
    command: tuple[str, ...] = Field(min_length=1, description="program and arguments, {names} filled in")
    timeout_s: float = Field(default=600.0, gt=0, description="seconds of a rollout; what was done by then is graded")
    parallel: int = Field(default=4, ge=1, le=256, description="rollouts of a worker at the same time")
    env: Mapping[str, str] = Field(default_factory=dict, description="environment of the command, {names} filled in")
    keep_env: tuple[str, ...] = Field(
        default=("PATH", "LANG", "LC_ALL"), description="variables of this process that the command gets too"
    )
    ok_codes: tuple[int, ...] = Field(
        default=(0,), description="exit codes of a harness that did its work; any other = the outcome is unknown"
    )
    isolation: Literal["sandbox", "none"] = Field(
        default="sandbox",
        description="sandbox: no network but the policy, no files but its own, limits; none: trusted code, on the host",
    )
    readonly: tuple[str, ...] = Field(
        default=(), description="files and folders that it sees in the sandbox; those that the command names it sees"
    )
    memory_mb: int = Field(default=2048, ge=64, description="memory in the sandbox, files included")
    pids: int = Field(default=256, ge=4, description="processes and threads in the sandbox")
    disk_mb: int = Field(default=256, ge=1, description="its folder in the sandbox, and /tmp")
    hide: tuple[str, ...] = Field(default=(), description="with none: folders of the host that it finds empty")
    log_kb: int = Field(default=16, ge=1, le=1 << 20, description="KiB of its output that are kept")

    @field_validator("command", "env")
    @classmethod
    def _names_are_known(cls, value: Any) -> Any:
        for text in value.values() if isinstance(value, Mapping) else value:
            for _, name, _, _ in string.Formatter().parse(text):
                if name is not None and name not in NAMED:
                    raise ValueError(f"names in braces must be of {', '.join(NAMED)}: got {{{name}}}")
        return value


class Player:
    """Plays one rollout; called from many threads at once. Worlds that are not `blocking` hear one at a time."""

    def __init__(
        self, config: Config, worlds: Mapping[str, World], blocking: Collection[str], policy: Policy, renderer: Renderer
    ) -> None:
        self.config, self._worlds, self._blocking = config, worlds, frozenset(blocking)
        self._policy, self._renderer = policy, renderer
        self._lock = threading.RLock()
        sweep(Path(tempfile.gettempdir()), PREFIX)
        self.root = Path(os.path.realpath(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")))
        self._guests, self._program = None, ""
        if config.isolation == "none":
            warnings.warn(_WARNING, stacklevel=2)
            with suppress(UserError):  # without it, what leaves the process group outlives the rollout
                self._program = find_bwrap()
        else:
            limits = GuestLimits(config.memory_mb, config.pids, config.disk_mb, config.log_kb)
            self._guests = Guests(limits, [*config.readonly, *named(config.command)])

    def close(self) -> None:
        """Remove what rollouts left."""
        if self._guests is not None:
            self._guests.close()
        remove(self.root)

    def play(self, job: Job, session: str, limits: Limits, temperature: float, given_up: threading.Event) -> Trajectory:
        """One rollout from its world's opening to the grade; a fault of the machine makes it unknown."""
        heard: list[Trajectory | None] = []
        outcome, stop = boundary(
            lambda: self._played(job, session, limits, temperature, given_up, heard),
            lambda fault: (Outcome.unknown(f"{type(fault).__name__}: {fault}"), _stop_of(fault)),
        )
        found = heard[0] if heard else self._end(session)
        if found is None:
            record = RecordBuilder()
            record.rendered(self._renderer.prompt(job.task))
            return Trajectory(job.id, job.task, job.source, (), record.freeze(), outcome, stop, seed=job.seed)
        hint = job.hint.text if job.hint else ""
        return replace(found, id=job.id, task=job.task, source=job.source, outcome=outcome, stop=stop, hint=hint)

    def _played(
        self,
        job: Job,
        session: str,
        limits: Limits,
        temperature: float,
        given_up: threading.Event,
        heard: list[Trajectory | None],
    ) -> tuple[Outcome, str]:
        if job.start is not None:
            raise SandboxError("a harness of somebody else's cannot go on from the middle of a rollout")
        terms = Terms(
            temperature, True, job.seed, job.max_turns or limits.max_turns, limits.max_tokens, limits.max_new_tokens,
            job.max_response,
        )  # fmt: skip
        sessions, ask = self._policy.sessions, self._policy.inside.ask
        ask(lambda: sessions.begin(session, job.task, terms))
        own = self.root / session
        episode: Episode | None = None
        try:
            episode = self._world(job.task, lambda: self._worlds[job.task.world].open(job.task))
            if job.task.tools and not isinstance(episode, Folders):
                raise SandboxError(
                    f"{job.task.world} has tools of its own and no files: no harness outside can use them"
                )
            ended = self._run(job, episode, own, session, limits, given_up)
            met = ask(lambda: sessions.get(session).recorded.stop)
            heard.append(self._end(session))
            if not (ended.timed_out or met or ended.code in self.config.ok_codes):
                raise SandboxError(f"the harness ended with code {ended.code}: {ended.log[-TOLD:]}")
            stop = "time_limit" if ended.timed_out else met or "done"
            return self._world(job.task, lambda: _graded(episode, own, heard[0])), stop
        finally:
            if episode is not None:
                opened = episode
                self._world(job.task, lambda: boundary(opened.close, lambda fault: None))
            remove(own)

    def _run(
        self, job: Job, episode: Episode, own: Path, session: str, limits: Limits, given_up: threading.Event
    ) -> Ended:
        """Lay out the rollout's folder and let the harness work in it."""
        work, home = own / "work", own / "home"
        for folder in (work, home):
            folder.mkdir(parents=True)
        words = "\n\n".join(filter(None, (job.task.system, job.task.prompt)))
        if isinstance(episode, Folders):
            laid = episode
            words = self._world(job.task, lambda: laid.lay(work))
        (own / "task.txt").write_text(f"{words}\nHint: {job.hint.text}" if job.hint else words, "utf-8")
        place = str(own) if self._guests is None else ROOT
        names = {
            "base_url": self._policy.inside.base_url(session), "api_key": "none", "model": self._policy.name,
            "task_file": f"{place}/task.txt", "answer_file": f"{place}/answer.txt", "workdir": f"{place}/work",
            "python": sys.executable if self._guests is None else real_python(),
        }  # fmt: skip
        kept = {name: os.environ[name] for name in self.config.keep_env if name in os.environ}
        given = {name: value.format_map(names) for name, value in self.config.env.items()}
        timeout_s = min(self.config.timeout_s, limits.max_episode_s or self.config.timeout_s)
        argv = [part.format_map(names) for part in self.config.command]
        if self._guests is not None:
            equipment = self._equipment(job.task, episode)
            host, _, port = self._policy.inside.root.removeprefix("http://").rpartition(":")
            environment = {**kept, "HOME": HOME, **equipment.variables, **given}
            if equipment.path:
                environment[FIRST] = ":".join(equipment.path)
                environment["PATH"] = ":".join([*equipment.path, environment.get("PATH", "/usr/bin:/bin")])
            return run_guest(
                self._guests, argv, own, environment, (host, int(port)), timeout_s, given_up, equipment.shown
            )
        environment = {**kept, "HOME": str(home), "TMPDIR": str(home), **given}
        cell = Cell(self._program, own, [self.root, *map(Path, self.config.hide)])
        return run(cell, argv, work, environment, timeout_s, self.config.log_kb << 10, given_up)

    def _equipment(self, task: Task, episode: Episode) -> Equipment:
        """What the world shows around the files of the episode."""
        if not isinstance(episode, Equipped):
            return Equipment()
        equipped = episode
        found: Equipment = self._world(task, lambda: equipped.equipment())
        return found

    def _end(self, session: str) -> Trajectory | None:
        """Close the session: no call counts any more. What was recorded of it."""
        found = self._policy.inside.ask(lambda: self._policy.sessions.take(session))
        return None if found is None else found.recorded.trajectory()

    def _world(self, task: Task, work: Any) -> Any:
        if task.world in self._blocking:
            return work()
        with self._lock:
            return work()


def _graded(episode: Episode, own: Path, found: Trajectory | None) -> Outcome:
    """The verifier's word on the files, or on the answer: what its file holds, else what the policy said last."""
    try:
        answer = read_plain(own / "answer.txt")
        last = found.turns[-1].message if found is not None and found.turns else ""
        if isinstance(episode, Folders):
            if (work := own / "work").is_symlink() or not work.is_dir():
                raise PolicyError("the working folder must stay where it was, and not be filled")
            # Calls of the last message were the harness's to carry out.
            episode.take(work, hear(last).answer if answer is None else answer)
        else:
            episode.act(last if answer is None else answer)
    except PolicyError as fault:
        return Outcome(0.0, {}, f"refused: {fault}")
    return episode.grade()


def _stop_of(fault: BaseException) -> str:
    return "sandbox" if isinstance(fault, SandboxError | OSError) else "engine"


def build(
    config: Config,
    worlds: Mapping[str, World],
    blocking: Collection[str],
    renderer: Renderer,
    folder: Path,
    engine: Any,
    limits: Limits,
) -> Rollouts:
    """What plays the rollouts of a worker: the checkpoint in `folder`, served with the settings `engine`.

    Raises:
        UserError: bubblewrap is missing, or the engine is not the embedded one.
    """
    from noria.harnesses._rollouts import Policy, Rollouts

    policy = Policy(folder, engine, renderer, renderer.form.name)
    player = Player(config, worlds, blocking, policy, renderer)
    return Rollouts(policy, player, config.parallel, worlds, renderer, limits)
