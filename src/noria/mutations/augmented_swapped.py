"""A value is updated in the wrong direction, or overwritten."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "AugmentedAssignmentSwap"

_OTHERS = {
    "+=": ("-=", "="), "-=": ("+=",), "*=": ("+=",), "/=": ("*=",), "//=": ("/=",), "%=": ("/=",), "|=": ("&=", "="),
    "&=": ("|=",), "^=": ("|=",), "<<=": (">>=",), ">>=": ("<<=",), "++": ("--",), "--": ("++",), "||=": ("&&=",),
    "&&=": ("||=",), "??=": ("||=",),
}  # fmt: skip
_STEPS = frozenset({"update_expression", "inc_statement", "dec_statement"})


def changes(code: Code) -> Iterator[Change]:
    """Not the step of a counting loop, which would only never end, and nothing subtracted from a text."""
    words = code.syntax
    for node in code.of(words.augmented | words.assignments | _STEPS):
        operator = next((child for child in node.children if not child.named or child.field == "operator"), None)
        around = node.parent
        if operator is None or around is None or node.field in {"update", "increment"}:
            continue
        right = node.child("right")
        textual = right is not None and right.kind in words.strings | {"template_string", "concatenated_string", "list"}
        for other in _OTHERS.get(code.text(operator), ()):
            if not (textual and other == "-="):
                yield Change(node, (replace(operator, other),))
