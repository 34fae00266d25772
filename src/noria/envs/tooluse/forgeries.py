"""Attempts that look like a solution and are none: each must score less than 1."""

from __future__ import annotations

import random
from collections.abc import Sequence

from noria.core.types import Task
from noria.envs.tooluse.goals import run
from noria.envs.tooluse.search import Move, Space
from noria.envs.tooluse.spec import Domain
from noria.envs.tooluse.tasks import ASK, SUBMIT, gold_of, start_of
from noria.tokens.calls import render_call

_TRIES = 200


def forged(domain: Domain, task: Task) -> list[list[str]]:
    """A claim instead of work, half of the work, one change too many, rows that do not exist, a wrong form."""
    gold = gold_of(task)
    submit = render_call(SUBMIT)
    attempts = [
        [f"All done: {task.prompt}", submit],
        [f"<think>{_said(gold)}</think>{submit}"],
        [_said(gold[:-1]) + submit],
        [submit + _said(gold)],
        [_said(gold).replace("<call", "<tool"), submit],
        [_said([Move(move.name, tuple((key, f"{value}0") for key, value in move.args)) for move in gold]) + submit],
    ]
    beside = _beside(domain, task, gold)
    if beside is not None:
        attempts.append([_said([*gold, beside]) + submit])
    if task.data["details"]:
        attempts.append([render_call(ASK, about=next(iter(task.data["details"]))), submit])
    return attempts


def _beside(domain: Domain, task: Task, gold: Sequence[Move]) -> Move | None:
    """A call that the task shows, that goes through after the solution, and that changes something."""
    final = run(domain, start_of(task), gold)
    assert final is not None
    rng = random.Random(task.id)
    shown = {tool.name for tool in task.tools}
    numbers = {p.measures: range(p.low, p.high + 1) for op in domain.writes for p in op.params if p.kind == "int"}
    space = Space(domain, final, numbers)
    for _ in range(_TRIES):
        move = space.random_move(final, rng)
        if move and move.name in shown:
            after = run(domain, final, [move])
            if after is not None and after != final:
                return move
    return None


def _said(way: Sequence[Move]) -> str:
    return "".join(render_call(move.name, **move.texts) for move in way)
