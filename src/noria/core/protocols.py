"""The seams of the house: five methods at most each. A stage knows these and nothing behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from noria.core.files import Entry
from noria.core.types import Message, Observation, Outcome, Split, Task

#: A scripted policy: the conversation after the prompt so far (assistant and tool messages) -> next message.
Policy = Callable[[Sequence[Message]], str]


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a sandboxed command did. `timed_out` and `killed` are facts about limits, not errors of ours.

    `changed` is False where the files of its workspace are known to be as before.
    """

    code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    killed: str = ""
    changed: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class TestReport:
    """Result of one warm test run: test name -> "pass" or a short message of the failure."""

    #: pytest must not take the class for a test
    __test__: ClassVar[bool] = False
    results: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.results) and not self.error and all(v == "pass" for v in self.results.values())


class Workspace(Protocol):
    """A private folder inside a sandbox. Paths are relative to it; leaving it is refused."""

    def read(self, path: str) -> str: ...
    def write(self, path: str, text: str) -> None: ...
    def run(self, argv: Sequence[str], timeout_s: float) -> ExecResult: ...
    def fork(self) -> Workspace: ...
    def close(self) -> None: ...


@runtime_checkable
class Refilled(Protocol):
    """A workspace whose files can be had, and replaced, all at once. `refill` raises PolicyError: they do not fit."""

    def files(self) -> Mapping[str, Entry]: ...
    def refill(self, files: Mapping[str, Entry]) -> None: ...


class Sandbox(Protocol):
    """Makes workspaces and runs Python tests in them through a warm fork server.

    Raises `errors.SandboxError` when the sandbox itself failed (the outcome is then unknown).
    """

    def workspace(self, files: Mapping[str, str]) -> Workspace: ...
    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Shape:
    """What a task asks of a sandbox beyond its own settings.

    links       absolute path -> folder of the workspace that is seen there; pairs, ordered by path
    memory_mb   memory of a request, 0 = the sandbox's own; never more than that
    disk_mb     size of the workspace, likewise
    layers      (place inside, folder of this machine), the last on top: those at "/workspace" are the files that each
                workspace starts with, any other is seen at its place, read-only
    hidden      absolute paths of folders that are seen empty inside
    warm        a folder inside, and modules in it that are loaded before the first command (`Layered.warm`); what they
                do there is trusted
    """

    links: tuple[tuple[str, str], ...] = ()
    memory_mb: int = 0
    disk_mb: int = 0
    layers: tuple[tuple[str, str], ...] = ()
    hidden: tuple[str, ...] = ()
    warm: tuple[str, ...] = ()


@runtime_checkable
class Layered(Protocol):
    """A workspace over layers: `changes` tells what has become of their files, and `remove` takes one away.

    `changes`: path -> (bytes, permission bits), None where a file of the layers is gone; links are left out.
    `warm` is `run` for a Python program, `argv[0]`, that starts with the modules of `Shape.warm` loaded.
    """

    def changes(self) -> Mapping[str, tuple[bytes, int] | None]: ...
    def remove(self, path: str) -> None: ...
    def warm(self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> ExecResult: ...


@runtime_checkable
class Shaping(Protocol):
    """A sandbox that can be had in another shape: `shaped` returns one of the same kind, owned by the caller."""

    def shaped(self, shape: Shape) -> Sandbox: ...


class Episode(Protocol):
    """One task being worked on. The transition and the scorer share this object's state."""

    def act(self, message: str) -> Observation: ...
    def grade(self) -> Outcome: ...
    def fork(self) -> Episode: ...
    def close(self) -> None: ...


@runtime_checkable
class Spills(Protocol):
    """An episode with files: `spill` writes an observation that was too long into one, and returns its path.

    The path depends on nothing but the state of the episode, and the file changes nothing about the grade.
    """

    def spill(self, text: str) -> str: ...


@runtime_checkable
class Folders(Protocol):
    """An episode whose state is files, which a harness of somebody else's may work on in a folder of its own.

    `lay` writes them into an empty folder and returns what is to be done there, in words for somebody with a shell.
    `take` makes what lies there the episode's state, and `answer` what was said at last ("" = nothing). It trusts
    neither: links, pipes and large files may lie there, and it raises PolicyError where they have no place.
    """

    def lay(self, folder: Path) -> str: ...
    def take(self, folder: Path, answer: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Equipment:
    """What files need around them to be worked on.

    shown       (absolute place, folder of this machine): seen there, read-only
    path        folders inside that come first where programs are looked for
    variables   of the environment
    """

    shown: tuple[tuple[str, str], ...] = ()
    path: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Equipped(Protocol):
    """An episode of `Folders` whose files are worked on with others of this machine, which are no part of its state."""

    def equipment(self) -> Equipment: ...


class World(Protocol):
    """Tasks with their truth: instances, transitions, verifier, reference solution and scripted policies.

    `strategies` names the scripted policies: those of `experts` (multi-path teachers, normally right), then the
    right and wrong habits that the built-in weak model was raised on.
    `advice` maps the kind of a key action to hint sentences that fit it, `remedies` the kind of an action that
    went wrong to the kind of advice that helps against it (its own where it is not named).
    """

    name: str
    splits: tuple[Split, ...]
    experts: tuple[str, ...]
    strategies: Mapping[str, float]
    advice: Mapping[str, tuple[str, ...]]
    remedies: Mapping[str, str]

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]: ...
    def open(self, task: Task) -> Episode: ...
    def policy(self, task: Task, strategy: str, seed: int) -> Policy: ...
    def kind(self, message: str) -> str: ...
    def close(self) -> None: ...


@runtime_checkable
class Answers(Protocol):
    """A world whose answers can be compared as texts: what a final message answers, None where it answers nothing."""

    def answer(self, message: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Completion:
    """What the engine sampled for one request: ids and log-probabilities of equal length.

    `stop` is "end" (an end-of-turn token was sampled; it is the last id) or "length". A `fault` says why the engine
    could not sample; there are no ids then.
    """

    seq: int
    ids: tuple[int, ...]
    logp: tuple[float, ...]
    versions: tuple[int, ...]
    stop: str
    fault: str = ""


class Engine(Protocol):
    """Token ids in, token ids and log-probabilities out, many sequences at once, cache kept across turns.

    What one sequence cannot be sampled for is told as a `Completion.fault`. `load` and `step` raise EngineError or
    UserError where nothing can be sampled any more: that ends the run. `close` ends what the engine began.
    """

    def add(self, seq: int, ids: Sequence[int], max_new: int, seed: int) -> None: ...
    def step(self) -> list[Completion]: ...
    def drop(self, seq: int) -> None: ...
    def load(self, checkpoint: Path | Mapping[str, Any], version: int) -> None: ...
    def close(self) -> None: ...


class Service(Protocol):
    """What a worker runs, in one thread of its own. `work` does a slice of it and returns what is ready to be told."""

    def receive(self, message: Any) -> None: ...
    def work(self) -> list[Any]: ...
    def busy(self) -> bool: ...
    def close(self) -> None: ...


class Executor(Protocol):
    """Workers, numbered from 0, that run the same service somewhere, and messages to and from them.

    An executor knows nothing of rollouts. What is sent to a worker reaches `Service.receive` in that order; what
    `Service.work` returns comes back in that order. What a worker owed when it died is the caller's to send again,
    since only the caller knows what that was.

    `receive` waits up to `timeout_s` for the first message (None = for ever, 0 = not at all); `ready` waits until some
    of `workers` have something to say and returns which.

    Raises:
        EngineError: from `receive`, and perhaps already from `send`: the worker is gone; what it had said before is
            received first.
    """

    size: int

    def send(self, worker: int, message: Any) -> None: ...
    def receive(self, worker: int, timeout_s: float | None) -> list[Any]: ...
    def ready(self, workers: Sequence[int]) -> list[int]: ...
    def restart(self, worker: int) -> None: ...
    def close(self) -> None: ...
