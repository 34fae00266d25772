"""From hinted rollouts to a training set: the hint goes, errors carry no loss, copies and contamination are dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage_helpers import rolled

from noria.core.types import Trajectory
from noria.stages import curate, masking
from noria.stages import rows as rows_of
from noria.stages.roller import Job
from noria.tokens.calls import parse, render_call

LIST = render_call("list")
THOUGHT = "First call list, then act."


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (f"<think>{THOUGHT}</think>{LIST}", LIST),
        (f"<think>{THOUGHT} read first</think>{LIST}", f"<think>read first</think>{LIST}"),
        (f"<think>{THOUGHT}7+5=12</think>12", "<think>7+5=12</think>12"),
        (f"<think>read first</think>{LIST}", f"<think>read first</think>{LIST}"),
        (LIST, LIST),
    ],
)
def test_the_given_thought_is_stripped(said: str, left: str) -> None:
    assert curate.strip(rolled(1.0, (said, LIST)), THOUGHT) == [left, LIST]
    assert curate.strip(rolled(1.0, (said, LIST)), "") == [said, LIST]


@given(st.text("abc .+=0", max_size=12), st.text("xyz 12", min_size=1, max_size=8))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_stripping_leaves_the_rest_of_the_message(own: str, answer: str) -> None:
    message = f"<think>{THOUGHT}{own}</think>{answer}"
    (left,) = curate.strip(rolled(1.0, (message,)), THOUGHT)
    assert THOUGHT not in left
    before, after = parse(message), parse(left)
    assert after.answer == before.answer and after.calls == before.calls
    assert before.think == (THOUGHT + own).strip() and after.think == own.strip()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([LIST, render_call("submit")], ""),
        (["<think>2+3=5</think>5"], ""),
        ([LIST, "<think>on and on"], "format"),
        (["<call name=list></call>"], "format"),
        (["<think>nothing follows</think>"], "format"),
        ([""], "format"),
    ],
)
def test_what_has_no_form_is_not_learnt(script: list[str], reason: str) -> None:
    assert curate.fault(script) == reason


def dropped(ctx, scripts) -> tuple[list[Trajectory], Counter]:
    left: Counter[str] = Counter()
    return [t for t, _ in curate._unlike(ctx, scripts, left)], left


def played(scripted, task, strategy: str, name: str) -> tuple[Trajectory, list[str]]:
    t = scripted.play(Job(name, task, 0, strategy, source="student"))
    return t, [turn.message for turn in t.turns]


def test_copies_and_near_copies_are_dropped(ctx, scripted, tasks):
    first, second = tasks["ledger"][:2]
    a, script = played(scripted, first, "careful", "a")
    nearly = [*script[:-1], script[-1] + " "]
    other, theirs = played(scripted, first, "survey", "c")
    twin, _ = played(scripted, second, "careful", "d")
    kept, left = dropped(ctx, [(a, script), (replace(a, id="b"), script), (a, nearly), (other, theirs), (twin, script)])
    assert [t.id for t in kept] == ["a", "c", "d"]
    assert left == {"duplicate": 1, "near_duplicate": 1}


def test_at_most_so_many_are_kept_of_a_task(ctx, scripted, tasks):
    most = ctx.recipe.curate.max_per_task
    t, _ = played(scripted, tasks["ledger"][0], "careful", "a")
    unlike = [[f"{k} {k + 1} {k + 2} {k + 3} {k + 4} {k + 5} {k + 6}" * 3] for k in range(0, 100 * (most + 2), 100)]
    kept, left = dropped(ctx, [(t, script) for script in unlike])
    assert len(kept) == most and left == {"over_max_per_task": 2}


def test_a_heldout_task_under_another_name_is_dropped(ctx, scripted):
    held = ctx.heldout_tasks("ledger", "heldout", ctx.recipe.gate.tasks)[2]
    t, script = played(scripted, replace(held, id="new-name", split="train"), "careful", "a")
    assert dropped(ctx, [(t, script)]) == ([], {"contaminated": 1})


def test_an_unseen_task_counts_as_held_out_too(ctx, worlds):
    held_out = curate.HeldOut.of(ctx)
    for name, world in worlds.items():
        if "unseen" in world.splits and ctx.recipe.eval.unseen_tasks:
            assert held_out.holds(ctx.heldout_tasks(name, "unseen", ctx.recipe.eval.unseen_tasks)[0])
        assert not any(held_out.holds(task) for task in world.tasks("train", 20, 3))


def test_a_run_of_words_of_a_heldout_prompt_contaminates_where_asked(ctx, tasks):
    task = tasks["ledger"][0]
    words = ["one", "two", "three", "four", "five", "six"]
    held_out = curate.HeldOut(frozenset(), frozenset(curate.ngrams(" ".join(words), 4)), 4)
    assert held_out.holds(replace(task, prompt="zero one, two three FOUR."))
    assert not held_out.holds(replace(task, prompt="one two three and four five six"))
    assert not replace(held_out, n=0).holds(replace(task, prompt=" ".join(words)))


def test_similarity_of_word_runs() -> None:
    assert curate.jaccard({("a",), ("b",)}, {("b",), ("c",)}) == pytest.approx(1 / 3)
    assert curate.jaccard(set(), set()) == 1.0 and curate.jaccard({("a",)}, set()) == 0.0


def test_a_refused_step_is_input_and_carries_no_loss(scripted, worlds):
    for task in worlds["ledger"].tasks("train", 40, 8):
        t = scripted.play(Job("a", task, 0, "direct", source="teacher:direct"))
        refused = [turn.observation.startswith("error:") for turn in t.turns]
        if t.solved and any(refused):
            break
    assert any(refused) and masking.errors(t.turns) == refused
    row, every = rows_of.supervised(t, mask_errors=True), rows_of.supervised(t, mask_errors=False)
    said = np.zeros(len(row), dtype=bool)
    for turn, wrong in zip(t.turns, refused, strict=True):
        said[turn.token_start : turn.token_end] = True
        assert row.mask[turn.token_start : turn.token_end].all() == (not wrong)
        assert row.mask[turn.token_start : turn.token_end].any() == (not wrong)
    assert every.mask.tolist() == said.tolist()
    assert row.ids.tolist() == list(t.record.ids) and not row.mask[~said].any()


@pytest.mark.parametrize("seen", ["fail 2/4: clamp(7,0,5)=7 want 5", "1 def f(x):", "A1 30 frozen limit 50", "ok", ""])
def test_a_diagnostic_is_no_error_whatever_it_shows(seen: str) -> None:
    t = rolled(1.0, ("a", "b"))
    t = replace(t, turns=(replace(t.turns[0], observation=seen), t.turns[1]))
    assert masking.errors(t.turns) == [False, False]
    assert rows_of.supervised(t, mask_errors=True).mask.tolist() == list(map(bool, t.record.mask))


def test_sampled_rows_carry_the_engines_probabilities() -> None:
    t = rolled(1.0, ("a", "b"), tokens=2)
    row = rows_of.sampled(t, group=3, route=1)
    assert row.mask.tolist() == [False, False, True, True, False, True, True]
    assert row.logp_mu.tolist() == [0.0, 0.0, -1.0, -1.0, 0.0, -1.0, -1.0]
    assert (row.group, row.route, row.weight.tolist()) == (3, 1, [1.0] * 7)
    assert rows_of.kept([row, rows_of.sampled(rolled(1.0, tokens=0), 0)]) == [row]


@pytest.mark.parametrize("seen", ["error: no account Z9", "ok A1 3, K2 9\nerror: A1 is frozen; unfreeze it first"])
def test_a_refusal_on_any_line_is_an_error(seen: str) -> None:
    t = rolled(1.0, ("a", "b"))
    t = replace(t, turns=(replace(t.turns[0], observation=seen), t.turns[1]))
    assert masking.errors(t.turns) == [True, False]
