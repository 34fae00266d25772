"""A call forgets to say what it was told to say."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code

LANGUAGES = ("python",)


def changes(code: Code) -> Iterator[Change]:
    """One change per keyword argument."""
    for call in code.calls():
        if code.in_message(call.node):
            continue
        for at, given in enumerate(call.arguments):
            if given.kind != "keyword_argument":
                continue
            if at:
                yield Change(given, ((call.arguments[at - 1].end, given.end, ""),))
            elif len(call.arguments) > 1:
                yield Change(given, ((given.start, call.arguments[1].start, ""),))
            else:
                yield Change(given, ((given.start, given.end, ""),))
