"""Statements that a model words: it is shown what failing tests show and never the change, and its answer is checked.

What cannot be used is counted, and a template stands in.
"""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence

from noria.core.errors import EngineError
from noria.core.types import Message
from noria.factory.statements import Failure, Statement, leaks

STYLE = "model"
#: Characters of a statement at most.
MOST = 2000
_SYSTEM = (
    "You write issues about a library. You are told which of its checks fail since a change, and what they say. Answer "
    "with the text of the issue and nothing else: what goes wrong, with the values that are shown, and what was "
    "expected. You do not know the code, so say nothing about where the cause may be or how to mend it, and do not "
    "mention that there are hidden tests."
)
_FORMS = (
    "Write it as the short report of a user who met it in a program of theirs.",
    "Write it as a ticket with what was observed and what was expected.",
    "Write it as a question of somebody who is unsure whether they use the library rightly.",
    "Write it as a note of two or three sentences from a colleague.",
)
_BLOCK = re.compile(r"\A```\w*\n(.*)\n```\Z", re.S)


class Wording:
    """Asks a model for statements. Thread-safe. `counts` says what became of its answers."""

    def __init__(self, ask: Callable[[Sequence[Message]], str]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def __call__(
        self, package: str, shown: Sequence[Failure], failing: int, missing: str, patch: str, rng: random.Random
    ) -> Statement | None:
        """A statement about failures, None where the model gave none that can be used; see `statements.state`."""
        try:
            text = _bare(self._ask(_messages(package, shown, failing, missing, rng.choice(_FORMS))))
        except EngineError:
            text, reason = "", "the server failed"
        else:
            reason = _unfit(text, package, shown, patch)
        with self._lock:
            self.counts[reason or "used"] += 1
        return None if reason else Statement(text, STYLE)


def _messages(package: str, shown: Sequence[Failure], failing: int, missing: str, form: str) -> list[Message]:
    lines = [f"Library: {package}. Checks that fail: {failing}."]
    lines += [f"What was never written, and is asked for: {missing}."] if missing else []
    for each in shown:
        lines += ["", f"Check: {each.about}", f"It says: {each.said or 'nothing'}"]
        lines += ["```", each.source, "```"] if each.source else []
    return [Message("system", _SYSTEM), Message("user", "\n".join([*lines, "", form]))]


def _bare(said: str) -> str:
    """An answer without what the model thought and without a fence around all of it."""
    text = said.rpartition("</think>")[2].strip()
    fenced = _BLOCK.match(text)
    return fenced[1].strip() if fenced else text


def _unfit(text: str, package: str, shown: Sequence[Failure], patch: str) -> str:
    """Why a text is no statement, "" where it is one."""
    if not text:
        return "an empty answer"
    if len(text) > MOST:
        return "an answer that is too long"
    if leaks(text, patch):
        return "an answer that gives the change away"
    words = {word for each in shown for word in each.about.split() if len(word) > 3} | {package.lower()}
    return "" if any(word in text.lower() for word in words) else "an answer about something else"
