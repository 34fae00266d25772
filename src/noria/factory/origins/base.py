"""What an origin gives: a folder with a repository's files, and what they are."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from noria.core.errors import NoriaError

#: Seconds that a download may take.
FETCH_S = 600.0


class Unfetched(NoriaError):
    """The source could not be had; says why in one sentence."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A repository's files. `revision` is the commit, or the digest of the archive or the files.

    `clone` is a repository of git with the history of `revision`, None where there is none.
    """

    name: str
    folder: Path
    revision: str
    clone: Path | None = None


class Origin(Protocol):
    """A kind of source."""

    def claims(self, source: str) -> bool:
        """Whether the text names a source of this kind."""
        ...

    def fetch(self, source: str, into: Path) -> Fetched:
        """Get it, below the empty folder `into` where it has to be unpacked. Raises Unfetched."""
        ...


def client(words: Sequence[str], folder: Path) -> str:
    """Run the client of a registry or of git; its output. Raises Unfetched with the last of what it said."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GIT_"))}
    try:
        done = subprocess.run(
            words, cwd=folder, env={**env, "GIT_TERMINAL_PROMPT": "0"}, capture_output=True, text=True, check=False,
            errors="replace", timeout=FETCH_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        raise Unfetched(f"the program {words[0]} is missing: install it") from None
    except subprocess.TimeoutExpired:
        raise Unfetched(f"{words[0]} took longer than {FETCH_S:g} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        said = [line for line in lines if "ERROR" in line or "fatal" in line] or lines[-1:]
        raise Unfetched(f"{Path(words[0]).name} could not get it: {' '.join(said)[:300]}")
    return done.stdout


def digest_of(path: Path) -> str:
    """SHA-256 of a file in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
