"""An episode of one answer: a thought and what follows it, no tools."""

from __future__ import annotations

from noria.bases.turn import MOST_CALLS
from noria.core.errors import PolicyError
from noria.core.types import Observation
from noria.tokens.calls import Malformed, hear, parse


class AnswerEpisode:
    """The first message that can be read ends it. `answer` is None where there is none; `fault` then says why.

    What calls something, or cannot be read, is told so, call by call, and may be mended in `mends` further messages.
    A world derives its episode from this, names what it `wants`, and writes `grade` and `fork`.
    """

    wants = "the answer"
    mends = 2

    def __init__(self) -> None:
        self.answer: str | None = None
        self.fault = ""
        self.done = False
        self.mistakes = 0

    def act(self, message: str) -> Observation:
        """Take the answer, or say of each call why it is none, a line for each."""
        if self.done:
            return Observation("error: the episode is over", done=True)
        faults = self._faults(message)
        if faults:
            self.fault, self.mistakes = faults[0], self.mistakes + 1
            self.done = self.mistakes > self.mends
            return Observation("\n".join(faults), self.done)
        self.done, self.answer, self.fault = True, parse(message).answer, ""
        return Observation("", done=True)

    def _faults(self, message: str) -> list[str]:
        """What is wrong with each call of a message; [] where it is an answer."""
        calls = hear(message).calls
        if len(calls) > MOST_CALLS:
            return [f"error: at most {MOST_CALLS} calls in one message, and there are no tools here"]
        none = f"there are no tools here: write only {self.wants} after the think block"
        faults = [f"error: {call.why if isinstance(call, Malformed) else none}" for call in calls]
        try:
            parse(message)
        except PolicyError as fault:
            return faults or [f"error: {fault}"]
        return faults

    def close(self) -> None:
        """Nothing is held."""


def answer_in(message: str) -> str | None:
    """What a message answers, without the blanks around it; None where it calls something or cannot be read."""
    try:
        parsed = parse(message)
    except PolicyError:
        return None
    return None if parsed.calls else parsed.answer
