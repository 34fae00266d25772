"""What an origin gives: a folder with a repository's files, and what they are."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from noria.core.errors import NoriaError

#: Seconds that a download may take.
FETCH_S = 600.0
#: What an archive may hold: bytes, and files, folders and links.
MOST_UNPACKED, MOST_MEMBERS = 1 << 30, 200_000
#: A full disk is no fault of a source.
FULL = (errno.ENOSPC, errno.EDQUOT)


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


def unpack(archive: Path, tree: Path) -> None:
    """Files, folders and links of a tar archive, below an empty folder. Links that lead out of it are left out.

    Links are made last and nothing is written through one, wherever it leads: Python's own filters had holes there.

    Raises:
        Unfetched: it is unsound, too much, or a name leads outside.
        OSError: the disk is full.
    """
    links: dict[str, str] = {}
    size = count = 0
    try:
        with tarfile.open(archive) as packed:
            for member in packed:
                size, count = size + member.size, count + 1
                if size > MOST_UNPACKED or count > MOST_MEMBERS:
                    raise Unfetched(f"it holds more than {MOST_UNPACKED >> 20} MiB or {MOST_MEMBERS} files")
                name = posixpath.normpath(member.name.lstrip("/"))
                if name == ".." or name.startswith("../"):
                    raise Unfetched(f"it cannot be unpacked: {member.name!r} leads outside")
                if member.issym():
                    links[name] = member.linkname
                elif member.isdir():
                    (tree / name).mkdir(parents=True, exist_ok=True)
                elif member.isreg() or member.islnk():
                    _write(packed, member, tree / name)
            assert packed.fileobj is not None
            for _ in range(MOST_UNPACKED >> 20):  # its checksum stands behind all that it holds
                if not packed.fileobj.read(1 << 20):
                    break
        for name, link in links.items():
            above = [str(parent) for parent in Path(name).parents]
            if not links.keys() & set(above) and not (tree / name).exists():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).symlink_to(link)
    except (tarfile.TarError, OSError, EOFError, zlib.error, KeyError, ValueError, RecursionError) as fault:
        if isinstance(fault, OSError) and fault.errno in FULL:
            raise
        raise Unfetched(f"it cannot be unpacked: {fault}") from fault
    root = os.path.realpath(tree)
    for name in links:
        place = tree / name
        if place.is_symlink() and not os.path.realpath(place).startswith(f"{root}{os.sep}"):
            place.unlink()


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)  # the last one of a name counts
    source = archive.extractfile(member)
    if source is not None:
        with source, place.open("xb") as file:
            shutil.copyfileobj(source, file)
        place.chmod(0o755 if member.mode & 0o100 else 0o644)


def digest_of(path: Path) -> str:
    """SHA-256 of a file in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
