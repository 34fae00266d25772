"""One of several cases is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import REST, indent, line_start
from noria.mutations._node import Node

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")


def changes(code: Code) -> Iterator[Change]:
    """The last `else`, an `elif` of Python, a case of a `switch` or `match` that is not the only one."""
    for branch in code.branches():
        last = branch.node.every("alternative")
        if branch.otherwise is not None and last and branch.node.parent is not None:
            start = branch.then.end if code.syntax.braces else line_start(code, last[-1].start)
            if code.syntax.name == "rust" and branch.node.parent.kind != "expression_statement":
                continue
            if code.syntax.braces:
                yield Change(branch.node, ((start, last[-1].end, ""),))
            elif indent(code, last[-1]) is not None:
                yield Change(branch.node, (_whole(code, last[-1]),))
        if branch.node.kind == "elif_clause" and indent(code, branch.node) is not None:
            yield Change(branch.node, (_whole(code, branch.node),))
    for node in code.of(code.syntax.cases):
        whole = node.parent if node.kind == "switch_label" and node.parent is not None else node
        siblings = [n for n in whole.parent.children if n.kind == whole.kind] if whole.parent is not None else []
        if len(siblings) > 1 and indent(code, whole) is not None and "default" not in code.text(whole)[:8]:
            yield Change(node, (_whole(code, whole),))


def _whole(code: Code, node: Node) -> tuple[int, int, str]:
    rest = REST.match(code.source, node.end)
    return line_start(code, node.start), rest.end() if rest else node.end, ""
