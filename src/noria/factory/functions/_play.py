"""Runs a function and its mutants on calls and tells what they give. Runs inside the sandbox, one function a process.

    python _play.py WORK OUT

WORK is JSON: {"name", "gold", "mutants": [text], "calls": [[argument as a literal]]}. OUT gets {"wants": [literal or
null], "kills": [[mutant, ...] per call]}: a call without a want raised, changed its mind or gave no literal; it kills
none. A mutant is killed by a call on which it raises, takes too long, or gives anything else.
"""

from __future__ import annotations

import ast
import json
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

CALL_S, MOST_TEXT, MEMORY = 0.3, 160, 1 << 29


class TooLong(BaseException):
    """A call ran out of time."""


def stop(*_: Any) -> None:
    raise TooLong


def load(text: str, name: str) -> Callable[..., Any]:
    space: dict[str, Any] = {}
    exec(compile(text, "app.py", "exec"), space)
    run: Callable[..., Any] = space[name]
    return run


def result(run: Callable[..., Any], given: Sequence[str]) -> str | None:
    """What a call gives, as a literal; None where it gives none."""
    args = [ast.literal_eval(text) for text in given]
    signal.setitimer(signal.ITIMER_REAL, CALL_S)
    try:
        value = run(*args)
        text = repr(value)
    except TooLong:
        return "too long"
    except (Exception, SystemExit):
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if len(text) > MOST_TEXT:
        return None
    try:
        same = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return text if type(same) is type(value) and repr(same) == text else None


def main() -> None:
    """Play the function twice, then each mutant until it has run out of time once."""
    signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with open(sys.argv[1]) as file:
        work = json.load(file)
    gold = load(work["gold"], work["name"])
    wants = [result(gold, given) for given in work["calls"]]
    again = [result(load(work["gold"], work["name"]), given) for given in work["calls"]]
    wants = [want if want == same and want != "too long" else None for want, same in zip(wants, again, strict=True)]
    kills: list[list[int]] = [[] for _ in wants]
    for number, text in enumerate(work["mutants"]):
        try:
            run = load(text, work["name"])
        except (Exception, SystemExit):
            continue
        for at, (given, want) in enumerate(zip(work["calls"], wants, strict=True)):
            if want is None:
                continue
            got = result(run, given)
            if got is None or ast.literal_eval(want) != (got if got == "too long" else ast.literal_eval(got)):
                kills[at].append(number)
            if got == "too long":
                break
    with open(sys.argv[2], "w") as file:
        json.dump({"wants": wants, "kills": kills}, file)


main()
