"""Progress as a potential: sums that telescope, undone work that earns nothing, and what stays optimal (enumerated)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from slot_contracts import make

from noria.core.types import Outcome
from noria.signals.base import Played

#: A world of two switches and three messages: a message turns one switch, or does nothing. Solved = both are on.
TURNS, ACTIONS = 3, ("a", "b", "-")
START = frozenset("a")


def after(state: frozenset[str], action: str) -> frozenset[str]:
    return state if action == "-" else state ^ {action}


def played(actions: tuple[str, ...]) -> tuple[float, Played]:
    """The outcome's reward of a way through the world, and what a verifier says of its states."""
    states = [START]
    for action in actions:
        states.append(after(states[-1], action))
    solved = float(states[-1] == {"a", "b"})
    seen = tuple(Outcome(float(s == {"a", "b"}), {x: float(x in s) for x in "ab"}) for s in states)
    return solved, Played(1, False, seen[-1].parts, len(actions), states=seen)


def returns(built, actions: tuple[str, ...]) -> np.ndarray:
    """Return from each turn on: that of the whole rollout, and by how much each turn's differs."""
    reward, seen = played(actions)
    (whole,) = built.shape([reward], [seen])
    return whole + built.turns(seen)


@pytest.mark.parametrize("terminal", ["zero", "progress"])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("coef", [1.0, 0.3])
def test_returns_equal_the_naive_sums(terminal: str, gamma: float, coef: float) -> None:
    built = make("pprs", terminal=terminal, gamma=gamma, coef=coef)
    for actions in product(ACTIONS, repeat=TURNS):
        reward, seen = played(actions)
        phi = [coef * sum(outcome.parts.values()) / 2 for outcome in seen.states]
        if terminal == "zero":
            phi[-1] = 0.0
        each = [gamma * phi[t + 1] - phi[t] for t in range(TURNS)]
        assert built.earned(seen).tolist() == pytest.approx(each, abs=1e-15)
        naive = [reward + sum(gamma ** (k - t) * each[k] for k in range(t, TURNS)) for t in range(TURNS)]
        assert returns(built, actions).tolist() == pytest.approx(naive, abs=1e-12)


def test_without_discount_all_that_is_earned_is_the_progress_made() -> None:
    for actions in product(ACTIONS, repeat=TURNS):
        _, seen = played(actions)
        first, last = (sum(outcome.parts.values()) / 2 for outcome in (seen.states[0], seen.states[-1]))
        assert make("pprs", terminal="progress").earned(seen).sum() == pytest.approx(last - first)
        assert make("pprs", terminal="zero").earned(seen).sum() == pytest.approx(-first)


@pytest.mark.parametrize("terminal", ["zero", "progress"])
def test_undoing_and_redoing_earns_nothing(terminal: str) -> None:
    built = make("pprs", terminal=terminal)
    for detour in ("aa", "bb"):
        _, seen = played((*detour, "b"))
        assert built.earned(seen)[:2].sum() == pytest.approx(0.0)
        # The whole is worth what the way without the detour is worth.
        assert returns(built, (*detour, "b"))[0] == pytest.approx(returns(built, ("b",))[0])


@pytest.mark.parametrize(("terminal", "gamma"), [("zero", 1.0), ("zero", 0.7), ("progress", 1.0)])
def test_the_order_of_returns(terminal: str, gamma: float) -> None:
    """Under "zero" all ways through the world keep their order; under "progress" failures are told apart as well."""
    built = make("pprs", terminal=terminal, gamma=gamma)
    ways = list(product(ACTIONS, repeat=TURNS))
    plain = np.array([played(way)[0] for way in ways])
    shaped = np.array([returns(built, way)[0] for way in ways])
    if terminal == "zero":
        assert shaped - plain == pytest.approx(np.full(len(ways), -0.5))  # Phi of the start, whatever is done
    else:
        assert set(shaped[plain == 1].round(9)) == {1.5} and len(set(shaped[plain == 0].round(9))) == 2
        assert shaped[plain == 1].min() > shaped[plain == 0].max()


def policy(theta: np.ndarray) -> np.ndarray:
    """Softmax over actions [turns, states, actions]; the four states are numbered by which switches are on."""
    p = np.exp(theta - theta.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def gradient(theta: np.ndarray, back) -> np.ndarray:
    """Exact policy gradient by enumeration: E[sum_t grad log pi(a_t | s_t) * return from t on]."""
    p, total = policy(theta), np.zeros_like(theta)
    for way in product(range(3), repeat=TURNS):
        state, chance, scores = START, 1.0, []
        for t, a in enumerate(way):
            s = ("a" in state) + 2 * ("b" in state)
            chance *= p[t, s, a]
            scores.append((t, s, np.eye(3)[a] - p[t, s]))
            state = after(state, ACTIONS[a])
        gains = back(tuple(ACTIONS[a] for a in way))
        for (t, s, score), gain in zip(scores, gains, strict=True):
            total[t, s] += chance * score * gain
    return total


@pytest.mark.parametrize("gamma", [1.0, 0.7])
def test_with_potential_zero_at_the_end_the_expected_gradient_is_unchanged(gamma: float) -> None:
    """So no policy that was a stationary point ceases to be one, and the optimum stays."""
    built = make("pprs", terminal="zero", gamma=gamma)
    for seed in range(3):
        theta = np.random.default_rng(seed).normal(size=(TURNS, 4, 3))
        plain = gradient(theta, lambda way: [played(way)[0]] * TURNS)
        assert gradient(theta, lambda way: returns(built, way)) == pytest.approx(plain, abs=1e-14)
        assert abs(plain).max() > 0.01
    # Hopeless for the bare outcome: the switch b is never tried. The progress reached still says what to keep.
    theta[..., 1] = -60.0
    progress = make("pprs", terminal="progress")
    assert abs(gradient(theta, lambda way: [played(way)[0]] * TURNS)).max() < 1e-12
    assert abs(gradient(theta, lambda way: returns(progress, way))).max() > 0.01


def test_what_was_not_measured_is_unknown() -> None:
    built = make("pprs", terminal="zero")
    assert built.shape([1.0, None], [Played(3, False, turns=1), Played(3, False, turns=1)]) == [None, None]
    one = Played(3, False, turns=1, states=(Outcome(0.25), Outcome(1.0)))
    assert built.shape([1.0], [one]) == [0.75]  # no measures: the reward itself is the potential
    assert make("pprs", terminal="zero", parts=["b"]).potentials(played(("b",))[1]).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="terminal"):
        make("pprs", terminal="none")
