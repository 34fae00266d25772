"""Which functions of a package are small and plain enough to stand alone in a file of a few lines."""

from __future__ import annotations

import ast
import io
import re
import symtable
import textwrap
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noria.core.syntax import parse
from noria.envs.microswe.plain import plain

#: Statement lines of a body, characters of a line, and of the whole.
LEAST_LINES, MOST_LINES, MOST_WIDTH, MOST_TEXT = 2, 12, 92, 700
_MOST_DOC = 76


@dataclass(frozen=True, slots=True)
class Choice:
    """A function at line `first_line` of `path`; `text` is the file that holds it alone."""

    path: str
    name: str
    first_line: int
    text: str


def choose(path: str, source: str) -> Iterator[Choice]:
    """The functions at the top of a file that need nothing but their arguments and plain builtins."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            text = _alone(node, source.splitlines())
            if text is not None:
                yield Choice(path, node.name, node.lineno, text)


def standing(node: ast.FunctionDef, lines: Sequence[str]) -> str | None:
    """A function of a file of `lines` as it would stand in a file of its own: without annotations, comments, decorators
    and all but the first sentence of its docstring. None where it is too long or too short, or a text spans lines.
    """
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not body:
        return None
    code = textwrap.dedent("\n".join(lines[body[0].lineno - 1 : body[-1].end_lineno]))
    kept = _bare(code)
    if kept is None or not LEAST_LINES <= len(kept) <= MOST_LINES:
        return None
    doc = _first_sentence(ast.get_docstring(node) or "")
    head = [f"def {node.name}({_signature(node.args)}):", *([f'    """{doc}"""'] if doc else [])]
    text = "\n".join([*head, *(f"    {line}" for line in kept)]) + "\n"
    if max(map(len, text.split("\n"))) > MOST_WIDTH or len(text) > MOST_TEXT or not text.isascii() or "\t" in text:
        return None
    return text


def _alone(node: ast.FunctionDef, lines: list[str]) -> str | None:
    """`standing` for a function that needs nothing but its arguments."""
    args = node.args
    if args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg or not args.args or node.name.startswith("_"):
        return None
    text = standing(node, lines)
    return text if text is not None and plain(text) and _needs_nothing(text, node.name) else None


def _signature(args: ast.arguments) -> str:
    bare = ast.arguments(
        [ast.arg(one.arg) for one in args.posonlyargs], [ast.arg(one.arg) for one in args.args],
        args.vararg and ast.arg(args.vararg.arg), [ast.arg(one.arg) for one in args.kwonlyargs], args.kw_defaults,
        args.kwarg and ast.arg(args.kwarg.arg), args.defaults,
    )  # fmt: skip
    return ast.unparse(bare)


def _bare(code: str) -> list[str] | None:
    """Lines without comments and empty ones; None where a text spans lines, or a name is annotated."""
    lines = code.split("\n")
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code + "\n").readline))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return None
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
        elif token.type == tokenize.STRING and token.start[0] != token.end[0]:
            return None
    try:
        tree = parse(code)
    except SyntaxError:  # `return` outside of a function parses; this is something else
        return None
    for found in ast.walk(tree):
        if isinstance(found, ast.AnnAssign):
            if found.value is None or found.target.end_col_offset is None:
                return None
            if found.lineno != found.annotation.end_lineno:
                return None
            row = found.lineno - 1
            line = lines[row]
            lines[row] = line[: found.target.end_col_offset] + line[found.annotation.end_col_offset :]
    return [line.rstrip() for line in lines if line.strip()]


def _first_sentence(doc: str) -> str:
    found = re.split(r"(?<=[.!?])\s|\n\s*\n", doc.strip(), maxsplit=1)[0]
    words = " ".join(found.split()).rstrip(".")
    fits = words.isascii() and words.isprintable() and '"' not in words and "\\" not in words
    return words if fits and 0 < len(words) <= _MOST_DOC else ""


def _needs_nothing(text: str, name: str) -> bool:
    """Whether no name is looked up but the function's own, its inner ones and builtins (`plain` has seen to which)."""
    todo = [symtable.symtable(text, "app.py", "exec").get_children()[0]]
    import builtins

    known = set(dir(builtins)) | {name}
    while todo:
        table = todo.pop()
        todo += table.get_children()
        if any(symbol.is_global() and symbol.get_name() not in known for symbol in table.get_symbols()):
            return False
    return True
