"""Pairs, marks and hints: who is compared with whom, what moved success, what may be said about it."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from stage_helpers import rolled

from noria.core.types import Analysis, Hint, KeyAction, Outcome, Task
from noria.stages.analyze import Point, Value, mark, tally
from noria.stages.hint import leaks_answer, make_hint, ngrams, random_hint, world_calls, world_kinds
from noria.stages.narrate import confidence
from noria.stages.pair import common_turns, make_pairs
from noria.stages.roller import Job

A, B = Task("a", "ledger", "", "do a"), Task("b", "ledger", "", "do b")


def attempt(name: str, reward: float | None, *messages: str, task: Task = A, source: str = "student"):
    return rolled(reward, messages, task=task, source=source, name=name)


def test_a_pair_is_a_failure_and_its_closest_success() -> None:
    wrong = attempt("w", 0.0, "look", "pay 3", "submit")
    near = attempt("near", 1.0, "look", "pay 2", "check", "submit", source="teacher:t")
    far = attempt("far", 1.0, "list", "submit", source="teacher:t")
    (pair,) = make_pairs([far, attempt("later", 0.0, "list"), near, wrong][::-1])
    assert (pair.task, pair.wrong.id, pair.right.id) == (A, "w", "near")
    # As near, but shorter.
    short = attempt("short", 1.0, "look", "pay 2", "submit")
    assert make_pairs([wrong, near, short, far])[0].right.id == "short"


def test_no_pair_without_a_known_failure_of_the_student_and_a_success() -> None:
    right, teacher = attempt("r", 1.0, "x"), attempt("t", 1.0, "y", source="teacher:t")
    assert make_pairs([right, teacher]) == []
    assert make_pairs([attempt("u", None, "x"), teacher]) == []
    assert make_pairs([attempt("w", 0.0, "x"), attempt("w2", 0.0, "y")]) == []
    assert make_pairs([attempt("w", 0.0, "x"), attempt("tw", 0.0, "y", source="teacher:t")]) == []
    assert make_pairs([teacher, attempt("wt", 0.0, "z", source="teacher:t")]) == []
    assert make_pairs([attempt("w", 0.0, "x"), attempt("other", 1.0, "x", task=B)]) == []
    lost = replace(attempt("lost", 0.0, "x"), turns=())
    assert make_pairs([lost, teacher]) == []


def test_one_pair_per_task() -> None:
    found = make_pairs(
        [attempt(f"{t.id}{r}{k}", r, f"m{r}", task=t) for t in (A, B) for r in (0.0, 1.0) for k in range(3)]
    )
    assert [(p.task.id, p.wrong.id, p.right.id[:4]) for p in found] == [("a", "a0.00", "a1.0"), ("b", "b0.00", "b1.0")]


def test_turns_in_common() -> None:
    assert common_turns(attempt("x", 0.0, "1", "2", "3"), attempt("y", 0.0, "1", "2", "4", "3")) == 2
    assert common_turns(attempt("x", 0.0, "1"), attempt("y", 0.0, "1", "2")) == 1
    assert common_turns(attempt("x", 0.0, "0"), attempt("y", 0.0, "1")) == 0


def test_successes_are_counted_by_place_and_unknown_ones_are_not() -> None:
    replays = [
        attempt("a/weak/0@12#0", 1.0, "x"),
        attempt("a/weak/0@12#1", 0.0, "x"),
        attempt("a/weak/0@12#2", None, "x"),
        attempt("a/weak/0@30#0", None, "x"),
        attempt("x@y/0@12#0", 1.0, "x"),
    ]
    assert tally(replays) == {
        ("a/weak/0", 12): Value(1, 2),
        ("a/weak/0", 30): Value(0, 0),
        ("x@y/0", 12): Value(1, 1),
    }
    assert Value(1, 2).rate == 0.5 and Value(0, 0).rate == 0.0


def test_marks_say_what_each_action_did_to_the_chance_of_success(ctx, scripted, tasks):
    task = tasks["ledger"][0]
    t = scripted.play(Job("right", task, 0, "careful", source="teacher:careful"))
    tried = ctx.recipe.supervisor.continuations
    plan = [Point(k, turn.token_start) for k, turn in enumerate(t.turns)]
    solved = [min(tried, k) for k in range(len(plan))]
    values = {(t.id, p.token): Value(s, tried) for p, s in zip(plan, solved, strict=True)}
    found = mark(ctx, t, plan, values)
    assert [m.turn for m in found] == list(range(len(plan)))
    for k, m in enumerate(found):
        after = tried if k + 1 == len(plan) else solved[k + 1]  # the last action ends in the outcome itself
        assert (m.solved_before, m.tried_before, m.solved_after, m.tried_after) == (solved[k], tried, after, tried)
        assert m.shift == pytest.approx((after - solved[k]) / tried)
        assert (m.token_start, m.token_end) == (t.turns[k].token_start, t.turns[k].token_end)
        assert m.kind == ctx.worlds["ledger"].kind(t.turns[k].message) and m.trajectory_id == "right"
        assert f"from {solved[k]}/{tried} to {after}/{tried}" in m.why
    failed = replace(t, outcome=Outcome(0.0))
    assert mark(ctx, failed, plan, values)[-1].solved_after == 0


def test_confidence_is_the_chance_that_the_rate_moved() -> None:
    assert confidence(4, 8, 4, 8) == 0.5
    assert confidence(0, 8, 8, 8) > 0.999
    assert confidence(0, 8, 8, 8) == confidence(8, 8, 0, 8)
    assert 0.5 < confidence(3, 8, 5, 8) < confidence(2, 8, 6, 8) < confidence(4, 16, 12, 16)
    # Beta posteriors sampled at random give the same number.
    rng = random.Random(0)
    ahead = sum(rng.betavariate(7, 3) > rng.betavariate(3, 7) for _ in range(20_000)) / 20_000
    assert confidence(2, 8, 6, 8) == pytest.approx(ahead, abs=0.02)


def analysed(task: Task, *marks: tuple[str, int, int, float]) -> Analysis:
    """Marks as (kind, solved before of 8, solved after of 8, confidence)."""
    actions = tuple(KeyAction("w", 0, 0, 1, kind, "", sure, before, 8, after, 8) for kind, before, after, sure in marks)
    return Analysis(task.id, "r", "w", 0, actions, "", "", 0, 0)


def test_kinds_are_ordered_by_what_they_moved_in_sum(ctx) -> None:
    pairs = make_pairs([attempt(f"{t.id}{r}", r, f"{r}", task=t) for t in (A, B) for r in (0.0, 1.0)])
    analyses = [
        analysed(A, ("get", 0, 4, 1.0), ("submit", 6, 1, 0.5), ("transfer", 2, 3, 0.9)),
        analysed(B, ("submit", 8, 0, 0.5), ("get", 4, 5, 0.2)),
    ]
    # submit 0.3125 + 0.5, get 0.5 + 0.025, transfer 0.1125
    assert world_kinds(ctx, analyses, pairs) == {"ledger": ["submit", "get", "transfer"], "arithmetic": []}


def test_what_harmed_a_failure_is_advised_on_before_what_helped() -> None:
    pairs = make_pairs([attempt(f"{t.id}{r}", r, f"{r}", task=t) for t in (A, B) for r in (0.0, 1.0)])
    remedies = {"get": "list", "submit": "transfer"}
    there = SimpleNamespace(worlds={"ledger": SimpleNamespace(remedies=remedies)})
    helped = analysed(A, ("open", 0, 8, 1.0), ("close", 0, 8, 1.0), ("get", 0, 8, 1.0))
    harm = analysed(B, ("get", 3, 1, 0.5), ("submit", 3, 2, 0.6), ("freeze", 2, 1, 0.6), ("open", 0, 1, 0.1))
    # Harm: list 0.125, transfer and freeze 0.075 each. Help: open 1.0125, close and get 1.0 each.
    want = ["list", "freeze", "transfer", "open", "close", "get"]
    assert world_calls(there, [helped, harm], pairs) == {"ledger": want}
    assert world_calls(there, [harm, helped], pairs[::-1]) == {"ledger": want}
    # What lowered the chance of the right trajectory did no harm that lasted.
    right = replace(harm, marks=tuple(replace(m, trajectory_id="r") for m in harm.marks))
    assert world_calls(there, [helped, right], pairs)["ledger"][:3] == ["open", "close", "get"]


def test_a_hint_follows_the_strongest_mark_that_the_world_can_advise_on(ctx, scripted, tasks):
    task, advice = tasks["ledger"][0], ctx.worlds["ledger"].advice
    right = scripted.play(Job("r", task, 0, "careful"))
    wrong = scripted.play(Job("w", task, 0, "quit"))
    (pair,) = make_pairs([right, wrong])
    marks = analysed(task, ("get", 0, 2, 0.9), ("submit", 7, 0, 0.9), ("no such kind", 8, 0, 1.0))
    hint = make_hint(ctx, pair, marks, ["list"], random.Random(0))
    assert hint is not None and hint.kinds == ("submit",) and hint.text in advice["submit"]
    assert hint.task_id == task.id and hint.thought == hint.text
    # Without marks of its own the task gets the advice that its world calls for most; without any, none.
    other = make_hint(ctx, pair, None, ["no such kind", "list", "get"], random.Random(0))
    assert other is not None and other.kinds == ("list",)
    assert make_hint(ctx, pair, None, [], random.Random(0)) is None
    control = random_hint(ctx, pair, random.Random(0))
    said = {ctx.worlds["ledger"].kind(turn.message) for t in (right, wrong) for turn in t.turns}
    assert control.kinds[0] in said and control.text in advice[control.kinds[0]]


def test_a_hint_that_gives_words_of_the_solution_away_leaks() -> None:
    right = attempt("r", 1.0, "<think>move ten from A1 to B2</think>", "then submit it")
    for text, n, leaks in (
        ("Move TEN, from a1!", 4, True),
        ("move ten from C3 to B2", 4, False),
        ("move ten from C3 to B2", 3, True),
        ("B2 then submit", 3, False),
        ("read first", 2, False),
        ("move", 2, False),
    ):
        assert leaks_answer(Hint("a", text, ""), right, n) == leaks, text
        assert leaks_answer(Hint("a", "", text), right, n) == leaks, text


def test_runs_of_words() -> None:
    assert ngrams("A-1, b  <c>d", 2) == {("a", "1"), ("1", "b"), ("b", "c"), ("c", "d")}
    assert ngrams("one two", 3) == set()
