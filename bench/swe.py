"""What the factory of software tasks yields, and an audit of tasks drawn from a dataset.

python bench/swe.py make pypi:toolz pypi:tomlkit --n 200 --out FOLDER [--seed 0] [--workers 2] [--json]
python bench/swe.py audit FOLDER [--tasks 100] [--seed 0] [--repeats 5] [--attacks 3] [--workers 2]
    [--limit-s 0] [--json]

For each task the audit

- plays the reference once and grades it as ever: a cold run of all tests; then runs all of the task's tests on the
  mended tree `repeats` - 1 times more, in forks of a server that has the runner loaded;
- plays an agent that does nothing, and does the same with the tests that must fail: one that fails decides;
- plays `attacks` forgeries of the world, drawn by the seed, graded cold by the tests that must fail;
- looks for the patch's lines in the statement, and for what tells the fix in the policy's tree.

It says on standard error how far it is, begins no task after `limit-s` seconds (0 = no limit), and ends with code 1
where one of these is not as it should be.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from noria.core import registry
from noria.core.protocols import Sandbox
from noria.core.types import Task
from noria.envs.swe import Config, build
from noria.envs.swe.records import DATASET, LAYERS, REPOS, TASKS, Dataset, SweTask
from noria.envs.swe.trial import Bench
from noria.envs.swe.world import Swe
from noria.factory.make import Plan, make
from noria.factory.proof import lay
from noria.factory.repository import opened
from noria.factory.statements import leaks
from noria.sandboxes import bwrap
from noria.tokens.calls import render_call

#: Seconds between two lines about how far a making is.
TOLD_S = 15.0


@dataclass(frozen=True)
class Worlds:
    """The dataset as it is played, and with the failing tests alone; benches with the runner loaded, by repository."""

    whole: Swe
    failing: Swe
    warm: Mapping[str, Bench]


def earned(world: Swe, task: Task, said: Sequence[str]) -> float | None:
    """The reward of some messages."""
    episode = world.open(task)
    try:
        for message in said:
            if episode.act(message).done:
                break
        return episode.grade().reward
    finally:
        episode.close()


def passing(bench: Bench, files: Mapping[str, bytes], tests: Sequence[str]) -> bool:
    """Whether all of these tests pass with these files, in a warm run."""
    space = bench.sandbox.workspace({})
    try:
        lay(space, files)
        run = bench.run(space, tests)
        return not run.cut and all(run.status.get(test) == "pass" for test in tests)
    finally:
        space.close()


def traces(world: Swe, task: Task) -> str:
    """Why the tree that a policy sees gives the fix away, "" where nothing does."""
    record = world.found(task)
    repo = world.repo(record)
    tree = world.dataset.layer(repo.tree)
    episode = world.open(task)
    try:
        look = (
            "find . \\( -name '*.pyc' -o -name '.noria*' -o -path ./.git/logs \\) -print; "
            "git log --all --format=%H 2> /dev/null | tail -n +2"
        )
        found = episode.act(render_call("sh", command=look)).text
        if found != "ok":
            return f"there is {found.split()[0]}"
        ages = episode.act(render_call("sh", command="find . -type f -printf '%T@\\n' | sort -u | wc -l")).text
        if ages.strip() != "1":
            return "times of files differ"
        for path in record.broken(tree):
            sound = (tree / path).read_text("utf-8", "replace").rstrip("\n")
            if episode.act(render_call("read", path=path)).text == sound:
                return f"{path} is sound"
    finally:
        episode.close()
    return ""


def lean(folder: Path, to: Path) -> Path:
    """The same dataset with nothing but tests that must fail; its layers are links."""
    dataset = Dataset(folder)
    for name in (LAYERS, REPOS):
        (to / name).symlink_to((folder / name).resolve())
    (to / DATASET).write_text((folder / DATASET).read_text())
    rows: list[str] = []
    for task in dataset.tasks.values():
        rest = tuple(test for test in dataset.repos[task.repo].tests if test not in task.fail_to_pass)
        rows.append(json.dumps(replace(task, unsure=rest).to_json()))
    (to / TASKS).write_text("\n".join(rows) + "\n")
    return to


def looked_at(worlds: Worlds, task: Task, few: Task, repeats: int, attacks: int, seed: int) -> list[tuple[str, str]]:
    """What is not as it should be of one task: (kind, why). `few` is the task in the world of failing tests."""
    whole = worlds.whole
    record = whole.found(task)
    repo = whole.repo(record)
    bench = worlds.warm[record.repo]
    found: list[tuple[str, str]] = []
    gold = [earned(whole, task, whole.reference(task)) == 1.0]
    gold += [passing(bench, {}, (*record.fail_to_pass, *record.pass_to_pass(repo))) for _ in range(repeats - 1)]
    if not all(gold):
        found.append(("gold", f"{gold.count(True)} of {repeats}"))
    broken = record.broken(whole.dataset.layer(repo.tree))
    idle = [earned(whole, task, ["Nothing is to be done."]) == 0.0]
    idle += [not passing(bench, broken, record.fail_to_pass) for _ in range(repeats - 1)]
    if not all(idle):
        found.append(("no-op", f"{idle.count(True)} of {repeats} failed"))
    forgeries = list(enumerate(whole.forgeries(task)))
    for number, said in random.Random(f"{seed}/{task.id}").sample(forgeries, min(attacks, len(forgeries))):
        reward = earned(worlds.failing, few, said)
        if reward != 0.0:
            found.append(("forgery", f"{number}: {reward}"))
    if leaks(task.prompt, record.patch):
        found.append(("statement", "shares words with the patch"))
    why = traces(whole, task)
    return [*found, ("trace", why)] if why else found


def audit(
    folder: Path, count: int, seed: int, repeats: int, attacks: int, workers: int, limit_s: float
) -> dict[str, Any]:
    """Counts of tasks that failed, by what failed, and examples."""
    started = time.perf_counter()
    failed: Counter[str] = Counter()
    examples: list[str] = []
    done = 0
    lock = threading.Lock()
    with ExitStack() as stack:
        sandbox = bwrap.build(bwrap.Config(type="bwrap", memory_mb=1024, disk_mb=256, pids=256, servers=workers))
        stack.callback(sandbox.close)
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="noria-audit-")))
        made = [_world(path, sandbox, stack) for path in (folder, lean(folder, place))]
        tasks = made[0].tasks("train", 10**9, seed)
        chosen = random.Random(seed).sample(tasks, min(count, len(tasks)))
        few = {task.id: task for task in made[1].tasks("train", 10**9, seed)}
        worlds = Worlds(made[0], made[1], _warm(made[0], [made[0].found(task) for task in chosen], sandbox, stack))

        def one(task: Task) -> None:
            nonlocal done
            if limit_s and time.perf_counter() - started > limit_s:
                return
            found = looked_at(worlds, task, few[task.id], repeats, attacks, seed)
            with lock:
                done += 1
                failed.update(kind for kind, _ in found)
                examples.extend(f"{task.id}: {kind}: {why}" for kind, why in found)
                say(f"{done} of {len(chosen)} tasks, {sum(failed.values())} faults", started)

        with ThreadPoolExecutor(workers) as pool:
            for future in [pool.submit(one, task) for task in chosen]:
                future.result()
    seconds = round(time.perf_counter() - started, 1)
    return {
        "tasks": done, "repeats": repeats, "attacks": attacks, "failed": dict(failed),
        "examples": examples[:20], "seconds": seconds, "seconds_per_task": round(seconds / max(1, done), 1),
    }  # fmt: skip


def _world(path: Path, sandbox: Sandbox, stack: ExitStack) -> Swe:
    world = build(Config(path=str(path), heldout=0.0, open_repos=32), sandbox)
    stack.callback(world.close)
    return world


def _warm(world: Swe, records: Sequence[SweTask], sandbox: Sandbox, stack: ExitStack) -> dict[str, Bench]:
    found: dict[str, Bench] = {}
    for name in sorted({record.repo for record in records}):
        repo = world.dataset.repos[name]
        language = registry.resolve("languages", repo.layout.language).build()
        found[name] = stack.enter_context(opened(repo, world.dataset.root, language, sandbox))
    return found


def say(text: str, started: float) -> None:
    """How far it is, on standard error."""
    print(f"{time.perf_counter() - started:7.0f} s  {text}", file=sys.stderr, flush=True)


def teller() -> Callable[[int, str], None]:
    """Says from time to time how many tasks there are."""
    started = time.perf_counter()
    last = [started]

    def advance(kept: int, what: str) -> None:
        if time.perf_counter() - last[0] >= TOLD_S:
            last[0] = time.perf_counter()
            say(f"{kept} tasks, at {what}", started)

    return advance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("sources", nargs="+")
    making.add_argument("--n", type=int, default=100)
    making.add_argument("--out", type=Path, required=True)
    auditing = commands.add_parser("audit")
    auditing.add_argument("folder", type=Path)
    auditing.add_argument("--tasks", type=int, default=100)
    auditing.add_argument("--repeats", type=int, default=5)
    auditing.add_argument("--attacks", type=int, default=3)
    auditing.add_argument("--limit-s", type=float, default=0.0)
    for command in (making, auditing):
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--workers", type=int, default=2)
        command.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.command == "audit":
        report = audit(
            given.folder, given.tasks, given.seed, given.repeats, given.attacks, given.workers, given.limit_s
        )
    else:
        config = bwrap.Config(type="bwrap", memory_mb=1024, disk_mb=256, pids=256, servers=given.workers)
        sandbox = bwrap.build(config)
        plan = Plan(tuple(given.sources), given.out, given.n, given.seed, workers=given.workers)
        try:
            report = make(plan, sandbox, teller())
        finally:
            sandbox.close()
    if given.json:
        print(json.dumps(report, indent=1))
    else:
        for name, value in report.items():
            print(f"{name.replace('_', ' '):20}{json.dumps(value, ensure_ascii=False)}")
    sys.exit(1 if report.get("failed") else 0)


if __name__ == "__main__":
    main()
