"""The decoding loop over a real engine with a random model that never ends a turn by itself."""

from __future__ import annotations

import queue
from functools import partial
from typing import Any

import pytest
import torch
from architectures import NAMES, tiny_model

from noria.core.errors import UserError
from noria.engines.embedded import Config
from noria.engines.serving import Given, ServingEngine, Settings, Token, nucleus
from noria.server.errors import ApiError
from noria.server.loop import DecodingLoop, Done, Failed, Job, Scores

SLOTS = 3


@pytest.fixture
def engine(random_model: Any) -> ServingEngine:
    return ServingEngine(random_model, [], Config(slots=SLOTS, max_tokens=200, prefill_rows=2))


class Desk:
    """A loop whose events are gathered by job until it is told to look."""

    def __init__(self, engine: Any, waiting: int = 8) -> None:
        self.events: queue.Queue[Any] = queue.Queue()
        self.logged: list[str] = []
        self.loop = DecodingLoop(engine, SLOTS, waiting, self.logged.append)

    def job(self, *ids: int, new: int = 5, score: int | None = None, **settings: Any) -> Job:
        return Job(0, ids, new, Settings(**settings), None, score)

    def run(self, *jobs: Job) -> list[list[Any]]:
        """Events of each job, up to its end."""
        self.loop.submit(jobs)
        found: list[list[Any]] = [[] for _ in jobs]
        left = len(jobs)
        while left:
            for job, event in self.events.get(timeout=60):
                found[jobs.index(job)].append(event)
                left -= isinstance(event, Done | Failed)
        return found

    def __enter__(self) -> Desk:
        self.loop.start(self.events.put)
        return self

    def __exit__(self, *fault: object) -> None:
        self.loop.close()


def ids_of(events: list[Any]) -> list[int]:
    return [event.id for event in events if isinstance(event, Token)]


def test_more_jobs_than_slots_all_end_and_draw_what_they_would_alone(engine: ServingEngine) -> None:
    with Desk(engine) as desk:
        jobs = [desk.job(4, 5, 6 + k, new=3 + k, seed=k, temperature=0.5 + 0.2 * k) for k in range(7)]
        together = desk.run(*jobs)
        alone = [desk.run(desk.job(*job.ids, new=job.max_new, seed=k, temperature=0.5 + 0.2 * k))[0]
                 for k, job in enumerate(jobs)]  # fmt: skip
    assert [ids_of(events) for events in together] == [ids_of(events) for events in alone]
    assert [len(ids_of(events)) for events in together] == [3, 4, 5, 6, 7, 8, 9]
    assert all(events[-1] == Done("length") for events in together)
    assert desk.loop.busy == 0 and engine.free == SLOTS


def test_a_cancelled_job_leaves_its_slot_after_the_step(engine: ServingEngine) -> None:
    desk = Desk(engine)
    job, after = desk.job(1, 2, 3, new=150), desk.job(3, 2, 1, new=2)
    seen: list[Any] = []

    def post(bundle: list[Any]) -> None:
        seen.extend(bundle)
        if len(seen) == 1:
            desk.loop.cancel([job])
            desk.loop.submit([after])
        elif isinstance(bundle[-1][1], Done):
            desk.events.put(None)

    desk.loop.start(post)
    desk.loop.submit([job])
    desk.events.get(timeout=60)
    desk.loop.close()
    assert [owner for owner, _ in seen] == [job, after, after, after]
    assert engine.free == SLOTS and desk.loop.busy == 0


def test_a_full_loop_and_a_stopping_one_refuse(engine: ServingEngine) -> None:
    desk = Desk(engine, waiting=2)
    desk.loop.submit([desk.job(1)] * 4)
    with pytest.raises(ApiError, match="4 of 5 places are taken, 2 are needed") as full:
        desk.loop.submit([desk.job(1)] * 2)
    assert (full.value.status, full.value.headers) == (429, {"retry-after": "1"})
    desk.loop.stop()
    with pytest.raises(ApiError) as stopping:
        desk.loop.submit([desk.job(1)])
    assert stopping.value.status == 503


def test_a_fault_of_the_engine_is_told_to_everybody_and_the_next_job_works(engine: ServingEngine) -> None:
    with Desk(engine) as desk:
        bad = desk.run(desk.job(1, 2), desk.job(1, 999, score=0), desk.job(3))
        good = desk.run(desk.job(4, 5, new=2))[0]
    assert all(isinstance(events[-1], Failed) for events in bad)
    assert "IndexError" in desk.logged[0] and len(ids_of(good)) == 2 and desk.loop.busy == 0


def reference(model: Any, ids: list[int]) -> torch.Tensor:
    """Log-probabilities [T, V] after each token, by a plain forward pass."""
    with torch.no_grad():
        return torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0].float(), -1)


def test_errands_between_steps_are_done_in_turn_and_their_faults_are_their_own(engine: ServingEngine) -> None:
    def fail(fault: Exception) -> None:
        raise fault

    def renew() -> None:
        engine.version = 7

    with Desk(engine) as desk:
        for fault in (UserError("bad weights"), ValueError("odd")):
            with pytest.raises(type(fault), match=str(fault)):
                desk.loop.between(partial(fail, fault)).result(60)
        desk.loop.between(renew).result(60)
        (events,) = desk.run(desk.job(1, 2, new=3))
    assert [event.version for event in events if isinstance(event, Token)] == [7, 7, 7]
    assert desk.loop.between(renew).cancelled()


@pytest.mark.parametrize("new", [0, 1, 4])
def test_scores_are_those_of_a_plain_forward_pass(engine: ServingEngine, random_model: Any, new: int) -> None:
    rows = [[4, 5, 6], [9], [3, 1, 4, 1, 5, 9, 2, 6]]
    with Desk(engine) as desk:
        found = desk.run(*(desk.job(*ids, new=new, score=3, temperature=0.0, top=2) for ids in rows))
    for ids, events in zip(rows, found, strict=True):
        scores, *rest = events
        assert isinstance(scores, Scores) and len(ids_of(rest)) == new and rest[-1] == Done("length")
        whole = ids + ids_of(rest)
        logp = reference(random_model, whole)
        tokens = [*scores.tokens, *rest[:-1]]
        for token, row, wanted in zip(tokens[: len(ids) - 1], logp, ids[1:], strict=False):
            assert (token.id, token.rank) == (wanted, 1 + int((row > row[wanted]).sum()))
            assert token.logp == pytest.approx(float(row[wanted]), abs=1e-4)
            best = row.topk(3)
            assert [i for i, _ in token.top] == best.indices.tolist()
            assert [p for _, p in token.top] == pytest.approx(best.values.tolist(), abs=1e-4)
        for token, row in zip(rest[:-1], logp[len(ids) - 1 :], strict=False):
            assert token.id == int(row.argmax()) and token.rank == 1 and len(token.top) == 2


@pytest.mark.parametrize("name", NAMES)
def test_every_architecture_is_scored_and_decoded_as_by_itself(name: str) -> None:
    model = tiny_model(name)
    rows = [[4, 5, 6], [9] * 11, [8, 2], [1, 30, 22, 5, 40], [7]]
    with Desk(ServingEngine(model, [], Config(slots=SLOTS, max_tokens=80, prefill_rows=2))) as desk:
        found = desk.run(*(desk.job(*ids, new=6, score=0, temperature=0.0) for ids in rows))
    for ids, (scores, *rest) in zip(rows, found, strict=True):
        whole = [*ids, *ids_of(rest)]
        logp = reference(model, whole)
        wanted = [float(row[token]) for row, token in zip(logp, whole[1:], strict=False)]
        assert [*(t.logp for t in scores.tokens), *(t.logp for t in rest[:-1])] == pytest.approx(wanted, abs=1e-4)
        assert whole[len(ids) :] == logp[len(ids) - 1 : -1].argmax(-1).tolist()


def test_scoring_in_chunks_changes_nothing(engine: ServingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [Given(tuple(range(1, 30)), 2, Settings())]
    whole = engine.score(given)
    monkeypatch.setattr("noria.engines.serving.CHUNK", 50 * 4)
    ((tokens, after),) = engine.score(given)
    assert [t.id for t in tokens] == list(range(2, 30)) and after == whole[0][1]
    assert [t.logp for t in tokens] == pytest.approx([t.logp for t in whole[0][0]], abs=1e-6)


def test_the_nucleus_is_the_fewest_tokens_that_hold_the_mass() -> None:
    generator = torch.Generator().manual_seed(0)
    logp = torch.log_softmax(3 * torch.randn(6, 40, generator=generator), -1)
    top_p = torch.tensor([0.1, 0.5, 0.9, 0.999, 1.0, 1e-6])
    kept = nucleus(logp, top_p)
    for row, found, p in zip(logp, kept, top_p.tolist(), strict=True):
        mass, wanted = 0.0, set()
        for token in row.argsort(descending=True).tolist():
            if mass >= p and p < 1:
                break
            mass += float(row[token].exp())
            wanted.add(token)
        assert set(torch.isfinite(found).nonzero()[:, 0].tolist()) == wanted
        assert torch.equal(found[sorted(wanted)], row[sorted(wanted)])
    assert torch.equal(nucleus(logp, torch.ones(6)), logp)
