"""A special case is no longer caught before the rest."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import remove, statement

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")


def changes(code: Code) -> Iterator[Change]:
    """An `if` goes whose body only leaves: returns, raises, breaks or continues.

    `null_check_removed` has the tests against null.
    """
    words = code.syntax
    leaves = words.returns | words.raises | words.breaks | words.continues
    for branch in code.branches():
        if branch.chained or code.asks_null(branch.condition) or branch.otherwise is not None:
            continue
        whole = statement(code, branch.node) or (branch.node if code.is_statement(branch.node) else None)
        if whole is None or (words.name == "rust" and whole is branch.node):
            continue
        body = branch.then.parts() if branch.then.kind not in leaves else [branch.then]
        if len(body) == 1 and body[0].kind == "statement_list":
            body = body[0].parts()
        if len(body) == 1 and (body[0].kind in leaves or {part.kind for part in body[0].parts()} & leaves):
            yield Change(branch.node, (remove(code, whole),))
