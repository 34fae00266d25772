"""Absolute paths of a task, and where they lie in a workspace.

A workspace is one folder, seen as /workspace. What a task has elsewhere lies below `.root` in it, and links at the root
of the sandbox lead there: `/app/x` is `.root/app/x`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from noria.core.errors import PolicyError

HOME = "/workspace"
HIDDEN = ".root"
#: A home that outlives a command, by its own path: the sandbox may show an interpreter below /root.
USER = f"{HOME}/{HIDDEN}/root"
TESTS, SOLUTION, LOGS = "/tests", "/solution", "/logs"
VERIFIER, AGENT, ARTIFACTS = f"{LOGS}/verifier", f"{LOGS}/agent", f"{LOGS}/artifacts"
#: Shown in every task's sandbox.
ALWAYS = (TESTS, SOLUTION, LOGS, "/app")
#: Belong to the system that the sandbox shows, or to the sandbox.
TAKEN = frozenset(
    ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "tmp", "usr")
)


def inside(path: str) -> str:
    """Where an absolute path lies in the workspace. Raises PolicyError where a task may have nothing."""
    plain = posixpath.normpath(path)
    if plain.startswith("//"):
        plain = plain[1:]
    parts = plain.split("/")[1:]
    if not plain.startswith("/") or plain == "/":
        raise PolicyError(f"{path!r} is no absolute path of a file or folder")
    if parts[0] in TAKEN or plain in ("/opt", "/opt/noria") or plain.startswith("/opt/noria/"):
        raise PolicyError(f"{path!r} lies in a folder of the system")
    if parts[0] == HOME[1:]:
        if parts[1:2] == [HIDDEN]:
            raise PolicyError(f"{path!r} is taken")
        return "/".join(parts[1:]) or "."
    return f"{HIDDEN}{plain}"


def top(path: str) -> str | None:
    """The folder at the root that must lead into the workspace for `path`; None where it does so by itself."""
    parts = posixpath.normpath(path).lstrip("/").split("/")
    if parts[0] in ("", HOME[1:]):
        return None
    return "/" + "/".join(parts[: 2 if parts[0] == "opt" else 1])


def links(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(path at the root, folder of the workspace) for all that `paths` need, ordered."""
    tops = {top(path) for path in (*ALWAYS, *paths)} - {None}
    return tuple((path, inside(path)) for path in sorted(str(each) for each in tops))
