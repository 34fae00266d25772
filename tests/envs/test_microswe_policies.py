"""Ways of working in the repair world: experts, right habits, wrong habits, and their mixture."""

from __future__ import annotations

import random

import pytest

from noria.core.errors import UserError
from noria.core.types import Message, Split, Task
from noria.envs.microswe import Config, build
from noria.envs.microswe.policies import HABITS
from noria.envs.microswe.tasks import held_out
from noria.envs.microswe.trusted import TrustedRunner
from noria.envs.microswe.world import MicroSwe
from noria.tokens.calls import parse, render_call

MAX_TURNS = 16
STRATEGIES = {name: habit.weight for name, habit in HABITS.items()}
RIGHT = ("careful", "direct", "thorough", "recover", "search")


@pytest.fixture(scope="module")
def world() -> MicroSwe:
    return build(Config(type="microswe"), TrustedRunner())


def play(
    world: MicroSwe, task: Task, strategy: str, seed: int, prefix: tuple[str, ...] = ()
) -> tuple[float, list[str], bool]:
    """Reward, tools used, and whether it ended by itself. `prefix` is played first by somebody else."""
    episode, policy = world.open(task), world.policy(task, strategy, seed)
    messages: list[Message] = []
    tools: list[str] = []
    done = False
    while not done and len(tools) < MAX_TURNS:
        said = prefix[len(tools)] if len(tools) < len(prefix) else policy(messages)
        seen = episode.act(said)
        assert not seen.text.startswith("error: m"), said
        messages += [Message("assistant", said), Message("tool", seen.text)]
        tools += [call.name for call in parse(said).calls]
        done = seen.done
    return float(episode.grade().reward or 0.0), tools, done


def mixture(world: MicroSwe, tasks: list[Task], seed: int) -> float:
    rng = random.Random(seed)
    names, weights = list(STRATEGIES), list(STRATEGIES.values())
    return sum(play(world, t, rng.choices(names, weights)[0], i)[0] for i, t in enumerate(tasks)) / len(tasks)


@pytest.mark.parametrize("split", ["train", "heldout", "unseen"])
def test_the_experts_solve_every_task_by_two_different_paths(world: MicroSwe, split: Split) -> None:
    for seed, task in enumerate(world.tasks(split, 150, 1)):
        reward, tools, done = play(world, task, "careful", seed)
        assert (reward, tools, done) == (1.0, ["test", "view", "edit", "test", "submit"], True)
        reward, tools, done = play(world, task, "direct", seed)
        assert (reward, tools, done) == (1.0, ["view", "edit", "test", "submit"], True)


@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_each_habit_ends_by_itself_and_succeeds_as_often_as_it_should(world: MicroSwe, strategy: str) -> None:
    runs = [play(world, task, strategy, seed) for seed, task in enumerate(world.tasks("train", 200, 2))]
    assert all(done for _, _, done in runs)
    rate = sum(reward for reward, _, _ in runs) / len(runs)
    low, high = {
        "hasty": (0.15, 0.45), "stubborn": (0.15, 0.45), "guess": (0.12, 0.40),
        "fiddle": (0.0, 0.10), "giveup": (0.0, 0.20), "quit": (0.0, 0.0),
        "recover": (0.98, 1.0),  # its wrong edit may pass the tests and fail the calls that they do not show
        "search": (0.97, 1.0),
    }.get(strategy, (1.0, 1.0))  # fmt: skip
    assert low <= rate <= high


def test_an_expert_that_takes_over_knows_which_edits_were_refused(world: MicroSwe) -> None:
    for seed, task in enumerate(world.tasks("train", 20, 4)):
        refused = tuple(render_call("edit", line=1, new=new) for new in ("def f(u=locals()):", "x" * 121))
        reward, tools, done = play(world, task, "direct", seed, refused)
        assert (reward, tools[2:], done) == (1.0, ["view", "edit", "test", "submit"], True)


def test_wrong_habits_leave_something_out(world: MicroSwe) -> None:
    for seed, task in enumerate(world.tasks("train", 60, 3)):
        assert "test" not in play(world, task, "hasty", seed)[1]
        assert "view" not in play(world, task, "guess", seed)[1]
        assert play(world, task, "quit", seed)[1] == ["submit"]
        tools = play(world, task, "recover", seed)[1]
        assert tools.count("test") >= 2 or tools.count("edit") == 1


def test_a_search_takes_every_wrong_guess_back_before_the_next(world: MicroSwe) -> None:
    guesses = []
    for seed, task in enumerate(world.tasks("train", 60, 3)):
        episode, policy, messages = world.open(task), world.policy(task, "search", seed), list[Message]()
        texts = [episode.text]
        for _ in range(MAX_TURNS):
            said = policy(messages)
            seen = episode.act(said)
            messages += [Message("assistant", said), Message("tool", seen.text)]
            texts += [episode.text] if "edit" in said else []
            if seen.done:
                break
        assert texts[::2] == [task.data["app"]] * ((len(texts) + 1) // 2)
        assert len(set(texts[1::2])) == len(texts[1::2])
        assert episode.text == task.data["gold"] or messages[-3].content.startswith("pass ")
        guesses.append(len(texts) // 2)
    assert min(guesses) <= 2 and max(guesses) == 5


def test_the_mixture_is_weak_but_able(world: MicroSwe) -> None:
    assert abs(sum(STRATEGIES.values()) - 1.0) < 1e-9
    assert 0.15 <= sum(STRATEGIES[name] for name in RIGHT) <= 0.35
    tasks = world.tasks("train", 500, 4)
    assert 0.2 <= mixture(world, tasks, 0) <= 0.4
    assert 0.2 <= mixture(world, world.tasks("heldout", 300, 4), 1) <= 0.42
    solved = [any(mixture(world, [task], 100 * i + k) for k in range(8)) for i, task in enumerate(tasks[:80])]
    assert sum(solved) / len(solved) >= 0.85


def test_policies_are_deterministic_and_vary_with_the_seed(world: MicroSwe) -> None:
    task = world.tasks("train", 1, 6)[0]
    for strategy in STRATEGIES:
        assert play(world, task, strategy, 5) == play(world, task, strategy, 5)
    first = {world.policy(task, "stubborn", seed)([]) for seed in range(30)}
    assert len(first) >= 3
    with pytest.raises(UserError, match="strategy must be one of careful"):
        world.policy(task, "lucky", 0)


@pytest.mark.parametrize("expert", ["careful", "direct"])
def test_an_expert_can_take_over_from_any_habit(world: MicroSwe, expert: str) -> None:
    for seed, task in enumerate(world.tasks("train", 40, 8)):
        for habit in ("hasty", "stubborn", "guess", "fiddle", "giveup"):
            messages: list[Message] = []
            episode, policy, said = world.open(task), world.policy(task, habit, seed), []
            while True:
                message = policy(messages)
                seen = episode.act(message)
                if seen.done:
                    break
                said.append(message)
                messages += [Message("assistant", message), Message("tool", seen.text)]
            reward, _, done = play(world, task, expert, seed, tuple(said))
            assert (reward, done) == (1.0, True)


def test_a_policy_bears_messages_it_did_not_write(world: MicroSwe) -> None:
    task = world.tasks("train", 1, 9)[0]
    strange = ["<think>", "hello", '<call name="edit"><line>²</line><new>b</new></call>', "\x00"]
    messages = [Message("assistant", text) for text in strange] + [Message("tool", "error: call a tool")]
    for strategy in STRATEGIES:
        assert world.kind(world.policy(task, strategy, 0)(messages)) in ("view", "edit", "test", "submit")


def test_no_habit_shows_a_held_out_bug_on_a_training_task(world: MicroSwe) -> None:
    from noria.envs.microswe.mutations import mutants
    from noria.envs.microswe.tasks import code

    for seed, task in enumerate(world.tasks("train", 150, 10)):
        key = task.data["family"]
        secret = {code(task.data, one.lines) for one in mutants(key) if held_out(key, one.kind)}
        for strategy in ("hasty", "stubborn", "fiddle", "recover", "giveup"):
            episode, policy, done = world.open(task), world.policy(task, strategy, seed), False
            messages: list[Message] = []
            while not done:
                message = policy(messages)
                seen = episode.act(message)
                messages += [Message("assistant", message), Message("tool", seen.text)]
                done = seen.done
                assert episode.text not in secret


def test_thoughts_are_short_and_only_at_the_start(world: MicroSwe) -> None:
    thoughts: set[str] = set()
    for seed, task in enumerate(world.tasks("train", 40, 12)):
        for strategy in STRATEGIES:
            policy = world.policy(task, strategy, seed)
            thoughts.add(parse(policy([])).think)
            later = policy([Message("assistant", '<call name="view"></call>'), Message("tool", "1 def f(x):")])
            assert "<think>" not in later
    assert "" in thoughts and len(thoughts) >= 8
    assert all(len(thought.split()) <= 8 for thought in thoughts)


def test_kinds_and_advice(world: MicroSwe) -> None:
    assert world.kind('<think>x</think><call name="test"></call>') == "test"
    assert world.kind("done") == "answer"
    assert world.kind('<call name="rm"></call>') == world.kind("<think>") == "malformed"
    assert set(world.advice) == {"view", "edit", "test", "submit", "answer", "malformed"}
    for sentences in world.advice.values():
        assert len(sentences) >= 3 and all(len(text.split()) <= 12 and text.isascii() for text in sentences)
    assert {world.advice_for(name) for name in RIGHT} == {"test", "edit", "view", "submit"}
    assert {world.advice_for(name) for name in STRATEGIES if name not in RIGHT} == {None}
