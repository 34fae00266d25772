"""What a language calls the parts that operators look for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noria.mutations._node import Node

Kinds = frozenset[str]
NONE: Kinds = frozenset()


def kinds(words: str) -> Kinds:
    """The words of a text."""
    return frozenset(words.split())


def never(node: Node, source: bytes) -> bool:
    """No node."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """Kinds of nodes by what they mean, and how the language writes what an operator inserts.

    Fields that no operator asks of a language may stay empty. `pairs` are names that are easily taken for each
    other, `faults` exceptions that are, `wrappers` one-argument calls that may be forgotten.
    """

    name: str
    grammar: str
    functions: Kinds
    blocks: Kinds
    frozen: Kinds
    """Imports, types, comments, annotations: nothing below is touched."""
    classes: Kinds = NONE
    closures: Kinds = NONE
    """Functions without a name of their own; the place they are bound to may name them."""
    ifs: Kinds
    fors: Kinds
    """Counting loops with a condition, and those over ranges or elements."""
    whiles: Kinds
    ternaries: Kinds = NONE
    tries: Kinds = NONE
    withs: Kinds = NONE
    cases: Kinds = NONE
    """Branches of a switch or match; each is one decision."""
    catches: Kinds = NONE
    binaries: Kinds
    negations: Kinds
    calls: Kinds
    arguments: Kinds
    assignments: Kinds
    augmented: Kinds = NONE
    declarations: Kinds = NONE
    statements: Kinds
    """Wrappers of an expression that stands as a statement."""
    returns: Kinds
    raises: Kinds = NONE
    breaks: Kinds
    continues: Kinds
    integers: Kinds
    floats: Kinds = NONE
    strings: Kinds = NONE
    contents: Kinds = NONE
    """The text within a string, without its quotes."""
    names: Kinds
    subscripts: Kinds = NONE
    defaults: Kinds = NONE
    awaits: Kinds = NONE
    parameters: Kinds = NONE
    booleans: tuple[str, str] = ("true", "false")
    null: str = "null"
    nulls: Kinds = frozenset({"null"})
    conjunctions: tuple[str, str] = ("&&", "||")
    negated: str = "!({})"
    braces: bool = True
    typed: bool = True
    """The compiler rejects values of another type."""
    stub: str
    """Statement that a removed body is replaced by."""
    cold: Callable[[Node, bytes], bool] = field(default=never)
    """Further nodes below which nothing is touched."""
    pairs: tuple[tuple[str, str], ...] = ()
    faults: tuple[tuple[str, str], ...] = ()
    wrappers: Kinds = NONE
