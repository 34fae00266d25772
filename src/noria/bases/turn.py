"""The calls of one message, for worlds that answer each with a line of its own.

A call that cannot be read is answered like one that is refused, with `error: why` on its line; its neighbours run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import groupby

from noria.core.errors import PolicyError
from noria.tokens.calls import Call, Malformed, hear
from noria.tokens.together import at_once

#: Calls of one message at most.
MOST_CALLS = 16
MALFORMED = "malformed"
_MAX_ERROR_CHARS = 100


def carried_out(
    message: str,
    do: Callable[[Call], str],
    over: Callable[[], bool],
    no_call: str,
    most: int = MOST_CALLS,
    together: Callable[[Call], bool] = lambda call: False,
) -> list[str]:
    """Do the calls of a message in order, until `over`; their lines. `no_call` is what is said where there is none.

    What `do` refuses with a PolicyError is that call's line. Neighbours that are `together`, because they change
    nothing and take time, are done at once, in threads.
    """
    calls = heard_calls(message)
    if not calls:
        return [f"error: {no_call}"]
    if len(calls) > most:
        return [f"error: at most {most} calls in one message"]

    def line(call: Call | Malformed) -> str:
        if isinstance(call, Malformed):
            return error_line(call.why)
        try:
            return do(call)
        except PolicyError as refusal:
            return f"error: {refusal}"

    lines: list[str] = []
    for beside, part in groupby(calls, lambda call: isinstance(call, Call) and together(call)):
        group = list(part)
        if beside and len(group) > 1:
            lines += [each.result() for each in at_once([partial(line, call) for call in group])]
            continue
        for call in group:
            lines.append(line(call))
            if isinstance(call, Call) and over():
                return lines
    return lines


def answered(message: str, observation: str) -> Iterator[tuple[Call, str]]:
    """The calls of a past message that could be read, each with its line, as `carried_out` gave them."""
    for call, line in zip(heard_calls(message), observation.split("\n"), strict=False):
        if isinstance(call, Call):
            yield call, line


def kind_of_first(message: str, kind: Callable[[Call], str], without: str = "answer") -> str:
    """The kind of a message's first call, `without` where it calls nothing, "malformed" where it cannot be read.

    `kind` may refuse a call with a PolicyError: then it is malformed too.
    """
    calls = heard_calls(message)
    if not calls:
        return without
    first = calls[0]
    if isinstance(first, Malformed):
        return MALFORMED
    try:
        return kind(first)
    except PolicyError:
        return MALFORMED


def error_line(why: str, most: int = _MAX_ERROR_CHARS) -> str:
    """What the model is told, though it may quote the model's own text: one short line of ASCII."""
    return f"error: {ascii(why)[1:-1][:most]}"


# A policy reads the whole conversation again at each turn, and messages repeat across episodes.
@lru_cache(maxsize=4096)
def heard_calls(message: str) -> tuple[Call | Malformed, ...]:
    """The calls of a message in their places, those too that cannot be read."""
    return hear(message).calls
