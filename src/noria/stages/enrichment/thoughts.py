"""Reasoning of a message: how it is exchanged without a letter of the rest changing, and what it must not say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from noria.tokens.calls import Call, hear, is_torn

#: A message that begins with its thought, and nothing more of the kind behind it.
_THOUGHT = re.compile(r"(\s*<think>\s*)(.*?)(\s*</think>)(.*)", re.DOTALL)
_TAG = re.compile(r"</?think>|</?call\b")
#: Numbers of a list are none of the task's.
_NUMBERING = re.compile(r"^\s*\d+[.)]\s", re.MULTILINE)
#: Words in a row that nobody finds by chance, and words of the longest value that is looked for.
RUN, LONGEST = 4, 12
MOST_CHARS = 2_000


def thought_of(message: str) -> str:
    """What a message thinks before all else, "" for nothing."""
    found = _THOUGHT.fullmatch(message)
    return found[2] if found else ""


def rethought(message: str, thought: str, like: Sequence[str] = ()) -> str | None:
    """The message with another thought; None where its thoughts stand elsewhere, or the thought is not sound.

    Blanks around a thought are those of the message, or where it has none those of the first of `like` that thinks.
    """
    if not thought.strip() or len(thought) > MOST_CHARS or _TAG.search(thought) or is_torn(thought):
        return None
    found = _THOUGHT.fullmatch(message)
    if found is None:
        if "<think>" in message or "</think>" in message:
            return None
        other = next((each for each in map(_THOUGHT.fullmatch, like) if each), None)
        opened, closed = (other[1], other[3] + _blank(other[4])) if other else ("<think>", "</think>")
        return f"{opened}{thought}{closed}{message}"
    if "<think>" in found[4] or "</think>" in found[4]:
        return None
    return f"{found[1]}{thought}{found[3]}{found[4]}"


def rest_of(message: str) -> str:
    """All that a message holds behind its thought."""
    found = _THOUGHT.fullmatch(message)
    return found[4] if found else message


def leak(thought: str, known: Sequence[str], later: Sequence[str], actions: Sequence[str]) -> str:
    """What a thought says that could not be known yet, "" for nothing.

    `known` are the texts that stand before it and the action that it leads to, `later` the observations from then on,
    `actions` the later messages. Looked for are values of later calls, words with a digit, and runs of `RUN` words.
    """
    text = _words(_NUMBERING.sub("", thought))
    before, after = " ".join(_words(" ".join(known))), _words(" ".join(later))
    joined = " ".join(text)
    values = {
        " ".join(words)
        for message in actions
        for call in hear(message).calls
        if isinstance(call, Call)
        for value in call.args.values()
        if 0 < len(words := _words(value)) <= LONGEST
    }
    looked = values | {word for word in after if any(letter.isdigit() for letter in word)}
    looked |= {" ".join(after[at : at + RUN]) for at in range(len(after) - RUN + 1)}
    found = sorted(each for each in looked if _within(each, joined) and not _within(each, before))
    return found[0] if found else ""


def _within(words: str, text: str) -> bool:
    return f" {words} " in f" {text} "


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


def _blank(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]
