"""A parameter that is not given has the wrong value."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace

LANGUAGES = ("python", "javascript", "typescript", "cpp")


def changes(code: Code) -> Iterator[Change]:
    """Truth values turned, numbers one beside, texts empty or not, nothing where something was."""
    words = code.syntax
    true, false = words.booleans
    for node in code.of(words.defaults):
        value = node.child("value", "right", "default_value")
        if value is None or not value.live:
            continue
        text = code.text(value)
        if value.kind in {"true", "false"}:
            yield Change(node, (replace(value, false if text == true else true),))
        elif value.kind in words.integers and text.isdigit():
            yield Change(node, (replace(value, str(int(text) + 1)),))
            if int(text) > 0:
                yield Change(node, (replace(value, str(int(text) - 1)),))
        elif value.kind in words.strings and len(text) > 2 and text[0] in "\"'":
            yield Change(node, (replace(value, text[0] + text[-1]),))
        elif not words.typed and value.kind in {"tuple", "identifier", "list", "array", "object"}:
            yield Change(node, (replace(value, words.null),))
