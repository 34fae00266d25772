"""Contexts that change on the way: what a branch holds, what is trained, and what the world has heard."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from roller_helpers import LIST, SUBMIT, Fragile, finish

from noria.contexts import restart, self_check, window
from noria.contexts.base import View
from noria.core.protocols import Completion
from noria.core.types import Task, Trajectory, Turn
from noria.envs.ledger.world import Config, LedgerWorld
from noria.stages.jobs import Job, Limits, parts, said
from noria.stages.roller import Roller
from noria.tokens.record import authored
from noria.tokens.renderer import Renderer


class Speaker:
    """An engine that says these messages in turn in every sequence, and remembers the contexts it was given."""

    version = 0

    def __init__(self, renderer: Renderer, *messages: str) -> None:
        self.renderer, self.messages = renderer, messages
        self.at: dict[int, int] = {}
        self.contexts: dict[int, list[int]] = {}
        self.opened: list[int] = []
        self.waiting: list[int] = []
        self.seeds: list[int] = []

    def add(self, seq: int, ids: Sequence[int], max_new: int, seed: int) -> None:
        assert max_new >= 1
        if seq not in self.contexts:
            self.opened.append(seq)
            self.contexts[seq] = []
            self.seeds.append(seed)
        self.contexts[seq] += ids
        self.waiting.append(seq)

    def step(self) -> list[Completion]:
        done, self.waiting = self.waiting, []
        out = []
        for seq in done:
            said = self.at.setdefault(seq, 0)
            self.at[seq] += 1
            ids = self.renderer.message(self.messages[said % len(self.messages)])
            self.contexts[seq] += ids
            out.append(Completion(seq, ids, tuple(-0.1 * (said + 1) for _ in ids), (said,) * len(ids), "end"))
        return out

    def drop(self, seq: int) -> None:
        self.contexts.pop(seq, None)


@pytest.fixture(scope="module")
def task() -> Task:
    return LedgerWorld(Config()).tasks("train", 1, 5)[0]


def played(renderer: Renderer, task: Task, rule: object, *messages: str, **limits: int) -> tuple[Trajectory, Speaker]:
    engine = Speaker(renderer, *messages)
    world = Fragile({})
    roller = Roller({"ledger": world}, renderer, engine, Limits(**{"max_tokens": 4000, **limits}), 2, (), rule)  # type: ignore[arg-type]
    (found,) = finish(roller, [Job("a", task, 3)]).values()
    assert world.open_now == [] and engine.contexts == {}
    return found, engine


def check(renderer: Renderer, t: Trajectory) -> None:
    """What holds of every rollout: each message is trained once, where it was said, with its own log-probabilities."""
    for part in parts(t):
        assert authored(part.record) == part.record.mask
        for k, turn in enumerate(part.turns):
            ids = part.record.ids[turn.token_start : turn.token_end]
            if ids:
                assert renderer.heard(renderer.decode(ids)) == turn.message
                assert set(part.record.mask[turn.token_start : turn.token_end]) == {1}
                assert set(part.record.turns[turn.token_start : turn.token_end]) == {k}
    spans = [sum(p.turns[k].token_end > 0 for p in parts(t)) for k in range(len(t.turns))]
    assert spans == [1] * len(t.turns)
    assert [one.turn.message for one in said(t)] == [turn.message for turn in t.turns]
    assert t.action_tokens == sum(sum(p.record.mask) for p in parts(t))


def test_a_window_keeps_the_newest_observations_and_all_that_was_said(renderer: Renderer, task: Task) -> None:
    rule = window.build(window.Config(keep=2, placeholder="[gone]"))
    t, engine = played(renderer, task, rule, LIST, LIST, LIST, LIST, SUBMIT)
    plain, _ = played(renderer, task, None, LIST, LIST, LIST, LIST, SUBMIT)
    check(renderer, t)
    assert [turn.message for turn in t.turns] == [turn.message for turn in plain.turns]
    assert [turn.observation for turn in t.turns] == [turn.observation for turn in plain.turns]
    assert (t.outcome, t.stop, t.action_tokens) == (plain.outcome, plain.stop, plain.record.action_tokens)
    assert [(b.first, len(b.turns), b.reason) for b in t.branches] == [(0, 3, "window"), (3, 1, "window")]
    seen = t.turns[0].observation
    want = renderer.prompt(task).ids
    for k, turn in enumerate(t.turns[:4]):
        want += renderer.message(turn.message) + renderer.observation("[gone]" if k < 2 else seen).ids
    assert t.record.ids == want + renderer.message(SUBMIT)
    assert len(set(engine.seeds)) == 3


def test_a_window_that_slides_by_more_makes_fewer_branches(renderer: Renderer, task: Task) -> None:
    rule = window.build(window.Config(keep=1, slide=2))
    t, _ = played(renderer, task, rule, *[LIST] * 6, SUBMIT)
    check(renderer, t)
    assert [(b.first, len(b.turns)) for b in t.branches] == [(0, 3), (3, 2)]


def test_a_restart_goes_on_from_the_policys_own_summary(renderer: Renderer, task: Task) -> None:
    prompt, turn = len(renderer.prompt(task).ids), len(renderer.message(LIST))
    rule = restart.build(restart.Config(begin=0.2, rise=0.1, end=1.0, question="Sum up."))
    summary = f"<think>hm</think>Done: one{LIST}"
    t, _ = played(renderer, task, rule, LIST, summary, SUBMIT, max_tokens=int((prompt + turn + 2) / 0.2) - 1)
    check(renderer, t)
    (branch,) = t.branches
    assert (branch.first, len(branch.turns), branch.reason) == (0, 1, "restart")
    assert branch.note == "Your progress so far:\nDone: one"
    assert "Sum up." in renderer.tokenizer.decode(list(branch.record.ids))
    ids = renderer.message(summary)
    assert branch.record.ids[-len(ids) :] == ids and branch.record.mask[-len(ids) :] == (1,) * len(ids)
    opening = renderer.tokenizer.decode(list(t.record.ids))
    assert "Your progress so far:\nDone: one" in opening and "hm" not in opening
    assert [turn.message for turn in t.turns] == [LIST, SUBMIT] and t.stop == "done" and t.outcome.known


def test_the_threshold_rises_from_restart_to_restart() -> None:
    rule = restart.build(restart.Config(begin=0.5, rise=0.1, end=0.8))
    due = [
        min(n for n in range(101) if rule.heard(View(Task("t", "w", "", ""), (), n, 100, b)) is not None)
        for b in range(6)
    ]
    assert due == [50, 60, 70, 80, 80, 80]


def test_a_script_sums_up_by_rule(renderer: Renderer, task: Task) -> None:
    world = LedgerWorld(Config())
    rule = restart.build(restart.Config(begin=0.01, rise=0.0, scripted_words=2))
    plain = Roller({"ledger": world}, renderer, None, Limits(max_tokens=4000), 1).play(Job("a", task, 1, "careful"))
    t = Roller({"ledger": world}, renderer, None, Limits(max_tokens=4000), 1, (), rule).play(
        Job("a", task, 1, "careful")
    )
    assert len(t.branches) >= 1 and t.solved and not any(t.record.mask)
    assert [turn.message for turn in t.turns] == [turn.message for turn in plain.turns]
    note = t.branches[0].note.splitlines()
    assert note[:2] == ["Your progress so far:", "Done:"]
    own = sum(sum(authored(p.record)) for p in parts(t))
    assert own > sum(authored(plain.record))  # the summaries too


def test_a_failed_check_redoes_the_task_in_a_world_as_it_was(renderer: Renderer, task: Task) -> None:
    rule = self_check.build(self_check.Config(tries=2, question="Well?"))
    t, _ = played(renderer, task, rule, LIST, SUBMIT, "FAIL: not all", SUBMIT, "PASS")
    check_messages = [[turn.message for turn in p.turns] for p in t.branches]
    assert check_messages == [[LIST, SUBMIT]]
    assert [turn.message for turn in t.turns] == [SUBMIT] and t.stop == "done"
    (branch,) = t.branches
    assert (branch.first, branch.reason) == (-1, "self_check")
    assert branch.note.endswith("\nnot all")
    assert "not all" in renderer.tokenizer.decode(list(t.record.ids))
    trained = sum(len(renderer.message(m)) for m in (LIST, SUBMIT, "FAIL: not all", SUBMIT, "PASS"))
    assert t.action_tokens == trained
    assert [turn.token_end > 0 for p in parts(t) for turn in p.turns] == [False, True]


@pytest.mark.parametrize(
    ("said_of_it", "note"),
    [("PASS", None), ("no word", None), ("PASS, no FAIL", None), ("FAIL - x", "x"), ("<think>PASS</think>FAIL", "")],
)
def test_what_a_verdict_says(said_of_it: str, note: str | None) -> None:
    rule = self_check.build(self_check.Config())
    fresh = rule.told(View(Task("t", "w", "", ""), (Turn("m", "o"),), 1, 100, 0), said_of_it)
    assert (None if fresh is None else fresh.note.split("\n", 1)[1]) == note
    assert fresh is None or fresh.redo


def test_tries_and_turns_of_all_tries_are_bounded(renderer: Renderer, task: Task) -> None:
    rule = self_check.build(self_check.Config(tries=2))
    t, _ = played(renderer, task, rule, SUBMIT, "FAIL", SUBMIT, "FAIL", SUBMIT)
    assert len(t.branches) == 2 and t.stop == "done"
    t, _ = played(renderer, task, rule, LIST, SUBMIT, "FAIL", LIST, max_turns=3)
    assert t.stop == "turn_limit" and [len(b.turns) for b in t.branches] == [2] and len(t.turns) == 1


def test_a_rollout_goes_on_from_the_middle_of_an_earlier_branch(renderer: Renderer, task: Task) -> None:
    rule = window.build(window.Config(keep=2))
    t, _ = played(renderer, task, rule, LIST, LIST, LIST, LIST, SUBMIT)
    for k in range(5):
        engine = Speaker(renderer, *[LIST] * (4 - k), SUBMIT)
        roller = Roller({"ledger": LedgerWorld(Config())}, renderer, engine, Limits(max_tokens=4000), 2, (), rule)
        (again,) = finish(roller, [Job("b", task, 9, start=t, start_turn=k)]).values()
        assert [turn.message for turn in again.turns] == [turn.message for turn in t.turns]
        assert again.record.ids == t.record.ids and again.outcome == t.outcome
        own = sum(len(renderer.message(turn.message)) for turn in t.turns[k:])
        assert again.action_tokens == own
