"""Cutting a function's body out: what a model, or a hidden test, then asks for again."""

from __future__ import annotations

from noria.core.code import Edit, Mutation, Target
from noria.core.errors import UserError
from noria.mutations._code import read
from noria.mutations._edits import touched


def stub(language: str, path: str, source: bytes, target: Target) -> Mutation:
    """The mutation that replaces the body of a function or method by a statement that fails when it is reached.

    Signature and docstring stay. It is the seam for features removed whole and for bodies that a model writes anew.

    Raises:
        UserError: `target` is no function of this file, or has no block for a body.
    """
    code = read(language, path, source)
    at = dict(zip(code.targets, code.nodes, strict=True)).get(target)
    body = at.child("body") if at is not None else None
    if at is None or body is None or target.kind == "class" or not body.parts():
        raise UserError(f"target must be a function with a body in {path}: got {target.name!r} - take one of targets()")
    if code.syntax.braces:
        whole = body.first("statement_list") or body
        parts = [child for child in whole.children if child.named]
        start, end = (parts[0].start, parts[-1].end) if parts else (body.start + 1, body.end - 1)
        piece = start, end, code.syntax.stub
    else:
        parts = body.parts()
        kept = [node for node in parts[:1] if not node.live]
        rest = parts[len(kept) :]
        if not rest:
            raise UserError(f"target must have more than a docstring: got {target.name!r} - take another")
        piece = rest[0].start, rest[-1].end, code.syntax.stub
    edit = Edit(path, *piece)
    return Mutation("stub", target, (edit,), touched(source, [piece]))
