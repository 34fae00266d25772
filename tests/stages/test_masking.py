"""Error masking against labels: hand-made ones, and errors that were put into an expert's work."""

from __future__ import annotations

import pytest

from noria.core.errors import UserError
from noria.core.types import Turn
from noria.envs import ledger
from noria.stages.masking import FAULTS, Labelled, errors, injected, measure, spoil
from noria.tokens.calls import render_call

ASK = render_call("get", id="A1")
TURNS = (
    Turn(ASK, "12"),
    Turn(render_call("gett", id="A1"), "error: no tool 'gett'"),
    Turn("<think>so", "error: unclosed <think> block"),
    Turn(render_call("run_tests"), "FAILED: the error: is real\nexpected 2"),
    Turn(render_call("move", n="4"), "moved"),
    Turn(render_call("move", n="5"), "moved"),
)
LABELS = ("", "unknown_tool", "unclosed", "", "wrong_value", "")


def test_rules_by_hand() -> None:
    assert errors(TURNS) == [False, True, True, False, False, False]
    assert errors(TURNS, ["malformed"]) == [False, False, True, False, False, False]
    assert errors(TURNS, ["redone"]) == [False, False, False, False, True, False]
    assert errors(TURNS, ["refused", "redone"]) == [False, True, True, False, True, False]
    assert errors(TURNS, []) == [False] * 6


def test_precision_and_recall_by_hand() -> None:
    sample = Labelled("t", TURNS, LABELS)
    both = measure([sample], ["refused", "redone"])
    assert both["precision"]["value"] == both["recall"]["value"] == 1.0 and both["masked"] == both["errors"] == 3
    one = measure([sample, Labelled("u", (Turn(ASK, "error: closed"),), ("",))], ["refused"])
    assert one["precision"]["value"] == pytest.approx(2 / 3, abs=1e-4) and one["recall"]["value"] == pytest.approx(
        2 / 3, abs=1e-4
    )
    assert {fault: rate["value"] for fault, rate in one["recall_by_fault"].items()} == {
        "unknown_tool": 1.0, "unclosed": 1.0, "wrong_value": 0.0,
    }  # fmt: skip
    assert one["recall"]["low"] < 2 / 3 < one["recall"]["high"]
    assert measure([Labelled("v", (Turn(ASK, "1"),), ("",))], ["refused"])["precision"]["value"] is None
    with pytest.raises(UserError, match="rules must be of refused, malformed, redone, .*: got 'luck'"):
        measure([sample], ["luck"])
    with pytest.raises(UserError, match="a label per turn"):
        measure([Labelled("t", TURNS, LABELS[1:])], ["refused"])


def test_a_spoilt_call_is_wrong_in_the_way_that_it_says() -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    call = render_call("move", n="4")
    assert [spoil(call, fault, rng) for fault in FAULTS] == [
        '<call name="move_all"><n>4</n></call>', '<call name="move"></call>', '<call name="move"><n>4</n>',
        '<call name="move"><n>5</n></call>',
    ]  # fmt: skip
    assert spoil("just words", "unclosed", rng) is None and spoil(render_call("end"), "wrong_value", rng) is None


def test_errors_put_into_an_experts_work_are_labelled_once_and_found_as_measured() -> None:
    world = ledger.build(ledger.Config(), None)
    samples = injected(world, world.tasks("train", 24, 3), seed=5)
    assert len(samples) == 24 and samples == injected(world, world.tasks("train", 24, 3), seed=5)
    assert all(sum(map(bool, sample.labels)) <= 1 for sample in samples)
    found = {rules: measure(samples, [rules]) for rules in ("refused", "malformed", "redone")}
    assert found["refused"]["errors"] > 12
    for fault in ("unknown_tool", "missing_argument", "unclosed"):
        assert found["refused"]["recall_by_fault"][fault]["value"] == 1.0
    assert found["malformed"]["recall_by_fault"]["unclosed"]["value"] == 1.0
    assert found["malformed"]["precision"]["value"] == 1.0
    # The expert that acts first and mends afterwards is refused now and then; those turns are not labelled.
    assert found["refused"]["recall"]["value"] == 1.0
    assert found["refused"]["precision"]["value"] == pytest.approx(24 / 31, abs=1e-4)
