"""Every signal: what it must say of itself, what all token weights must hold, and each against plain numbers."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from examples import needed
from slot_contracts import make, tokens

from noria.core import registry
from noria.core.phase_checks import SLOTS
from noria.core.types import Outcome
from noria.signals import base
from noria.signals.base import VALIDATED, Played, Tokens


def weigh(name: str, seen: Tokens) -> base.Floats:
    """The weights of one rollout, or of a batch that is one rollout."""
    weight = make(name)
    return weight.weigh_batch([seen])[0] if isinstance(weight, base.BatchWeight) else weight.weigh(seen)


@pytest.mark.parametrize("name", registry.names("signals"))
def test_every_signal_says_what_it_is_and_where_it_is_from(name: str) -> None:
    module = importlib.import_module(f"noria.signals.{name}")
    assert module.SLOT in (*SLOTS, "advantage", "token_advantage", "transform") and len(module.SOURCE) > 4
    assert module.__doc__ and "\n" not in module.__doc__.strip()
    with pytest.raises(ValueError, match="extra"):
        module.Config(**{**needed(module.Config), "no_such_key": 1})
    assert len(Path(str(module.__file__)).read_text(encoding="utf-8").splitlines()) <= 140


@pytest.mark.parametrize("name", registry.of_slot("weight"))
@pytest.mark.parametrize("gap", [0.0, 0.4, 1e4])
def test_weights_are_finite_and_never_negative(name: str, gap: float) -> None:
    seen = tokens(gap=gap)
    got = weigh(name, seen)
    assert got.shape == (12,) and got.dtype == np.float64
    assert np.isfinite(got[seen.mask]).all() and (got[seen.mask] >= 0).all()


@pytest.mark.parametrize("name", registry.of_slot("weight"))
def test_weights_without_any_difference_are_one(name: str) -> None:
    seen = tokens(gap=0.0)
    plain = replace(
        seen, spans=(), logp_old=seen.logp_old * 0 - 1.5, logp_mu=seen.logp_mu * 0 - 1.5, entropy=seen.entropy * 0
    )
    assert weigh(name, plain)[seen.mask] == pytest.approx(1.0)


@pytest.mark.parametrize("name", registry.of_slot("weight"))
def test_masked_tokens_do_not_move_the_others(name: str) -> None:
    seen = tokens()
    old = np.where(seen.mask, seen.logp_old, 77.0)
    other = replace(seen, logp_old=old)
    assert weigh(name, other)[seen.mask].tolist() == weigh(name, seen)[seen.mask].tolist()


def test_icepop_masks_both_tails() -> None:
    got = make("icepop", low=0.5, high=2.0)
    ratio = np.array([0.4, 0.5, 1.0, 2.0, 2.1, 1e9])
    seen = Tokens(np.ones(6, dtype=bool), (), np.zeros(6), np.log(ratio))
    assert got.weigh(seen).tolist() == pytest.approx([0.0, 0.5, 1.0, 2.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="low must be < high"):
        make("icepop", low=2.0, high=1.0)


def test_the_sequence_mask_takes_all_or_nothing() -> None:
    mask = np.array([0, 1, 1, 1], dtype=bool)
    for gaps, keep in (([9, 0.5, -0.5, 0.1], 1.0), ([0, 1.0, 1.0, 1.0], 0.0), ([0, -2.0, 0.0, -1.0], 0.0)):
        got = make("sequence_mask").weigh(Tokens(mask, (), np.zeros(4), np.array(gaps)))
        assert got.tolist() == (mask * keep).tolist()


def test_overlong_falls_over_the_buffer() -> None:
    built = make("overlong", max_tokens=20, buffer_tokens=10, penalty=0.5)
    assert [built.due(n) for n in (0, 10, 15, 20, 99)] == pytest.approx([0, 0, 0.25, 0.5, 0.5])
    assert built.shape([1.0, None], [Played(15, False), Played(99, True)]) == [0.75, None]
    with pytest.raises(ValueError, match="buffer_tokens must not exceed"):
        make("overlong", max_tokens=20, buffer_tokens=30)


def test_the_kl_in_the_reward_names_its_estimator_and_is_the_kl() -> None:
    p, q = np.array([0.6, 0.2, 0.1, 0.1]), np.array([0.7, 0.25, 0.03, 0.02])
    kl = float((p * np.log(p / q)).sum())
    for estimator, want in (("k1", kl), ("k3", kl), ("k2", float((p * 0.5 * np.log(p / q) ** 2).sum()))):
        built = make("kl_penalty", coef=1.0, estimator=estimator)
        assert float((p * built.estimate(np.log(p), np.log(q))).sum()) == pytest.approx(want)
    assert (make("kl_penalty").estimate(np.log(p), np.log(q)) >= 0).all()
    played = Played(2, False, logp=np.array([-1.0, -2.0]), logp_ref=np.array([-1.5, -1.0]))
    assert make("kl_penalty", coef=0.1, estimator="k1").shape([1.0], [played]) == pytest.approx([1.05])
    with pytest.raises(ValueError, match="estimator"):
        importlib.import_module("noria.signals.kl_penalty").Config(coef=0.1)


def test_the_curriculum_latches_once() -> None:
    built = make("two_stage", measure="training", threshold=0.5, window=4)
    half = [Played(3, False, {"named": 0.5, "others": 1.0})] * 2
    assert built.shape([0.0, 0.0], half) == [0.75, 0.75] and not built.latched
    assert built.shape([1.0, 1.0], half) == [0.75, 0.75] and built.latched
    again = make("two_stage", measure="training", threshold=0.5, window=4)
    again.restore(built.state())
    for _ in range(5):  # no success any more: it never goes back, and no partial credit is left
        assert again.shape([0.0, 0.0], half) == [0.0, 0.0] and again.latched
    assert isinstance(built, base.Stateful)
    one = make("two_stage", parts=["named"])
    assert one.shape([0.0, None], half) == [0.5, None]
    assert make("two_stage").shape([1.0], [Played(3, False)]) == [1.0]


def test_the_curriculum_waits_for_a_validation_and_never_goes_back() -> None:
    built = make("two_stage", threshold=0.5, window=1)
    half = [Played(3, False, {"named": 0.5})] * 2
    assert built.needs_validation and not make("two_stage", measure="training").needs_validation
    for facts, latched in (({}, 0), ({VALIDATED: 0.49}, 0), ({"reward/mean": 1.0}, 0), ({VALIDATED: 0.5}, 1)):
        assert built.shape([1.0, 0.0], half) == [0.5, 0.5]  # whatever is solved in training
        built.observe(facts)
        assert built.latched == bool(latched)
    again = make("two_stage", threshold=0.5)
    again.restore(built.state())
    for share in (0.0, 1.0, 0.1):
        again.observe({VALIDATED: share})
        assert again.latched and again.shape([1.0, 0.0], half) == [1.0, 0.0]
    proxy = make("two_stage", measure="training", threshold=0.5, window=4)
    proxy.observe({VALIDATED: 1.0})
    assert not proxy.latched


def test_hmpo_is_a_reward_like_others_and_reports_what_it_paid() -> None:
    built = make("hmpo", boundary="inclusive")
    group = [Played(100, False), Played(200, False), Played(300, False), Played(50, True)]
    assert built.shape([1.0, 1.0, 1.0, 1.0], group) == pytest.approx([1.0, 0.8, 0.0, 0.0])
    assert built.shape([0.0, None], group[:2]) == [None, None]
    assert built.report() == {
        "hmpo/correct_frac": 0.5, "hmpo/silent_frac": 0.0, "hmpo/long_frac": 0.0, "hmpo/long_accuracy": 0.0
    }  # fmt: skip
    assert built.report() == {}


def test_controllers() -> None:
    line = make("linear", target="alpha", end=0.0)
    assert [line.value(s, 5, 2.0) for s in range(6)] == pytest.approx([2.0, 1.5, 1.0, 0.5, 0.0, 0.0])
    assert make("linear", target="alpha", end=0.3, steps=2).value(7, 5, 1.0) == 0.3
    latch = make("latch", metric="m", above=0.5, floor=0.1)
    for value, want in ((0.4, 1.0), (0.6, 0.1), (0.1, 0.1)):
        latch.observe({"m": value})
        assert latch.value(0, 9, 1.0) == want
    latch.observe({})
    again = make("latch", metric="m", above=0.5, floor=0.1)
    again.restore(latch.state())
    assert again.value(0, 9, 1.0) == 0.1 and again.value(0, 9, 0.05) == 0.05


def test_tcod_depth_is_a_staircase_that_ends() -> None:
    front, back = make("tcod", every=3), make("tcod", direction="back", every=2)
    depths = [front.begin(s, 0, 4).max_turns for s in range(15)]
    assert depths == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4]
    replayed = [back.begin(s, 5, 9).turns for s in range(12)]
    assert replayed == [4, 4, 3, 3, 2, 2, 1, 1, 0, 0, 0, 0]
    assert all(back.begin(0, length, 9).turns < max(1, length) for length in range(6))
    assert back.begin(0, 5, 9).max_turns == 0 and (front.needs_expert, back.needs_expert) == (False, True)


def test_dropout_leaves_out_reasoning_alone() -> None:
    mask = np.array([0, 0, 1, 1, 1, 1, 0, 1, 1], dtype=bool)
    roles = ("user", "think", "think", "think", "think", "answer", "observation", "think", "answer")
    assert make("dropout", rate=0.0).keep(mask, roles, 1).tolist() == list(range(9))
    left = [set(range(9)) - set(make("dropout", rate=0.5).keep(mask, roles, seed).tolist()) for seed in range(40)]
    assert set().union(*left) == {2, 3, 4, 7}  # sampled reasoning: never a thought that was given, nor an answer
    assert np.mean([len(found) for found in left]) == pytest.approx(2.0, abs=0.5)


def test_dtdd_starts_at_the_first_divergent_window() -> None:
    mask = np.array([0, 1, 1, 0, 1, 1, 1, 1, 1], dtype=bool)
    k1 = np.array([99, 0.1, 0.2, 99, 0.9, 1.3, 5, 5, 0.0])
    assert make("dtdd", window=2, tau=1.0).start(k1, mask) == 4
    assert make("dtdd", window=2, tau=math.inf).start(k1, mask) is None
    assert make("dtdd", window=2, tau=-math.inf).start(k1, mask) == 1
    assert make("dtdd", window=3, tau=2.0).start(k1, mask) == 5
    assert make("dtdd").start(k1, mask & False) is None


def test_srcl_accepts_only_what_is_shorter_ended_well_formed_and_correct() -> None:
    built, right = make("srcl"), Outcome(1.0)
    assert built.accepts([1, 2], [1, 2, 3], True, True, right)
    for bad in (
        ([1, 2, 3], [1, 2, 3], True, True, right),
        ([1], [1, 2], False, True, right),
        ([1], [1, 2], True, False, right),
        ([1], [1, 2], True, True, Outcome(0.5)),
        ([1], [1, 2], True, True, Outcome.unknown("nobody looked")),
    ):
        assert not built.accepts(*bad)
    assert built.ask("my {answer}").endswith("my {answer}")
