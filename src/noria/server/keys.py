"""What two messages have in common when they mean the same: a client may send back other bytes than it was given.

An assistant's message is compared by its thought, its words without spaces at the ends of lines, and its calls with
arguments as values. All other messages are compared letter by letter, since each of them is what the policy reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from noria.server.schema import ChatMessage, ToolSpec

#: Bytes of a key: enough that two conversations of a session never share one by chance.
SIZE = 16


def opening(tools: Sequence[ToolSpec]) -> str:
    """Key of a conversation in which nothing was said, under these tools."""
    return _key("", [tool.model_dump(exclude_none=True) for tool in tools])


def then(before: str, message: ChatMessage) -> str:
    """Key of a conversation with one more message."""
    if message.role == "assistant":
        calls = [{"name": c.function.name, "arguments": c.function.arguments} for c in message.tool_calls]
        return then_said(before, message.words, calls)
    return _key(before, [message.role.replace("developer", "system"), message.text])


def then_said(before: str, content: str, calls: Sequence[Mapping[str, str]]) -> str:
    """Key of a conversation after the assistant said this; `content` holds the thought."""
    thought, words = _apart(content)
    meant = [[call["name"], _value(call["arguments"])] for call in calls]
    return _key(before, ["assistant", thought.strip(), _plain(words), meant])


def _apart(content: str) -> tuple[str, str]:
    """Thought and words of a message that begins with a whole thought."""
    rest = content.lstrip()
    head, closed, tail = rest.removeprefix("<think>").partition("</think>")
    return (head, tail) if closed and rest.startswith("<think>") else ("", content)


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").strip().split("\n"))


def _value(arguments: str) -> str:
    """Arguments in one form, whatever the order of their keys."""
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _key(before: str, part: Any) -> str:
    text = json.dumps([before, part], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[: 2 * SIZE]
