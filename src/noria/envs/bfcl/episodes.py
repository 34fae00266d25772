"""Episodes of the two kinds of questions: one message of calls, or turns with a user and simulated services."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from noria.bases.turn import error_line
from noria.core.errors import PolicyError
from noria.core.types import Observation, Outcome
from noria.envs.bfcl.data import ABSTAIN, RELEVANT, Entry, said_in, tool_of
from noria.envs.bfcl.matching import Made
from noria.envs.bfcl.reading import calls_in, values_of
from noria.envs.bfcl.services import Services, taken_apart
from noria.tokens.calls import Malformed, hear

#: Why calls are wrong, "" where they are right.
Fault = Callable[[Entry, Sequence[Made]], str]
#: Messages with calls that a turn may have. Source: `bfcl-eval` 2026.3.23.
MOST_STEPS = 20
_MORE = "There are more functions now: {0}. What about now?"


class OneMessage:
    """The first message is graded: its calls, or that it makes none."""

    def __init__(self, entry: Entry, fault: Fault) -> None:
        self._entry, self._fault = entry, fault
        self._said: str | None = None

    def act(self, message: str) -> Observation:
        """Take the message; it ends the episode."""
        if self._said is None:
            self._said = message
        return Observation("", done=True)

    def grade(self) -> Outcome:
        """1 where the calls are right, else 0 with the reason."""
        if self._said is None:
            return Outcome(0.0, reason="nothing was said")
        fault = self._judged(self._said)
        return Outcome(0.0 if fault else 1.0, reason=fault)

    def _judged(self, message: str) -> str:
        category = self._entry.category
        try:
            made = calls_in(self._entry, message)
        except PolicyError as fault:
            return "" if category in ABSTAIN else f"a call cannot be read: {fault}"
        if category in ABSTAIN:
            return f"{made[0][0]} was called where nothing fits" if made else ""
        if category in RELEVANT:
            return "" if made else "nothing was called"
        return self._fault(self._entry, made)

    def fork(self) -> OneMessage:
        """An independent episode in the same state."""
        return copy.copy(self)

    def close(self) -> None:
        """Nothing is held."""


class Turns:
    """A user asks several things in turn; a message without calls ends a turn.

    After every turn the services must be in the state that the ground truth leads to, and everything that its calls
    answered must have been seen. A call that cannot be read is answered with an error and counts as a step.
    """

    def __init__(self, entry: Entry, open_services: Callable[[], Services]) -> None:
        self._entry = entry
        self._mine, self._right = open_services(), open_services()
        self._turn = self._steps = self._calls = 0
        self._results: list[str] = []
        self._fault = ""
        self._over = False

    def act(self, message: str) -> Observation:
        """Do the calls of a message; what they gave, or what the user says next."""
        if self._over:
            return Observation("error: the episode is over", done=True)
        heard = hear(message)
        if not heard.calls:
            return self._next()
        self._steps += 1
        if self._steps > MOST_STEPS:
            self._over, self._fault = True, self._fault or f"turn {self._turn}: more than {MOST_STEPS} steps"
            return Observation("", done=True)
        lines = []
        described = {f["name"]: f for f in self._entry.functions}
        for call in heard.calls:
            if isinstance(call, Malformed):
                lines.append(error_line(call.why))
                continue
            values = values_of(described[call.name], call) if call.name in described else dict(call.args)
            lines.append(self._mine.call(call.name, (), values))
            self._results.append(lines[-1])
            self._calls += 1
        if len(lines) == 1:
            return Observation(lines[0])
        return Observation("\n".join(f"[{number}] {line}" for number, line in enumerate(lines, 1)))

    def grade(self) -> Outcome:
        """1 where every turn was right, else 0; `parts` tells the share of turns that were gone through."""
        total = len(self._entry.answer)
        fault = self._fault or ("" if self._over else f"turn {self._turn} of {total} was not ended")
        return Outcome(0.0 if fault else 1.0, {"turns": self._turn / total}, fault)

    def fork(self) -> Turns:
        """An independent episode in the same state."""
        other = copy.copy(self)
        other._mine, other._right = copy.deepcopy(self._mine), copy.deepcopy(self._right)
        other._results = list(self._results)
        return other

    def close(self) -> None:
        """Nothing is held."""

    def _next(self) -> Observation:
        self._fault = self._fault or self._turn_fault()
        self._turn, self._steps, self._calls = self._turn + 1, 0, 0
        questions = self._entry.row["question"]
        if self._turn == len(questions):
            self._over = True
            return Observation("", done=True)
        return Observation(self._asked(questions[self._turn]))

    def _asked(self, messages: Sequence[dict[str, str]]) -> str:
        """What the user says, with the functions that are there from this turn on."""
        names = self._entry.held_back().get(self._turn, ())
        if not names:
            return said_in(messages)[1]
        tools = [tool_of(self._entry.described(name), "") for name in names]
        listed = "; ".join(f"{t.name}({', '.join(t.parameters)}): {t.description}" for t in tools)
        return "\n".join(part for part in (said_in(messages)[1], _MORE.format(listed)) if part)

    def _turn_fault(self) -> str:
        wanted = [taken_apart(text) for text in self._entry.answer[self._turn]]
        given = [self._right.call(*call) for call in wanted]
        if not wanted:
            return ""
        if not self._calls:
            return f"turn {self._turn}: nothing was called"
        other = self._mine.differs_from(self._right)
        if other:
            return f"turn {self._turn}: {other} is not as it should be"
        left = list(self._results)
        for result in given:
            if result not in left:
                return f"turn {self._turn}: {result[:80]!r} was never answered"
            left.remove(result)
        return ""
