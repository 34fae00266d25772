"""What hostile code tries in a sandbox, each as a case that says "" where it was contained, else what got out.

Code inside prints ESCAPED and what it could do; `done` at its end shows that it was not the attack that broke.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from noria.core.protocols import ExecResult, Sandbox

PYTHON = os.path.realpath(sys.executable)
MEMORY_MB, PIDS, DISK_MB, OUTPUT_KB = 128, 24, 8, 4
SECRET = "the-secret-of-the-host"
#: Begins what a case says where an attack is held less than with control groups, as documented.
PARTLY = "partly:"
#: What would harm a host that is not protected: such cases are not tried in `process`.
HARMFUL = frozenset({
    "fork bomb", "exponential fork bomb", "threads", "memory hog", "memory hog of many", "disk: /tmp", "disk: /dev/shm",
    "disk: inodes", "signals to all", "writes to /proc and /sys", "mounts, namespaces, keyrings", "deep trees",
})  # fmt: skip

PRELUDE = f"""
import ctypes, errno, os, signal, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def tried(what, call, *args):
    try:
        got = call(*args)
    except (OSError, ValueError, MemoryError, OverflowError):
        return None
    print("ESCAPED", what, repr(got)[:60], flush=True)
    return got
def sees(text):
    if {SECRET!r} in text:
        print("ESCAPED read a secret", flush=True)
"""


@dataclass(frozen=True)
class Arena:
    """Where a case runs. `mark` is a word no other process has, `folder` a place of the host with a secret in it."""

    sandbox: Sandbox
    mark: str
    folder: Path
    caged: bool


@dataclass(frozen=True)
class Case:
    """One attack: what contains it in `bwrap`, and how it is tried."""

    name: str
    by: str
    run: Callable[[Arena], str]


def inside(arena: Arena, code: str, timeout_s: float = 10.0) -> ExecResult:
    """Run Python inside, as a command in a new workspace."""
    files = arena.sandbox.workspace({"own.txt": "own"})
    try:
        return files.run([PYTHON, "-c", PRELUDE + textwrap.dedent(code)], timeout_s)
    finally:
        files.close()


def escaped(result: ExecResult, killed: bool = False) -> str:
    """What got out; an attack that broke off counts as out, since it proves nothing, unless it was to be killed."""
    found = [line for line in result.stdout.splitlines() if line.startswith("ESCAPED")]
    if found:
        return "; ".join(found)[:200]
    if killed:
        return "" if result.timed_out or result.killed or result.code else "it was let alone"
    return "" if result.stdout.endswith("done\n") else f"broke: code {result.code} {result.stderr[-160:]!r}"


def simple(name: str, by: str, code: str, timeout_s: float = 10.0) -> Case:
    """A case that is nothing but code; {mark}, {folder} and {secret} stand for those of the arena."""

    def run(arena: Arena) -> str:
        filled = textwrap.dedent(code).replace("{mark}", arena.mark).replace("{folder}", str(arena.folder))
        return escaped(inside(arena, filled + "\nprint('done')\n", timeout_s))

    return Case(name, by, run)


def until_killed(name: str, by: str, code: str, timeout_s: float = 0.6) -> Case:
    def run(arena: Arena) -> str:
        return escaped(inside(arena, code.replace("{mark}", arena.mark), timeout_s), killed=True)

    return Case(name, by, run)
