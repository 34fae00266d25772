"""What every source of tasks must hold; a new file in the folder is covered without being named here."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from examples import needed

from noria.core import registry
from noria.core.errors import UserError
from noria.core.types import Outcome, Task
from noria.sources.base import Given, TaskSource

every_source = pytest.mark.parametrize("name", registry.names("sources"))
SIZES = {"a": 7, "b": 3}


def given(seed: int = 0, sizes: dict[str, int] = SIZES, groups: int = 40) -> Given:
    tasks = {w: [Task(f"{w}{i}", w, "", "") for i in range(n)] for w, n in sizes.items()}
    rates = {task.id: (i + 1) / (n + 1) for (w, n) in sizes.items() for i, task in enumerate(tasks[w])}
    return Given(tasks, seed, groups, rates)


def make(name: str, what: Given, **options: Any) -> TaskSource:
    module = registry.resolve("sources", name)
    return module.build(module.Config(**needed(module.Config, **options)), what)


def outcomes(group: int, task: Task) -> list[Outcome]:
    """What the four rollouts of a group get: a function of the group and its task alone."""
    rng = np.random.default_rng([group, int(task.id[1:])])
    return [Outcome.unknown("lost") if u < 0.2 else Outcome(float(u > 0.6)) for u in rng.random(4)]


def play(source: TaskSource, first: int, last: int, ahead: int) -> list[str]:
    """Groups as the loop goes: `ahead` of them are drawn before the first of them is heard of."""
    drawn = []
    for group in range(first, last):
        source.task(group + ahead)
        task = source.task(group)
        source.observe(group, outcomes(group, task))
        drawn.append(task.id)
    return drawn


@every_source
def test_says_what_it_is_and_where_it_is_from(name: str) -> None:
    module = registry.resolve("sources", name)
    assert module.SLOT == "task_source" and len(module.SOURCE) > 4
    assert module.__doc__ and "\n" not in module.__doc__.strip()
    with pytest.raises(ValueError, match="extra"):
        module.Config(**{**needed(module.Config), "no_such_key": 1})


@every_source
def test_worlds_take_turns_and_each_epoch_has_every_task_once(name: str) -> None:
    drawn = play(make(name, given()), 0, 42, ahead=2)
    assert [id[0] for id in drawn] == ["a", "b"] * 21
    for world, n in SIZES.items():
        mine = [id for id in drawn if id[0] == world]
        for start in range(0, len(mine) - n + 1, n):
            assert sorted(mine[start : start + n]) == [f"{world}{i}" for i in range(n)]


@every_source
@pytest.mark.parametrize("ahead", [0, 3])
def test_a_continued_phase_draws_what_the_undisturbed_one_draws(name: str, ahead: int) -> None:
    """The saved state holds what was drawn ahead, as the actor's holds its jobs; from there on all is the same."""
    whole = play(make(name, given()), 0, 30, ahead)
    for cut in (1, 2, 9, 17):
        source = make(name, given())
        begun = play(source, 0, cut, ahead)
        state = copy.deepcopy(source.state())
        play(source, cut, 30, ahead)  # the killed process went on after it had saved
        again = make(name, given())
        again.restore(state)
        assert begun + play(again, cut, 30, ahead) == whole
        assert [again.task(group).id for group in range(30)] == whole  # earlier groups can still be named


@every_source
def test_drawing_ahead_and_asking_again_change_nothing(name: str) -> None:
    source = make(name, given())
    first = [source.task(group).id for group in range(12)]
    assert [source.task(group).id for group in range(12)] == first
    assert [make(name, given()).task(11).id for _ in range(2)] == [first[11]] * 2


@every_source
def test_seeds_order_what_nothing_else_orders(name: str) -> None:
    def alike(seed: int) -> Given:
        what = given(seed, {"a": 20})
        return Given(what.tasks, seed, what.groups, dict.fromkeys(what.rates, 0.5))

    orders = {tuple(make(name, alike(seed)).task(g).id for g in range(20)) for seed in range(4)}
    assert len(orders) == 4


def naive(what: Given, start: float, end: float, share: float, memory: float, last: int) -> list[str]:
    """The curriculum the slow way: sort what the epoch has left by its distance from the wanted rate."""
    rates, drawn = dict(what.rates), []
    for group in range(last):
        world = list(what.tasks)[group % len(what.tasks)]
        mine = [id for id in drawn if id.startswith(world)]
        epoch = mine[len(mine) // len(what.tasks[world]) * len(what.tasks[world]) :]
        wanted = start + (end - start) * min(1.0, group / (share * what.groups - 1))
        left = sorted((abs(rates[t.id] - wanted), t.id) for t in what.tasks[world] if t.id not in epoch)
        drawn.append(left[0][1])
        known = [o.reward for o in outcomes(group, Task(left[0][1], world, "", "")) if o.reward is not None]
        if known:
            rates[left[0][1]] = memory * rates[left[0][1]] + (1 - memory) * sum(r == 1 for r in known) / len(known)
    return drawn


@pytest.mark.parametrize(("share", "memory"), [(1.0, 0.5), (0.25, 0.9), (1.0, 0.3)])
def test_the_curriculum_equals_the_naive_one(share: float, memory: float) -> None:
    what = given()
    jitter = np.random.default_rng(1)
    what = Given(what.tasks, 0, 40, {id: float(jitter.random()) for id in what.rates})  # no two rates are equal
    source = make("curriculum", what, start=0.6, end=0.1, share=share, memory=memory)
    assert play(source, 0, 40, ahead=0) == naive(what, 0.6, 0.1, share, memory, 40)


def test_the_curriculum_goes_from_moderate_to_hard() -> None:
    tasks = {"a": [Task(f"a{i}", "a", "", "") for i in range(40)]}
    rates = {f"a{i}": (i + 1) / 41 for i in range(40)}
    source = make("curriculum", Given(tasks, 3, 20, rates), memory=1.0)
    drawn = [rates[source.task(group).id] for group in range(20)]
    assert drawn[0] == pytest.approx(0.5, abs=0.02) and drawn[-1] == pytest.approx(0.125, abs=0.08)
    assert np.corrcoef(np.arange(20), drawn)[0, 1] < -0.9 and max(drawn) < 0.55


def test_the_curriculum_needs_rates_and_the_right_direction() -> None:
    what = given()
    with pytest.raises(UserError, match="must know the pass rate of every task: 10 of 10 have none"):
        make("curriculum", Given(what.tasks, 0, 40))
    with pytest.raises(UserError, match="1 of 10 have none, 'a2' is the first"):
        make("curriculum", Given(what.tasks, 0, 40, {**what.rates, "a2": None}))
    with pytest.raises(ValueError, match="end must be <= start"):
        make("curriculum", what, start=0.2, end=0.5)
