"""Limits of an episode, cut observations, and forms of calls, through the roller."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest
from roller_helpers import LIST, SUBMIT, Fragile, Reciter, Watched, finish

from noria.core.codec import dumps, from_json
from noria.core.types import Observation, Task, TaskLimits
from noria.envs.ledger.world import Config, LedgerWorld
from noria.stages.jobs import Job, Limits
from noria.stages.progress import states_of
from noria.stages.roller import Roller
from noria.tokens.forms import form_named
from noria.tokens.renderer import Renderer
from noria.tokens.truncation import cut

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def task() -> Task:
    return LedgerWorld(Config()).tasks("train", 1, 5)[0]


@pytest.mark.parametrize("text", ["a b c " * 60, "é日本\U0001f600" * 40, "x" * 400, "\n" * 300, "<think>" * 200])
@pytest.mark.parametrize("limit", [24, 40, 81])
def test_head_and_tail_of_a_long_text_fit_the_limit(renderer: Renderer, text: str, limit: int) -> None:
    n = len(renderer.encode(text))
    found = cut(renderer, text, limit)
    assert n > limit and found is not None and len(renderer.encode(found)) <= limit
    head, _, rest = found.partition("\n[")
    left, _, tail = rest.partition(" tokens left out]\n")
    if not head:  # the marker alone
        return
    assert text.startswith(head) and text.endswith(tail)
    assert int(left) == n - len(renderer.encode(head)) - len(renderer.encode(tail))
    assert cut(renderer, text, n) is None


class Shelf(Watched):
    """An episode with files."""

    def spill(self, text: str) -> str:
        self.world.files.append(text)
        return f"out/{len(self.world.files)}.txt"


class Shelves(Fragile):
    """A ledger with files, if it has any."""

    has_files = True

    def __init__(self) -> None:
        super().__init__({})
        self.files: list[str] = []

    def open(self, task: Task) -> Watched:
        kind = Shelf if self.has_files else Watched
        return kind(self, task, LedgerWorld.open(self, task))


@pytest.mark.parametrize("has_files", [True, False])
def test_a_long_observation_is_cut_and_the_whole_of_it_is_kept(renderer: Renderer, task: Task, has_files: bool) -> None:
    world = Shelves()
    world.has_files = has_files
    limits = Limits(max_tokens=4000, max_observation_tokens=6)
    roller = Roller({"ledger": world}, renderer, Reciter(renderer), limits, 1)
    (t,) = finish(roller, [Job("a", task, 1)]).values()
    (plain,) = finish(
        Roller({"ledger": Fragile({})}, renderer, Reciter(renderer), Limits(), 1), [Job("a", task, 1)]
    ).values()
    whole = plain.turns[0].observation
    assert [turn.whole for turn in t.turns] == [whole] * 3 + [""]
    assert [("out/" in turn.observation) for turn in t.turns] == [has_files] * 3 + [False]
    assert world.files == ([whole] * 3 if has_files else [])
    ids = renderer.observation(t.turns[0].observation).ids
    at = t.turns[0].token_end
    assert t.record.ids[at : at + len(ids)] == ids and t.outcome == plain.outcome
    # A rollout from its middle, and a replay for states, see the same world.
    (again,) = finish(roller, [Job("b", task, 1, start=t, start_turn=2)]).values()
    assert again.turns[1].observation == t.turns[1].observation
    assert len(states_of(Fragile({}), t)) == len(t.turns) + 1


def test_an_episode_out_of_time_is_graded_as_it_stands(renderer: Renderer, task: Task) -> None:
    now = [0.0]

    class Slow(Watched):
        def act(self, message: str) -> Observation:
            now[0] += 4.0
            return super().act(message)

        def grade(self):
            now[0] += 100.0
            return super().grade()

    class Clocked(Fragile):
        def open(self, task: Task) -> Watched:
            return Slow(self, task, LedgerWorld.open(self, task))

    for limit, turns, stop in [(None, 4, "done"), (7.0, 2, "time_limit"), (12.0, 3, "time_limit"), (17.0, 4, "done")]:
        world = Clocked({})
        roller = Roller(
            {"ledger": world}, renderer, Reciter(renderer), Limits(max_episode_s=limit), 1, (), None, lambda: now[0]
        )
        (t,) = finish(roller, [Job("a", task, 1)]).values()
        assert (len(t.turns), t.stop, t.outcome.known) == (turns, stop, True)
        assert world.open_now == []
        script = roller.play(Job("s", task, 1, script=(LIST,) * 3 + (SUBMIT,)))
        assert (len(script.turns), script.stop) == (turns, stop)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("own", [False, True])
def test_a_command_out_of_time_makes_its_own_outcome_unknown(renderer: Renderer, ordered: bool, own: bool) -> None:
    release, closed = threading.Event(), threading.Event()
    first, second = LedgerWorld(Config()).tasks("train", 2, 5)
    first = replace(first, limits=TaskLimits(max_command_s=0.3)) if own else first

    class Stuck(Watched):
        def act(self, message: str) -> Observation:
            if self.task is first:
                assert release.wait(LIMIT_S)
            return super().act(message)

        def close(self) -> None:
            assert self.task is not first or release.is_set()  # not while its tool is at work
            super().close()
            if self.task is first:
                closed.set()

    class Sticky(Fragile):
        def open(self, task: Task) -> Watched:
            return Stuck(self, task, LedgerWorld.open(self, task))

    world = Sticky({})
    limits = Limits(max_command_s=None if own else 0.3)
    roller = Roller({"ledger": world}, renderer, Reciter(renderer), limits, 2, {"ledger"})
    roller.errands.ordered = ordered
    found = finish(roller, [Job("a", first, 1), Job("b", second, 1)])
    assert (found["a"].stop, found["a"].outcome.reward) == ("command_limit", None)
    assert found["a"].outcome.reason == "Overdue: no answer within 0.3 s"
    assert found["b"].stop == "done" and found["b"].outcome.known
    assert len(world.open_now) == 1
    release.set()
    roller.clear()
    assert closed.wait(LIMIT_S) and world.open_now == []


@pytest.mark.parametrize("name", ["hermes", "qwen"])
def test_a_world_reads_what_a_model_writes_in_another_form(
    tiny_folder, renderer: Renderer, task: Task, name: str
) -> None:
    other = Renderer.load(tiny_folder, name)
    (t,) = finish(
        Roller({"ledger": Fragile({})}, other, Reciter(other), Limits(max_tokens=4000), 1), [Job("a", task, 1)]
    ).values()
    plain_roller = Roller({"ledger": Fragile({})}, renderer, Reciter(renderer), Limits(), 1)
    (plain,) = finish(plain_roller, [Job("a", task, 1)]).values()
    assert [replace(turn, token_start=0, token_end=0) for turn in t.turns] == [
        replace(turn, token_start=0, token_end=0) for turn in plain.turns
    ]
    assert t.outcome == plain.outcome
    said = other.decode(t.record.ids[t.turns[0].token_start : t.turns[0].token_end])
    assert said == form_named(name).write(calls_of(LIST), None)
    roles = t.record.roles[t.turns[0].token_start : t.turns[0].token_end]
    assert {"tool_name", "tool_args"} <= set(roles)
    prompt = other.tokenizer.decode(list(other.prompt(task).ids))
    assert "<tool_call>" in prompt and "<call name" not in prompt
    taught = Roller({"ledger": LedgerWorld(Config())}, other, None, Limits(max_tokens=4000), 1)
    lesson = taught.play(Job("s", task, 1, "careful"))
    assert lesson.solved and "<tool_call>" in other.tokenizer.decode(
        list(lesson.record.ids[lesson.turns[0].token_start :])
    )


@pytest.mark.parametrize(("recipe", "own", "turns"), [(12, 0, 4), (12, 2, 2), (3, 2, 2), (3, 0, 3), (2, 3, 2)])
def test_the_tighter_of_a_task_s_limits_and_the_recipe_s_holds(
    renderer: Renderer, task: Task, recipe: int, own: int, turns: int
) -> None:
    bound = replace(task, limits=TaskLimits(max_turns=own, max_observation_tokens=6 if own else 0))
    roller = Roller({"ledger": Fragile({})}, renderer, Reciter(renderer), Limits(recipe, max_tokens=4000), 1)
    (t,) = finish(roller, [Job("a", bound, 1)]).values()
    script = roller.play(Job("s", bound, 1, script=(LIST,) * 3 + (SUBMIT,)))
    for found in (t, script):
        assert len(found.turns) == turns and found.stop == ("done" if turns == 4 else "turn_limit")
        assert bool(found.turns[0].whole) == bool(own)
    assert from_json(Task, json.loads(dumps(bound))) == bound


def test_limits_of_both_sides_are_bounds_each_by_itself() -> None:
    recipe = Limits(max_turns=5, max_command_s=2.0, max_observation_tokens=30)
    assert recipe.within(TaskLimits()) is recipe
    got = recipe.within(TaskLimits(9, 20, 3.0, 4.0))
    assert (got.max_turns, got.max_observation_tokens, got.max_command_s, got.max_episode_s) == (5, 20, 2.0, 4.0)
    assert got.max_tokens == recipe.max_tokens
    for wrong in ({"max_turns": -1}, {"max_command_s": 0.0}, {"max_episode_s": -2.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            TaskLimits(**wrong)


def calls_of(message: str):
    from noria.tokens.calls import parse

    return parse(message).calls[0]


def test_the_built_in_model_writes_the_house_form(tiny_folder, renderer: Renderer, task: Task) -> None:
    auto = Renderer.load(tiny_folder, "auto")
    assert auto.form.name == "xml" and auto.prompt(task) == renderer.prompt(task)
