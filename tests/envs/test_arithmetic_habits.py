"""The world `arithmetic`: scripted habits, their mixture, and advice."""

from __future__ import annotations

import random
import re

import pytest

from noria.core.errors import UserError
from noria.core.types import Message, Split, Task
from noria.envs.arithmetic import Config, build
from noria.envs.arithmetic.habits import HABITS, steps_of

WORLD = build(Config(), None)
SPLITS: tuple[Split, ...] = ("train", "heldout")
TASKS = {split: WORLD.tasks(split, 250, 21) for split in SPLITS}
RIGHT = ("direct", "restate", "careful", "double", "thorough", "recover")
STEP = re.compile(r"(\d+)([+*-])(\d+)=(\d+)")


def play(task: Task, strategy: str, seed: int = 0) -> tuple[str, bool]:
    message = WORLD.policy(task, strategy, seed)([])
    episode = WORLD.open(task)
    assert episode.act(message).done
    return message, episode.grade().solved


def exact(step: tuple[str, str, str, str]) -> bool:
    left, op, right, written = step
    value = {"+": int(left) + int(right), "-": int(left) - int(right), "*": int(left) * int(right)}[op]
    return value == int(written)


def units(message: str) -> int:
    """Digits, words and signs: what a tokenizer with single digits would count."""
    return len(re.findall(r"</?think>|\d|[a-z]+|\S", message))


@pytest.mark.parametrize("split", TASKS)
@pytest.mark.parametrize("strategy", RIGHT)
def test_right_habits_always_solve(strategy: str, split: Split) -> None:
    assert all(play(task, strategy)[1] for task in TASKS[split])


@pytest.mark.parametrize("strategy", ["slip", "nod", "copy", "ignore"])
def test_a_slip_that_nobody_mends_is_always_wrong(strategy: str) -> None:
    assert not any(play(task, strategy)[1] for task in TASKS["train"])


@pytest.mark.parametrize("strategy", ["guess", "about", "careless", "forget"])
def test_sloppy_work_is_right_now_and_then(strategy: str) -> None:
    solved = [play(task, strategy)[1] for task in TASKS["train"]]
    assert 0.02 < sum(solved) / len(solved) < 0.3


def test_sloppy_results_are_what_the_way_of_working_gives() -> None:
    for task in TASKS["train"]:
        terms = task.data["terms"]
        values = [sign * number * (legs[0] if legs else 1) for sign, number, *legs in terms]
        careless = sum(number * (4 if legs else 1) for _, number, *legs in terms)
        answers = {name: int(play(task, name)[0].rpartition(">")[2]) for name in ("forget", "careless", "about")}
        assert answers["forget"] == sum(values[:-1])
        assert answers["careless"] == careless
        assert abs(answers["about"] - sum(values)) <= 5
        assert answers["about"] % 10 == 0


def test_written_steps_are_exact_but_for_one_slip() -> None:
    for task in TASKS["train"]:
        for strategy in ("direct", "careful", "double", "thorough"):
            assert all(exact(step) for step in STEP.findall(play(task, strategy)[0]))
        for seed in range(3):
            wrong = [step for step in STEP.findall(play(task, "slip", seed)[0]) if not exact(step)]
            assert len(wrong) == 1
            assert all(int(step[3]) >= 0 for step in STEP.findall(play(task, "slip", seed)[0]))


def test_steps_follow_the_terms_with_running_totals() -> None:
    assert steps_of([[1, 12], [1, 34], [-1, 5]]) == [(12, "+", 34, 46), (46, "-", 5, 41)]
    legs = [(3, "*", 2, 6), (2, "*", 6, 12), (6, "+", 12, 18)]
    assert steps_of([[1, 3, 2], [1, 2, 6]]) == legs
    assert steps_of([[1, 12], [1, 39], [-1, 5]], 0, -10) == [(12, "+", 39, 41), (41, "-", 5, 36)]


def test_a_check_that_finds_a_slip_is_told_from_one_that_does_not() -> None:
    for task in TASKS["heldout"][:100]:
        assert " ok</think>" in play(task, "careful")[0]
        assert " no</think>" in play(task, "recover")[0]
        nod, copy = play(task, "nod")[0], play(task, "copy")[0]
        assert "check ok</think>" in nod
        first, _, again = copy.removesuffix(" ok</think>" + copy.rpartition(">")[2]).partition(" check ")
        assert first.endswith(" so " + again)
        recover, ignore = play(task, "recover")[0], play(task, "ignore")[0]
        assert recover.rpartition(">")[2] == task.data["answer"] != ignore.rpartition(">")[2]


def test_experts_take_visibly_different_paths_to_the_same_answer() -> None:
    assert WORLD.experts == ("careful", "direct")
    for task in TASKS["train"]:
        paths = {strategy: play(task, strategy)[0] for strategy in ("direct", "careful", "restate", "thorough")}
        assert len(set(paths.values())) == 4
        assert units(paths["thorough"]) > 2.5 * units(paths["direct"])


def test_policies_are_deterministic_and_ignore_the_conversation() -> None:
    talk = [Message("assistant", "1"), Message("tool", "error: x")]
    for task in TASKS["train"][:30]:
        for strategy in WORLD.strategies:
            policy = WORLD.policy(task, strategy, 5)
            assert policy([]) == policy(talk) == WORLD.policy(task, strategy, 5)([])
    varied = {play(TASKS["train"][2], "slip", seed)[0] for seed in range(20)}
    assert len(varied) > 1


def test_unknown_strategy_is_refused() -> None:
    with pytest.raises(UserError, match="direct"):
        WORLD.policy(TASKS["train"][0], "clever", 0)


def test_weights_sum_to_one_and_right_habits_have_three_tenths() -> None:
    assert sum(WORLD.strategies.values()) == pytest.approx(1.0)
    assert sum(WORLD.strategies[name] for name in RIGHT) == pytest.approx(0.29)
    assert set(WORLD.experts) <= set(WORLD.strategies)


@pytest.mark.parametrize("split", TASKS)
def test_the_mixture_is_weak_but_able(split: Split) -> None:
    names, weights = list(WORLD.strategies), list(WORLD.strategies.values())
    rng = random.Random(0)
    solved = total = spent = direct = 0
    for task in TASKS[split]:
        for seed, strategy in enumerate(rng.choices(names, weights, k=8)):
            message, right = play(task, strategy, seed)
            total += 1
            solved += right
            spent += units(message) if right else 0
            direct += units(play(task, "direct")[0]) if right else 0
    assert 0.25 < solved / total < 0.40
    assert spent > 1.9 * direct


def test_every_task_is_solved_by_one_of_eight_episodes() -> None:
    chances = []
    for task in TASKS["heldout"]:
        right = sum(weight for name, weight in WORLD.strategies.items() if play(task, name)[1])
        chances.append(1 - (1 - right) ** 8)
    assert min(chances) > 0.85


def test_kinds_follow_what_is_written() -> None:
    expected = {name: "check" if habit.checks else "steps" for name, habit in HABITS.items()}
    expected |= {"guess": "estimate", "about": "estimate"}
    for task in TASKS["train"][:50]:
        for strategy, kind in expected.items():
            assert WORLD.kind(play(task, strategy)[0]) == kind
    assert WORLD.kind("") == "malformed"
    assert WORLD.kind("<think>1+2=3</think>") == "malformed"


def test_advice_is_short_and_names_no_instance() -> None:
    for hints in WORLD.advice.values():
        assert len(hints) >= 3
        for hint in hints:
            assert len(hint.split()) <= 12
            assert hint.isascii()
            assert not re.search(r"\d", hint)


def test_only_right_habits_obey_advice() -> None:
    for strategy in WORLD.strategies:
        kind = WORLD.advice_for(strategy)
        assert (kind is not None) == (strategy in RIGHT)
        if kind is not None:
            assert kind in WORLD.advice
