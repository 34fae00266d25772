"""Edits of source ranges in the file's own style: nothing beside them is reformatted."""

from __future__ import annotations

import re
from collections.abc import Iterable

from noria.core.code import Mutation, apply
from noria.mutations._code import Change, Code, Piece
from noria.mutations._node import Node

#: What may follow the last statement of a line.
REST = re.compile(rb"[ \t]*;?[ \t]*(?:#[^\n]*|//[^\n]*|/\*[^\n]*\*/[ \t]*)?\r?(?:\n|\Z)")


def replace(node: Node, text: str) -> Piece:
    """The node becomes `text`."""
    return node.start, node.end, text


def swap(code: Code, at: Node, one: Node, other: Node) -> Change:
    """Two places that don't overlap exchange their texts."""
    return Change(at, (replace(one, code.text(other)), replace(other, code.text(one))))


def keep(code: Code, node: Node, kept: Node) -> Change:
    """A node becomes one of its parts: what is before and after that is cut."""
    return Change(node, tuple(p for p in ((node.start, kept.start, ""), (kept.end, node.end, "")) if p[0] < p[1]))


def line_start(code: Code, at: int) -> int:
    """Where the line of a byte begins."""
    return code.source.rfind(b"\n", 0, at) + 1


def indent(code: Code, node: Node) -> str | None:
    """The blanks before a node, None where it is not the first on its line."""
    before = code.source[line_start(code, node.start) : node.start].decode()
    return before if not before.strip() else None


def statement(code: Code, node: Node) -> Node | None:
    """The statement that a node is, None where it is part of something else or a block's value."""
    words = code.syntax
    around = node.parent
    if around is not None and around.kind in words.statements:
        node, around = around, around.parent
    elif words.name == "rust" and node.kind != "let_declaration":
        return None
    return node if around is not None and around.kind in words.blocks else None


def remove(code: Code, first: Node, last: Node | None = None) -> Piece:
    """Cut statements of one block: whole lines where they stand alone; a block of Python keeps a `pass`."""
    last = last or first
    block = first.parent
    assert block is not None
    if not code.syntax.braces and block.parts()[0] is first and block.parts()[-1] is last:
        return first.start, last.end, "pass"
    start, end = first.start, last.end
    rest = REST.match(code.source, end)
    if rest and indent(code, first) is not None:
        return line_start(code, start), rest.end(), ""
    after = re.compile(rb"[ \t]*;?[ \t]*").match(code.source, end)
    before = re.search(rb";[ \t]*$", code.source[line_start(code, start) : start])
    if not code.syntax.braces and before and not (after and b";" in after.group()):
        return start - len(before.group()), end, ""
    return start, after.end() if after else end, ""


def inside(code: Code, node: Node, body: Node) -> str | None:
    """The statements of `body`, moved out to where `node` stands; None where that can't be done by indentation.

    A text of several lines in them would change with its indentation, and a body on the line of its header has none.
    """
    body = next((part for part in body.parts() if part.kind == "statement_list"), body)
    parts = body.parts()
    own = indent(code, node)
    if own is None or not parts or body.kind not in code.syntax.blocks:
        return code.text(body) if own is not None and parts and body.row == body.last_row else None
    deep = indent(code, parts[0])
    if deep is None:
        return None if body.row != body.last_row else code.text(parts[0]) if len(parts) == 1 else None
    kinds = code.syntax.strings | {"template_string", "raw_string_literal", "text_block", "concatenated_string"}
    if any(found.kind in kinds and found.row != found.last_row for found in body.walk()):
        return None
    end = max(child.end for child in body.children if child.named)
    lines = code.source[parts[0].start : end].decode().split("\n")
    moved = [own + line[len(deep) :] if line.startswith(deep) else line for line in lines[1:]]
    return "\n".join([lines[0], *moved])


def touched(source: bytes, pieces: Iterable[Piece]) -> tuple[int, ...]:
    """The lines, from 1, that edits touch; text that is put in between two lines touches the one that it precedes."""
    lines: set[int] = set()
    for start, end, _ in pieces:
        first = source.count(b"\n", 0, start) + 1
        lines.update(range(first, first + source.count(b"\n", start, max(start, end - 1)) + 1))
    return tuple(sorted(lines))


def within(source: bytes, mutation: Mutation) -> bool:
    """Whether the lines of the file that differ are those that the mutation names, and no others."""
    after = apply({mutation.target.path: source}, mutation.edits)[mutation.target.path]
    old, new = source.split(b"\n"), after.split(b"\n")
    first, last = mutation.lines[0], mutation.lines[-1]
    tail = len(old) - last
    if old[: first - 1] != new[: first - 1] or old[last:] != (new[len(new) - tail :] if tail else []):
        return False
    kept = iter(new)
    return all(line in kept for number, line in enumerate(old, 1) if number not in mutation.lines)
