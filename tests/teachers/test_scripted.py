"""The scripted teacher plays a world's own strategy."""

from __future__ import annotations

import pytest

from noria.core.errors import UserError
from noria.core.strategies import strategy_of
from noria.core.types import Message
from noria.envs import ledger
from noria.teachers import scripted


@pytest.mark.parametrize("strategy", ["careful", "direct"])
def test_it_solves_tasks_as_the_worlds_expert_does(strategy: str) -> None:
    world = ledger.build(ledger.Config(), None)
    teacher = scripted.build(scripted.Config(strategy=strategy))
    for task in world.tasks("train", 10, seed=1):
        policy, episode = teacher.policy(world, task, seed=0), world.open(task)
        said: list[Message] = []
        for _ in range(20):
            message = policy(said)
            seen = episode.act(message)
            said += [Message("assistant", message), Message("tool", seen.text)]
            if seen.done:
                break
        assert episode.grade().reward == 1.0


def test_a_strategy_that_the_world_lacks_is_refused() -> None:
    world = ledger.build(ledger.Config(), None)
    (task,) = world.tasks("train", 1, seed=1)
    with pytest.raises(UserError, match="'test-first'.*its experts are careful, direct"):
        scripted.build(scripted.Config(strategy="test-first")).policy(world, task, seed=0)


def test_an_expert_may_be_named_by_its_place() -> None:
    world = ledger.build(ledger.Config(), None)
    assert [strategy_of(world, name) for name in ("expert:1", "expert:2", "careful", "half")] == [
        "careful", "direct", "careful", "half",
    ]  # fmt: skip
    for name in ("expert:0", "expert:3", "expert:", "expert:x", "expert:²", "Careful"):
        assert strategy_of(world, name) is None
    (task,) = world.tasks("train", 1, seed=1)
    second = scripted.build(scripted.Config(strategy="expert:2")).policy(world, task, seed=0)
    assert second([]) == world.policy(task, "direct", 0)([])


def test_it_scores_no_tokens() -> None:
    assert scripted.SCORES_TOKENS is False
