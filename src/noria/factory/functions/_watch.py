"""Runs a package's tests under pytest and writes which calls of some functions they make. Runs inside the sandbox.

    python _watch.py OUT TARGETS TEST-FILE...

TARGETS is JSON: [path, line of the `def`] each. OUT gets one JSON line per call: [path, line, [argument, ...]], with
the arguments as literals, those of parameters that the call left out with their defaults.
"""

from __future__ import annotations

import ast
import json
import sys
from types import FrameType
from typing import Any

MOST_CALLS, MOST_TEXT = 60, 160


def literal(value: Any) -> str | None:
    """The value as a literal that reads back as itself, or None."""
    text = repr(value)
    if len(text) > MOST_TEXT:
        return None
    try:
        same = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return text if type(same) is type(value) and repr(same) == text else None


def main() -> None:
    """Watch, test, write."""
    out, files = sys.argv[1], sys.argv[3:]
    targets = {(str(path), int(line)) for path, line in json.loads(sys.argv[2])}
    seen: dict[tuple[str, int], dict[str, None]] = {target: {} for target in targets}
    lines = {line for _, line in targets}

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_firstlineno not in lines:
            return
        found = seen.get((code.co_filename, code.co_firstlineno))
        if found is None or len(found) >= MOST_CALLS:
            return
        given = [
            literal(frame.f_locals[name]) for name in code.co_varnames[: code.co_argcount] if name in frame.f_locals
        ]
        if None not in given and len(given) == code.co_argcount:
            found.setdefault(json.dumps(given))

    import pytest

    sys.setprofile(look)
    pytest.main(["-q", "-p", "no:cacheprovider", "-o", "addopts=", *files])
    sys.setprofile(None)
    with open(out, "w") as file:
        for (path, line), calls in seen.items():
            for given in calls:
                file.write(json.dumps([path, line, json.loads(given)]) + "\n")


main()
