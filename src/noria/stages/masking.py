"""Error masking: rules that say which turns are errors, and how right the rules are against labels.

A masked turn stays as input and carries no loss. A rule sees what was said and what came back, never the labels. A
legitimate diagnostic is not an error: running tests that fail, or reading what turns out wrong, is how work is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from noria.core.errors import PolicyError, UserError
from noria.core.stats import wilson
from noria.core.types import Message, Task, Turn
from noria.tokens import calls

Rule = Callable[[Sequence[Turn], int], bool]
Fault = Literal["unknown_tool", "missing_argument", "unclosed", "wrong_value"]
FAULTS: tuple[Fault, ...] = ("unknown_tool", "missing_argument", "unclosed", "wrong_value")


def refused(turns: Sequence[Turn], k: int) -> bool:
    """The world refused one of the turn's calls; each is answered on a line of its own."""
    return any(line.startswith("error:") for line in turns[k].observation.splitlines())


def malformed(turns: Sequence[Turn], k: int) -> bool:
    """The message cannot be parsed, or neither calls nor answers."""
    try:
        parsed = calls.parse(turns[k].message)
    except PolicyError:
        return True
    return not parsed.calls and not parsed.answer


def redone(turns: Sequence[Turn], k: int) -> bool:
    """The next turn calls the same tools with other arguments: the turn was corrected at once."""
    if k + 1 >= len(turns):
        return False
    mine, next_one = (_calls(turns[i].message) for i in (k, k + 1))
    return bool(mine) and [c.name for c in mine] == [c.name for c in next_one] and mine != next_one


RULES: Mapping[str, Rule] = {"refused": refused, "malformed": malformed, "redone": redone}
#: What masks when nobody says otherwise.
DEFAULT = ("refused",)


def errors(turns: Sequence[Turn], rules: Sequence[str] = DEFAULT) -> list[bool]:
    """Which turns any of the rules calls an error."""
    return [any(RULES[name](turns, k) for name in rules) for k in range(len(turns))]


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
