"""The world `instructions`: scripted habits, their mixture, and advice."""

from __future__ import annotations

import re

import pytest

from noria.core.errors import UserError
from noria.core.types import Message, Outcome, Split, Task
from noria.envs.instructions import Config, build
from noria.envs.instructions.admission import constraints_of
from noria.envs.instructions.habits import HABITS

WORLD = build(Config(), None)
SPLITS: tuple[Split, ...] = ("train", "unseen")
TASKS = {split: WORLD.tasks(split, 50, 21) for split in SPLITS}
RIGHT = ("direct", "careful", "verify", "bare")


def play(task: Task, strategy: str, seed: int = 0) -> tuple[str, Outcome]:
    message = WORLD.policy(task, strategy, seed)([])
    episode = WORLD.open(task)
    assert episode.act(message).done
    return message, episode.grade()


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("strategy", RIGHT)
def test_right_habits_always_solve(strategy: str, split: Split) -> None:
    assert all(play(task, strategy)[1].solved for task in TASKS[split])


@pytest.mark.parametrize("split", SPLITS)
def test_wrong_habits_hardly_ever_solve(split: Split) -> None:
    for strategy, habit in HABITS.items():
        if habit.work != "right":
            solved = sum(play(task, strategy)[1].solved for task in TASKS[split])
            assert solved <= (3 if strategy in ("stray", "nod", "plain") else 0), strategy


def test_degenerate_habits_are_caught_by_the_judge_or_say_nothing() -> None:
    for task in TASKS["train"]:
        assert play(task, "copy")[1].parts["fluent"] == play(task, "repeat")[1].parts["fluent"] == 0.0
        assert play(task, "empty")[1].reason == "no answer"


def test_ignoring_keeps_the_others_and_off_by_one_is_near() -> None:
    other = [task for task in TASKS["train"] if len(task.data["constraints"]) == 2]
    kept = {
        name: sum(sum(play(task, name)[1].parts[kind] for kind, _ in task.data["constraints"]) for task in other)
        for name in ("ignore", "off_by_one")
    }
    assert all(0.8 * len(other) <= count <= len(other) for count in kept.values())
    near = total = 0
    for task in TASKS["train"]:
        for one in constraints_of(task):
            if one.kind.relation == "=" and one.kind.facet:
                answer = play(task, "off_by_one")[0].rpartition("</think>")[2]
                total += not one.holds(answer)
                near += abs(one.kind.measure(answer, one.values) - one.values["n"]) == 1
    assert near >= 0.8 * total > 3


def test_thoughts_name_every_triplet_and_checks_are_true() -> None:
    mended = 0
    for task in TASKS["train"]:
        notes = [one.note() for one in constraints_of(task)]
        for strategy in ("direct", "careful", "verify"):
            message = play(task, strategy)[0]
            assert message.startswith(f"<think>need {'; '.join(notes)}.") and message.count("<think>") == 1
        first = play(task, "careful")[0]
        wrong = re.search(r" no(,|\.)", first.partition(" check ")[2].partition("</think>")[0])
        assert bool(wrong) == (". mend</think>" in first)
        mended += bool(wrong)
        again = play(task, "verify")[0]
        assert not re.search(r" no(,|$)", again.partition(" check ")[2].partition("</think>")[0])
        assert again.rpartition("</think>")[2] in again.partition("</think>")[0]
        assert "<think>" not in play(task, "bare")[0]
    assert mended >= 48


def test_experts_take_visibly_different_paths() -> None:
    assert WORLD.experts == ("careful", "direct")
    for task in TASKS["train"]:
        paths = {strategy: play(task, strategy)[0] for strategy in RIGHT}
        assert len(set(paths.values())) == 4
        assert len(paths["careful"].split()) > len(paths["direct"].split())


def test_policies_are_deterministic_and_ignore_the_conversation() -> None:
    talk = [Message("assistant", "1"), Message("tool", "error: x")]
    for task in TASKS["train"][:10]:
        for strategy in WORLD.strategies:
            policy = WORLD.policy(task, strategy, 5)
            assert policy([]) == policy(talk) == WORLD.policy(task, strategy, 5)([])
    assert len({play(TASKS["train"][2], "direct", seed)[0] for seed in range(8)}) > 1


def test_unknown_strategy_is_refused() -> None:
    with pytest.raises(UserError, match="direct"):
        WORLD.policy(TASKS["train"][0], "clever", 0)


def test_weights_sum_to_one_and_the_mixture_is_weak_but_able() -> None:
    assert sum(WORLD.strategies.values()) == pytest.approx(1.0)
    assert sum(WORLD.strategies[name] for name in RIGHT) == pytest.approx(0.30)


def test_kinds_follow_what_is_written() -> None:
    expected = {"direct": "plan", "careful": "check", "verify": "check", "bare": "blind", "repeat": "hollow",
                "empty": "malformed"}  # fmt: skip
    for task in TASKS["train"]:
        for strategy, kind in expected.items():
            assert WORLD.kind(play(task, strategy)[0]) == kind
    assert WORLD.kind("") == WORLD.kind("<think>need it.</think>") == "malformed"


def test_advice_is_short_and_names_no_instance() -> None:
    for hints in WORLD.advice.values():
        assert len(hints) >= 3
        for hint in hints:
            assert len(hint.split()) <= 12 and hint.isascii() and not re.search(r"\d", hint)
    assert all(kind in WORLD.advice and to in WORLD.advice for kind, to in WORLD.remedies.items())


def test_only_right_habits_obey_advice() -> None:
    for strategy in WORLD.strategies:
        kind = WORLD.advice_for(strategy)
        assert (kind is not None) == (strategy in RIGHT)
        assert kind is None or kind in WORLD.advice
