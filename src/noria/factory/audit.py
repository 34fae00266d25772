"""Audits tasks of a dataset: the reference passes, doing nothing and forgeries fail, and nothing gives the fix away.

What is common to the tasks of a repository is done once: after its reference the tree of a task is the sound tree,
byte for byte, so the further runs of it are shared. Each finished task is a line of a journal beside the dataset; the
same call goes on where it was stopped.
"""

from __future__ import annotations

import hashlib
import json
import random
import shlex
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from noria.core import registry
from noria.core.errors import SandboxError, UserError
from noria.core.lock import hold
from noria.core.protocols import Sandbox
from noria.core.types import Task
from noria.envs.swe import Config, build
from noria.envs.swe.records import Repo, SweTask
from noria.envs.swe.trial import Bench
from noria.envs.swe.world import Swe
from noria.factory.journal import Journal
from noria.factory.proof import lay
from noria.factory.repository import opened
from noria.factory.statements import leaks
from noria.languages.base import Language
from noria.tokens.calls import render_call

#: Name of the journal, and a number that changes with what an audit does.
JOURNAL, VERSION = "audit.jsonl", 2
#: Times in a row that the sandbox may fail.
FAULTS = 20
#: Examples of faults in the report.
SHOWN = 20
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is audited: `tasks` drawn by the seed from the dataset at `folder`.

    repeats    runs of the sound tree, and of the broken one
    attacks    forgeries of each task
    journal    folder of the journal, None = that of the dataset
    limit_s    seconds after which no further task is begun, 0 = none
    """

    folder: Path
    tasks: int = 100
    seed: int = 0
    repeats: int = 5
    attacks: int = 3
    workers: int = 2
    limit_s: float = 0.0
    journal: Path | None = None

    def key(self, *what: Mapping[str, Any]) -> str:
        """The same for the same question about the same task."""
        asked = [VERSION, self.seed, self.repeats, self.attacks, *what]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Place:
    """One repository under audit.

    warm, cold    run its tests: as forks of a server that has the runner loaded, and from nothing
    failed        tests that did not pass on the sound tree, for each further run of it
    """

    world: Swe
    repo: Repo
    warm: Bench
    cold: Bench
    failed: Sequence[frozenset[str]]


def audit(asked: Asked, sandbox: Sandbox, tell: Tell = lambda said: None) -> dict[str, Any]:
    """The report: tasks done, how many failed by what failed, examples, seconds. `tell` hears how far it is.

    Raises:
        UserError: there is no dataset, or another audit writes the journal.
        SandboxError: the sandbox fails again and again.
    """
    folder = asked.journal or asked.folder
    if not folder.is_dir():
        raise UserError(f"--journal must be a folder: got {folder} - make it, or leave it away")
    world = build(Config(path=str(asked.folder), heldout=0.0, open_repos=1), sandbox)
    try:
        with hold(folder / "audit.lock", "--journal"):
            journal = Journal(folder, {}, JOURNAL)
            try:
                return _Audit(asked, world, sandbox, journal, tell).report()
            finally:
                journal.close()
    finally:
        world.close()


class _Audit:
    def __init__(self, asked: Asked, world: Swe, sandbox: Sandbox, journal: Journal, tell: Tell) -> None:
        self._asked, self._world, self._sandbox, self._journal, self._tell = asked, world, sandbox, journal, tell
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._fresh = self._faults = self._unknown = 0

    def report(self) -> dict[str, Any]:
        tasks = self._world.tasks("train", 10**9, self._asked.seed)
        chosen = random.Random(self._asked.seed).sample(tasks, min(self._asked.tasks, len(tasks)))
        keys = {task.id: self._key(task) for task in chosen}
        known = [task for task in chosen if keys[task.id] in self._journal.known]
        self._tell(f"{len(known)} of {len(chosen)} tasks are known from before")
        by_repo: dict[str, list[Task]] = defaultdict(list)
        for task in chosen:
            if keys[task.id] not in self._journal.known:
                by_repo[str(task.data["repo"])].append(task)
        for name in sorted(by_repo):
            if not self._late():
                self._repository(self._world.dataset.repos[name], by_repo[name], keys)
        seconds = time.monotonic() - self._began
        lines = [(task, self._journal.known[keys[task.id]]) for task in chosen if keys[task.id] in self._journal.known]
        faults = [(task, kind, why) for task, line in lines for kind, why in line["found"]]
        return {
            "tasks": len(lines), "asked": len(chosen), "fresh": self._fresh, "unknown": self._unknown,
            "by_repo": dict(sorted(Counter(str(task.data["repo"]) for task, _ in lines).items())),
            "repeats": self._asked.repeats, "attacks": self._asked.attacks,
            "failed": dict(Counter(kind for _, kind, _ in faults)),
            "examples": [f"{task.id}: {kind}: {why}" for task, kind, why in faults[:SHOWN]],
            "seconds": round(seconds, 1), "seconds_per_task": round(seconds / max(1, self._fresh), 1),
        }  # fmt: skip

    def _key(self, task: Task) -> str:
        record = self._world.found(task)
        return self._asked.key(record.to_json(), self._world.repo(record).to_json())

    def _late(self) -> bool:
        return bool(self._asked.limit_s) and time.monotonic() - self._began > self._asked.limit_s

    def _repository(self, repo: Repo, tasks: Sequence[Task], keys: Mapping[str, str]) -> None:
        language: Language = registry.resolve("languages", repo.layout.language).build()
        with opened(repo, self._world.dataset.root, language, self._sandbox) as warm:
            cold = Bench(warm.sandbox, language, repo.layout)
            place = Place(self._world, repo, warm, cold, self._sound(repo, cold))

            def one(task: Task) -> None:
                if self._late():
                    return
                began = time.monotonic()
                try:
                    found = looked_at(place, task, self._asked)
                except SandboxError as fault:
                    self._failed(task, fault)
                    return
                self._settle(task, keys[task.id], found, time.monotonic() - began)

            with ThreadPoolExecutor(self._asked.workers, thread_name_prefix="noria-audit") as pool:
                for future in [pool.submit(one, task) for task in tasks]:
                    future.result()

    def _sound(self, repo: Repo, cold: Bench) -> list[frozenset[str]]:
        """All runs of the sound tree but the one that each task makes itself."""
        key = self._asked.key({"sound": True}, repo.to_json())
        if key not in self._journal.known:
            began = time.monotonic()
            with ThreadPoolExecutor(self._asked.workers) as pool:
                runs = [pool.submit(failing, cold, {}, repo.tests) for _ in range(self._asked.repeats - 1)]
                failed = [sorted(run.result()) for run in runs]
            seconds = round(time.monotonic() - began, 1)
            self._journal.note(key, {"repo": repo.name, "failed": failed, "seconds": seconds})
            self._tell(f"{repo.name}: {len(failed)} runs of the sound tree in {seconds} s")
        return [frozenset(each) for each in self._journal.known[key]["failed"]]

    def _settle(self, task: Task, key: str, found: Sequence[tuple[str, str]], seconds: float) -> None:
        with self._lock:
            line = {"task": task.id, "found": [list(each) for each in found], "seconds": round(seconds, 1)}
            self._journal.note(key, line)
            self._fresh += 1
            self._faults = 0
            said = "; ".join(f"{kind}: {why}" for kind, why in found) or "sound"
            self._tell(f"{self._fresh} tasks, {task.id} in {seconds:.1f} s: {said}")

    def _failed(self, task: Task, fault: SandboxError) -> None:
        """Nothing is known about this task: it is looked at again by the next call."""
        with self._lock:
            self._unknown += 1
            self._faults += 1
            self._tell(f"{task.id}: nothing is known: {fault}")
            if self._faults >= FAULTS:
                raise SandboxError(f"the sandbox failed {FAULTS} times in a row: {fault}") from fault


def failing(bench: Bench, files: Mapping[str, bytes], tests: Sequence[str]) -> set[str]:
    """The tests that do not pass with these files. Raises SandboxError."""
    space = bench.sandbox.workspace({})
    try:
        lay(space, files)
        run = bench.run(space, tests)
        return set(tests) if run.cut else {test for test in tests if run.status.get(test) != "pass"}
    finally:
        space.close()


def looked_at(place: Place, task: Task, asked: Asked) -> list[tuple[str, str]]:
    """What is not as it should be of one task: (kind, why). Raises SandboxError: nothing is known."""
    world = place.world
    record = world.found(task)
    broken = record.broken(world.dataset.layer(place.repo.tree))
    # One test that must fail decides about what is to earn nothing: the others are asked only where those pass.
    alone = replace(record, unsure=tuple(test for test in place.repo.tests if test not in record.fail_to_pass))
    found: list[tuple[str, str]] = []
    wanted = {*record.fail_to_pass, *record.pass_to_pass(place.repo)}
    mended = mends(world, task, record, list(broken))
    gold = [not mended, *(not wanted & failed for failed in place.failed)]
    if not all(gold):
        found.append(("gold", mended or f"{gold.count(True)} of {asked.repeats}"))
    idle = [earned(world, (alone, record), ["Nothing is to be done."]) == 0.0]
    idle += [bool(failing(place.warm, broken, record.fail_to_pass)) for _ in range(asked.repeats - 1)]
    if not all(idle):
        found.append(("no-op", f"{idle.count(True)} of {asked.repeats} failed"))
    forgeries = list(enumerate(world.forgeries(task)))
    for number, said in random.Random(f"{asked.seed}/{task.id}").sample(forgeries, min(asked.attacks, len(forgeries))):
        reward = earned(world, (alone, record), said)
        if reward != 0.0:
            found.append(("forgery", f"{number}: {reward}"))
    if leaks(task.prompt, record.patch):
        found.append(("statement", "shares words with the patch"))
    why = traces(world, task, record, list(broken))
    return [*found, ("trace", why)] if why else found


def earned(world: Swe, records: Sequence[SweTask], said: Sequence[str]) -> float:
    """The reward of some messages: of the first record where it is 0, else of the next. Raises SandboxError."""
    reward = 0.0
    for record in records:
        episode = world.episode(record)
        try:
            for message in said:
                if episode.act(message).done:
                    break
            reward = known(episode.grade().reward)
        finally:
            episode.close()
        if reward == 0.0:
            break
    return reward


def mends(world: Swe, task: Task, record: SweTask, paths: Sequence[str]) -> str:
    """Why the reference does not mend the task, "" where it does: all tests pass, and the tree is the sound one."""
    tree = world.dataset.layer(world.repo(record).tree)
    episode = world.open(task)
    try:
        *said, last = world.reference(task)
        for message in said:
            episode.act(message)
        told = episode.act(render_call("sh", command=f"sha256sum -- {shlex.join(paths)}")).text
        if sums(told.split("\n")) != [hashlib.sha256((tree / path).read_bytes()).hexdigest() for path in paths]:
            return "the reference leaves another tree than the sound one"
        episode.act(last)
        outcome = episode.grade()
        return "" if known(outcome.reward) == 1.0 else f"the reference earns {outcome.reward}: {outcome.reason}"
    finally:
        episode.close()


def traces(world: Swe, task: Task, record: SweTask, paths: Sequence[str]) -> str:
    """Why the tree that a policy sees gives the fix away, "" where nothing does. Raises SandboxError."""
    tree = world.dataset.layer(world.repo(record).tree)
    look = (
        "find . \\( -name '*.pyc' -o -name '.noria*' -o -path ./.git/logs \\) -print; "
        "git log --all --format=%H 2> /dev/null | tail -n +2; echo =; "
        f"find . -type f -printf '%T@\\n' | sort -u | wc -l; sha256sum -- {shlex.join(paths)}"
    )
    episode = world.open(task)
    try:
        there, _, rest = episode.act(render_call("sh", command=look)).text.partition("=\n")
    finally:
        episode.close()
    ages, *told = rest.split("\n")
    if there:
        return f"there is {there.split()[0]}"
    if ages.strip() != "1":
        return "times of files differ"
    found = sums(told)
    if len(found) != len(paths):
        return "its files cannot be read"
    sound = [hashlib.sha256((tree / path).read_bytes()).hexdigest() for path in paths]
    return next((f"{path} is sound" for path, one, other in zip(paths, found, sound, strict=True) if one == other), "")


def sums(lines: Sequence[str]) -> list[str]:
    """The digests in what sha256sum prints; a backslash stands before one of an odd name."""
    words = [line.removeprefix("\\").partition(" ")[0] for line in lines]
    return [word for word in words if len(word) == 64]


def known(reward: float | None) -> float:
    """A reward. Raises SandboxError where it is not known."""
    if reward is None:
        raise SandboxError("the outcome is unknown")
    return reward
