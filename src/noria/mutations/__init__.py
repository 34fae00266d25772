"""Bugs for real code: operators that edit source ranges, one per file of this folder.

An operator has `LANGUAGES`, the languages it knows, and `changes(code)`, which yields every place it could break.
`SMITH` is the modifier of SWE-smith with the same aim, where there is one.
"""

from noria.mutations._edits import within
from noria.mutations._propose import combine, operators, propose, targets
from noria.mutations._stub import stub
from noria.mutations._syntax import LANGUAGES

__all__ = ["LANGUAGES", "combine", "operators", "propose", "stub", "targets", "within"]
