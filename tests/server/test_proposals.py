"""The supervisor's model behind a real server: the project's own, which answers as a tiny model does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from serving import Served

from noria.core.recipe import load
from noria.core.types import Pair
from noria.envs import ledger
from noria.stages import analyze, propose
from noria.stages.roller import Job, Limits, Roller
from noria.tokens.renderer import Renderer

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "quickstart.toml"
KEY = "k-asked"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    arguments = ("--max-model-len", "1024", "--slots", "2", "--api-key-env", "NORIA_TEST_KEY")
    with Served("builtin:tiny", *arguments, key=KEY) as running:
        yield running


@pytest.fixture(scope="module")
def pairs(renderer: Renderer) -> list[Pair]:
    """A solved and a failed attempt at each of two tasks; the failures say what no world accepts."""
    world = ledger.build(ledger.Config(), None)
    roller = Roller({"ledger": world}, renderer, None, Limits(), 1)
    found = []
    for task in world.tasks("train", 2, 5):
        right = roller.play(Job(f"{task.id}/right", task, 0, "careful"))
        wrong = roller.play(Job(f"{task.id}/wrong", task, 0, script=('<call name="submit"></call>',)))
        assert right.solved and wrong.outcome.reward == 0.0
        found.append(Pair(task, right, wrong))
    return found


def context(server: Served, renderer: Renderer, key_name: str, tokens: int) -> SimpleNamespace:
    engine = (
        f'{{type = "openai", base_url = "{server.url}", model = "builtin:tiny", api_key_env = "{key_name}", '
        f"max_output_tokens = {tokens}, max_retries = 1, concurrency = 2, temperature = 1.0}}"
    )
    recipe = load([RECIPE], [f'supervisor={{type = "model", engine = {engine}}}'])
    return SimpleNamespace(recipe=recipe, renderer=renderer)


def test_whatever_a_served_model_answers_is_handled(
    server: Served, renderer: Renderer, pairs: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASKED_KEY", KEY)
    ctx = context(server, renderer, "ASKED_KEY", 24)
    found = propose.proposals(ctx, pairs)  # type: ignore[arg-type]
    assert list(found) == [pair.task.id for pair in pairs]
    for pair in pairs:
        proposal = found[pair.task.id]
        # The model answered each time, or the questions would have ended with the first: it was told, and asked again.
        assert proposal.actions or (proposal.asked == 2 and "status" not in proposal.fault)
        assert bool(proposal.actions) != bool(proposal.fault)
        told = {side: proposal.reasons(side) for side in ("right", "wrong")}
        for trajectory, reasons in ((pair.right, told["right"]), (pair.wrong, told["wrong"])):
            assert set(reasons) <= set(range(len(trajectory.turns)))
            assert bool(analyze.points(ctx, trajectory, pair, reasons)) == bool(reasons)  # type: ignore[arg-type]
        text = propose.section(proposal, pair, (), ())
        assert ("Nothing usable in 2 answer(s)" in text) == (not proposal.actions)


def test_a_question_that_the_model_cannot_hold_is_no_proposal(
    server: Served, renderer: Renderer, pairs: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASKED_KEY", KEY)
    found = propose.proposals(context(server, renderer, "ASKED_KEY", 4000), pairs[:1])  # type: ignore[arg-type]
    (proposal,) = found.values()
    assert proposal.actions == () and proposal.asked == 1
    assert proposal.fault.startswith("status 400 from") and KEY not in proposal.fault
