"""Calls of the house's worlds as shell commands, for scripted policies in harnesses that have nothing but a shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from noria.tokens.calls import Call, hear

#: The file of worlds that have but one, and the programs that stand for tools without a shell.
ONE_FILE = "app.py"
_TESTS = "python3 -m pytest -q"
_SOLE = """import sys
path, old, new = sys.argv[1:]
how = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}
text = open(path, **how).read()
if text.count(old) != 1:
    sys.exit(f"old must stand in {path} once: it is there {text.count(old)} times")
open(path, "w", **how).write(text.replace(old, new))"""
_LINE = """import sys
path, number, new = sys.argv[1], int(sys.argv[2]), sys.argv[3]
lines = open(path).read().split("\\n")
old = lines[number - 1]
lines[number - 1] = old[: len(old) - len(old.lstrip())] + new.strip()
open(path, "w").write("\\n".join(lines))"""


def commands_of(message: str, path: str = "") -> list[str]:
    """The commands that do what the calls of a message do; calls that have no such form are left out."""
    heard = hear(message)
    found = (_command(call.name, call.args, path or ONE_FILE) for call in heard.calls if isinstance(call, Call))
    return [each for each in found if each]


def _command(name: str, args: Mapping[str, str], only: str) -> str:
    path = shlex.quote(args.get("path", only))
    if "command" in args:
        return args["command"]
    if {"old", "new"} <= args.keys():
        return f"python3 -c {shlex.quote(_SOLE)} {path} {shlex.quote(args['old'])} {shlex.quote(args['new'])}"
    if {"line", "new"} <= args.keys():
        return f"python3 -c {shlex.quote(_LINE)} {path} {shlex.quote(args['line'])} {shlex.quote(args['new'])}"
    if "text" in args:
        return f"printf %s {shlex.quote(args['text'])} > {path}"
    return {"read": f"cat {path}", "view": f"cat -n {path}", "test": _TESTS}.get(name, "")
