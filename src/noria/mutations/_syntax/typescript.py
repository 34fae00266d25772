"""TypeScript's syntax tables: JavaScript's with another grammar, `.tsx` with a third."""

from __future__ import annotations

from dataclasses import replace

from noria.mutations._syntax.base import Syntax
from noria.mutations._syntax.javascript import SYNTAX as JAVASCRIPT

SYNTAX: Syntax = replace(
    JAVASCRIPT, name="typescript", grammar="tree_sitter_typescript:language_typescript", typed=True
)
TSX: Syntax = replace(SYNTAX, grammar="tree_sitter_typescript:language_tsx")
