"""What should happen on a condition happens always, or never."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import inside, remove, replace, statement

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "RemoveConditional"


def changes(code: Code) -> Iterator[Change]:
    """An `if` without `else` goes, whole or alone.

    Those that only leave are `guard_removed`'s, tests against null `null_check_removed`'s.
    """
    words = code.syntax
    leaves = words.returns | words.raises | words.breaks | words.continues
    for branch in code.branches():
        if (
            branch.chained
            or code.asks_null(branch.condition)
            or branch.otherwise is not None
            or branch.node.child("initializer") is not None
        ):
            continue
        whole = statement(code, branch.node) or (branch.node if code.is_statement(branch.node) else None)
        if whole is None or (code.syntax.name == "rust" and whole is branch.node):
            continue
        body = branch.then.parts() if branch.then.kind not in leaves else [branch.then]
        if len(body) == 1 and body[0].kind == "statement_list":
            body = body[0].parts()
        if len(body) == 1 and (body[0].kind in leaves or {n.kind for n in body[0].parts()} & leaves):
            continue
        yield Change(branch.node, (remove(code, whole),))
        text = inside(code, whole, branch.then)
        if text is not None and not (words.typed and branch.condition.kind in {"let_condition", "let_chain"}):
            yield Change(branch.node, (replace(whole, text),))
