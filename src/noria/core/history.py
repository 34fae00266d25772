"""Takes the history out of a folder that a policy will work in: what was there before or after may show the answer.

`one_commit` leaves each working tree as it is, under a repository of a single commit without parents, logs, other
objects or settings. What else may tell of another state is removed: other repositories and bare ones, stores of other
systems, packs, bundles and loose objects outside of a repository, caches of interpreters and tools, what merges and
editors leave. Nothing of a repository that is found is executed or believed: git runs in a fresh one beside it, with no
settings of a user or a system, and of the old one only the list of tracked names is read. Archives are not opened.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from noria.core.errors import UserError

GIT = ".git"
#: Entries of a folder, and bytes of the list of tracked names, at most.
MOST_ENTRIES, _MOST_INDEX = 500_000, 64 << 20
#: Seconds that one call of git may take.
GIT_S = 300.0
PREFIX = "noria-history-"
#: Folders by name: stores of other systems, and what can be made anew but may have been made of another state.
_STORES = frozenset((".hg", ".svn", ".bzr", ".jj", "_darcs", ".pijul", ".fossil"))
_CACHES = frozenset(
    ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".pytype", ".gradle")
)
_ENDINGS = (".orig", ".rej", ".swp", ".swo", "~")
_LOOSE = re.compile(r"(?:^|/)[0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62})$")
_HEADS = (b"PACK\0\0\0", b"\xfftOc", b"# v2 git bundle", b"# v3 git bundle", b"RIDX", b"MIDX", b"CGPH")
_OBJECT = re.compile(rb"(?:blob|tree|commit|tag) \d+\0")
_SETTINGS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null", "core.autocrlf=false", "core.safecrlf=false", "core.protectNTFS=false",
    "core.protectHFS=false", "core.logAllRefUpdates=false", "gc.auto=0", "maintenance.auto=false",
    "protocol.allow=never", "pack.threads=1", "pack.writeReverseIndex=false", "repack.writeBitmaps=false",
    "core.commitGraph=false",
)  # fmt: skip
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
_DATE = "2000-01-01T00:00:00+0000"


@dataclass(frozen=True, slots=True)
class Found:
    """What shows another state, by paths relative to the folder, ordered.

    repositories  working trees, "." for the folder itself; none lies in another
    leftovers     files and folders that go
    """

    repositories: tuple[str, ...]
    leftovers: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Whether there is nothing."""
        return not self.repositories and not self.leftovers


def scan(folder: Path) -> Found:
    """Look for history without touching anything; no link is followed.

    Raises:
        UserError: the folder cannot be read, is too large or too deep, or is a bare repository itself.
    """
    repositories: list[str] = []
    leftovers: list[str] = []
    todo, seen = [("", False)], 0
    try:
        while todo:
            at, inside = todo.pop()
            with os.scandir(folder / at) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
            seen += len(entries)
            if seen > MOST_ENTRIES:
                raise UserError(f"'{folder}' must hold at most {MOST_ENTRIES} files and folders - leave some out")
            if _is_bare({entry.name: entry for entry in entries}):
                if not at:
                    raise UserError(f"'{folder}' must be a working tree: it is a bare repository - check one out")
                leftovers.append(at)
                continue
            names = {entry.name for entry in entries}
            is_top = not inside and GIT in names
            if is_top:
                repositories.append(at or ".")
            for entry in entries:
                path = f"{at}/{entry.name}" if at else entry.name
                if entry.name == GIT and is_top:
                    continue
                if _goes(entry, path, names):
                    leftovers.append(path)
                elif entry.is_dir(follow_symlinks=False):
                    todo.append((path, inside or is_top))
    except OSError as fault:
        raise UserError(f"'{folder}' must be a folder that can be read: {fault} - check it") from fault
    return Found(tuple(sorted(repositories)), tuple(sorted(leftovers)))


def one_commit(folder: Path, message: str = "Start") -> Found:
    """Take the history out, see the module; what there was. A folder without any is left as it is.

    The commit depends on the files alone. Names that were tracked stay tracked, and so does all that `.gitignore` does
    not name. A process that is killed meanwhile leaves a folder that may be given to this again.

    Raises:
        UserError: see `scan`; git is missing; or it refuses a tree, which then has no repository that can be trusted.
    """
    sweep(Path(tempfile.gettempdir()))
    found = scan(folder)
    if found.repositories and shutil.which("git") is None:
        raise UserError(f"'{folder}' has a repository, and replacing its history needs the program git - install it")
    tracked = {at: _tracked(folder / at) for at in found.repositories}
    for path in found.leftovers:
        _remove(folder / path)
    for at in found.repositories:
        _renew(folder / at, tracked[at], message)
    return found


def sweep(place: Path) -> None:
    """Remove what processes of this user that were killed have left in a folder of temporary files."""
    for left in place.glob(f"{PREFIX}*"):
        pid = left.name.removeprefix(PREFIX).partition("-")[0]
        with suppress(FileNotFoundError):
            if pid.isdigit() and not Path(f"/proc/{pid}").exists() and left.lstat().st_uid == os.geteuid():
                shutil.rmtree(left, ignore_errors=True)


def _is_bare(entries: dict[str, os.DirEntry[str]]) -> bool:
    """Whether a folder has the form of git's own, whatever its name."""
    folders = {name for name, entry in entries.items() if entry.is_dir(follow_symlinks=False)}
    return "HEAD" in entries and "objects" in folders and bool({"refs", "packed-refs"} & set(entries))


def _goes(entry: os.DirEntry[str], path: str, beside: set[str]) -> bool:
    name = entry.name.casefold()
    if entry.is_dir(follow_symlinks=False):
        return name == GIT or name in _STORES or name in _CACHES or name.endswith(".orig") or entry.name == "CVS"
    if name == GIT or name.endswith(_ENDINGS):
        return True
    if entry.is_symlink():
        return False
    if not entry.is_file(follow_symlinks=False):
        return True  # a pipe, a socket, a device: no repository holds one
    if name.endswith((".pyc", ".pyo")):
        return entry.name[:-1] in beside  # one without its source may be the program
    return _is_object(entry.path, path)


def _is_object(place: str, path: str) -> bool:
    """Whether a file is git's, by its beginning."""
    handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        head = file.read(128)
    if head.startswith(_HEADS):
        return True
    if not _LOOSE.search(path):
        return False
    with suppress(zlib.error):
        return bool(_OBJECT.match(zlib.decompressobj().decompress(head, 64)))
    return False


def read_index(root: Path) -> bytes:
    """The list of names that the repository of a working tree tracks, as git keeps it; b"" where it has none."""
    old = root / GIT
    if old.is_symlink() or not old.is_dir():
        return b""
    try:
        handle = os.open(old / "index", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return b""
    with open(handle, "rb") as file:
        return file.read(_MOST_INDEX)


def _tracked(root: Path) -> list[bytes]:
    """Names that the old repository tracks and that are there; none where its list cannot be read."""
    index = read_index(root)
    if not index:
        return []
    with _fresh() as own:
        (own / "index").write_bytes(index)
        try:
            names = _git(own, own.parent, ["ls-files", "-z", "--cached"]).split(b"\0")
        except UserError:
            return []
    return [name for name in dict.fromkeys(names) if _there(os.fsencode(root), name)]


def _there(root: bytes, name: bytes) -> bool:
    """Whether a name stands for a file or link in the tree that no link leads to."""
    parts = name.split(b"/")
    if not name or any(part.lower() in (b"", b".", b"..", b".git") for part in parts):
        return False
    at = root
    for part in parts[:-1]:
        at += b"/" + part
        if os.path.islink(at) or not os.path.isdir(at):
            return False
    at += b"/" + parts[-1]
    return os.path.islink(at) or os.path.isfile(at)


def _renew(root: Path, tracked: Sequence[bytes], message: str) -> None:
    """Put a repository of one commit in the place of the one that is there."""
    with _fresh() as own:
        _git(own, root, ["add", "-A", "."])
        left = [name for name in tracked if _there(os.fsencode(root), name)]
        if left:
            _git(own, root, ["add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul"], b"\0".join(left))
        tree = _git(own, root, ["write-tree"]).strip().decode()
        commit = _git(own, root, ["commit-tree", "-m", message, tree]).strip().decode()
        _git(own, root, ["update-ref", "refs/heads/main", commit])
        # An index that says when files were changed would differ from one copy of the folder to the next.
        (own / "index").unlink(missing_ok=True)
        _git(own, root, ["read-tree", commit])
        _git(own, root, ["repack", "-a", "-d", "-q", "--window=0", "--depth=0"])
        for name in ("objects/info", "info", "logs", "hooks", "branches"):
            shutil.rmtree(own / name, ignore_errors=True)
        _remove(root / GIT)
        shutil.move(own, root / GIT)


@contextmanager
def _fresh() -> Iterator[Path]:
    """A repository without anything, in a temporary folder."""
    place = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    own = place / GIT
    try:
        for name in ("objects", "refs/heads"):
            (own / name).mkdir(parents=True)
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        (own / "config").write_text(_CONFIG)
        yield own
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _git(own: Path, tree: Path, words: Sequence[str], given: bytes = b"") -> bytes:
    """What git prints, in the repository `own` over the files of `tree`. Raises UserError where it fails."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath), "HOME": str(own.parent), "XDG_CONFIG_HOME": str(own.parent),
        "LC_ALL": "C", "GIT_DIR": str(own), "GIT_WORK_TREE": str(tree), "GIT_INDEX_FILE": str(own / "index"),
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_AUTHOR_NAME": "task", "GIT_AUTHOR_EMAIL": "task@localhost", "GIT_AUTHOR_DATE": _DATE,
        "GIT_COMMITTER_NAME": "task", "GIT_COMMITTER_EMAIL": "task@localhost", "GIT_COMMITTER_DATE": _DATE,
    }  # fmt: skip
    argv = ["git", *(word for setting in _SETTINGS for word in ("-c", setting)), *words]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=tree, start_new_session=True
    )
    try:
        out, said = process.communicate(given, GIT_S)
    except subprocess.TimeoutExpired as fault:
        raise UserError(
            f"'{tree}' must be a tree that git takes: `git {words[0]}` took more than {GIT_S:g} s"
        ) from fault
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        why = said.decode("utf-8", "replace").strip()[:300]
        raise UserError(f"'{tree}' must be a tree that git takes: `git {words[0]}` says {why!r} - mend or leave it out")
    return out


def _remove(path: Path) -> None:
    """Remove whatever is there; folders may be closed against their owner."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    os.chmod(path, 0o700)
    for place, names, _ in os.walk(path):
        for name in names:
            below = os.path.join(place, name)
            if not os.path.islink(below):
                os.chmod(below, 0o700)
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError) as fault:
        raise UserError(f"'{path}' must be a folder that can be removed: {fault} - remove it") from fault
