"""The world of problems: every template's answer is right in each form, every typical error is wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from noria.core.errors import PolicyError, UserError
from noria.core.types import Task
from noria.envs.problems import GRADES, Config, build
from noria.envs.problems.calculator import calculate
from noria.envs.problems.gym import REFUSED, usable
from noria.envs.problems.habits import EXPERTS, HABITS
from noria.envs.problems.tasks import TEMPLATES
from noria.envs.problems.world import ProblemWorld
from noria.graders.base import Case
from noria.tokens.calls import parse


@pytest.fixture(scope="module")
def world() -> Iterator[ProblemWorld]:
    made = build(Config(children=1), None)
    yield made
    made.close()


def one_of_each(world: ProblemWorld) -> list[Task]:
    """A task of every template."""
    found = {task.data["template"]: task for split in world.splits for task in world.tasks(split, 60, 5)}
    assert set(found) == set(TEMPLATES) and len(TEMPLATES) > 40
    return list(found.values())


def test_every_template_is_right_in_each_form_and_wrong_in_each_error(world: ProblemWorld) -> None:
    tasks = one_of_each(world)
    asked = []
    for task in tasks:
        data = task.data
        assert data["type"] in GRADES and len(set(data["wrong"].values())) >= 2 and data["work"]
        asked += [(task, text, 1.0) for text in (data["answer"], *data["forms"][:1])]
        asked += [(task, text, 0.0) for text in dict.fromkeys(data["wrong"].values())]
    cases = [Case(task.data["type"], task.prompt, text, task.data["spec"]) for task, text, _ in asked]
    found = world._router.grade_all(cases)
    wrong = [
        (t.prompt, text, want, got) for (t, text, want), got in zip(asked, found, strict=True) if got.reward != want
    ]
    assert wrong == []


def test_splits_share_no_problem_whatever_the_seed(world: ProblemWorld) -> None:
    train = {task.prompt for seed in (1, 2) for task in world.tasks("train", 150, seed)}
    held = {task.prompt for seed in (3, 4) for task in world.tasks("heldout", 100, seed)}
    unseen = {task.data["template"] for task in world.tasks("unseen", 30, 1)}
    assert not train & held and unseen == {name for name, each in TEMPLATES.items() if each.unseen}
    assert world.tasks("train", 20, 1) == world.tasks("train", 40, 1)[:20]


def test_subjects_and_templates_narrow_what_is_drawn() -> None:
    made = build(Config(subjects=("chemistry",)), None)
    assert {task.data["template"] for task in made.tasks("train", 12, 0)} == {"moles", "dilution", "water"}
    made = build(Config(templates=("linear",)), None)
    assert {task.data["template"] for task in made.tasks("train", 4, 0)} == {"linear"}
    with pytest.raises(UserError, match="templates must leave something for unseen"):
        made.tasks("unseen", 1, 0)
    for options in ({"templates": ["linaer"]}, {"subjects": ["art"]}, {"gym_only": True}):
        with pytest.raises(ValidationError, match="must name"):
            Config(**options)


def test_the_calculator_is_used_by_the_careful_and_computes_exactly() -> None:
    made = build(Config(calculator=True, templates=("fractions",), children=1), None)
    try:
        task = made.tasks("train", 1, 0)[0]
        said = made.reference(task)
        assert len(said) == 2 and parse(said[0]).calls[0].name == "calc"
        episode = made.open(task)
        seen = [episode.act(message) for message in said]
        assert re.fullmatch(r"-?\d+(/\d+|\.\d+)?", seen[0].text) and seen[1].done and episode.grade().solved
    finally:
        made.close()
    assert [calculate(text) for text in ("1/3 + 1/6", "2^10", "7 % 4", "-(1.5*2)", "1/3")] == [
        "0.5",
        "1024",
        "3",
        "-3",
        "1/3",
    ]
    for text in (
        "x",
        "2**999",
        "1/0",
        "__import__('os')",
        "9" * 300,
        "",
        "(",
        "abs(1)",
        "1 if 1 else 2",
        "10**60*10**64",
    ):
        with pytest.raises(PolicyError):
            calculate(text)


def test_right_habits_solve_and_wrong_ones_do_not(world: ProblemWorld) -> None:
    tasks = world.tasks("train", 8, 9)
    for name, habit in HABITS.items():
        if name == "guess":
            continue
        rewards = []
        for task in tasks:
            episode = world.open(task)
            for message in world.played(task, name, 3):
                episode.act(message)
            rewards.append(episode.grade().reward)
        assert set(rewards) == {0.0 if habit.error else 1.0}, name
    assert sum(world.strategies.values()) == pytest.approx(1.0) and set(EXPERTS) < set(HABITS)
    right = sum(weight for name, weight in world.strategies.items() if not HABITS[name].error)
    assert 0.2 <= right <= 0.4


def test_problems_of_reasoning_gym_are_graded_by_their_own_scorer() -> None:
    names = ("gcd", "countdown", "word_sorting", "spiral_matrix")
    made = build(Config(gym=names, gym_only=True, children=1), None)
    try:
        tasks = made.tasks("train", 8, 2)
        assert tasks == made.tasks("train", 8, 2) and json.loads(json.dumps(tasks[0].data)) == tasks[0].data
        assert {task.data["template"] for task in tasks} == {f"gym:{name}" for name in names}
        for task in tasks:
            assert made.graded(task, task.data["answer"]).reward == 1.0, task.data["template"]
            for wrong in made.forgeries(task)[:2]:
                assert made.graded(task, wrong[0]).reward == 0.0, (task.data["template"], wrong)
        assert not {task.prompt for task in tasks} & {task.prompt for task in made.tasks("heldout", 8, 2)}
    finally:
        made.close()


@pytest.mark.slow
def test_every_dataset_that_can_be_used_draws_alike_in_every_process_and_knows_its_answer() -> None:
    code = (
        "import json, random; from noria.envs.problems.gym import GymSource, usable\n"
        "for name in usable():\n"
        "    source, rng, task = GymSource([name], 10**6), random.Random(7), None\n"
        "    while task is None:\n"
        "        task = source.draw(name, rng, 'train', lambda question: False)\n"
        "    print('drawn ' + json.dumps([name, task.prompt, task.data]))\n"
    )
    drawn = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]  # fmt: skip
    # Some datasets print as they draw.
    drawn = [[line.removeprefix("drawn ") for line in lines if line.startswith("drawn ")] for lines in drawn]
    assert drawn[0] == drawn[1] and len(drawn[0]) == len(usable())
    made = build(Config(children=2), None)
    try:
        cases = []
        for line in drawn[0]:
            name, prompt, data = json.loads(line)
            cases.append((name, Case("reasoning.gym", prompt, data["answer"], data["spec"])))
        found = made._router.grade_all([case for _, case in cases])
        assert [name for (name, _), got in zip(cases, found, strict=True) if got.reward != 1.0] == []
    finally:
        made.close()


def test_datasets_that_cannot_be_used_are_refused_with_the_reason() -> None:
    assert len(usable()) > 90 and not set(REFUSED) & set(usable())
    with pytest.raises(UserError, match="'graph_color', which tells no solution"):
        build(Config(gym=("graph_color",)), None)
    with pytest.raises(UserError, match="got 'countdwn', did you mean 'countdown'"):
        build(Config(gym=("countdwn",)), None)
