"""Features removed whole: the body of a function that tests look at, or all the methods of a class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from noria.core.code import Mutation, Target
from noria.core.errors import UserError
from noria.factory.candidate import Candidate, Site
from noria.mutations import stub

OPERATOR = "feature_removed"
#: Lines of a body that is cut out at least, and methods of a class that are cut out together.
LEAST_LINES, LEAST_METHODS, MOST_METHODS = 3, 2, 10


def features(site: Site) -> Iterator[Candidate]:
    """A candidate for each function, and for each class with some methods; its signature and docstring stay."""
    for path, source, lines in site.sources():
        found = site.targets(path, source)
        run = [target for target in found if target.kind != "class" and _run(target, lines)]
        cut = {target: _body(site, path, source, target) for target in run}
        bodies = {target: body for target, body in cut.items() if body is not None}
        for target, body in bodies.items():
            if len(body.lines) >= LEAST_LINES:
                yield site.candidate(OPERATOR, [body], f"`{target.name}` in `{path}`")
        for target in found:
            parts = [bodies[each] for each in _methods(target, found) if each in bodies]
            if LEAST_METHODS <= len(parts) <= MOST_METHODS:
                edits = tuple(edit for part in parts for edit in part.edits)
                removed = tuple(line for part in parts for line in part.lines)
                names = ", ".join(f"`{part.target.name.rpartition('.')[2]}`" for part in parts)
                whole = Mutation(OPERATOR, target, edits, removed)
                yield site.candidate(OPERATOR, [whole], f"the class `{target.name}` in `{path}`, with {names}")


def _body(site: Site, path: str, source: bytes, target: Target) -> Mutation | None:
    try:
        return replace(stub(site.prepared.repo.layout.language, path, source, target), operator=OPERATOR)
    except UserError:  # no body, or nothing but a docstring
        return None


def _methods(target: Target, found: Sequence[Target]) -> list[Target]:
    """Methods of a class but those that make its objects: what they set stays to be seen."""
    if target.kind != "class":
        return []
    prefix = f"{target.name}."
    named = [each for each in found if each.kind == "method" and each.name.startswith(prefix)]
    own = [each for each in named if "." not in each.name.removeprefix(prefix)]
    return [each for each in own if each.name.removeprefix(prefix) not in ("__init__", "constructor")]


def _run(target: Target, lines: frozenset[int] | None) -> bool:
    """Whether a test runs a line of its body."""
    return lines is None or any(line in lines for line in range(target.first_line + 1, target.last_line + 1))
