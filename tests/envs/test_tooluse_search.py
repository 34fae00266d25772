"""Search over states against plain enumeration, goals, and the verdict that covers them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from noria.envs.tooluse.backend import backend_of
from noria.envs.tooluse.goals import Dropped, bag_of, draw_goal, judge, run, uncovered
from noria.envs.tooluse.instances import draw_state
from noria.envs.tooluse.rules import copy_of
from noria.envs.tooluse.sample import draw_domain
from noria.envs.tooluse.search import Move, Space, frozen, useful_for
from noria.envs.tooluse.spec import Check, Domain, Field, Operation, Param, State, Table
from noria.envs.tooluse.typing_rules import faults_in

DOOR, SAFE, TO = Param("door", "id", "doors"), Param("safe", "id", "safes"), Param("dst", "id", "safes")
AMOUNT = Param("amount", "int", low=1, high=9, measures="safes.gold")
#: Doors are closed, open or wedged; gold can be moved only while the safe's door is open, locks by a chain of steps.
VAULT = Domain(
    "vault",
    "vault",
    (
        Table("doors", "door", "D", (Field("state", "enum", ("open", "closed", "wedged")),)),
        Table("safes", "safe", "S", (Field("gold", "int", low=0, high=9), Field("door", "ref", table="doors"))),
        Table("notes", "note", "N", (Field("safe", "ref", table="safes"), Field("gold", "int", low=1, high=9)), True),
    ),
    (
        Operation("close_door", "step", "a tool", "doors", (DOOR,), (Check("door.state == 'open'", "no"),),
                  ("door.state = 'closed'",)),
        Operation("open_door", "step", "a tool", "doors", (DOOR,), (Check("door.state == 'closed'", "no"),),
                  ("door.state = 'open'",)),
        Operation("wedge_door", "step", "a tool", "doors", (DOOR,), (Check("door.state == 'open'", "no"),),
                  ("door.state = 'wedged'",)),
        Operation("free_door", "step", "a tool", "doors", (DOOR,), (Check("door.state == 'wedged'", "no"),),
                  ("door.state = 'closed'",)),
        Operation("add_gold", "add", "a tool", "safes", (SAFE, AMOUNT),
                  (Check("safe.door.state != 'closed'", "no"), Check("safe.gold + amount <= 9", "no")),
                  ("safe.gold = safe.gold + amount",)),
        Operation("take_gold", "take", "a tool", "safes", (SAFE, AMOUNT),
                  (Check("safe.door.state != 'closed'", "no"), Check("amount <= safe.gold", "no")),
                  ("safe.gold = safe.gold - amount",)),
        Operation("move_gold", "transfer", "a tool", "safes", (SAFE, TO, AMOUNT),
                  (Check("safe.door.state == 'open'", "no"), Check("safe != dst", "no"),
                   Check("amount <= safe.gold", "no"), Check("dst.gold + amount <= 9", "no")),
                  ("safe.gold = safe.gold - amount", "dst.gold = dst.gold + amount")),
        Operation("note_gold", "create", "a tool", "notes", (SAFE,), (Check("safe.gold >= 1", "no"),),
                  ("new notes: safe=safe, gold=safe.gold",)),
    ),
)  # fmt: skip
START: State = {
    "doors": {"D1": {"state": "closed"}, "D2": {"state": "open"}},
    "safes": {"S1": {"gold": 3, "door": "D1"}, "S2": {"gold": 1, "door": "D2"}},
    "notes": {},
}
NUMBERS = {"safes.gold": (1, 2)}


def steps(state: State) -> Iterator[tuple[Move, State]]:
    """Every call on every row with every number, by brute force."""
    backend = backend_of(VAULT)
    for op in VAULT.operations:
        for values in itertools.product(*[list(state[p.table]) if p.table else NUMBERS[p.measures] for p in op.params]):
            after = copy_of(state)
            move = Move(op.name, tuple(zip([p.name for p in op.params], values, strict=True)))
            try:
                backend.tools[op.name](after, **dict(move.args))
            except backend.refused:
                continue
            if after != state:
                yield move, after


def enumerate_all(depth: int) -> dict[object, tuple[int, State, set[tuple[Move, ...]]]]:
    """Each state within some calls: least length, the state, and all ways of that length."""
    found: dict[object, tuple[int, State, set[tuple[Move, ...]]]] = {frozen(START): (0, START, {()})}
    front = [START]
    for length in range(1, depth + 1):
        after_all: dict[object, State] = {}
        for state in front:
            ways = found[frozen(state)][2]
            for move, after in steps(state):
                key = frozen(after)
                if key not in found:
                    found[key] = (length, after, set())
                if found[key][0] == length:
                    found[key][2].update((*way, move) for way in ways)
                    after_all[key] = after
        front = list(after_all.values())
    return found


def test_search_finds_what_enumeration_finds() -> None:
    table = enumerate_all(3)
    assert len(table) > 200
    space = Space(VAULT, START, NUMBERS, most=10_000, budget=10**6)
    for length, state, ways in table.values():
        if length:
            found = space.shortest(START, state, 4)
            # New rows count by content: a way may name them otherwise, so lengths are compared for all, ways without.
            assert found.settled and found.length == length, state
            if not state["notes"]:
                assert set(found.ways) == ways, state


def test_what_cannot_be_reached_is_settled_and_a_budget_is_kept() -> None:
    space = Space(VAULT, START, NUMBERS, budget=10**6)
    moved = copy_of(START)
    moved["safes"]["S1"]["door"] = "D2"  # nothing writes it
    assert space.shortest(START, moved, 6) == type(space.shortest(START, moved, 6))(None, (), True, 0)
    far = copy_of(START)
    far["doors"] = {"D1": {"state": "wedged"}, "D2": {"state": "wedged"}}
    assert space.shortest(START, far, 2).length is None and space.shortest(START, far, 3).length == 3
    tight = Space(VAULT, START, NUMBERS, budget=5)
    far["safes"]["S1"]["gold"] = 9
    assert tight.shortest(START, far, 6).settled is False


def test_the_bound_is_never_more_than_the_length() -> None:
    space = Space(VAULT, START, NUMBERS)
    for length, state, _ in enumerate_all(3).values():
        assert space.bound(START, state, space.differ(START, state)) <= length


def test_calls_that_cannot_help_are_left_out() -> None:
    assert useful_for(VAULT, frozenset([("doors", "state")])) == {"close_door", "open_door", "wedge_door", "free_door"}
    assert "note_gold" not in useful_for(VAULT, frozenset([("safes", "gold")]))
    assert useful_for(VAULT, frozenset([("notes", "")])) >= {"note_gold", "add_gold", "open_door"}


def test_the_verdict_is_exact_up_to_the_ids_of_new_rows() -> None:
    target = copy_of(START)
    target["safes"]["S2"]["gold"] = 4
    target["notes"] = {"N1": {"safe": "S1", "gold": 3}, "N2": {"safe": "S2", "gold": 1}}
    swapped = copy_of(target)
    swapped["notes"] = {"N1": target["notes"]["N2"], "N2": target["notes"]["N1"]}
    assert judge(VAULT, START, target, swapped).reward == 1.0
    twice = copy_of(target)
    twice["notes"]["N3"] = target["notes"]["N2"]
    assert judge(VAULT, START, target, twice).reward == 0.0
    for table, row, field, value in (
        ("safes", "S2", "gold", 5), ("safes", "S1", "gold", 2), ("doors", "D2", "state", "closed"),
        ("notes", "N1", "gold", 2), ("safes", "S1", "door", "D2"),
    ):  # fmt: skip
        wrong = copy_of(target)
        wrong[table][row][field] = value
        assert judge(VAULT, START, target, wrong).reward == 0.0
    half = copy_of(START)
    half["safes"]["S2"]["gold"] = 4
    assert judge(VAULT, START, target, half).parts == {"named": pytest.approx(1 / 3), "others": 1.0}
    half["doors"]["D1"]["state"] = "open"
    assert judge(VAULT, START, target, half).parts["others"] == 0.0


def test_goals_are_reachable_minimal_and_covered() -> None:
    domains = [domain for number in range(20) if not faults_in(domain := draw_domain(3, number))][:8]
    drawn = 0
    for domain, turn in itertools.product(domains, range(4)):
        rng = random.Random(f"{domain.name}{turn}")
        start = draw_state(domain, rng, 3)
        assert start is not None
        try:
            goal = draw_goal(domain, start, rng, least=2, most=4, asks=3, budget=500, hidden=0.5)
        except Dropped:
            continue
        drawn += 1
        assert 2 <= goal.length <= 4 and goal.paths == len({bag_of(way) for way in (*goal.ways, *goal.longer)})
        assert not list(uncovered(domain, goal, rng))
        for way in (*goal.ways, *goal.longer):
            final = run(domain, start, way)
            assert final is not None and judge(domain, start, goal.target, final).solved
            assert backend_of(domain).validate(final) == []
        assert judge(domain, start, goal.target, start).reward == 0.0
        for at in range(goal.length):  # least length: no call of a shortest way can be left out
            rest = run(domain, start, goal.ways[0][:at] + goal.ways[0][at + 1 :], skip=True)
            assert rest is not None and not judge(domain, start, goal.target, rest).solved
    assert drawn >= 12
