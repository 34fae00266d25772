"""An episode of one message: a thought and an answer, no tools."""

from __future__ import annotations

from noria.core.errors import PolicyError
from noria.core.types import Observation
from noria.tokens.calls import parse


class AnswerEpisode:
    """The first message ends it. `answer` is None where none could be read; `fault` then says why.

    A world derives its episode from this, names what it `wants`, and writes `grade` and `fork`.
    """

    wants = "the answer"

    def __init__(self) -> None:
        self.answer: str | None = None
        self.fault = ""
        self.done = False

    def act(self, message: str) -> Observation:
        """Take the answer. A malformed message is answered with "error: …" and ends the episode as well."""
        if self.done:
            return Observation("error: the episode is over", done=True)
        self.done = True
        try:
            parsed = parse(message)
            if parsed.calls:
                raise PolicyError(f"there are no tools here: write only {self.wants} after the think block")
        except PolicyError as fault:
            self.fault = f"error: {fault}"
            return Observation(self.fault, done=True)
        self.answer = parsed.answer
        return Observation("", done=True)

    def close(self) -> None:
        """Nothing is held."""


def answer_in(message: str) -> str | None:
    """What a message answers, without the blanks around it; None where it calls something or cannot be read."""
    try:
        parsed = parse(message)
    except PolicyError:
        return None
    return None if parsed.calls else parsed.answer
