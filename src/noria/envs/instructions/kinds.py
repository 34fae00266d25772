"""Every kind of constraint by its name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from noria.envs.instructions import kinds_form, kinds_length, kinds_words
from noria.envs.instructions.grammar import Constraint, Kind


@cache
def all_kinds() -> Mapping[str, Kind]:
    """Name -> kind, in the order of the files."""
    found = (*kinds_length.kinds(), *kinds_words.kinds(), *kinds_form.kinds())
    named = {kind.name: kind for kind in found}
    assert len(named) == len(found), "two kinds have one name"
    return named


def from_json(written: list[list[object]]) -> list[Constraint]:
    """The constraints of `Task.data`."""
    return [Constraint(all_kinds()[str(name)], dict(values)) for name, values in written]  # type: ignore[call-overload]
