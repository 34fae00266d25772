"""The languages that can be mutated: one syntax table each."""

from __future__ import annotations

import importlib

from noria.core.errors import UserError
from noria.mutations._syntax.base import Syntax

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")


def syntax(language: str, path: str = "") -> Syntax:
    """The table of a language; `.tsx` files have a grammar of their own.

    Raises:
        UserError: no such language.
    """
    if language not in LANGUAGES:
        raise UserError(f"language must be one of {', '.join(LANGUAGES)}: got {language!r} - name one of them")
    module = importlib.import_module(f"noria.mutations._syntax.{language}")
    found: Syntax = module.TSX if language == "typescript" and path.endswith(".tsx") else module.SYNTAX
    return found
