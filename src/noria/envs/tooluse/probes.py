"""Tool-call tests from a specification: calls that must go through, calls that must be refused and why, malformed ones.

What is expected is what `rules` plays; the tests are run against the emitted backend in the sandbox.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from noria.envs.tooluse.instances import draw_state
from noria.envs.tooluse.rules import Refused, copy_of, faults_of, play
from noria.envs.tooluse.search import Move, Space
from noria.envs.tooluse.spec import Domain, Operation, State

_PLAYS, _PLAYS_OF_A_STATE = 6000, 60
_POSITIVE = 2
_SPREAD = (1, 2, 3, 5, 8, 12, 20, 35, 50, 70, 90, 99)

_TEST = '''"""Tool-call tests of the domain {title}, made from its specification."""

import copy
import json

import backend

CASES = json.loads({cases!r})


def run(case, sound):
    state = copy.deepcopy(case["state"])
    said = backend.call(state, case["name"], case["args"])
    assert said == case["says"], (case["name"], case["args"], said)
    assert state == case["after"], case["name"]
    if sound:
        assert backend.validate(state) == [], case["name"]


def test_positive():
    for case in CASES["positive"]:
        run(case, True)


def test_negative():
    for case in CASES["negative"]:
        case["after"] = case["state"]
        run(case, False)


def test_malformed():
    for name, args in CASES["malformed"]:
        state = copy.deepcopy(CASES["state"])
        assert backend.call(state, name, args).startswith("error: "), (name, args)
        assert state == CASES["state"], name


def test_invariants():
    for state, faults in CASES["broken"]:
        assert sorted(backend.validate(state)) == sorted(faults)


def test_registry():
    assert sorted(backend.TOOLS) == CASES["tools"]
'''


@dataclass(slots=True)
class Probes:
    """`positive` and `negative` cases by operation and, for the latter, check (-1: a row that is not there)."""

    positive: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    negative: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    unsound: str = ""
    state: State = field(default_factory=dict)


def probe(domain: Domain, seed: int) -> Probes:
    """Random calls on random states until every tool went through and every check refused, or for so long."""
    rng = random.Random(f"tooluse:probe:{seed}:{domain.name}")
    found = Probes()
    wanted = {op.name for op in domain.operations}
    checks = {(op.name, at) for op in domain.operations for at in range(len(op.checks))}
    state: State | None = None
    for turn in range(_PLAYS):
        if turn % _PLAYS_OF_A_STATE == 0:
            state = draw_state(domain, rng, 3)
            found.state = found.state or copy_of(state or {})
        if state is None:
            continue
        late = turn > _PLAYS // 4
        if late and wanted <= set(found.positive) and checks <= set(found.negative):
            break
        open_ = [op for op in domain.operations if op.name not in found.positive or turn % 2]
        state = _one(domain, state, rng.choice(open_ or domain.operations), rng, found)
    return found


def missing(domain: Domain, found: Probes) -> list[str]:
    """Tools that never went through, which are dead, and what no state should be."""
    dead = [f"{op.name} never goes through" for op in domain.operations if op.name not in found.positive]
    return dead + ([found.unsound] if found.unsound else [])


def silent_checks(domain: Domain, found: Probes) -> list[str]:
    """Checks that never refused a call."""
    return [
        f"{op.name}: {check.test}"
        for op in domain.operations
        for at, check in enumerate(op.checks)
        if (op.name, at) not in found.negative
    ]


def tests_of(domain: Domain, found: Probes) -> str:
    """The test file."""
    cases = {
        "positive": [case for cases in found.positive.values() for case in cases],
        "negative": list(found.negative.values()),
        "malformed": list(malformed(domain, found.state)),
        "broken": list(_broken(domain, found.state)),
        "state": found.state,
        "tools": sorted(op.name for op in domain.operations),
    }
    return _TEST.format(title=domain.title, cases=json.dumps(cases))


def malformed(domain: Domain, state: State) -> Iterator[tuple[str, dict[str, str]]]:
    """Calls with a missing, a surplus and a badly typed argument, and of a tool that is not there."""
    yield "no_such_tool", {}
    for op in domain.operations:
        good = {}
        for param in op.params:
            names = list(state[param.table]) if param.kind == "id" else []
            good[param.name] = names[0] if names else param.values[0] if param.values else str(param.low)
        yield op.name, good | {"surplus": "1"}
        for param in op.params:
            yield op.name, {key: value for key, value in good.items() if key != param.name}
            bad = {
                "id": ["", "0", "Z99", f"{names[0] if names else 'A1'} or 1", "__class__"] if (
                    names := list(state.get(param.table, {})) or [""]
                ) else [],
                "int": ["", "-1", "ten", "1.5", str(param.high + 1), str(param.low - 1), "1e1", "9" * 40],
                "enum": ["", "none_of_these", "None"],
            }[param.kind]  # fmt: skip
            for value in bad:
                yield op.name, good | {param.name: value}


def _one(domain: Domain, state: State, operation: Operation, rng: random.Random, found: Probes) -> State:
    """Play one random call; note it where it shows something new. Returns the state to go on from."""
    move = _move(domain, state, operation, rng)
    if move is None:
        return state
    after = copy_of(state)
    case = {"name": move.name, "args": move.texts, "state": state}
    try:
        says = play(domain, after, move.name, dict(move.args))
    except Refused as refusal:
        found.negative.setdefault((move.name, refusal.check), case | {"says": f"error: {refusal}"})
        return state
    faults = faults_of(domain, after)
    if faults:
        found.unsound = found.unsound or f"{move.name} breaks an invariant: {faults[0]}"
        return state
    cases = found.positive.setdefault(move.name, [])
    if len(cases) < _POSITIVE:
        cases.append(case | {"says": says, "after": copy_of(after)})
    return after


def _move(domain: Domain, state: State, operation: Operation, rng: random.Random) -> Move | None:
    numbers = {
        param.measures: [n for n in _SPREAD if param.low <= n <= param.high] or [param.low]
        for param in operation.params
        if param.kind == "int"
    }
    choices = Space(domain, state, numbers).choices(operation, state)
    if not all(choices):
        return None
    args = [(param.name, rng.choice(values)) for param, values in zip(operation.params, choices, strict=True)]
    if rng.random() < 0.03 and operation.params and operation.params[0].kind == "id":
        args[0] = (args[0][0], f"{domain.table[operation.params[0].table].letter}99")
    return Move(operation.name, tuple(args))


def _broken(domain: Domain, state: State) -> Iterator[tuple[State, list[str]]]:
    """States with one field outside its values or one limit exceeded, and what the reference says of them."""
    for table in domain.tables:
        for field_ in table.fields:
            for name in list(state[table.name])[:1]:
                wrong = copy_of(state)
                wrong[table.name][name][field_.name] = field_.high + 1 if field_.kind == "int" else "nowhere"
                yield wrong, faults_of(domain, wrong)
    for limit in domain.limits:
        crowded = copy_of(state)
        owner = next(iter(crowded[limit.owner]))
        crowded[limit.owner][owner][limit.cap] = 1
        for row in crowded[limit.table].values():
            row[limit.ref] = owner
        yield crowded, faults_of(domain, crowded)
