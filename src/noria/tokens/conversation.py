"""Whole conversations from data sets to tokens: what the assistant said carries loss, everything else is context.

Text is taken from the chat template message by message. A template that changes what stands there already when a
message is added (one that drops earlier reasoning, for instance) would put the loss on wrong tokens; such a
conversation is refused, not guessed at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noria.core.errors import NoriaError
from noria.core.types import Message, Tool
from noria.tokens.renderer import Renderer


class Unrenderable(NoriaError):
    """A conversation whose tokens cannot be told apart under this chat template."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """Tokens of a conversation; `mask` is 1 where loss is taken. Equal lengths."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]


def spoken(renderer: Renderer, messages: Sequence[Message], tools: Sequence[Tool], trained: Sequence[bool]) -> Spoken:
    """Tokens of `messages`; those of assistant messages with `trained` on, and their end-of-turn token, carry loss.

    Raises:
        Unrenderable: the template rewrites earlier messages or changes one that carries loss.
    """
    spelt = [Message(m.role, renderer.written(m.content, tools)) if m.role == "assistant" else m for m in messages]
    shown, tools = renderer.opening(spelt, tools)
    ids: list[int] = []
    mask: list[int] = []
    text = ""
    for k, (message, wanted) in enumerate(zip(shown, trained, strict=True)):
        whole = renderer.text(shown[: k + 1], tools, generate=False)
        if message.role != "assistant":
            if not whole.startswith(text):
                raise Unrenderable(f"the chat template rewrites what stands before message {k}")
            added = _context(renderer, whole[len(text) :], message.content)
            ids, mask = ids + added, mask + [0] * len(added)
        else:
            opened = renderer.text(shown[:k], tools, generate=True)
            head, tail = _around(whole, opened, message.content, k)
            if not opened.startswith(text) or not tail.startswith(renderer.end_text):
                raise Unrenderable(f"the chat template does not open and close message {k} in one way")
            glue, said = renderer.native(head[len(text) :]), renderer.message(message.content.strip())
            rest = renderer.native(tail[len(renderer.end_text) :])
            ids += [*glue, *said, *rest]
            mask += [0] * len(glue) + [int(wanted)] * len(said) + [0] * len(rest)
        text = whole
    return Spoken(tuple(ids), tuple(mask))


def _around(whole: str, opened: str, content: str, k: int) -> tuple[str, str]:
    """What stands before and after the assistant's own words."""
    said = content.strip()
    if not whole.startswith(opened) or not whole[len(opened) :].startswith(said):
        raise Unrenderable(f"the chat template changes message {k} or what stands before it")
    return opened, whole[len(opened) + len(said) :]


def _context(renderer: Renderer, text: str, content: str) -> list[int]:
    """Tokens of a message without loss: its words hold no special token, the template's text around them may."""
    words = content.strip()
    before, shown, after = text.partition(words) if words else (text, "", "")
    if not shown:
        return list(renderer.native(before))
    return [*renderer.native(before), *renderer.encode(shown), *renderer.native(after)]
