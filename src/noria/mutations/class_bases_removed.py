"""A class loses what it inherits from."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code

LANGUAGES = ("python", "javascript", "typescript", "java", "cpp")
SMITH = "ClassRemoveBases"

#: Where the classes of these languages name their bases. TypeScript's and Java's interfaces bind no behaviour.
_FIELDS = ("superclasses", "superclass")
_KINDS = ("class_heritage", "base_class_clause")
_HARMLESS = frozenset({"object", "ABC", "Generic", "Protocol"})


def changes(code: Code) -> Iterator[Change]:
    """One change per class that inherits; in Python also one per base of several."""
    for node in code.of(code.syntax.classes):
        bases = node.child(*_FIELDS) or node.first(*_KINDS)
        if bases is None:
            continue
        if bases.kind == "class_heritage" and (extends := bases.first("extends_clause")) is not None:
            bases = extends
        named = {code.text(base).partition("[")[0] for base in bases.parts()}
        if named and not named <= _HARMLESS:
            start = bases.start
            while code.source[start - 1 : start].isspace():
                start -= 1
            yield Change(node, ((start, bases.end, ""),))
