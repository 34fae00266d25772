"""The world `arithmetic`: problems, splits, episodes and grading."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from noria.core.errors import UserError
from noria.core.types import Split, Task
from noria.envs.arithmetic import ArithmeticWorld, Config, build

WORLD = build(Config(), None)
SPLITS: tuple[Split, ...] = ("train", "heldout")


def naive(prompt: str, metadata: dict[str, Any]) -> int:
    """The value of a problem, worked out without the world's own steps."""
    if prompt.startswith("Compute "):
        return sum(int(number) for number in re.findall(r"[+-]?\d+", prompt.removeprefix("Compute ")))
    from reasoning_gym.arithmetic.leg_counting import ANIMALS

    return sum(count * ANIMALS[animal] for animal, count in metadata["animals"].items())


def reward(task: Task, message: str, world: ArithmeticWorld = WORLD) -> float:
    episode = world.open(task)
    assert episode.act(message).done
    got = episode.grade().reward
    assert got is not None
    return got


@pytest.mark.parametrize("split", SPLITS)
def test_gold_scores_one_and_doing_nothing_scores_zero(split: Split) -> None:
    for task in WORLD.tasks(split, 300, 1):
        assert reward(task, WORLD.reference(task)[0]) == 1.0
        assert WORLD.open(task).grade().reward == 0.0
        for idle in ("", "<think></think>", task.prompt, "done"):
            assert reward(task, idle) == 0.0


@pytest.mark.parametrize("split", SPLITS)
def test_the_answer_is_the_value_of_the_prompt(split: Split) -> None:
    for task in WORLD.tasks(split, 200, 2):
        value = naive(task.prompt, task.data["metadata"])
        assert task.data["answer"] == str(value)
        assert 0 <= value <= 99
        assert reward(task, str(value)) == 1.0
        assert reward(task, str(value + 1)) == 0.0
        assert reward(task, f"{value} {value}") == 0.0


@pytest.mark.parametrize("split", SPLITS)
def test_tasks_are_deterministic_distinct_and_prefix_stable(split: Split) -> None:
    tasks = WORLD.tasks(split, 200, 3)
    assert tasks == build(Config(), None).tasks(split, 200, 3)
    assert tasks[:70] == WORLD.tasks(split, 70, 3)
    assert len({task.id for task in tasks}) == len({task.prompt for task in tasks}) == 200
    assert tasks != WORLD.tasks(split, 200, 4)
    assert {task.split for task in tasks} == {split}


def test_splits_are_disjoint_for_every_pair_of_seeds() -> None:
    train = {task.prompt for seed in range(4) for task in WORLD.tasks("train", 600, seed)}
    held = {task.prompt for seed in range(4) for task in WORLD.tasks("heldout", 600, seed)}
    assert not train & held


def test_the_split_is_decided_by_the_question_alone() -> None:
    for split in SPLITS:
        for task in WORLD.tasks(split, 100, 5):
            digest = hashlib.sha256(task.data["question"].encode()).hexdigest()
            assert task.id == f"arithmetic-{split}-{digest[:10]}"
            assert (int(digest, 16) % 5 == 0) == (split == "heldout")


def test_one_problem_is_one_task_whatever_the_seed() -> None:
    small = build(Config(datasets=("leg_counting",), max_animals=2, max_count=2), None)
    one = {task.id: task for task in small.tasks("train", 300, 0)}
    two = {task.id: task for task in small.tasks("train", 300, 1)}
    common = one.keys() & two.keys()
    assert len(common) > 5
    assert all(one[key] == two[key] for key in common)


def test_datasets_and_lengths_of_numbers_come_in_turn() -> None:
    tasks = WORLD.tasks("train", 40, 6)
    assert [task.data["dataset"] for task in tasks] == ["chain_sum", "leg_counting"] * 20
    digits = [max(len(str(term[1])) for term in task.data["terms"]) for task in tasks[::2]]
    assert digits == [1, 2] * 10


def test_data_is_plain_json_and_prompts_are_short() -> None:
    for task in WORLD.tasks("train", 100, 7):
        assert json.loads(json.dumps(task.data)) == task.data
        assert task.prompt.isascii()
        assert len(task.prompt.split()) <= 30
        assert len(task.system.split()) <= 8
        assert task.tools == ()


def test_running_totals_stay_within_bounds() -> None:
    for task in WORLD.tasks("heldout", 200, 8):
        total = 0
        for sign, number, *legs in task.data["terms"]:
            total += sign * number * (legs[0] if legs else 1)
            assert 0 <= total <= 99


def test_unknown_split_names_the_splits() -> None:
    with pytest.raises(UserError, match=r"train.*heldout.*unseen"):
        WORLD.tasks("unseen", 1, 0)


def test_too_many_tasks_say_what_to_widen() -> None:
    small = build(Config(datasets=("chain_sum",), max_terms=3, max_digits=1, max_total=9), None)
    with pytest.raises(UserError, match="widen max_terms"):
        small.tasks("heldout", 1000, 0)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"min_terms": 5}, "min_terms"),
        ({"max_digits": 3}, "max_total"),
        ({"datasets": ("chain_sum", "chain_sum")}, "datasets"),
        ({"datasets": ()}, "datasets"),
        ({"datasets": ("gcd",)}, "datasets"),
        ({"tusks": 3}, "tusks"),
    ],
)
def test_config_refuses_what_cannot_work(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        Config(**options)


def test_wider_options_are_honoured() -> None:
    wide = build(Config(datasets=("chain_sum",), min_terms=2, max_terms=2, max_digits=3, max_total=999), None)
    tasks = wide.tasks("train", 60, 0)
    assert {len(task.data["terms"]) for task in tasks} == {2}
    assert max(int(task.data["answer"]) for task in tasks) > 99
    assert all(reward(task, wide.reference(task)[0], wide) == 1.0 for task in tasks)


@pytest.mark.parametrize(
    "message",
    ["<think>1+1=2", "</think>4", '<call name="run"></call>', '<call name="run"><x>1</call>', "<call>"],
)
def test_malformed_messages_are_told_so_and_earn_nothing(message: str) -> None:
    task = WORLD.tasks("train", 1, 9)[0]
    episode = WORLD.open(task)
    seen = episode.act(message)
    assert seen.text.startswith("error:")
    assert WORLD.kind(message) == "malformed"
    assert episode.grade() == episode.grade()
    assert episode.grade().reward == 0.0
    assert episode.grade().reason == seen.text
    mended = episode.fork()
    assert not seen.done and mended.act(task.data["answer"]).done and mended.grade().reward == 1.0
    assert not episode.act(message).done and episode.act(message).done and episode.grade().reward == 0.0


def test_only_the_first_answer_counts() -> None:
    task = WORLD.tasks("train", 1, 10)[0]
    right = task.data["answer"]
    late = WORLD.open(task)
    late.act("1000")
    assert late.act(right).text.startswith("error:")
    assert late.grade().reward == 0.0
    early = WORLD.open(task)
    early.act(right)
    early.act("1000")
    assert early.grade().reward == 1.0
    assert early.grade() == early.grade()


def test_the_thought_does_not_touch_the_reward() -> None:
    for task in WORLD.tasks("heldout", 50, 11):
        right = task.data["answer"]
        assert reward(task, f"<think>about 1000</think> {right}\n") == 1.0
        assert reward(task, f"<think>{right}</think>1000") == 0.0


def test_a_fork_is_independent() -> None:
    task = WORLD.tasks("train", 1, 12)[0]
    episode = WORLD.open(task)
    twin = episode.fork()
    episode.act(task.data["answer"])
    assert episode.grade().reward == 1.0
    assert twin.grade().reward == 0.0
    twin.act("1000")
    assert episode.grade().reward == 1.0
    assert episode.fork().grade().reward == 1.0


PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        '<call name="x">',
        "</call>",
        "<a>",
        "</a>",
        "12+3=15",
        "NaN",
        "1e999999",
        "46",
        ",",
    ]
)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=8).map(" ".join)))
def test_no_message_can_break_an_episode(message: str) -> None:
    task = FUZZ_TASKS[len(message) % 2]
    episode = WORLD.open(task)
    seen = episode.act(message)
    assert seen.done == (seen.text == "")
    assert seen.text == "" or seen.text.startswith("error:")
    assert episode.grade().reward in (0.0, 1.0)
    assert WORLD.kind(message) in WORLD.advice


FUZZ_TASKS = WORLD.tasks("train", 2, 13)
