"""Programs of ours that run inside the sandbox: the `sql` tool, the reader of databases, the player of programs.

Each is handed to an interpreter as text and started with `-I`, so that nothing in a workspace is imported, sourced or
asked; results come back on its own output.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from noria.core.errors import SandboxError
from noria.core.protocols import ExecResult, Workspace

#: Seconds that the reader of databases may take, and one program under test.
_ASK_S, _CASE_S = 10.0, 3.0
_START_S = 10.0
#: Steps of SQLite's machine that one query may take, bytes of a database, rows and bytes that are read.
_STEPS, _DB_BYTES, _ROWS, _PRINTED = 2_000_000, 8 << 20, 500, 4_000
#: Bytes of one cell, and characters of one answer: what a command prints is cut, and a cut answer is none.
_CELL, _SAID = 1_000_000, 12_000

_ASK = f"""
import json, os, sqlite3, sys
from urllib.parse import quote
out = []
for path, query in json.loads(sys.argv[1]):
    try:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > {_DB_BYTES}:
            raise sqlite3.Error("no database of the size wanted")
        con = sqlite3.connect("file:" + quote(path) + "?mode=ro", uri=True, timeout=1)
        con.text_factory = lambda data: data.decode("utf-8", "replace")
        con.set_progress_handler(lambda: 1, {_STEPS})
        if hasattr(con, "setlimit"):
            con.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, {_CELL})
        kinds = dict(con.execute("select name, type from sqlite_master"))
        if "view" in kinds.values():
            raise sqlite3.Error("a view stands where tables are wanted")
        rows = con.execute(query).fetchmany({_ROWS})
        con.close()
        rows = [[x.hex() if isinstance(x, bytes) else x for x in row] for row in rows]
        if len(json.dumps(rows)) > {_SAID}:
            raise sqlite3.Error("holds more than was asked for")
        out.append({{"rows": rows}})
    except (sqlite3.Error, OSError, MemoryError, OverflowError) as fault:
        out.append({{"fault": str(fault)[:100]}})
print(json.dumps(out))
"""

_PLAY = f"""
import json, subprocess, sys
out = []
for argv in json.loads(sys.argv[1]):
    try:
        done = subprocess.run([sys.executable, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout={_CASE_S})
        out.append(done.stdout[:{_PRINTED}].decode("utf-8", "replace"))
    except subprocess.TimeoutExpired:
        out.append("timeout")
print(json.dumps(out))
"""

SQL = f"""
import csv, os, sqlite3, sys
path, query, out = sys.argv[1:4]
if not os.path.isfile(path):
    sys.exit("error: no database " + path)
try:
    con = sqlite3.connect(path, timeout=1)
    con.set_progress_handler(lambda: 1, {_STEPS})
    cur = con.execute(query)
    rows = cur.fetchmany({_ROWS} + 1)
    con.commit()
except (sqlite3.Error, sqlite3.Warning) as fault:
    sys.exit("error: " + str(fault))
table = [[x[0] for x in cur.description], *rows[:{_ROWS}]] if cur.description else []
if out:
    with open(out, "w", newline="") as file:
        csv.writer(file, lineterminator="\\n").writerows(table)
csv.writer(sys.stdout, lineterminator="\\n").writerows(table)
if not table:
    print("ok", cur.rowcount, "rows" if cur.rowcount >= 0 else "")
elif len(rows) > {_ROWS}:
    print("more rows")
"""

#: The interpreter of this process where the sandbox shows it, else the one that the sandbox has.
_CHOOSE = 'p="$1"; shift; [ -x "$p" ] || p=python3; exec "$p" "$@"'


def interpreter(*words: str) -> list[str]:
    """The command that runs Python inside with these arguments."""
    return ["sh", "-c", _CHOOSE, "sh", os.path.realpath(sys.executable), *words]


def ask(workspace: Workspace, asked: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """What databases answer to (path, query) pairs: {"rows": …}, or {"fault": …} where they cannot; on a copy.

    Raises:
        SandboxError: the reader itself did not get through; no database can bring that about.
    """
    if not asked:
        return []
    copy = workspace.fork()
    try:
        done = copy.run(interpreter("-I", "-S", "-c", _ASK, json.dumps(list(asked))), _ASK_S)
    finally:
        copy.close()
    told = _json(done)
    if told is None or len(told) != len(asked):
        raise SandboxError(f"the reader of databases failed: code {done.code}, {done.stderr[-200:]!r}")
    return told


def play(workspace: Workspace, commands: Sequence[Sequence[str]]) -> list[str]:
    """What Python prints with each of these arguments; what nothing equals where they broke the player."""
    limit_s = _START_S + _CASE_S * len(commands)
    done = workspace.run(interpreter("-I", "-S", "-c", _PLAY, json.dumps([list(argv) for argv in commands])), limit_s)
    told = _json(done)
    if told is None or len(told) != len(commands) or not all(isinstance(each, str) for each in told):
        return ["\0"] * len(commands)
    return told


def _json(done: ExecResult) -> list[Any] | None:
    try:
        told = json.loads(done.stdout)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, list) else None
