"""Files that a policy may have made: read without trust, and folders of them laid out and taken back."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from noria.core.errors import PolicyError

#: Bytes of such a file at most.
MOST = 1 << 20
#: Files of a folder that are taken back at most, and their bytes together.
MOST_FILES, MOST_BYTES = 20_000, 256 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A file (`data`, permission bits) or a symbolic link (`link`)."""

    data: bytes = b""
    mode: int = 0o644
    link: str | None = None


def read_plain(path: Path, most: int = MOST) -> str | None:
    """The text of a file that a policy may have made, None where there is none.

    Raises:
        PolicyError: it is no plain file (a link, a pipe), or too large.
    """
    found = _plain(path, path.name, most)
    return None if found is None else found.data.decode("utf-8", "replace")


def take_files(folder: Path, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> dict[str, Entry]:
    """Files and links below a folder by relative path, ordered; no link is followed. Empty folders are left out.

    Nothing may change them meanwhile.

    Raises:
        PolicyError: something is neither (a pipe, a socket, a device), cannot be read, or is too much.
    """
    found: dict[str, Entry] = {}
    todo, room, seen = [""], most_bytes, 0
    while todo:
        at = todo.pop()
        try:
            with os.scandir(folder / at) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError as fault:
            raise PolicyError(f"{at!a} must be a folder that can be read: {fault.strerror}") from fault
        seen += len(entries)
        if seen > most_files:
            raise PolicyError(f"a folder may hold {most_files} files and folders at most")
        for entry in entries:
            path = f"{at}/{entry.name}" if at else entry.name
            if entry.is_symlink():
                found[path] = Entry(mode=0, link=os.readlink(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                todo.append(path)
            else:
                file = _plain(Path(entry.path), ascii(path), room)
                if file is not None:
                    found[path], room = file, room - len(file.data)
    return dict(sorted(found.items()))


def lay_files(files: Mapping[str, Entry], folder: Path) -> None:
    """Write files and links into an empty folder; nothing is written through a link, whatever the paths say.

    Raises:
        PolicyError: a path is not relative or leads out, or two of them do not fit together.
    """
    try:
        for path, entry in sorted(files.items(), key=lambda each: each[1].link is not None):
            if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
                raise PolicyError(f"path must be relative and stay inside: got {path!a}")
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if entry.link is not None:  # the last to be made, so that no file lies behind one
                os.symlink(entry.link, place)
                continue
            with open(place, "xb") as file:
                file.write(entry.data)
            place.chmod(entry.mode & 0o777)
    except OSError as fault:
        raise PolicyError(f"the files do not fit together: {fault}") from fault


def _plain(path: Path, name: str, most: int) -> Entry | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise PolicyError(f"{name} must be a plain file: {fault.strerror}") from fault
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_size > most:
        os.close(handle)
        raise PolicyError(f"{name} must be a plain file of {most} bytes at most")
    with open(handle, "rb") as file:
        return Entry(file.read(most), about.st_mode & 0o777)
