"""Tool calls: the calls of a transcript are those wanted, each argument one of the values that are right for it.

An argument with several right values, or one that may be left away, is the notation of the Berkeley Function Calling
Leaderboard: Patil et al. 2025, ICML.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.types import Message, Outcome
from noria.graders.base import ByBlank, Case, Example, Given, outcome, spec_of
from noria.tokens.calls import Call, hear, render_call

NEEDS: tuple[str, ...] = ()


class Config(Checked):
    """How calls are compared."""

    order: bool = Field(default=True, description="whether the order of calls counts")
    further: Literal["wrong", "allowed"] = Field(default="wrong", description="what calls besides those wanted are")
    ignore_case: bool = Field(default=False, description="whether capital and small letters of arguments are one")
    max_chars: int = Field(default=50_000, ge=1, description="messages that are longer together are wrong unread")


class Wanted(Checked):
    """One call that is wanted."""

    name: str = Field(min_length=1, description="name of the tool")
    arguments: dict[str, list[Any]] = Field(
        default_factory=dict, description='argument -> its right values; "" among them: it may be left away'
    )


class Spec(Checked):
    """What right calls are; calls of the final answer are read as well as those of the transcript."""

    calls: tuple[Wanted, ...] = Field(description="the calls wanted; () = none at all")
    forbidden: tuple[str, ...] = Field(default=(), description="tools that must not be called, whatever else is")


EXAMPLES = (
    Example(
        {"calls": [{"name": "book", "arguments": {"day": ["Mon", "Monday"], "n": [2], "note": ["", "quiet"]}}]},
        (
            render_call("book", day="Mon", n=2), render_call("book", n="2.0", note="quiet", day="Monday"),
            {"transcript": (Message("assistant", render_call("book", day="Mon", n=2)), Message("tool", "ok"))},
        ),
        (
            "", render_call("book", day="Tue", n=2), render_call("book", day="Mon"),
            render_call("book", day="Mon", n=2, more=1), render_call("book", day="Mon", n=2) * 2, "<call",
            render_call("look") + render_call("book", day="Mon", n=2),
        ),
    ),
    Example({"calls": [], "forbidden": ["pay"]}, ("I would rather ask first.",), (render_call("pay", n=3),)),
)  # fmt: skip


class ToolCalls(ByBlank):
    """See the module."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def grade(self, case: Case) -> Outcome:
        """1 for the right calls; parts: share of the calls wanted that were made, of those made that were wanted."""
        spec = spec_of(Spec, case)
        said = [message.content for message in case.transcript if message.role == "assistant"]
        texts = [*said, case.answer] if case.answer not in said else said
        if sum(map(len, texts)) > self._config.max_chars:
            return outcome(False, f"longer than {self._config.max_chars} characters", {"recall": 0.0, "precision": 0.0})
        made, malformed = _calls(texts)
        if malformed:
            return outcome(False, "a call that cannot be read", {"recall": 0.0, "precision": 0.0})
        if bad := next((call.name for call in made if call.name in spec.forbidden), None):
            return outcome(False, f"calls {bad[:40]!r}, which is forbidden", {"recall": 0.0, "precision": 0.0})
        hits = self._matched(made, spec.calls)
        recall = hits / len(spec.calls) if spec.calls else 1.0
        precision = hits / len(made) if made else float(not spec.calls)
        alone = self._config.further == "allowed" or hits == len(made)
        right = alone and hits == len(spec.calls)
        reason = f"{hits} of {len(spec.calls)} calls wanted, {len(made) - hits} others"
        return outcome(right, reason, {"recall": recall, "precision": precision})

    async def close(self) -> None:
        """Nothing is held."""

    def _matched(self, made: Sequence[Call], wanted: Sequence[Wanted]) -> int:
        """Calls wanted that were made; each call made counts for one. Exact, by augmenting paths."""
        fits = [[self._fits(call, one) for call in made] for one in wanted]
        if self._config.order:
            return _longest_common(fits, len(made))
        owner: dict[int, int] = {}
        return sum(_augment(at, fits, owner, set()) for at in range(len(wanted)))

    def _fits(self, call: Call, wanted: Wanted) -> bool:
        if call.name != wanted.name or not set(call.args) <= set(wanted.arguments):
            return False
        for key, values in wanted.arguments.items():
            if key not in call.args:
                if "" not in values:
                    return False
            elif not any(_same(call.args[key], value, self._config.ignore_case) for value in values):
                return False
        return True


def _calls(texts: Sequence[str]) -> tuple[list[Call], bool]:
    """All calls of the messages in order, and whether one cannot be read."""
    heard = [call for text in texts for call in hear(text).calls]
    good = [call for call in heard if isinstance(call, Call)]
    return good, len(good) < len(heard)


def _longest_common(fits: Sequence[Sequence[bool]], made: int) -> int:
    """Length of the longest common subsequence of the calls wanted and made."""
    best = [0] * (made + 1)
    for row in fits:
        last = list(best)
        for at in range(made):
            best[at + 1] = max(last[at + 1], best[at], last[at] + row[at])
    return best[-1]


def _augment(at: int, fits: Sequence[Sequence[bool]], owner: dict[int, int], seen: set[int]) -> bool:
    for call, fit in enumerate(fits[at]):
        if fit and call not in seen:
            seen.add(call)
            if call not in owner or _augment(owner[call], fits, owner, seen):
                owner[call] = at
                return True
    return False


def _same(text: str, value: Any, ignore_case: bool) -> bool:
    """Whether an argument, always a text in a call, is a value; numbers and JSON are compared as such."""
    if isinstance(value, str):
        a, b = text.strip(), value.strip()
        return a.casefold() == b.casefold() if ignore_case else a == b
    try:
        found = json.loads(text.lower() if isinstance(value, bool) else text)
    except (ValueError, RecursionError):
        return False
    return (isinstance(found, bool) == isinstance(value, bool)) and bool(found == value)


def build(config: Config, given: Given) -> ToolCalls:
    """A grader; needs nothing."""
    return ToolCalls(config)
