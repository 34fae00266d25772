"""A source of tasks, a transform and a reward of the user's own: named in the recipe, found, and put to work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stage_helpers import rolled

from noria.core import recipe as recipes
from noria.core.recipe_phases import RlPhase
from noria.core.types import Task
from noria.signals.base import Selection
from noria.stages.hooks import drawn_anew, selection_of, source_of
from noria.stages.signals import GroupAdvantage

SOURCE = '''"""The last task first."""
from noria.sources.base import SourceConfig, Unmoved

SLOT = "task_source"


class Config(SourceConfig):
    skip: int = 0


class Backwards(Unmoved):
    def __init__(self, config, given):
        self.skip, self.tasks = config.skip, [task for found in given.tasks.values() for task in found]

    def task(self, group):
        return self.tasks[-1 - group - self.skip]


def build(config, given):
    return Backwards(config, given)
'''
TRANSFORM = '''"""Every group that teaches, and never a further one."""
from noria.signals.base import Selection, SignalConfig

SLOT = "transform"


class Config(SignalConfig):
    pass


def build(config):
    def choose(teaches, wanted):
        kept = tuple(i for i, useful in enumerate(teaches) if useful)
        dropped = tuple(i for i, useful in enumerate(teaches) if not useful)
        return Selection(kept, dropped, wanted - len(teaches), False)

    return choose
'''
REWARD = '''"""Half of everything."""
from noria.signals.base import SignalConfig

SLOT = "reward"


class Config(SignalConfig):
    share: float = 0.5


class Half:
    needs_reference = False

    def __init__(self, config):
        self.share = config.share

    def shape(self, rewards, group):
        return [None if reward is None else reward * self.share for reward in rewards]


def build(config):
    return Half(config)
'''


@pytest.fixture
def phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: Any) -> RlPhase:
    """A phase of a recipe that names all three."""
    folder = tmp_path / "of_my_own"
    folder.mkdir()
    for name, text in (("__init__", ""), ("backwards", SOURCE), ("never", TRANSFORM), ("half", REWARD)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "mine.toml"
    file.write_text(
        f'name = "mine"\nstudent = {{ model = "{recipe.student.model}" }}\n[env]\nledger = {{ type = "ledger" }}\n'
        '[phase.p]\nsignal = "group_mean"\ntask_source = { type = "of_my_own.backwards", skip = 1 }\n'
        'use = { never = { type = "of_my_own.never" }, half = { type = "of_my_own.half", share = 0.25 } }\n',
        encoding="utf-8",
    )
    found = recipes.load([file])
    assert recipes.from_json(found.resolved_json()).fingerprint() == found.fingerprint()
    made = found.phase["p"]
    assert isinstance(made, RlPhase)
    return made


def test_they_are_put_to_work(phase: RlPhase, worlds: Any, tmp_path: Path) -> None:
    tasks = {"ledger": [Task(f"t{i}", "ledger", "", "") for i in range(5)]}
    source = source_of(phase, tasks, 0, tmp_path / "none.json")
    assert [source.task(group).id for group in range(3)] == ["t3", "t2", "t1"]
    assert drawn_anew(phase) == [{"type": "of_my_own.backwards", "skip": 1}]
    assert selection_of(phase)([True, False], 3) == Selection((0,), (1,), 1, False)
    signal = GroupAdvantage(phase, worlds, {})
    assert signal.rewards([rolled(1.0), rolled(None), rolled(0.5)]) == [0.25, None, 0.125]


def test_measured_pass_rates_reach_the_source(tmp_path: Path) -> None:
    phase = RlPhase(signal="group_mean", task_source="curriculum", difficulty={}, steps=2, prompts_per_step=2)
    tasks = {"ledger": [Task(f"t{i}", "ledger", "", "") for i in range(4)]}
    rates = tmp_path / "difficulty.json"
    rates.write_text(json.dumps({"t0": 0.9, "t1": 0.125, "t2": 0.5, "t3": 0.375}), encoding="utf-8")
    source = source_of(phase, tasks, 0, rates)
    assert [source.task(group).id for group in range(4)] == ["t2", "t3", "t1", "t0"]
    assert drawn_anew(RlPhase(signal="group_mean")) == []


def test_without_a_word_a_phase_takes_turns_and_samples_dynamically(tmp_path: Path) -> None:
    from noria.sources.turns import Turns

    tasks = {"ledger": [Task(f"t{i}", "ledger", "", "") for i in range(9)]}
    source = source_of(RlPhase(signal="group_mean"), tasks, 4, tmp_path / "none.json")
    assert [source.task(g) for g in range(20)] == [Turns(tasks, 4).task(g) for g in range(20)]
    assert selection_of(RlPhase(signal="group_mean", max_refills=2))([False] * 6, 3) == Selection(
        (), tuple(range(6)), 3, False
    )
