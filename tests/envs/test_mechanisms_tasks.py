"""Solved mechanisms: tasks and their splits, policies, kinds, fuzz."""

from __future__ import annotations

import json
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanism_helpers import WORLD, act, of_family, play, pool

from noria.core.errors import UserError
from noria.envs.mechanisms import Config, build, chase
from noria.envs.mechanisms.habits import HABITS
from noria.envs.mechanisms.model import Solved
from noria.envs.mechanisms.tasks import FAMILIES, SPLITS, UNSEEN_FAMILIES, greedy_luck, questions, solved_of, told
from noria.tokens.calls import render_call


def test_splits_share_no_parameters_and_a_short_list_is_a_prefix() -> None:
    contents = {split: {json.dumps(task.data, sort_keys=True) for task in pool(split)} for split in SPLITS}
    assert not contents["train"] & contents["heldout"]
    assert {task.data["family"] for task in pool("unseen")} == set(UNSEEN_FAMILIES)
    for split in ("train", "heldout"):
        assert {task.data["family"] for task in pool(split)} == set(FAMILIES) - set(UNSEEN_FAMILIES)
    for split in SPLITS:
        assert WORLD.tasks(split, 10, 0) == pool(split)[:10] and WORLD.tasks(split, 5, 1) != pool(split)[:5]
        assert len({task.id for task in pool(split)}) == 40
        assert all(task.id.startswith(f"mechanisms-{split}-") and task.split == split for task in pool(split))


def test_drawn_tasks_are_worth_solving() -> None:
    for task in build(Config(tricky_share=1.0, lucky_most=0.1), None).tasks("train", 8, 0):
        solved = solved_of(task)
        assert greedy_luck(solved) <= Fraction(1, 4) and solved.lucky(solved.mechanism.start) <= Fraction(1, 10)


def test_to_follow_the_prey_often_loses() -> None:
    """Draws of the chase that are worth keeping as tricky: one in six by a count over 200, not one in hundreds."""
    rng, tricky = random.Random(3), 0
    for _ in range(40):
        solved = Solved(chase.Chase(chase.draw(rng)))
        start = solved.mechanism.start
        worth = solved.random(start) != solved.best(start) and solved.lucky(start) <= Fraction(1, 5)
        tricky += worth and greedy_luck(solved) <= Fraction(1, 4)
    assert tricky >= 4
    found = build(Config(tricky_share=1.0), None).tasks("train", 15, 1)
    assert {task.data["family"] for task in found} == set(FAMILIES) - set(UNSEEN_FAMILIES)
    assert all(greedy_luck(solved_of(task)) <= Fraction(1, 4) for task in found)


def test_parameters_are_hidden_unless_revealed() -> None:
    for task in build(Config(revealed_share=1.0), None).tasks("train", 10, 0):
        assert all(text in task.prompt for text in told(solved_of(task).mechanism))
    for task in pool("train"):
        assert not any(text in task.prompt for text in told(solved_of(task).mechanism))
        mechanism = solved_of(task).mechanism
        numbered = {tool.name for tool in mechanism.probes if tool.parameters}
        for name, number in questions(mechanism):
            line = WORLD.open(task).act(render_call(name, **({"n": number} if name in numbered else {}))).text
            assert line == mechanism.probe(name, number) and not line.startswith("error")


def test_texts_are_short_and_ascii() -> None:
    for split in SPLITS:
        for task in pool(split):
            assert len(task.prompt.split()) <= 14 and (task.prompt + task.system).isascii()
            assert json.loads(json.dumps(task.data)) == task.data and len(task.tools) <= 5
    for kind, hints in WORLD.advice.items():
        assert len(hints) == 3 and all(len(hint.split()) <= 12 and hint.isascii() for hint in hints), kind
        assert not any(character.isdigit() for hint in hints for character in hint)
    tools = {WORLD.kind(render_call(tool.name)) for split in SPLITS for task in pool(split) for tool in task.tools}
    assert tools | {"answer", "malformed"} == set(WORLD.advice) and set(WORLD.remedies) <= set(WORLD.advice)


def test_right_habits_reach_the_optimum_n_of_n_and_wrong_ones_do_not() -> None:
    assert sum(WORLD.strategies.values()) == pytest.approx(1.0)
    tasks = pool("train") + pool("unseen")[:10]
    chance = 0.0
    for name, habit in HABITS.items():
        solved = sum(play(WORLD, task, name)[0].grade().solved for task in tasks)
        assert solved == len(tasks) if habit.right else solved < 0.45 * len(tasks), (name, solved)
        chance += habit.weight * solved / len(tasks)
        kind = WORLD.advice_for(name)
        assert (kind in WORLD.advice) if habit.right else (kind is None)
    assert 0.12 < chance < 0.4


def test_policies_depend_on_the_conversation_alone_and_take_over() -> None:
    for task in pool("train")[:10] + pool("unseen")[:3]:
        for strategy in HABITS:
            _, messages = play(WORLD, task, strategy)
            fresh = WORLD.policy(task, strategy, 0)
            for at in range(len(messages) - 1, -1, -2):
                assert fresh(messages[:at]) == messages[at].content
        begun = play(WORLD, task, "watcher")[1][:4]
        assert play(WORLD, task, "planner", begun)[0].grade().solved
        first, second = (play(WORLD, task, name)[1] for name in WORLD.experts)
        assert [m.content for m in first] != [m.content for m in second]


def test_forks_are_independent_and_unknown_names_are_refused() -> None:
    task = of_family("auction", 1)[0]
    episode = WORLD.open(task)
    fork = episode.fork()
    fork.act(act(task, 0))
    assert (episode.state, episode.gaps) == (solved_of(task).mechanism.start, ()) and len(fork.gaps) == 1
    with pytest.raises(UserError, match="split must be one of"):
        WORLD.tasks("dev", 1, 0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="strategy must be one of planner"):
        WORLD.policy(task, "lazy", 0)
    with pytest.raises(UserError, match="raise lucky_most"):
        build(Config(lucky_most=1e-9), None).tasks("train", 1, 0)


def test_kinds() -> None:
    assert WORLD.kind("<think>x</think>" + render_call("prices") + render_call("order", n=1)) == "probe"
    assert WORLD.kind(render_call("order", n=1)) == "order"
    assert WORLD.kind("done") == WORLD.kind("") == "answer"
    assert (
        WORLD.kind("<think>")
        == WORLD.kind('<call name="fly"></call>')
        == WORLD.kind('<call name="order">')
        == "malformed"
    )


NUMBERS = st.one_of(st.integers(-2, 12).map(str), st.sampled_from(["", "ten", "٣", "9" * 60, " 1 ", "1.0"]))


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_nothing_that_is_said_raises(data: st.DataObject) -> None:
    task = data.draw(st.sampled_from(pool("train")[:10] + pool("unseen")[:2]))
    episode = WORLD.open(task)
    names = [*(tool.name for tool in task.tools), "fly"]
    for _ in range(data.draw(st.integers(1, 8))):
        args = data.draw(st.sampled_from([{}, {"n": data.draw(NUMBERS)}, {"m": "1"}]))
        seen = episode.act(
            render_call(data.draw(st.sampled_from(names)), **args) + data.draw(st.sampled_from(["", "<call"]))
        )
        assert seen.text.isascii() and len(seen.text) < 300
    outcome = episode.grade()
    assert outcome == episode.grade() and outcome.reward is not None and 0.0 <= outcome.reward <= 1.0
