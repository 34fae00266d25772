"""What every world promises, as a class of tests: `world` is a fixture of whoever derives from it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from noria.cli_worlds import (
    ProvableWorld,
    consistent,
    draw,
    guard,
    mislead,
    overlaps,
    prove,
    self_contained,
    sought,
)  # fmt: skip
from noria.core.codec import dumps, from_json
from noria.core.proofs import Guarded
from noria.core.types import Message, Task

TASKS, SEED = 6, 4
#: Attempts at deceit that each task has at least.
FEWEST = 4
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


class WorldContract:
    """Held to one world; a world from outside may have fewer experts than those of the house."""

    experts = 2

    def drawn(self, world: ProvableWorld, split: str) -> tuple[Task, ...]:
        """The tasks of a split that are looked at."""
        return tuple(draw(world, split, TASKS, SEED))

    def all_tasks(self, world: ProvableWorld) -> list[Task]:
        return [task for split in world.splits for task in self.drawn(world, split)]

    def test_its_tasks_are_those_of_the_seed_each_once_and_in_one_split(self, world: ProvableWorld) -> None:
        for split in world.splits:
            assert len(self.drawn(world, split)) == TASKS
            assert not consistent(world, split, self.drawn(world, split), SEED)
        assert not overlaps({split: self.drawn(world, split) for split in world.splits})

    def test_its_tasks_travel_as_json(self, world: ProvableWorld) -> None:
        for task in self.all_tasks(world):
            again = from_json(Task, json.loads(dumps(task)))
            assert again == task and dumps(again) == dumps(task)

    def test_the_reference_solves_doing_nothing_does_not_and_no_forgery_does(self, world: ProvableWorld) -> None:
        assert not prove(world, self.all_tasks(world))
        looked = self.all_tasks(world)[::3]
        refused, _ = guard(world, looked)
        assert not refused
        refused, _ = mislead(world, looked)
        assert not refused
        if world.name in self_contained():  # the verifier of another is somebody else's
            assert isinstance(world, Guarded), "it says how its verifier could be deceived, and what nobody may see"
            assert all(len(world.forgeries(task)) >= FEWEST for task in looked)
            assert sought(world, looked), "some task has a secret"

    def test_its_experts_solve_by_themselves_and_alike_under_one_seed(self, world: ProvableWorld) -> None:
        assert len(world.experts) >= self.experts and set(world.experts) <= set(world.strategies)
        for task in self.all_tasks(world)[::2]:
            for expert in world.experts:
                said, reward = play(world, task, expert, 7)
                assert reward == 1.0, (task.id, expert)
                assert play(world, task, expert, 7) == (said, reward)

    def test_its_habits_are_a_mixture_that_fails_somewhere(self, world: ProvableWorld) -> None:
        assert all(weight >= 0 for weight in world.strategies.values()) and sum(world.strategies.values()) > 0
        wrong = [name for name in world.strategies if name not in world.experts]
        assert any(play(world, task, name, 1)[1] != 1.0 for task in self.all_tasks(world)[::4] for name in wrong)

    def test_whatever_is_said_is_heard_and_has_a_kind(self, world: ProvableWorld) -> None:
        task = self.all_tasks(world)[0]
        for text in GARBAGE:
            episode = world.open(task)
            try:
                assert isinstance(world.kind(text), str)
                assert isinstance(episode.act(text).text, str)
                assert episode.grade().reward != 1.0
            finally:
                episode.close()

    def test_a_fork_goes_its_own_way(self, world: ProvableWorld) -> None:
        task = self.all_tasks(world)[0]
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

    def test_advice_and_remedies_are_about_kinds_that_there_are(self, world: ProvableWorld) -> None:
        assert world.advice and all(texts and all(texts) for texts in world.advice.values())
        assert set(world.remedies.values()) <= set(world.advice)
        kinds = {
            world.kind(said) for task in self.all_tasks(world)[:4] for said in play(world, task, world.experts[0], 0)[0]
        }
        assert kinds & set(world.advice)
