"""What the factory of software tasks yields, and an audit of tasks drawn from a dataset.

python bench/swe.py make pypi:toolz pypi:tomlkit --n 200 --out FOLDER [--seed 0] [--workers 2] [--json]
python bench/swe.py audit FOLDER [--tasks 100] [--seed 0] [--repeats 5] [--json]

The audit plays, for each task: the reference and nothing at all, `repeats` times each; every forgery of the world; it
looks for the patch's lines in the statement, and for what tells the fix in the policy's tree. It ends with code 1 where
one fails.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noria.core.types import Task
from noria.envs.swe import Config, build
from noria.envs.swe.world import Swe
from noria.factory.make import Plan, make
from noria.factory.statements import leaks
from noria.sandboxes import bwrap
from noria.tokens.calls import render_call


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


def traces(world: Swe, task: Task) -> str:
    """Why the tree that a policy sees gives the fix away, "" where nothing does."""
    record = world.found(task)
    repo = world.repo(record)
    tree = world.dataset.layer(repo.tree)
    episode = world.open(task)
    try:
        found = episode.act(render_call("sh", command="find . -name .git -o -name '*.pyc' -o -name '.noria*'")).text
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


def audit(folder: Path, count: int, seed: int, repeats: int) -> dict[str, Any]:
    """Counts of tasks that failed, by what failed, and examples."""
    sandbox = bwrap.build(bwrap.Config(type="bwrap", memory_mb=1024, disk_mb=256, servers=1))
    world = build(Config(path=str(folder), heldout=0.0, open_repos=32), sandbox)
    tasks = world.tasks("train", 10**9, seed)
    chosen = random.Random(seed).sample(tasks, min(count, len(tasks)))
    failed: Counter[str] = Counter()
    examples: list[str] = []
    started = time.perf_counter()

    def note(kind: str, task: Task, why: object) -> None:
        failed[kind] += 1
        examples.append(f"{task.id}: {kind}: {why}")

    try:
        for task in chosen:
            gold = [earned(world, task, world.reference(task)) for _ in range(repeats)]
            idle = [earned(world, task, ["Nothing is to be done."]) for _ in range(repeats)]
            if gold != [1.0] * repeats:
                note("gold", task, gold)
            if idle != [0.0] * repeats:
                note("no-op", task, idle)
            for number, said in enumerate(world.forgeries(task)):
                reward = earned(world, task, said)
                if reward != 0.0:
                    note("forgery", task, f"{number}: {reward}")
            if leaks(task.prompt, world.found(task).patch):
                note("statement", task, "shares words with the patch")
            why = traces(world, task)
            if why:
                note("trace", task, why)
    finally:
        world.close()
        sandbox.close()
    seconds = round(time.perf_counter() - started, 1)
    return {"tasks": len(chosen), "failed": dict(failed), "examples": examples[:20], "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("sources", nargs="+")
    making.add_argument("--n", type=int, default=100)
    making.add_argument("--out", type=Path, required=True)
    making.add_argument("--workers", type=int, default=2)
    auditing = commands.add_parser("audit")
    auditing.add_argument("folder", type=Path)
    auditing.add_argument("--tasks", type=int, default=100)
    auditing.add_argument("--repeats", type=int, default=5)
    for command in (making, auditing):
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.command == "audit":
        report = audit(given.folder, given.tasks, given.seed, given.repeats)
    else:
        config = bwrap.Config(type="bwrap", memory_mb=1024, disk_mb=256, pids=256, servers=given.workers)
        sandbox = bwrap.build(config)
        try:
            report = make(Plan(tuple(given.sources), given.out, given.n, given.seed, workers=given.workers), sandbox)
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
