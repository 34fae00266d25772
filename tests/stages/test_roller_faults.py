"""What fails part-way leaves nothing open: episodes are closed, the engine's slots are free, the others go on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from roller_helpers import SAID, Fragile, Reciter, finish

from noria.core.errors import UserError
from noria.core.types import Hint, Outcome, Task
from noria.envs.ledger.world import Config, LedgerWorld
from noria.stages.roller import Job, Limits, Roller
from noria.tokens.renderer import Renderer


@pytest.fixture(scope="module")
def three() -> list[Task]:
    return LedgerWorld(Config()).tasks("train", 3, 5)


PLACES = ["open", "policy", "act 1", "act 2", "act 3"]


@pytest.mark.parametrize("place", PLACES)
def test_a_scripted_rollout_that_fails_closes_what_it_opened(renderer: Renderer, three: list[Task], place: str) -> None:
    world = Fragile({three[1].id: place})
    roller = Roller({"ledger": world}, renderer, None, Limits(), 2)
    found = finish(roller, [Job(t.id, t, 0, "careful") for t in three])
    lost = found[three[1].id]
    assert lost.outcome == Outcome.unknown(f"SandboxError: {place} failed") and lost.stop == "sandbox"
    assert found[three[0].id].solved and found[three[2].id].solved
    assert world.open_now == []


@pytest.mark.parametrize("place", [p for p in PLACES if p != "policy"])
def test_a_sampled_rollout_that_fails_closes_what_it_opened(renderer: Renderer, three: list[Task], place: str) -> None:
    world, engine = Fragile({three[1].id: place}), Reciter(renderer)
    roller = Roller({"ledger": world}, renderer, engine, Limits(), 3)
    found = finish(roller, [Job(t.id, t, 0) for t in three])
    lost = found[three[1].id]
    assert lost.outcome == Outcome.unknown(f"SandboxError: {place} failed") and lost.stop == "sandbox"
    for task in (three[0], three[2]):
        assert [turn.message for turn in found[task.id].turns] == list(SAID) and found[task.id].outcome.known
    assert world.open_now == [] and engine.said == {}


def test_an_engine_that_refuses_a_sequence_leaves_nothing_open(renderer: Renderer, three: list[Task]) -> None:
    world, engine = Fragile({}), Reciter(renderer, full=1)
    roller = Roller({"ledger": world}, renderer, engine, Limits(), 3)
    found = finish(roller, [Job(t.id, t, 0, hint=Hint(t.id, "List.", "List.")) for t in three])
    assert [found[t.id].outcome.known for t in three] == [True, False, False]
    assert found[three[2].id].outcome.reason == "SandboxError: engine is full"
    assert world.open_now == [] and engine.said == {}


@pytest.mark.parametrize("place", ["open", "act 1", "act 2", "fork", "diverged"])
def test_a_continuation_that_fails_leaves_nothing_open(renderer: Renderer, three: list[Task], place: str) -> None:
    world, engine = Fragile({}), Reciter(renderer)
    roller = Roller({"ledger": world}, renderer, engine, Limits(), 3)
    starts = finish(roller, [Job(f"start-{t.id}", t, 0, script=SAID) for t in three])
    assert world.open_now == []
    sick = starts[f"start-{three[1].id}"]
    if place == "diverged":
        sick = replace(sick, turns=(replace(sick.turns[0], observation="else"), *sick.turns[1:]))
    else:
        world.faults[three[1].id] = place
    sound = [starts[f"start-{three[k].id}"] for k in (0, 2)]
    jobs = [Job(f"{t.id}#{i}", t.task, i, start=t, start_turn=2) for t in (sound[0], sick, sound[1]) for i in (0, 1)]
    found = finish(roller, jobs)
    for job in jobs:
        assert found[job.id].outcome.known == (job.start is not sick), job.id
        if job.start is sick:
            assert place in found[job.id].outcome.reason and found[job.id].stop == "sandbox"
    assert world.open_now == [] and engine.said == {}


def test_an_episode_that_cannot_be_closed_keeps_its_outcome(renderer: Renderer, three: list[Task]) -> None:
    world = Fragile({t.id: "close" for t in three})
    roller = Roller({"ledger": world}, renderer, Reciter(renderer), Limits(), 3)
    found = finish(roller, [Job("scripted", three[0], 0, "careful"), Job("sampled", three[1], 0)])
    assert found["scripted"].solved and found["sampled"].outcome.known
    roller.submit([Job(str(k), t, 0) for k, t in enumerate(three)])
    roller.step()
    assert len(world.open_now) == 3
    roller.clear()
    assert world.open_now == [] and roller.engine.said == {}


@pytest.mark.parametrize("strategy", ["careful", ""])
def test_a_users_fault_ends_the_run_with_every_episode_closed(
    renderer: Renderer, three: list[Task], strategy: str
) -> None:
    world = Fragile({three[1].id: "act 1"}, UserError)
    roller = Roller({"ledger": world}, renderer, Reciter(renderer), Limits(), 3)
    roller.submit([Job(t.id, t, 0, strategy) for t in three])
    with pytest.raises(UserError, match="act 1 failed"):
        while roller.pending:
            roller.step()
    roller.clear()
    assert world.open_now == [] and roller.engine.said == {}
