"""Rewards: the files that a verifier leaves, and what several steps are worth together."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from noria.core.types import Outcome
from noria.envs.harbor.admission import SCRIPT, Plan, Stage
from noria.envs.harbor.box import Box
from noria.envs.harbor.folder import File
from noria.envs.harbor.places import ARTIFACTS, TESTS, VERIFIER

KEY = "reward"
#: A policy that fills the disk must not keep the verifier from saying so.
_ROOM, _SPARE = f"{VERIFIER}/.room", 64 << 10
#: Seconds of one verifier at most, whatever its task says.
MAX_S = 3600.0


@dataclass(frozen=True, slots=True)
class Graded:
    """Rewards of one stage by key; `fault` says why there are none, and then nothing is known."""

    rewards: Mapping[str, float] = field(default_factory=dict)
    fault: str = ""

    @property
    def value(self) -> float:
        """The key `reward`, else the mean of all keys."""
        if KEY in self.rewards:
            return self.rewards[KEY]
        return math.fsum(self.rewards.values()) / len(self.rewards)

    def reaches(self, least: Mapping[str, float]) -> bool:
        """Whether the next stage may begin; what is unknown reaches nothing that is asked for."""
        return all(self.rewards.get(key, -math.inf) >= value for key, value in least.items())


def read_rewards(as_json: str | None, as_text: str | None) -> Graded:
    """What `reward.json`, which wins, or `reward.txt` says; None = the file is not there."""
    if as_json is not None:
        return _of_json(as_json)
    if as_text is None:
        return Graded(fault="the verifier left no reward.json or reward.txt")
    try:
        value = float(as_text)
    except ValueError:
        return Graded(fault=f"reward.txt is no number: {as_text[:40]!r}")
    return Graded({KEY: value}) if math.isfinite(value) else Graded(fault=f"reward.txt is not finite: {value}")


def _of_json(text: str) -> Graded:
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or not found:
            raise ValueError("no object with rewards")
        rewards = {}
        for key, value in found.items():
            if not isinstance(value, int | float):
                raise ValueError(f"{key} is no number")
            rewards[str(key)] = float(value)
            if not math.isfinite(rewards[str(key)]):
                raise ValueError(f"{key} is not finite")
    except (ValueError, OverflowError, RecursionError) as fault:
        return Graded(fault=f"reward.json is refused: {str(fault)[:80]}")
    return Graded(rewards)


def verify(plan: Plan, stage: Stage, box: Box) -> Graded:
    """Grade a copy of the box: nothing of the policy runs any more, and the tests were never there before.

    Raises:
        SandboxError: the sandbox failed.
    """
    copy = box.fork()
    try:
        for hook in stage.verifier.collect:
            copy.bash(hook.command, min(hook.timeout_sec, MAX_S))
        if stage.verifier.separate:
            copy.keep_only([ARTIFACTS, *stage.artifacts])
            copy.put({path: file for path, file in plan.image.files.items() if copy.read(path) is None})
        copy.clear_for_tests()
        tests = {f"{TESTS}/{path}": file for path, file in stage.tests.items()}
        if not copy.put({**tests, _ROOM: File(bytes(_SPARE))}):
            return Graded({KEY: 0.0})  # there was room beside the image's files
        limit_s = min(stage.verifier.timeout_sec, MAX_S)
        run = f"rm -f {_ROOM}; chmod 755 {TESTS}/{SCRIPT} && {TESTS}/{SCRIPT} > {VERIFIER}/test-stdout.txt"
        # What a policy put into its home is no module of the verifier's Python.
        done = copy.bash(run, limit_s, {"PYTHONNOUSERSITE": "1", **stage.verifier_env})
        if done.timed_out:
            return Graded(fault=f"the verifier took more than {limit_s:g} s")
        if done.killed == "disk":
            return Graded({KEY: 0.0})
        if done.killed:
            return Graded(fault=f"the verifier was stopped: {done.killed}")
        return read_rewards(copy.read(f"{VERIFIER}/reward.json"), copy.read(f"{VERIFIER}/reward.txt"))
    finally:
        copy.close()


def outcome(plan: Plan, graded: Sequence[Graded], gated: bool) -> Outcome:
    """The reward of a task from those of its stages so far.

    Mean: over stages that were graded, as Harbor does; stages that a threshold kept from beginning (`gated`) do not
    count, those that the policy did not get to are worth 0. Final: the last stage, likewise. One stage that could not
    be graded makes the whole unknown.
    """
    for stage, each in zip(plan.stages, graded, strict=False):
        name = f"step {stage.name}: " if stage.name else ""
        if each.fault:
            return Outcome.unknown(name + each.fault)
        if not 0 <= each.value <= 1:
            return Outcome.unknown(f"{name}a reward must be from 0 to 1: got {each.value:g}")
    values = [each.value for each in graded]
    parts = {
        f"{stage.name}/{key}" if stage.name else key: value
        for stage, each in zip(plan.stages, graded, strict=False)
        for key, value in each.rewards.items()
    }
    missing = len(plan.stages) - len(graded)
    if not gated:
        values += [0.0] * missing
    reward = values[-1] if plan.final else math.fsum(values) / len(values)
    if missing and len(plan.stages) > 1:
        return Outcome(reward, parts, f"{len(graded)} of {len(plan.stages)} steps were begun")
    return Outcome(reward, parts, "" if reward >= 1 else "the tests are not satisfied")
