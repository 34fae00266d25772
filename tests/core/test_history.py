"""No state but the present one can be found in a folder after `one_commit`, whatever its repository was made to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from noria.core import history
from noria.core.errors import UserError
from noria.core.history import Found, one_commit, scan, sweep

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the program git")
#: A line of the fix, and of the tree as a policy finds it.
GOLD, BUG = "return high - low  # the fix", "return low - high"


def git(folder: Path, *words: str, given: str = "") -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "protocol.file.allow=always", "-c", "gc.auto=0"]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, input=given, capture_output=True, text=True, check=True
    ).stdout  # fmt: skip


def repository(folder: Path) -> Path:
    """A tree before the fix; it lies in a later commit, a tag, a log, a stash, a pack and loose objects."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.py").write_text(BUG + "\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("a.py")
    (folder / ".gitignore").write_text("*.log\nkept.bin\n")
    (folder / "kept.bin").write_bytes(b"\0\xff")
    (folder / "odd\nname").write_text("odd")
    git(folder, "add", "-A")
    git(folder, "add", "-f", "kept.bin")
    git(folder, "commit", "-qm", "before")
    before = git(folder, "rev-parse", "HEAD").strip()
    (folder / "a.py").write_text(GOLD + "\n")
    git(folder, "commit", "-qam", "the fix")
    git(folder, "tag", "-a", "v2", "-m", "released")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(folder, "repack", "-adq")
    git(folder, "reset", "-q", "--hard", before)
    (folder / "a.py").write_text(GOLD + " again\n")
    git(folder, "stash", "-q")
    (folder / "x.log").write_text("ignored")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    """Files and links of a folder without its repository, with their modes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.partition("/")[0] != ".git" and (path.is_symlink() or path.is_file()):
            data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            found[name] = data + (b"x" if os.access(path, os.X_OK) and not path.is_symlink() else b"-")
    return found


def every_object(folder: Path) -> str:
    """All that git can find in a repository, reachable or not."""
    ids = git(folder, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    return "".join(
        subprocess.run(["git", "cat-file", "-p", id_], cwd=folder, capture_output=True, check=True).stdout.decode(
            "utf-8", "replace"
        )
        for id_ in ids
    )


def test_one_commit_is_left_of_a_history(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r")
    before = tree(folder)
    assert GOLD in every_object(folder)
    assert one_commit(folder) == Found((".",), ())
    assert tree(folder) == before
    assert GOLD not in every_object(folder) and BUG in every_object(folder)
    assert git(folder, "rev-list", "--all", "--count").strip() == "1"
    assert git(folder, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]
    assert git(folder, "fsck", "--unreachable", "--no-reflogs", "--full") == ""
    assert git(folder, "status", "--porcelain") == "" and git(folder, "stash", "list") == ""
    assert set(git(folder, "ls-files", "-z").split("\0")) - {""} == set(before) - {"x.log"}
    names = {path.relative_to(folder / ".git").as_posix() for path in (folder / ".git").rglob("*")}
    assert not any(word in name for name in names for word in ("ORIG_HEAD", "FETCH_HEAD", "logs", "hooks", "worktrees"))
    assert sorted(name.rpartition(".")[2] for name in names if "pack-" in name) == ["idx", "pack"]
    git(folder, "commit", "-q", "--allow-empty", "-m", "goes on")
    assert git(folder, "rev-list", "--count", "HEAD").strip() == "2"


def test_the_commit_depends_on_the_files_alone(tmp_path: Path) -> None:
    made = []
    for name in ("r", "s"):
        folder = repository(tmp_path / name)
        one_commit(folder)
        made.append({p.relative_to(folder): p.read_bytes() for p in (folder / ".git").rglob("*") if p.is_file()})
    assert made[0] == made[1]
    assert one_commit(folder) == Found((".",), ())
    assert {p.relative_to(folder): p.read_bytes() for p in (folder / ".git").rglob("*") if p.is_file()} == made[1]


def test_what_tells_of_another_state_outside_a_repository_goes(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    source = repository(tmp_path / "s")
    git(source, "bundle", "create", "-q", str(tmp_path / "all"), "--all")
    (folder / "pkg" / "__pycache__").mkdir(parents=True)
    for name in ("a.py", "a.pyc", "lone.pyc", "a.py.orig", "a.py.rej", "notes.txt", "a.py~", "ab/" + "c" * 38):
        (folder / "pkg" / name).parent.mkdir(exist_ok=True)
        (folder / "pkg" / name).write_text("x")
    (folder / "pkg" / "__pycache__" / "a.pyc").write_text("x")
    (folder / ".pytest_cache").mkdir()
    shutil.move(tmp_path / "all", folder / "harmless.bin")
    shutil.copy(next((source / ".git" / "objects" / "pack").glob("*.pack")), folder / "data.bin")
    loose = folder / "store" / "de" / ("0" * 38)
    loose.parent.mkdir(parents=True)
    loose.write_bytes(zlib.compress(b"blob 4\0gold"))
    shutil.copytree(source / ".git", folder / "backup")
    (folder / "vendor").mkdir()
    shutil.copytree(source, folder / "vendor" / "dep", symlinks=True)
    os.mkfifo(folder / "pipe")
    found = one_commit(folder)
    assert found.repositories == ("vendor/dep",)
    assert found.leftovers == (
        ".pytest_cache", "backup", "data.bin", "harmless.bin", "pipe", "pkg/__pycache__", "pkg/a.py.orig",
        "pkg/a.py.rej", "pkg/a.pyc", "pkg/a.py~", "store/de/" + "0" * 38,
    )  # fmt: skip
    kept = {path for path in tree(folder) if not path.startswith("vendor")}
    assert kept == {"pkg/a.py", "pkg/lone.pyc", "pkg/notes.txt", "pkg/ab/" + "c" * 38}
    assert GOLD not in every_object(folder / "vendor" / "dep")
    assert scan(folder) == Found(("vendor/dep",), ())


def test_nothing_of_a_hostile_repository_runs_or_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, mark = repository(tmp_path / "r"), tmp_path / "ran"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    trap.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "post-commit", "post-index-change", "reference-transaction", "post-checkout"):
        shutil.copy(trap, hooks / name)
        shutil.copy(trap, folder / ".git" / "hooks" / name)
    (folder / ".gitattributes").write_text("* filter=evil text=auto diff=evil\n")
    lines = (
        f'[core]\n\thooksPath = {hooks}\n\tfsmonitor = {trap}\n[filter "evil"]\n\tclean = {trap}\n\trequired = true\n'
    )
    with open(folder / ".git" / "config", "a") as config:
        config.write(lines)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(lines + f"[include]\n\tpath = {folder}/.git/config\n")
    for name, value in {
        "HOME": str(home), "XDG_CONFIG_HOME": str(home), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_DIR": str(tmp_path / "elsewhere"), "GIT_EXTERNAL_DIFF": str(trap), "GIT_TEMPLATE_DIR": str(hooks),
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": str(trap),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    other = tmp_path / "objects"
    other.mkdir()
    (folder / ".git" / "objects" / "info" / "alternates").write_text(f"{other}\n")
    one_commit(folder)
    for name in ("GIT_DIR", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "HOME", "XDG_CONFIG_HOME", "GIT_EXTERNAL_DIFF"):
        monkeypatch.delenv(name)
    assert not mark.exists() and not (tmp_path / "elsewhere").exists()
    assert GOLD not in every_object(folder) and not (folder / ".git" / "objects" / "info").exists()
    assert "evil" not in (folder / ".git" / "config").read_text()


@pytest.mark.parametrize(
    "kind", ["file", "link", "submodule", "index link", "index junk", "index folder", "empty", "case"]
)
def test_repositories_of_odd_form(tmp_path: Path, kind: str) -> None:
    folder = repository(tmp_path / "r")
    secret = tmp_path / "kept"
    if kind == "file":
        shutil.move(folder / ".git", secret)
        (folder / ".git").write_text(f"gitdir: {secret}\n")
    elif kind == "link":
        shutil.move(folder / ".git", secret)
        (folder / ".git").symlink_to(secret)
    elif kind == "submodule":
        other = repository(tmp_path / "s")
        git(folder, "submodule", "--quiet", "add", str(other), "sub")
    elif kind == "index link":
        (folder / ".git" / "index").unlink()
        (folder / ".git" / "index").symlink_to("/dev/zero")
    elif kind == "index folder":
        (folder / ".git" / "index").unlink()
        (folder / ".git" / "index").mkdir()
    elif kind == "index junk":
        (folder / ".git" / "index").write_bytes(b"DIRC\0\0\0\2\xff\xff\xff\xff" + b"x" * 99)
    elif kind == "empty":
        shutil.rmtree(folder / ".git")
        (folder / ".git").mkdir()
    else:
        shutil.copytree(folder / ".git", folder / ".GIT")
    had = sorted(secret.rglob("*")) if secret.exists() else []
    one_commit(folder)
    assert (folder / ".git").is_dir() and not (folder / ".git").is_symlink() and not (folder / ".GIT").exists()
    assert git(folder, "status", "--porcelain") == "" and GOLD not in every_object(folder)
    assert git(folder, "rev-list", "--all", "--count").strip() == "1"
    if had:  # what lies outside of the folder is not ours
        assert sorted(secret.rglob("*")) == had
    if kind == "submodule":
        assert not (folder / "sub" / ".git").exists() and "sub/a.py" in git(folder, "ls-files")
    assert ("kept.bin" in git(folder, "ls-files")) == (kind in ("submodule", "case"))


def test_what_cannot_be_done_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="must be a folder that can be read"):
        one_commit(tmp_path / "none")
    with pytest.raises(UserError, match="is a bare repository"):
        one_commit(repository(tmp_path / "r") / ".git")
    monkeypatch.setattr(history, "MOST_ENTRIES", 3)
    with pytest.raises(UserError, match="at most 3 files"):
        scan(tmp_path / "r")
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    before = sorted((tmp_path / "r" / ".git").rglob("*"))
    with pytest.raises(UserError, match="needs the program git"):
        one_commit(tmp_path / "r")
    assert sorted((tmp_path / "r" / ".git").rglob("*")) == before


def test_a_process_that_is_killed_leaves_nothing_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, place = repository(tmp_path / "r"), tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom noria.core import history\n"
        "history._remove = lambda path: os.kill(os.getpid(), signal.SIGKILL)\nhistory.one_commit(Path(sys.argv[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(folder)], check=False)
    assert done.returncode == -9 and list(place.iterdir())
    sweep(place)
    assert not list(place.iterdir())
    one_commit(folder)
    assert GOLD not in every_object(folder)
