"""The wrong exception is raised, or caught."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace

LANGUAGES = ("python", "javascript", "typescript", "java", "cpp")


def changes(code: Code) -> Iterator[Change]:
    """Names that are taken for each other, as the language's table has them, where one is raised or caught."""
    words = code.syntax
    others: dict[str, list[str]] = {}
    for one, other in words.faults:
        others.setdefault(one, []).append(other)
    for node in code.of(words.raises | words.catches):
        for name in node.walk():
            body = next((n for n in name.above() if n.kind in words.blocks and n.start > node.start), None)
            if name.kind not in {"identifier", "type_identifier"} or body is not None:
                continue
            for other in others.get(code.text(name), ()):
                yield Change(node, (replace(name, other),))
