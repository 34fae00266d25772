"""Group advantages: golden vectors, naive references, properties."""

from __future__ import annotations

import importlib
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core import registry
from noria.signals import group_std

MODULES = {name: registry.resolve("signals", name) for name in registry.of_slot("advantage")}
#: Every file of the slot, with its own defaults: the contract below holds for each of them.
ADVANTAGES = {name: module.build(module.Config()) for name, module in MODULES.items()}
every = pytest.mark.parametrize("name", ADVANTAGES)
rewards = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=0, max_size=12)
coarse = st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.35, 0.5, 0.95, 1.0])), max_size=12)


def naive(name: str, values: list[float]) -> list[float]:
    mean = statistics.fmean(values)
    if name == "group_mean":
        return [v - mean for v in values]
    if name == "rloo":
        others = [values[:i] + values[i + 1 :] for i in range(len(values))]
        return [v - statistics.fmean(rest) for v, rest in zip(values, others, strict=True)]
    spread = statistics.pstdev(values) + 1e-6
    return [(v - mean) / spread for v in values]


def test_the_slot_holds_these_at_least() -> None:
    assert {"group_mean", "group_std", "rloo"} <= set(ADVANTAGES)


@pytest.mark.parametrize("name", ["group_mean", "group_std", "rloo"])
@given(coarse)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_equals_the_naive_reference(name: str, group: list[float | None]) -> None:
    known = [r for r in group if r is not None]
    got = ADVANTAGES[name](group)
    assert got.dtype == np.float64 and len(got) == len(group)
    expected = iter(naive(name, known) if len(set(known)) > 1 else [0.0] * len(known))
    for value, reward in zip(got, group, strict=True):
        assert value == pytest.approx(0.0 if reward is None else next(expected), abs=1e-9)


@every
@given(rewards, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_finite_centred_and_equivariant(name: str, group: list[float | None], random: object) -> None:
    got = ADVANTAGES[name](group)
    assert np.isfinite(got).all()
    assert abs(got.sum()) <= 1e-6
    assert np.abs(got).max(initial=0.0) <= math.sqrt(max(1, len(group))) + 1e-6
    order = list(range(len(group)))
    random.shuffle(order)
    again = ADVANTAGES[name]([group[i] for i in order])
    np.testing.assert_allclose(again, got[order], atol=1e-6)


@every
@given(rewards, st.lists(st.integers(0, 12), max_size=3))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_an_unknown_outcome_takes_no_part(name: str, group: list[float | None], places: list[int]) -> None:
    """Inserting unknown rollouts anywhere leaves the others' advantages bit-identical."""
    known = [r for r in group if r is not None]
    holes: list[float | None] = list(known)
    for place in places:
        holes.insert(min(place, len(holes)), None)
    got = ADVANTAGES[name](holes)
    keep = np.array([r is not None for r in holes], dtype=bool)
    assert (got[keep] == ADVANTAGES[name](known)).all()
    assert (got[~keep] == 0).all()


@every
@pytest.mark.parametrize(
    "group", [[], [1.0], [None], [None, 0.3], [0.1] * 3, [0.0] * 8, [0.1 + 0.2, 0.3], [1.0, None, 1.0]]
)
def test_groups_without_signal_give_exactly_zero(name: str, group: list[float | None]) -> None:
    assert ADVANTAGES[name](group).tolist() == [0.0] * len(group)


@every
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_refused(name: str, bad: float) -> None:
    with pytest.raises(ValueError, match="rewards must be finite, or None"):
        ADVANTAGES[name]([1.0, bad])


def test_v3_nearly_equal_rewards_do_not_explode() -> None:
    for high in (0.35, 0.4, 0.3, 0.7, 0.1, 0.95):
        group = [high] * 7 + [high + 0.6 if high < 0.5 else high - 0.6]
        assert abs(ADVANTAGES["group_std"](group)[-1]) == pytest.approx(math.sqrt(7), rel=1e-5)
        assert abs(ADVANTAGES["rloo"](group)[-1]) == pytest.approx(0.6, abs=1e-12)
        assert ADVANTAGES["group_std"]([high] * 8).tolist() == [0.0] * 8


def test_v5_a_failed_grader_does_not_shift_its_siblings() -> None:
    assert ADVANTAGES["group_mean"]([1.0, 3.0, 2.0, None]).tolist() == [-1.0, 1.0, 0.0, 0.0]


def test_figures_of_one_and_four_of_eight() -> None:
    one, four = [1.0] + [0.0] * 7, [1.0] * 4 + [0.0] * 4
    assert ADVANTAGES["group_std"](one).max() == pytest.approx(2.6458, abs=1e-4)
    assert ADVANTAGES["group_std"](four).max() == pytest.approx(1.0, abs=1e-5)
    assert ADVANTAGES["group_mean"](one).max() == pytest.approx(0.875)
    assert ADVANTAGES["group_mean"](four).max() == pytest.approx(0.5)


def test_ddof_is_stated() -> None:
    group = [0.0, 1.0, 1.0]
    sample = group_std.build(group_std.Config(ddof=1, eps=0.0))
    assert sample(group)[0] == pytest.approx(-(2 / 3) / statistics.stdev(group))


@pytest.mark.parametrize("name", [*ADVANTAGES, "hmpo", "key_action", "role_credit", "tis", "teacher_k1", "dynamic"])
def test_every_signal_says_its_meaning_and_refuses_unknown_keys(name: str) -> None:
    module = importlib.import_module(f"noria.signals.{name}")
    assert module.__doc__ and "\n" not in module.__doc__.strip()
    assert module.SLOT in ("advantage", "token_advantage", "weight", "reward", "transform")
    assert all(field.description for field in module.Config.model_fields.values())
    with pytest.raises(ValueError, match="extra"):
        module.Config(no_such_key=1)
