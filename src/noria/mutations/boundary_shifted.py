"""A comparison is wrong where both sides are equal."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")

_OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


def changes(code: Code) -> Iterator[Change]:
    """One change per comparison of order; `loop_off_by_one` has those that end a counting loop."""
    for found in code.binaries(*_OTHER):
        around = found.node.parent
        if around is None or around.kind not in {"for_statement", "for_clause"}:
            yield Change(found.node, (replace(found.operator, _OTHER[code.text(found.operator)]),))
