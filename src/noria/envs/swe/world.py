"""The world `swe`: tasks of a dataset that the factory made, worked on over the layers of their repositories."""

from __future__ import annotations

import hashlib
import json
import random
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from noria.bases.advice import MALFORMED, act
from noria.bases.turn import kind_of_first
from noria.bases.world import check_split, habit_named
from noria.core import registry
from noria.core.config import Checked
from noria.core.errors import PolicyError, SandboxError, UserError
from noria.core.proofs import Judge
from noria.core.protocols import Policy, Sandbox, Shaping
from noria.core.types import Message, Split, Task
from noria.envs.swe import forging, solving
from noria.envs.swe.commit import committed
from noria.envs.swe.episode import Start, SweEpisode
from noria.envs.swe.records import LAYERS, TOGETHER, Dataset, Repo, SweTask
from noria.envs.swe.slips import slips
from noria.envs.swe.tools import schemas
from noria.envs.swe.trial import Bench, shape, shown_by
from noria.languages.base import DEPS, Language, Manual
from noria.tokens.calls import Call

NAME = "swe"
#: Tasks whose commit is kept.
MOST_GITS = 64
SYSTEM = (
    "Repair the repository that your tools work on. Look at its code, mend the cause in its sources, check your work, "
    "and end with a short answer without a call. Tests that you cannot see decide."
)
ADVICE: Mapping[str, tuple[str, ...]] = {
    "look": (
        "Read the code that the report is about before you change it.",
        "Find the function that the report speaks of and read all of it.",
        "Look at who calls the function, and at its docstring, before you edit.",
    ),
    "edit": (
        "Change the cause in the sources, not what shows it.",
        "Make the smallest change that does what the docstring says.",
        "Mend the line that is wrong and leave the rest as it is.",
    ),
    "run": (
        "Reproduce the failure with a short script, and run it again after your change.",
        "Run the code with the values of the report before you end.",
        "Check your change by running it.",
    ),
    "answer": act("End only after you have checked your change."),
    "malformed": MALFORMED,
}
REMEDIES: Mapping[str, str] = {"edit": "run", "look": "edit", "answer": "run"}
_LOOKS = ("ls", "cat", "head", "tail", "grep", "find", "sed -n", "wc", "rg", "pwd", "git ")
_KINDS = {"read": "look", "write": "edit", "edit": "edit"}


class Config(Checked):
    """Tasks of the dataset at `path`."""

    type: Literal["swe"] = "swe"
    path: str = Field(default="", description="a folder that `noria tasks make swe` wrote")
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round at most")
    heldout: float = Field(default=0.25, ge=0, lt=1, description="share of the functions whose bugs are held out")
    tests: Literal["hidden", "shown"] = Field(
        default="hidden", description="whether files with tests that fail lie in the repository; they decide either way"
    )
    git: bool = Field(
        default=True, description="whether the repository is one of git: a single commit of what the policy finds"
    )
    repos: list[str] = Field(default=[], description="names of repositories to take; empty: all")
    open_repos: int = Field(default=4, ge=1, le=256, description="repositories whose sandboxes are kept at a time")
    command_s: float = Field(default=60.0, gt=0, description="seconds of one command at most")
    limit_s: float = Field(default=900.0, gt=0, description="seconds of all commands of an episode")


class Swe:
    """Tasks, episodes, reference solutions and scripted policies."""

    name = NAME
    experts: tuple[str, ...] = solving.EXPERTS
    strategies: Mapping[str, float] = {name: habit.weight for name, habit in solving.HABITS.items()}
    advice, remedies = ADVICE, REMEDIES
    splits: tuple[Split, ...] = ("train", "heldout")

    def __init__(self, config: Config, sandbox: Sandbox | None) -> None:
        """Raises UserError where `path` holds no dataset, or none of its repositories is wanted."""
        if not config.path:
            raise UserError(
                "path must be a folder that `noria tasks make swe` wrote: got none - make one, and set path to it"
            )
        self.config, self._sandbox = config, sandbox
        self.dataset = Dataset(Path(config.path))
        unknown = [name for name in config.repos if name not in self.dataset.repos]
        if unknown:
            known = list(self.dataset.repos)
            raise UserError(
                f"repos must name repositories of the dataset: got {unknown[0]!r}, expected some of "
                f"{', '.join(known)}{registry.nearest(unknown[0], known)}"
            )
        self._tasks = {
            task.id: task for task in self.dataset.tasks.values() if not config.repos or task.repo in config.repos
        }
        if not self._tasks:
            raise UserError(f"path must hold tasks: got {config.path}, which has none - make some with `noria tasks`")
        held = {self._split_of(task) for task in self._tasks.values()}
        self.splits = tuple(split for split in Swe.splits if split in held)
        self._benches: OrderedDict[str, tuple[Bench, Sandbox]] = OrderedDict()
        self._gits: OrderedDict[str, Mapping[str, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """Tasks of a split, `n` at most, in an order of the seed. Raises UserError: an unknown or empty split."""
        check_split(split, Swe.splits)
        ids = sorted(id_ for id_, task in self._tasks.items() if self._split_of(task) == split)
        if not ids:
            raise UserError(f"path must hold tasks of the split {split}: got none - change heldout, or make more tasks")
        random.Random(f"{NAME}/{split}/{seed}").shuffle(ids)
        return [self._task(self._tasks[id_], split) for id_ in ids[:n]]

    def open(self, task: Task) -> SweEpisode:
        """A fresh episode; the sandbox is asked when the first call comes."""
        return self.episode(self.found(task))

    def episode(self, record: SweTask) -> SweEpisode:
        """A fresh episode of a record, which may ask other tests than the one of the dataset."""
        limits = (self.config.command_s, self.config.limit_s)
        return SweEpisode(lambda: self._begin(record), record.statement, limits)

    def found(self, task: Task) -> SweTask:
        """The record of a task. Raises UserError where it is gone or has changed."""
        record = self._tasks.get(str(task.data["id"]))
        if record is None or _digest(record) != task.data["digest"]:
            raise UserError(f"path must hold {task.data['id']} as it was when the task was drawn - draw anew")
        return record

    def repo(self, record: SweTask) -> Repo:
        """The repository of a record."""
        return self.dataset.repos[record.repo]

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy: it says its script, whatever it hears. Raises UserError for an unknown strategy."""
        habit_named(solving.HABITS, strategy)
        said = self._script(task, strategy)

        def play(heard: Sequence[Message]) -> str:
            turn = sum(message.role == "assistant" for message in heard)
            return said[turn] if turn < len(said) else solving.DONE

        return play

    def flawed(self, task: Task, seed: int) -> tuple[Policy, Judge]:
        """An expert who slips, see `slips.slips` (`core.proofs.Flawed`)."""
        record = self.found(task)
        repo = self.repo(record)
        said = slips(record, repo, self.dataset.layer(repo.tree), seed)

        def play(heard: Sequence[Message]) -> str:
            turn = sum(message.role == "assistant" for message in heard)
            return said[turn][0] if turn < len(said) else solving.DONE

        return play, lambda messages: [label for _, label in said[: len(messages)]]

    def advice_for(self, strategy: str) -> str | None:
        """The kind whose advice a right habit obeys, None for a wrong habit."""
        return solving.HABITS[strategy].advice

    def reference(self, task: Task) -> list[str]:
        """The messages that mend the bug by edits."""
        return self._script(task, "edits")

    def forgeries(self, task: Task) -> list[list[str]]:
        """See `forging.forgeries`."""
        record = self.found(task)
        return forging.forgeries(record, self.repo(record))

    def secrets(self, task: Task) -> list[str]:
        """See `solving.secrets`."""
        record = self.found(task)
        return solving.secrets(record, self.repo(record))

    def kind(self, message: str) -> str:
        """What the first call does, "answer" without a call, "malformed" where it cannot be executed."""
        return kind_of_first(message, _kind)

    def close(self) -> None:
        """Stop the sandboxes of repositories; the one it was built with belongs to whoever made it."""
        with self._lock:
            benches, self._benches = list(self._benches.values()), OrderedDict()
        for bench, desk in benches:
            bench.sandbox.close()
            desk.close()

    def _script(self, task: Task, strategy: str) -> list[str]:
        record = self.found(task)
        repo = self.repo(record)
        with self._lock:
            self.dataset.check_layers(repo)
        return solving.script(record, repo, self.dataset.layer(repo.tree), strategy)

    def _begin(self, record: SweTask) -> Start:
        repo = self.repo(record)
        bench, desk = self._bench(repo)
        tree = self.dataset.layer(repo.tree)
        try:
            broken = record.broken(tree)
        except (OSError, ValueError) as fault:
            raise SandboxError(f"the layers of {repo.name} are not whole: {fault}") from fault
        hidden = hidden_tests(record, repo) if self.config.tests == "hidden" else ()
        deps = self.dataset.layer(repo.deps)
        shown = ((DEPS, str(deps)), *shown_by(bench.language, deps))
        return Start(record, repo, bench, desk, broken, hidden, self._git(record, tree, broken, hidden), shown)

    def _git(
        self, record: SweTask, tree: Path, broken: Mapping[str, bytes], hidden: Sequence[str]
    ) -> Mapping[str, bytes]:
        """The files of `.git`, kept for the tasks that were played last: a group plays one task."""
        if not self.config.git:
            return {}
        with self._lock:
            known = self._gits.get(record.id)
        if known is None:
            try:
                known = committed(tree, {**broken, **dict.fromkeys(hidden)})
            except (UserError, OSError) as fault:
                raise SandboxError(f"the repository of {record.id} cannot be committed: {fault}") from fault
        with self._lock:
            self._gits[record.id] = known
            self._gits.move_to_end(record.id)
            if len(self._gits) > MOST_GITS:
                self._gits.popitem(last=False)
        return known

    def _bench(self, repo: Repo) -> tuple[Bench, Sandbox]:
        """Where tests of a repository run, and where a policy works; what was not used for longest makes room.

        Raises:
            UserError: the sandbox shows no layers, or those of the repository are not as they were made.
        """
        if not isinstance(self._sandbox, Shaping):
            got = "none" if self._sandbox is None else type(self._sandbox).__name__
            raise UserError(f'[sandbox] type must be one that shows layers: got {got} - use "bwrap"')
        with self._lock:
            if repo.name not in self._benches:
                self.dataset.check_layers(repo)
                language = registry.resolve("languages", repo.layout.language).build()
                layers = self.dataset.root / LAYERS
                tests, desk = (self._sandbox.shaped(shape(layers, repo, built)) for built in (True, False))
                self._benches[repo.name] = (Bench(tests, language, repo.layout), desk)
            self._benches.move_to_end(repo.name)
            if len(self._benches) > self.config.open_repos:
                self._benches.popitem(last=False)
            return self._benches[repo.name]

    def _task(self, record: SweTask, split: Split) -> Task:
        data = {"id": record.id, "digest": _digest(record), "repo": record.repo, "operator": record.operator,
                "language": record.language}  # fmt: skip
        how = self._by_hand(self.repo(record))
        return Task(record.id, NAME, f"{SYSTEM}{how}", record.statement, schemas(), data, split)

    def _by_hand(self, repo: Repo) -> str:
        """How the tests that are there are run, in a sentence."""
        language: Language = registry.resolve("languages", repo.layout.language).build()
        command = language.by_hand(repo.layout) if isinstance(language, Manual) else ""
        return f" The tests that you see are run by `{command}`." if command else ""

    def _split_of(self, record: SweTask) -> Split:
        """By function, so that no bug of one that is held out is trained on; of several bugs one decides."""
        for target in record.target.split(TOGETHER):
            text = f"{NAME}/{record.repo}/{target}"
            share = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32
            if share < self.config.heldout:
                return "heldout"
        return "train"


def hidden_tests(record: SweTask, repo: Repo) -> tuple[str, ...]:
    """Files that hold tests which fail; all test files where the tests' names do not tell their files."""
    sources = set(repo.layout.sources)
    files = {test.partition("::")[0] for test in record.fail_to_pass}
    known = [path for path in repo.layout.tests if path in files and path not in sources]
    return tuple(known) if known else tuple(path for path in repo.layout.tests if path not in sources)


def _kind(call: Call) -> str:
    if call.name in _KINDS:
        return _KINDS[call.name]
    if call.name != "sh" or set(call.args) != {"command"}:
        raise PolicyError(f"no tool {call.name}")
    return "look" if call.args["command"].lstrip().startswith(_LOOKS) else "run"


def _digest(record: SweTask) -> str:
    """SHA-256 over all that an episode depends on, in hex."""
    return hashlib.sha256(json.dumps(record.to_json(), sort_keys=True).encode()).hexdigest()


def build(config: Config, sandbox: Sandbox | None) -> Swe:
    """The world; without a sandbox it can draw tasks, but not run a command."""
    return Swe(config, sandbox)
