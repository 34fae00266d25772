"""How right rules are against labels, and trajectories whose labels are known because errors were put there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from noria.core.errors import PolicyError, UserError
from noria.core.proofs import Flawed
from noria.core.protocols import World
from noria.core.seeds import derive
from noria.core.stats import wilson
from noria.core.types import Message, Task, Turn
from noria.stages.masking.rules import RULES, errors
from noria.tokens import calls

Fault = Literal["unknown_tool", "missing_argument", "unclosed", "wrong_value"]
FAULTS: tuple[Fault, ...] = ("unknown_tool", "missing_argument", "unclosed", "wrong_value")


@dataclass(frozen=True, slots=True)
class Labelled:
    """One trajectory with a label per turn: what is wrong with it, "" where nothing is."""

    name: str
    turns: tuple[Turn, ...]
    labels: tuple[str, ...]


def measure(samples: Sequence[Labelled], rules: Sequence[str], confidence: float = 0.95) -> dict[str, Any]:
    """Precision and recall of the rules together against the labels, with Wilson intervals, and recall by fault.

    Raises:
        UserError: an unknown rule, or labels that are not one per turn.
    """
    unknown = [name for name in rules if name not in RULES]
    if unknown:
        raise UserError(f"rules must be of {', '.join(RULES)}: got {unknown[0]!r}")
    found: list[tuple[bool, str]] = []
    for sample in samples:
        if len(sample.turns) != len(sample.labels):
            raise UserError(
                f"{sample.name} must have a label per turn: got {len(sample.labels)} for {len(sample.turns)} turns"
            )
        found += zip(errors(sample.turns, rules), sample.labels, strict=True)
    hits = sum(masked and bool(label) for masked, label in found)
    masked_turns, wrong = sum(masked for masked, _ in found), sum(bool(label) for _, label in found)
    by_fault = {
        fault: _rate(
            sum(m for m, label in found if label == fault), sum(label == fault for _, label in found), confidence
        )
        for fault in sorted({label for _, label in found if label})
    }
    return {
        "rules": list(rules), "turns": len(found), "errors": wrong, "masked": masked_turns,
        "precision": _rate(hits, masked_turns, confidence), "recall": _rate(hits, wrong, confidence),
        "recall_by_fault": by_fault,
    }  # fmt: skip


def _rate(part: int, whole: int, confidence: float) -> dict[str, Any]:
    low, high = wilson(part, whole, confidence) if whole else (0.0, 1.0)
    return {"value": round(part / whole, 4) if whole else None, "low": round(low, 4), "high": round(high, 4)}


def injected(world: Any, tasks: Sequence[Task], seed: int, max_turns: int = 12) -> list[Labelled]:
    """A labelled set whose labels are known because the errors were put there.

    An expert works on each task; before one of its calls, a spoilt form of that call is said first, of each fault in
    turn. The expert does not see that turn and goes on as it meant to. A spoilt value may well be accepted by the
    world, and an expert's own failing test stays unlabelled, so neither side is trivial.
    """
    out = []
    for i, task in enumerate(tasks):
        rng = np.random.default_rng((seed, i))
        fault = FAULTS[i % len(FAULTS)]
        expert = world.policy(task, world.experts[i % len(world.experts)], int(rng.integers(1 << 30)))
        turns, labels = _play(world.open(task), expert, fault, rng, max_turns)
        if turns:
            out.append(Labelled(task.id, tuple(turns), tuple(labels)))
    return out


class FlawedWorld(World, Flawed, Protocol):
    """A world whose scripted mistakes are known."""


def habitual(world: FlawedWorld, tasks: Sequence[Task], seed: int, max_turns: int = 40) -> list[tuple[Labelled, bool]]:
    """Work of scripted policies that make mistakes and know which, each with whether it solved its task in the end.

    Raises:
        SandboxError: the world's sandbox failed.
    """
    out = []
    for i, task in enumerate(tasks):
        policy, judge = world.flawed(task, derive(seed, "flawed", i))
        episode = world.open(task)
        turns: list[Turn] = []
        try:
            while len(turns) < max_turns:
                message = policy([m for turn in turns for m in _messages(turn)])
                answer = episode.act(message)
                turns.append(Turn(message, "" if answer.done else answer.text))
                if answer.done:
                    break
            solved = episode.grade().solved
        finally:
            episode.close()
        labels = judge([turn.message for turn in turns])
        out.append((Labelled(task.id, tuple(turns), tuple(labels)), solved))
    return out


def _messages(turn: Turn) -> list[Message]:
    said = [Message("assistant", turn.message)]
    return [*said, Message("tool", turn.observation)] if turn.observation else said


def _play(
    episode: Any, expert: Callable[[Sequence[Message]], str], fault: Fault, rng: np.random.Generator, max_turns: int
) -> tuple[list[Turn], list[str]]:
    turns: list[Turn] = []
    labels: list[str] = []
    seen: list[Message] = []
    at = int(rng.integers(0, 3))
    try:
        while len(turns) < max_turns:
            message = expert(seen)
            spoilt = spoil(message, fault, rng) if "".join(labels) == "" and len(turns) >= at else None
            for said, label in ([(spoilt, fault)] if spoilt else []) + [(message, "")]:
                answer = episode.act(said)
                turns.append(Turn(said, answer.text))
                labels.append(label)
                if answer.done:
                    return turns, labels
            seen += [Message("assistant", message), Message("tool", turns[-1].observation)]
    finally:
        episode.close()
    return turns, labels


def spoil(message: str, fault: Fault, rng: np.random.Generator) -> str | None:
    """The message with its first call made wrong, None where it has no call that can be."""
    found = _calls(message)
    if not found:
        return None
    call = found[0]
    if fault == "unknown_tool":
        return calls.render_call(f"{call.name}_all", **call.args)
    if fault == "unclosed":
        return calls.render_call(call.name, **call.args).removesuffix("</call>")
    if not call.args:
        return None
    key = sorted(call.args)[int(rng.integers(len(call.args)))]
    if fault == "missing_argument":
        return calls.render_call(call.name, **{k: v for k, v in call.args.items() if k != key})
    value = call.args[key]
    other = str(int(value) + 1) if value.lstrip("-").isdigit() else f"{value}0"
    return calls.render_call(call.name, **{**call.args, key: other})


def _calls(message: str) -> tuple[calls.Call, ...]:
    try:
        return calls.parse(message).calls
    except PolicyError:
        return ()
