"""The ledger as a world: instances, truth, policies, mixture."""

from __future__ import annotations

import json

import pytest

from noria.core.errors import UserError
from noria.core.types import Message, Task
from noria.envs.ledger import Config, build
from noria.envs.ledger.habits import HABITS
from noria.envs.ledger.instances import KINDS, SPLITS, UNSEEN_KINDS, named_in
from noria.envs.ledger.world import LedgerEpisode, LedgerWorld

MAX_TURNS = 12


@pytest.fixture(scope="module")
def world() -> LedgerWorld:
    return build(Config(), None)


def play(world: LedgerWorld, task: Task, strategy: str, seed: int = 0) -> tuple[LedgerEpisode, list[Message]]:
    """A policy's whole episode; fails where it does not end."""
    episode, policy = world.open(task), world.policy(task, strategy, seed)
    messages: list[Message] = []
    for _ in range(MAX_TURNS):
        said = policy(messages)
        seen = episode.act(said)
        messages.append(Message("assistant", said))
        if seen.done:
            return episode, messages
        messages.append(Message("tool", seen.text))
    raise AssertionError(f"{strategy} did not end on {task}")


def reward(world: LedgerWorld, task: Task, strategy: str, seed: int = 0) -> float | None:
    return play(world, task, strategy, seed)[0].grade().reward


def test_reference_scores_one_and_submitting_at_once_does_not(world: LedgerWorld) -> None:
    for split in SPLITS:
        for task in world.tasks(split, 200, seed=3):
            episode = world.open(task)
            assert episode.grade().reward == 0.0
            for message in world.reference(task):
                seen = episode.act(message)
            assert seen.done
            assert (episode.grade().reward, episode.grade()) == (1.0, episode.grade())
            idle = world.open(task)
            assert idle.act('<call name="submit"></call>').done
            assert idle.grade().reward == 0.0


def test_tasks_repeat_and_a_short_list_is_a_prefix(world: LedgerWorld) -> None:
    for split in SPLITS:
        long = world.tasks(split, 120, seed=5)
        assert world.tasks(split, 40, seed=5) == long[:40]
        assert world.tasks(split, 40, seed=6) != long[:40]
        assert len({task.id for task in long}) == 120
        assert len({json.dumps(task.data, sort_keys=True) for task in long}) == 120
        assert all(task.id.startswith(f"ledger-{split}-") and task.split == split for task in long)


def test_splits_share_no_content_and_unseen_no_kind(world: LedgerWorld) -> None:
    def contents(split: str) -> set[str]:
        return {
            json.dumps(task.data, sort_keys=True)
            for seed in range(4)
            for task in world.tasks(split, 300, seed)  # type: ignore[arg-type]
        }

    assert not contents("train") & contents("heldout")
    for split, kinds in (("train", KINDS), ("heldout", KINDS), ("unseen", UNSEEN_KINDS)):
        assert {task.data["kind"] for task in world.tasks(split, 200, 0)} == set(kinds)  # type: ignore[arg-type]
    assert not set(KINDS) & set(UNSEEN_KINDS)


def test_unknown_names_are_refused(world: LedgerWorld) -> None:
    with pytest.raises(UserError, match="split must be one of train, heldout, unseen"):
        world.tasks("dev", 1, 0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="strategy must be one of careful"):
        world.policy(world.tasks("train", 1, 0)[0], "lazy", 0)


def test_texts_are_short_and_ascii(world: LedgerWorld) -> None:
    for split in SPLITS:
        for task in world.tasks(split, 200, 0):
            assert len(task.prompt.split()) <= 30
            assert len(task.system.split()) <= 8
            assert (task.prompt + task.system).isascii()
            assert json.loads(json.dumps(task.data)) == task.data
    for kind, hints in world.advice.items():
        assert 3 <= len(hints) <= 4, kind
        for hint in hints:
            assert len(hint.split()) <= 12 and hint.isascii()
            assert not any(character.isdigit() for character in hint)


def test_right_habits_solve_everything_and_end_in_time(world: LedgerWorld) -> None:
    right = [name for name, habit in HABITS.items() if habit.right]
    assert set(world.experts) <= set(right)
    for split in SPLITS:
        for at, task in enumerate(world.tasks(split, 150, 1)):
            for strategy in right:
                assert reward(world, task, strategy, at) == 1.0, (strategy, task)


def test_policies_repeat_and_depend_on_the_conversation_alone(world: LedgerWorld) -> None:
    for task in world.tasks("train", 40, 2):
        for strategy in world.strategies:
            _, messages = play(world, task, strategy, seed=7)
            assert play(world, task, strategy, seed=7)[1] == messages
            fresh = world.policy(task, strategy, 7)
            for at in range(len(messages) - 1, -1, -2):
                assert fresh(messages[:at]) == messages[at].content


def test_experts_take_visibly_different_paths(world: LedgerWorld) -> None:
    for task in world.tasks("train", 100, 4):
        first, second = (play(world, task, name)[1] for name in world.experts)
        assert [m.content for m in first] != [m.content for m in second]
        assert world.kind(first[0].content) == "get"
        assert world.kind(second[0].content) != "get"


def test_an_expert_finishes_what_another_habit_began(world: LedgerWorld) -> None:
    for task in world.tasks("train", 150, 8):
        for starter in ("give_up", "leave_open", "survey", "cash"):
            messages = play(world, task, starter)[1][:-1]
            episode = world.open(task)
            for message in messages[::2]:
                episode.act(message.content)
            policy = world.policy(task, "direct", 0)
            for _ in range(MAX_TURNS):
                said = policy(messages)
                seen = episode.act(said)
                if seen.done:
                    break
                messages += [Message("assistant", said), Message("tool", seen.text)]
            assert episode.grade().reward == 1.0, (starter, task)


def test_mixture_is_weak_but_able(world: LedgerWorld) -> None:
    assert sum(world.strategies.values()) == pytest.approx(1.0)
    tasks = world.tasks("train", 300, 0)
    chances = [
        sum(weight for name, weight in world.strategies.items() if reward(world, task, name, at) == 1.0)
        for at, task in enumerate(tasks)
    ]
    assert 0.25 <= sum(chances) / len(chances) <= 0.36
    assert sum(1 - (1 - chance) ** 8 for chance in chances) / len(chances) >= 0.85


def test_each_wrong_habit_fails_on_most_tasks(world: LedgerWorld) -> None:
    tasks = world.tasks("heldout", 200, 0)
    for name, habit in HABITS.items():
        if not habit.right:
            solved = sum(reward(world, task, name, at) == 1.0 for at, task in enumerate(tasks))
            assert solved < 110, name


def test_advice_for_right_habits_only(world: LedgerWorld) -> None:
    for name, habit in HABITS.items():
        kind = world.advice_for(name)
        assert (kind in world.advice) if habit.right else (kind is None)


def test_kind_names_the_first_tool(world: LedgerWorld) -> None:
    assert world.kind('<think>x</think><call name="get"><id>A1</id></call><call name="list"></call>') == "get"
    assert world.kind("done") == "answer"
    assert world.kind("") == "answer"
    for message in ('<call name="get">', '<call name="pay"></call>', '<call name="get"></call>', "<think>"):
        assert world.kind(message) == "malformed"
    tools = {tool.name for tool in world.tasks("train", 1, 0)[0].tools}
    assert tools | {"answer", "malformed"} == set(world.advice)


def test_frozen_share_is_kept() -> None:
    for share in (0.0, 1.0):
        for task in build(Config(frozen_share=share), None).tasks("train", 60, 0):
            frozen = {name for name, a in task.data["accounts"].items() if a["status"] == "frozen"}
            assert len(frozen) == int(share)
            assert frozen <= set(named_in(task.data["goals"]))
