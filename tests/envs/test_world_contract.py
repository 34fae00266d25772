"""What every world promises, held to every file and package of `noria/envs`: a new one is covered unasked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache

import pytest

from noria.cli_worlds import ProvableWorld, consistent, draw, guard, opened, overlaps, prove
from noria.core import registry
from noria.core.codec import dumps, from_json
from noria.core.types import Message, Task

WORLDS = registry.names("envs")
TASKS, SEED = 6, 4
#: Messages longer than any episode of a scripted policy.
MOST = 40
GARBAGE = (
    "",
    " ",
    "\x00",
    "</call>",
    '<call name="',
    '<call name="nonsense"></call>',
    "ü" * 2000,
    "<" * 50,
    "{}",
    "[1,",
)


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest) -> Iterator[ProvableWorld]:
    with opened(request.param, "process") as made:
        yield made


@cache
def drawn_of(name: str, split: str) -> tuple[Task, ...]:
    with opened(name, "process") as made:
        return tuple(draw(made, split, TASKS, SEED))


def tasks(world: ProvableWorld) -> list[Task]:
    return [task for split in world.splits for task in drawn_of(world.name, split)]


def play(world: ProvableWorld, task: Task, strategy: str, seed: int) -> tuple[list[str], float | None]:
    """What a scripted policy says, and what it earns."""
    episode, policy, heard = world.open(task), world.policy(task, strategy, seed), list[Message]()
    try:
        for _ in range(MOST):
            heard.append(Message("assistant", policy(heard)))
            seen = episode.act(heard[-1].content)
            if seen.done:
                break
            heard.append(Message("tool", seen.text))
        return [message.content for message in heard if message.role == "assistant"], episode.grade().reward
    finally:
        episode.close()


def test_its_tasks_are_those_of_the_seed_each_once_and_in_one_split(world: ProvableWorld) -> None:
    for split in world.splits:
        assert len(drawn_of(world.name, split)) == TASKS
        assert not consistent(world, split, drawn_of(world.name, split), SEED)
    assert not overlaps({split: drawn_of(world.name, split) for split in world.splits})


def test_its_tasks_travel_as_json(world: ProvableWorld) -> None:
    for task in tasks(world):
        again = from_json(Task, json.loads(dumps(task)))
        assert again == task and dumps(again) == dumps(task)


def test_the_reference_solves_doing_nothing_does_not_and_no_forgery_does(world: ProvableWorld) -> None:
    assert not prove(world, tasks(world))
    refused, _ = guard(world, tasks(world)[::3])
    assert not refused


def test_its_experts_solve_by_themselves_and_alike_under_one_seed(world: ProvableWorld) -> None:
    assert len(world.experts) >= 2 and set(world.experts) <= set(world.strategies)
    for task in tasks(world)[::2]:
        for expert in world.experts:
            said, reward = play(world, task, expert, 7)
            assert reward == 1.0, (task.id, expert)
            assert play(world, task, expert, 7) == (said, reward)


def test_its_habits_are_a_mixture_that_fails_somewhere(world: ProvableWorld) -> None:
    assert all(weight >= 0 for weight in world.strategies.values()) and sum(world.strategies.values()) > 0
    wrong = [name for name in world.strategies if name not in world.experts]
    assert any(play(world, task, name, 1)[1] != 1.0 for task in tasks(world)[::4] for name in wrong)


def test_whatever_is_said_is_heard_and_has_a_kind(world: ProvableWorld) -> None:
    task = tasks(world)[0]
    for text in GARBAGE:
        episode = world.open(task)
        try:
            assert isinstance(world.kind(text), str)
            assert isinstance(episode.act(text).text, str)
            assert episode.grade().reward != 1.0
        finally:
            episode.close()


def test_a_fork_goes_its_own_way(world: ProvableWorld) -> None:
    task = tasks(world)[0]
    messages: Sequence[str] = world.reference(task)
    episode = world.open(task)
    try:
        for message in messages[:-1]:
            episode.act(message)
        before, other = episode.grade(), episode.fork()
        try:
            other.act(messages[-1])
            assert other.grade().reward == 1.0
            assert episode.grade() == before
        finally:
            other.close()
        episode.act(messages[-1])
        assert episode.grade().reward == 1.0
    finally:
        episode.close()


def test_advice_and_remedies_are_about_kinds_that_there_are(world: ProvableWorld) -> None:
    assert world.advice and all(texts and all(texts) for texts in world.advice.values())
    assert set(world.remedies.values()) <= set(world.advice)
    kinds = {world.kind(said) for task in tasks(world)[:4] for said in play(world, task, world.experts[0], 0)[0]}
    assert kinds & set(world.advice)
