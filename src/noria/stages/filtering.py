"""Which trajectories are kept for training: those that solved their task within limits and called tools as they are.

Rejection sampling over finished rollouts, whoever played them and over which scaffold. A trajectory is dropped for the
first reason that it gives, in the order of `REASONS`, so counts add up.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from noria.core.types import Trajectory
from noria.tokens.calls import Call, hear
from noria.tokens.forms import NAMES

#: Why a trajectory is dropped.
REASONS = (
    "unknown", "unsolved", "failing_tests", "unfinished", "too_many_turns", "too_many_tokens", "empty", "invalid_calls",
    "hinted", "duplicate",
)  # fmt: skip
#: Scaffolds that offer the task's tools and no others; "" is one that nobody named.
_OWN = ("", *NAMES)
#: Tools that others' harnesses have, beside those that a task names.
_FOREIGN = {"bash": frozenset({"command"})}


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept. The numbers are those of the Mach-Mind-4-Flash report for code agents.

    max_turns     messages of the policy
    max_tokens    tokens of a context, prompt and observations included
    most_invalid  share of the calls that may be unreadable, of an unknown tool, or with other arguments than its own
    """

    max_turns: int = 300
    max_tokens: int = 262_144
    most_invalid: float = 0.0


@dataclass(slots=True)
class Report:
    """What came of a filtering: `scaffolds` has read and kept by scaffold."""

    read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    scaffolds: dict[str, list[int]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "read": self.read, "kept": self.kept,
            "dropped": {reason: self.dropped[reason] for reason in REASONS if self.dropped[reason]},
            "scaffolds": {name: {"read": a, "kept": b} for name, (a, b) in sorted(self.scaffolds.items())},
        }  # fmt: skip


def kept(found: Iterable[Trajectory], limits: Limits, report: Report) -> Iterator[Trajectory]:
    """Those that stay, in order; `report` counts."""
    seen: set[bytes] = set()
    for each in found:
        report.read += 1
        counts = report.scaffolds.setdefault(each.scaffold, [0, 0])
        counts[0] += 1
        reason = reason_of(each, limits) or _repeated(each, seen)
        if reason:
            report.dropped[reason] += 1
            continue
        report.kept += 1
        counts[1] += 1
        yield each


def reason_of(t: Trajectory, limits: Limits) -> str:
    """Why a trajectory by itself is dropped, "" where it stays."""
    if not t.outcome.known:
        return "unknown"
    if not t.solved:
        return "unsolved"
    if any(share < 1 for name, share in t.outcome.parts.items() if name in ("tests", "fail_to_pass", "pass_to_pass")):
        return "failing_tests"
    if t.stop != "done":
        return "unfinished"
    if len(t.turns) > limits.max_turns:
        return "too_many_turns"
    if max(len(record) for record in (t.record, *(branch.record for branch in t.branches))) > limits.max_tokens:
        return "too_many_tokens"
    if not t.turns:
        return "empty"
    valid, invalid = calls_of(t)
    if invalid > limits.most_invalid * (valid + invalid):
        return "invalid_calls"
    return "hinted" if t.hint else ""


def calls_of(t: Trajectory) -> tuple[int, int]:
    """Calls that a tool of the task, or of the scaffold, takes, and the others.

    Where nobody told the tools, as in recorded sessions, a call is valid that can be read.
    """
    known = {tool.name: frozenset(tool.parameters) for tool in t.task.tools}
    is_own = t.scaffold in _OWN
    known |= {} if is_own else _FOREIGN
    valid = invalid = 0
    for turn in t.turns:
        for call in hear(turn.message).calls:
            fits = isinstance(call, Call) and (fits_tool(call, known) or (is_own and not known))
            valid, invalid = valid + fits, invalid + (not fits)
    return valid, invalid


def fits_tool(call: Call, known: Mapping[str, frozenset[str]]) -> bool:
    """Whether a call names a tool, and no argument that the tool does not have."""
    return call.name in known and call.args.keys() <= known[call.name]


def _repeated(t: Trajectory, seen: set[bytes]) -> str:
    """ "duplicate" where the same was said on the same task before, over the same scaffold."""
    said = [t.scaffold, t.task.world, t.task.id, t.task.prompt, [turn.message for turn in t.turns]]
    digest = hashlib.sha256(json.dumps(said).encode("utf-8", "surrogatepass")).digest()
    if digest in seen:
        return "duplicate"
    seen.add(digest)
    return ""
