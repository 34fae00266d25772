"""Solved mechanisms: solutions against enumeration, score against regret."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

import pytest
from mechanism_helpers import WORLD, act, of_family, play, pool

from noria.core.types import Task
from noria.envs.mechanisms import Config, build
from noria.envs.mechanisms.model import Solved, State
from noria.envs.mechanisms.play import Play
from noria.envs.mechanisms.tasks import FAMILIES, greedy_luck, solved_of
from noria.tokens.calls import render_call

# --- each family against a solution of its own, written from the parameters alone


def stock_value(p: dict[str, Any], day: int, stock: int, mean: bool) -> Fraction:
    if day == p["days"]:
        return Fraction(0)
    totals = []
    for order in range(p["room"] - stock + 1):
        total = Fraction(0)
        for demand in p["demands"]:
            sold = min(demand, stock + order)
            left = stock + order - sold
            earned = p["price"] * sold - p["cost"] * order - p["keep"] * left
            total += earned + stock_value(p, day + 1, left, mean)
        totals.append(total / len(p["demands"]))
    return sum(totals, Fraction(0)) / len(totals) if mean else max(totals)


def queue_value(p: dict[str, Any], step: int, lines: tuple[int, int], mean: bool) -> Fraction:
    if step == p["steps"]:
        return Fraction(0)
    totals = []
    for line in (0, 1):
        served = list(lines)
        served[line] = max(0, served[line] - p["speed"][line])
        total = Fraction(0)
        for comes, chance in ((0, Fraction(p["first"], 4)), (1, 1 - Fraction(p["first"], 4))):
            after = (served[0] + (comes == 0), served[1] + (comes == 1))
            waits = after[0] * p["cost"][0] + after[1] * p["cost"][1]
            total += chance * (queue_value(p, step + 1, after, mean) - waits)
        totals.append(total)
    return sum(totals, Fraction(0)) / 2 if mean else max(totals)


def auction_value(p: dict[str, Any]) -> Fraction:
    """Best over every plan: a bid for each lot and each amount of money that may be left, tried one by one."""

    def value(lot: int, money: int) -> Fraction:
        if lot == p["lots"]:
            return Fraction(0)
        best = Fraction(-(10**6))
        for bid in range(money + 1):
            total = Fraction(0)
            for rival in p["rival"]:
                won = bid > rival
                total += (p["worth"][lot] - bid if won else 0) + value(lot + 1, money - bid * won)
            best = max(best, total / len(p["rival"]))
        return best

    return value(0, p["money"])


def haggle_value(p: dict[str, Any]) -> Fraction:
    """Best over every sequence of falling prices, played against each limit: nothing but refusals can be learnt."""
    best = Fraction(-(10**6))
    for count in range(1, p["rounds"] + 1):
        for prices in combinations(sorted(p["limits"], reverse=True), count):
            if count < p["rounds"] and prices[-1] != p["limits"][0]:
                continue  # play goes on while rounds and limits are left
            total = 0
            for limit in p["limits"]:
                at = next((i for i, price in enumerate(prices) if price <= limit), None)
                total += prices[at] - p["fee"] * (at + 1) if at is not None else -p["fee"] * count
            best = max(best, Fraction(total, len(p["limits"])))
    return best


def load_value(p: dict[str, Any]) -> int:
    things = range(p["things"])
    return max(
        sum(p["worth"][i] for i in chosen)
        for count in range(p["things"] + 1)
        for chosen in combinations(things, count)
        if sum(p["weights"][i] for i in chosen) <= p["room"]
    )


def chase_cost(p: dict[str, Any], hunter: int, prey: int, left: int) -> int:
    """Plain minimax: the pursuer pays as little as it can, the prey makes it pay as much as it can."""
    if hunter == prey:
        return 0
    if not left or prey == p["exit"]:
        return left + 3
    beside = lambda place: [b if a == place else a for a, b in p["edges"] if place in (a, b)]  # noqa: E731
    costs = []
    for place in beside(hunter):
        flights = [prey] if place == prey else [spot for spot in (prey, *beside(prey)) if spot != place]
        costs.append(1 + max(chase_cost(p, place, spot, left - 1) for spot in flights))
    return min(costs)


@pytest.mark.parametrize("family", list(FAMILIES))
def test_solutions_equal_enumeration(family: str) -> None:
    tasks = of_family(family)
    assert len(tasks) >= 5
    for task in tasks:
        p, solved = task.data["params"], solved_of(task)
        best, mean = solved.best(solved.mechanism.start), solved.random(solved.mechanism.start)
        if family == "stock":
            assert best == stock_value(p, 0, p["stock"], False) and mean == stock_value(p, 0, p["stock"], True)
        elif family == "queue":
            lines = (p["lines"][0], p["lines"][1])
            assert best == queue_value(p, 0, lines, False) and mean == queue_value(p, 0, lines, True)
        elif family == "chase":
            assert best == -chase_cost(p, p["hunter"], p["prey"], p["moves"])
        else:
            assert best == {"auction": auction_value, "haggle": haggle_value, "load": load_value}[family](p)


def test_a_solution_worked_out_by_hand() -> None:
    # Room 5: thing 1 (weight 4, worth 5) or things 2 and 3 (weights 2 and 3, worth 3 and 4): 5 against 7.
    params = {"things": 3, "weights": [4, 2, 3], "worth": [5, 3, 4], "room": 5}
    solved = Solved(FAMILIES["load"].kind(params))
    start = solved.mechanism.start
    assert (solved.best(start), solved.worst(start)) == (7, 5)
    assert solved.random(start) == Fraction(5 + 7 + 7, 3) and solved.lucky(start) == Fraction(2, 3)
    assert solved.optimal(start) == (2, 3) and solved.gap(start, 1) == 2
    assert solved.mechanism.greedy(start) == 1 and greedy_luck(solved) == 0
    # One round, limits 4 and 9, fee 1: asking 9 sells half the time, (9 - 1 - 1) / 2 = 3.5 > 4 - 1.
    solved = Solved(FAMILIES["haggle"].kind({"limits": [4, 9], "fee": 1, "rounds": 1}))
    assert solved.gains(solved.mechanism.start) == {4: 3, 9: Fraction(7, 2)}


# --- the score


def leaves(solved: Solved, state: State, chance: Fraction, gaps: Fraction) -> Iterator[tuple[Fraction, Fraction]]:
    """(probability, sum of gaps) of every course that play at random can take."""
    actions = solved.mechanism.actions(state)
    if not actions:
        yield chance, gaps
    for action in actions:
        for p, _, after in solved.mechanism.results(state, action):
            yield from leaves(solved, after, chance * p / len(actions), gaps + solved.gap(state, action))


@pytest.mark.parametrize("family", list(FAMILIES))
def test_expected_regret_of_random_play_is_enumerated(family: str) -> None:
    for task in of_family(family, 3):
        solved = solved_of(task)
        start = solved.mechanism.start
        courses = list(leaves(solved, start, Fraction(1), Fraction(0)))
        scale = solved.best(start) - solved.random(start)
        assert sum(p for p, _ in courses) == 1
        # The gaps of a policy add up, in expectation, to what it earns less than the optimum.
        assert sum(p * gaps for p, gaps in courses) == scale > 0
        # So unclipped scores of random play have mean 0 where random play is the zero, and more where the worst is.
        worst = solved.best(start) - solved.worst(start)
        assert sum(p * (1 - gaps / scale) for p, gaps in courses) == 0
        assert sum(p * (1 - gaps / worst) for p, gaps in courses) == 1 - scale / worst >= 0
        assert sum(p for p, gaps in courses if not gaps) == solved.lucky(start) <= Fraction(1, 5)


def outcomes(episode: Play, chance: Fraction) -> Iterator[tuple[Fraction, float, Fraction]]:
    """(probability, reward, regret) of every course of real episodes under play at random."""
    actions = episode.solved.mechanism.actions(episode.state)
    if not actions:
        reward = episode.grade().reward
        assert reward is not None
        yield chance, reward, sum(episode.gaps, Fraction(0))
    for action in actions:
        after = episode.fork()
        after.act(act(episode.task, action))
        yield from outcomes(after, chance / len(actions))


@pytest.mark.parametrize("zero", ["random", "worst"])
def test_expected_score_of_random_play_over_real_episodes(zero: str) -> None:
    world = build(Config(zero=zero), None)  # type: ignore[arg-type]
    for task in (*of_family("load", 2), *of_family("chase", 1)):  # no luck in these: a fork is a course
        solved = solved_of(task)
        start = solved.mechanism.start
        least = solved.random(start) if zero == "random" else solved.worst(start)
        scale = solved.best(start) - least
        found = list(outcomes(world.open(task), Fraction(1)))
        expected = sum(
            p * max(Fraction(0), 1 - gaps / scale) for p, gaps in leaves(solved, start, Fraction(1), Fraction(0))
        )
        assert float(sum(p * Fraction(reward) for p, reward, _ in found)) == pytest.approx(float(expected), abs=1e-12)
        assert all((reward == 1.0) == (regret == 0) for _, reward, regret in found)
        total = sum(p * (solved.best(start) - regret) for p, _, regret in found)
        assert total == solved.random(start)


def test_loads_score_what_is_loaded() -> None:
    task = of_family("load", 1)[0]
    p, solved = task.data["params"], solved_of(task)
    start = solved.mechanism.start
    for order in list(permutations(range(1, p["things"] + 1)))[::7]:
        episode = WORLD.open(task)
        for thing in order:
            episode.act(act(task, thing))
        worth = sum(p["worth"][i] for i in range(p["things"]) if episode.state[0] >> i & 1)
        regret = solved.best(start) - worth
        score = max(0.0, float(1 - regret / (solved.best(start) - solved.random(start))))
        assert episode.grade().reward == pytest.approx(score)


def test_luck_has_no_part_in_the_score() -> None:
    for task in of_family("stock"):
        for strategy in ("planner", "watcher"):
            episode, _ = play(WORLD, task, strategy)
            assert episode.grade().reward == 1.0 and not any(episode.gaps)
    seen = set()
    for number in range(40):  # the same parameters under other ids meet other luck
        task = of_family("stock", 1)[0]
        other = Task(f"x{number}", task.world, task.system, task.prompt, task.tools, task.data)
        episode, _ = play(WORLD, other, "planner")
        seen.add(tuple(m.content for m in play(WORLD, other, "planner")[1]))
        assert episode.grade().reward == 1.0
    assert len(seen) > 3


def test_parts_and_early_ends() -> None:
    for task in pool("train", 40)[:15]:
        solved = solved_of(task)
        start = solved.mechanism.start
        assert WORLD.open(task).grade().reward == 0.0
        stopped = WORLD.open(task)
        assert stopped.act(render_call("stop")).done and stopped.grade().reward == 0.0
        assert stopped.act(act(task, solved.optimal(start)[0])).done and not stopped.gaps
        episode, _ = play(WORLD, task, "planner")
        assert episode.grade().parts == {"optimal": 1.0, "finished": 1.0, "legal": 1.0, "asked": 1.0}
        assert episode.grade().reason == "optimal"
        wrong = WORLD.open(task)
        wrong.act(act(task, 999))
        assert wrong.state == start and wrong.grade().parts["legal"] == 0.0


def test_no_forged_attempt_scores_one() -> None:
    for task in pool("train")[:15] + pool("unseen")[:5]:
        for attempt in WORLD.forgeries(task):
            episode = WORLD.open(task)
            for message in attempt:
                episode.act(message)
            reward = episode.grade().reward
            assert reward is not None and 0.0 <= reward < 1.0
