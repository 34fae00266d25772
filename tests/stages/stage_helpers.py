"""Hand-made trajectories, as small as a test wants them, and an engine for the model that was taught by heart."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from noria.core.types import Outcome, Task, Trajectory, Turn
from noria.engines.embedded import Config, EmbeddedEngine
from noria.tokens.record import RecordBuilder
from noria.tokens.renderer import Piece

TASK = Task("t", "ledger", "", "do it")


def rolled(
    reward: float | None,
    messages: Sequence[str] = ("go",),
    tokens: int = 3,
    stop: str = "done",
    task: Task = TASK,
    version: int = 0,
    source: str = "student",
    name: str = "r",
) -> Trajectory:
    """A sampled rollout: two prompt tokens, then turns of `tokens` tokens with one token of glue between."""
    record, turns = RecordBuilder(), []
    record.rendered(Piece((0, 1), ("user", "user")))
    for k, message in enumerate(messages):
        if k:
            record.rendered(Piece((9,), ("glue",)))
        ids = [10 + (5 * k + i) % 30 for i in range(tokens)]
        span = record.sampled(ids, ["answer"] * tokens, [-1.0] * tokens, [version] * tokens)
        turns.append(Turn(message, "" if k + 1 == len(messages) else "seen", *span))
    return Trajectory(name, task, source, tuple(turns), record.freeze(), Outcome(reward), stop)


def engine_of(taught: Any, renderer: Any, temperature: float, max_tokens: int = 448) -> EmbeddedEngine:
    """Eight slots; its own copy of the weights."""
    config = Config(slots=8, max_tokens=max_tokens, prefill_rows=4)
    return EmbeddedEngine(copy.deepcopy(taught.model), renderer.end_ids, config, temperature)
