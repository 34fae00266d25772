"""Many sandboxes at once, some of which die: what is left behind, and what the deaths do to rewards and advantages.

    python bench/many_sandboxes.py [--sandboxes 200] [--episodes 1000] [--deaths 0.3] [--seed 0] [--json]

Every sandbox is a bubblewrap of its own with a thread that plays episodes of `microswe` in it through the roller. The
same episodes are played twice: undisturbed, and with deaths. A dying sandbox has its server killed at a random moment
of a random test run, and so has the server that takes its place, until the request fails. As many episodes lose one
server only: the request is tried again, and nothing may be seen of it.

Exit code 1 if anything is left behind, an unknown outcome has a reward, a known one changed, or the means over known
outcomes differ from the undisturbed ones by more than chance.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from census import Census, census, children, descendants, now_mib, settled

import noria
from noria.core.protocols import TestReport, Workspace
from noria.core.seeds import derive
from noria.core.stats import mean_interval
from noria.core.types import Outcome, Task
from noria.envs import microswe
from noria.sandboxes import bwrap
from noria.sandboxes._client import Server
from noria.signals import rloo
from noria.stages.roller import Job, Limits, Roller
from noria.tokens.renderer import Renderer

GROUP = 8
#: Time within a test run in which a server is killed, in seconds.
WINDOW_S = 0.03


@dataclass
class Mortal:
    """A sandbox whose server is killed on demand: `doom` = (number of the test run, whether its successor dies too)."""

    inner: bwrap.BwrapSandbox
    rng: random.Random
    doom: tuple[int, bool] | None = None
    dying: bool = False
    runs: int = 0
    killed: int = 0
    servers: list[Server] = field(default_factory=list)

    def __post_init__(self) -> None:
        start = self.inner._pool._start

        def started() -> Server:
            self.servers = [start()]
            if self.dying:
                self._strike(self.servers[-1])
            return self.servers[-1]

        self.servers = list(self.inner._pool._idle)
        self.inner._pool._start = started

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        self.runs += 1
        if self.doom is None or self.runs <= self.doom[0]:
            return self.inner.test(files, test_path, timeout_s)
        (_, self.dying), self.doom = self.doom, None
        wait_s, before = self.rng.random() * WINDOW_S, self.killed
        try:
            while True:
                over = threading.Event()
                killer = threading.Thread(target=self._kill, args=(over, wait_s))
                killer.start()
                try:
                    report = self.inner.test(files, test_path, timeout_s)
                finally:
                    over.set()
                    killer.join()
                if self.killed > before and not self.dying:
                    return report
                wait_s = 0.0  # it was quicker than its killer: once more
        finally:
            self.dying = False

    def _kill(self, over: threading.Event, wait_s: float) -> None:
        if not over.wait(wait_s) or not wait_s:
            self._strike(self.servers[-1])

    def _strike(self, server: Server) -> None:
        """Kill a server: bubblewrap outside, or process 1 inside, by chance."""
        try:
            os.kill(self.rng.choice([server._process.pid, *children(server._process.pid)]), signal.SIGKILL)
            self.killed += 1
        except ProcessLookupError:
            return

    def workspace(self, files: Mapping[str, str]) -> Workspace:
        return self.inner.workspace(files)

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True)
class Plan:
    """One episode: its number, task and habit, and what befalls its sandbox."""

    number: int
    task: Task
    strategy: str
    seed: int
    doom: tuple[int, bool] | None = None


def episodes(count: int, seed: int) -> list[Plan]:
    """Groups of eight episodes of a task, each with a habit drawn by the weights of the world."""
    world = microswe.build(microswe.Config(type="microswe"), None)
    tasks = world.tasks("train", -(-count // GROUP), seed)
    names, weights = list(world.strategies), list(world.strategies.values())
    plans = []
    for number in range(count):
        drawn = derive(seed, "episode", number)
        strategy = random.Random(drawn).choices(names, weights)[0]
        plans.append(Plan(number, tasks[number // GROUP], strategy, drawn))
    return plans


def doomed(plans: Sequence[Plan], runs: Sequence[int], deaths: float, seed: int) -> list[Plan]:
    """Exactly the given share dies, whatever comes of the episodes; as many others lose one server."""
    order = random.Random(f"doom:{seed}").sample(range(len(plans)), len(plans))
    many = round(deaths * len(plans))
    rng, out = random.Random(f"run:{seed}"), list(plans)
    for at, number in enumerate(order[: 2 * many]):
        one = plans[number]
        doom = (rng.randrange(max(1, runs[number])), at < many)
        out[number] = Plan(one.number, one.task, one.strategy, one.seed, doom)
    return out


@dataclass
class Result:
    """What came of a pass: outcome and number of test runs by episode, and figures of the machine."""

    outcomes: list[Outcome]
    runs: list[int]
    kills: int
    seconds: float
    start_s: float
    alive: int
    before: Census
    after: Census
    rss: list[float]


def play(plans: Sequence[Plan], sandboxes: int, renderer: Renderer, seed: int) -> Result:
    """Play all episodes, each thread in a sandbox of its own."""
    before, started = census(), time.perf_counter()
    config = bwrap.Config(type="bwrap", servers=1, memory_mb=64, disk_mb=2, pids=8, timeout_s=60.0)
    boxes = [Mortal(bwrap.build(config), random.Random(f"{seed}:{number}")) for number in range(sandboxes)]
    start_s, alive = time.perf_counter() - started, len(descendants(os.getpid()))
    todo: queue.SimpleQueue[Plan] = queue.SimpleQueue()
    for plan in plans:
        todo.put(plan)
    outcomes: list[Outcome | None] = [None] * len(plans)
    runs, rss, faults = [0] * len(plans), [now_mib()], list[BaseException]()

    def work(box: Mortal) -> None:
        world = microswe.build(microswe.Config(type="microswe", test_timeout_s=60.0), box)
        roller = Roller({"microswe": world}, renderer, None, Limits(max_turns=12, max_tokens=4096), 1)
        try:
            while True:
                plan = todo.get_nowait()
                box.runs, box.doom = 0, plan.doom
                world.close()  # what it remembers would spare test runs
                job = Job(f"{plan.task.id}/{plan.number}", plan.task, plan.seed, plan.strategy)
                outcomes[plan.number] = roller.play(job).outcome
                runs[plan.number] = box.runs
                if plan.number % 100 == 99:
                    rss.append(now_mib())
        except queue.Empty:
            return
        except BaseException as fault:  # noqa: BLE001 - a thread's fault must end the measurement, not the thread
            faults.append(fault)

    started = time.perf_counter()
    threads = [threading.Thread(target=work, args=(box,)) for box in boxes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    for box in boxes:
        box.close()
    if faults:
        raise faults[0]
    kills = sum(box.killed for box in boxes)
    del boxes
    found = [outcome for outcome in outcomes if outcome is not None]
    assert len(found) == len(plans)
    return Result(found, runs, kills, seconds, start_s, alive, before, settled(before), rss)


def statistics(rewards: Sequence[float | None]) -> dict[str, float]:
    """Mean reward, and mean advantage (leave-one-out) of the solved and of the failed rollouts; unknown ones apart."""
    advantage = rloo.build(rloo.Config())
    found: dict[bool, list[float]] = {True: [], False: []}
    for start in range(0, len(rewards), GROUP):
        group = rewards[start : start + GROUP]
        known = sum(reward is not None for reward in group)
        for reward, value in zip(group, advantage(group), strict=True):
            if reward is not None and known > 1:
                found[reward >= 1.0].append(float(value))
    known_rewards = [reward for reward in rewards if reward is not None]
    return {
        "known": len(known_rewards),
        "mean reward": float(np.mean(known_rewards)),
        "advantage of solved": float(np.mean(found[True])) if found[True] else 0.0,
        "advantage of failed": float(np.mean(found[False])) if found[False] else 0.0,
    }


def differences(full: Sequence[float], seen: Sequence[float | None]) -> dict[str, tuple[float, float, float]]:
    """Difference to the undisturbed statistics with its 95 % interval, from the means of each group.

    A group's difference has expectation 0 where deaths do not depend on rewards, whatever its size: the groups are
    independent, so Student's t gives the interval.
    """
    groups = [slice(start, start + GROUP) for start in range(0, len(full), GROUP)]
    reward, advantage = [], []
    for group in groups:
        all_, some = full[group], [one for one in seen[group] if one is not None]
        if not some:
            continue
        reward.append(float(np.mean(some) - np.mean(all_)))
        if len(some) > 1 and len(all_) > 1:
            weights = rloo.build(rloo.Config())
            whole, part = weights(all_), weights(list(seen[group]))
            kept = [at for at, one in enumerate(seen[group]) if one is not None]
            signs = np.array([1.0 if one >= 1 else -1.0 for one in all_])
            advantage.append(float(np.mean([part[at] * signs[at] for at in kept]) - np.mean(whole * signs)))
    out = {}
    for name, values in (("mean reward", reward), ("advantage towards success", advantage)):
        mean, (low, high) = mean_interval(values)
        out[name] = (mean, low, high)
    return out


def _dies(plan: Plan) -> bool:
    return plan.doom is not None and plan.doom[1]


def measure(sandboxes: int, count: int, deaths: float, seed: int) -> dict[str, Any]:
    """Both passes and the comparison; `faults` is empty where all holds."""
    renderer = Renderer.load(Path(noria.__file__).parent / "data" / "tiny")
    plans = episodes(count, seed)
    calm = play(plans, sandboxes, renderer, seed)
    plans = doomed(plans, calm.runs, deaths, seed)
    wild = play(plans, sandboxes, renderer, seed + 1)
    full = [outcome.reward for outcome in calm.outcomes]
    seen = [outcome.reward for outcome in wild.outcomes]
    alone = [(one, "undisturbed") for one in calm.outcomes]
    alone += [(one, "with deaths") for one, plan in zip(wild.outcomes, plans, strict=True) if not _dies(plan)]
    faults = [f"{name}: unknown without a death: {one.reason}" for one, name in alone if one.reward is None]
    whole = [reward or 0.0 for reward in full]
    zeros = [reward or 0.0 for reward in seen]
    changed = sum(one is not None and one != other for one, other in zip(seen, full, strict=True))
    unknown = sum(one is None for one in seen)
    faults += [f"{changed} known outcomes changed"] if changed else []
    faults += [f"{unknown} unknown, expected {round(deaths * count)}"] if unknown != round(deaths * count) else []
    honest, biased = differences(whole, seen), differences(whole, zeros)
    faults += [
        f"{name} differs: {low:.4f} to {high:.4f}" for name, (_, low, high) in honest.items() if low > 0 or high < 0
    ]
    for name, one in (("undisturbed", calm), ("with deaths", wild)):
        faults += [f"{name}: {more} more {what}" for what, more in one.after.more_than(one.before).items()]
    return {
        "sandboxes": sandboxes, "episodes": count, "test_runs": sum(calm.runs), "kills": wild.kills, "unknown": unknown,
        "start_s": round(calm.start_s, 1), "processes_alive": calm.alive,
        "seconds": [round(calm.seconds, 1), round(wild.seconds, 1)],
        "rss_mib": [round(value, 1) for value in (*calm.rss, *wild.rss)],
        "statistics": {
            "undisturbed": statistics(full), "deaths unknown": statistics(seen), "deaths as 0": statistics(zeros),
        },
        "difference": {"deaths unknown": honest, "deaths as 0": biased},
        "left": {"undisturbed": calm.after.more_than(calm.before), "with deaths": wild.after.more_than(wild.before)},
        "reasons": sorted({one.reason[:60] for one in wild.outcomes if one.reward is None}),
        "faults": faults,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sandboxes", type=int, default=200)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--deaths", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.sandboxes, options.episodes, options.deaths, options.seed)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for name in ("sandboxes", "episodes", "test_runs", "kills", "unknown", "processes_alive", "start_s", "seconds"):
            print(f"{name:18}{found[name]}")
        print(f"{'rss_mib':18}{found['rss_mib'][0]} … {found['rss_mib'][-1]}, most {max(found['rss_mib'])}")
        print(f"\n{'':16}{'known':>7}{'reward':>9}{'adv. solved':>13}{'adv. failed':>13}")
        for name, row in found["statistics"].items():
            known, *rest = row.values()
            print(f"{name:16}{known:7}{rest[0]:9.4f}{rest[1]:13.4f}{rest[2]:13.4f}")
        print("\ndifference to undisturbed, mean over groups and 95 % interval")
        for name, rows in found["difference"].items():
            for what, (mean, low, high) in rows.items():
                print(f"{name:16}{what:28}{mean:+.4f}  [{low:+.4f}, {high:+.4f}]")
        print(f"\nleft behind       {found['left']}")
    for fault in found["faults"]:
        print(f"FAULT {fault}", file=sys.stderr)
    sys.exit(1 if found["faults"] else 0)


if __name__ == "__main__":
    main()
