"""Workspaces: what a command sees, what is carried back, forks, limits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from abuse import bwrap_reason

from noria.core.errors import PolicyError
from noria.core.protocols import Sandbox
from noria.sandboxes import bwrap, process


@pytest.fixture(scope="module", params=["process", "bwrap"])
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    sandbox: Sandbox
    if request.param == "process":
        sandbox = process.build(process.Config(type="process", servers=1, disk_mb=2))
    elif bwrap_reason() is None:
        sandbox = bwrap.build(bwrap.Config(type="bwrap", servers=1, disk_mb=2))
    else:
        pytest.skip(str(bwrap_reason()))
    yield sandbox
    sandbox.close()


def test_read_write_and_run(box: Sandbox) -> None:
    files = box.workspace({"a.txt": "ä\n", "d/run.sh": '#!/bin/sh\necho "$@"; exit 3\n'})
    files.write("d/new.txt", "new")
    result = files.run(["sh", "-c", "cat a.txt d/new.txt; echo warn >&2; sh d/run.sh x 'y z'"], 5.0)
    assert (result.code, result.stdout, result.stderr) == (3, "ä\nnewx y z\n", "warn\n")
    assert (result.timed_out, result.killed) == (False, "")
    assert result.seconds > 0


def test_changes_are_carried_back(box: Sandbox) -> None:
    files = box.workspace({"keep": "keep", "gone": "gone", "edit": "aaaa", "moved": "moved"})
    line = "rm gone; printf bbbb > edit; mv moved there; mkdir -p x/y; printf new > x/y/z; "
    line += "printf '#!/bin/sh\\necho ok' > go"
    assert files.run(["sh", "-c", line + "; chmod 755 go"], 5.0).code == 0
    assert [files.read(path) for path in ("keep", "edit", "there", "x/y/z")] == [
        "keep",
        "bbbb",
        "moved",
        "new",
    ]
    for path in ("gone", "moved"):
        with pytest.raises(PolicyError, match="no such file"):
            files.read(path)
    assert files.run(["./go"], 5.0).stdout == "ok\n"
    files.write("go", "#!/bin/sh\necho changed")
    assert (
        files.run(["sh", "-c", "./go; ls; cat x/y/z"], 5.0).stdout == "changed\nedit\ngo\nkeep\nthere\nx\nnew"
    )


def test_fork_is_independent(box: Sandbox) -> None:
    files = box.workspace({"a": "1"})
    copy = files.fork()
    copy.write("a", "2")
    assert copy.run(["sh", "-c", "cat a; echo 3 > b"], 5.0).stdout == "2"
    assert files.run(["sh", "-c", "cat a; ls"], 5.0).stdout == "1a\n"
    files.close()
    assert copy.read("b") == "3\n"


def test_binary_and_odd_names(box: Sandbox) -> None:
    files = box.workspace({})
    files.run(
        ["sh", "-c", "printf '\\377\\000x' > bin; printf n > \"$(printf 'a\\377b')\"; printf n > 'a b'"], 5.0
    )
    assert files.read("bin") == "\ufffd\0x"
    assert files.run(["sh", "-c", "od -An -tx1 bin; ls | wc -l"], 5.0).stdout.split() == [
        "ff",
        "00",
        "78",
        "3",
    ]


def test_timeout_keeps_the_files_written_so_far(box: Sandbox) -> None:
    files = box.workspace({})
    result = files.run(["sh", "-c", "echo part > f; sleep 30; echo never > g"], 0.3)
    assert (result.timed_out, result.code, result.killed) == (True, -9, "")
    assert files.read("f") == "part\n"
    with pytest.raises(PolicyError):
        files.read("g")


def test_commands_that_cannot_run(box: Sandbox) -> None:
    files = box.workspace({"plain": "x"})
    for argv in ([], [""], ["a\0b"]):
        with pytest.raises(PolicyError):
            files.run(argv, 1.0)
    missing = files.run(["no-such-program"], 5.0)
    assert missing.code == 127
    assert "no-such-program" in missing.stderr
    assert files.run(["./plain"], 5.0).code == 127
    assert files.run(["sh", "-c", "kill -TERM $$"], 5.0).code == -15
    assert files.run(["sh", "-c", "kill -KILL $$"], 5.0).killed == "signal 9"


def test_disk_limit_and_paths(box: Sandbox) -> None:
    files = box.workspace({"d/a": "x" * (1 << 20)})
    for path in ("d", "d/a/b", "..", "d/../..", "/abs", "", "a" * 300, "b/" * 600 + "c"):
        with pytest.raises(PolicyError):
            files.write(path, "x")
    with pytest.raises(PolicyError, match="at most 2 MiB"):
        files.write("big", "x" * (1 << 20 | 1))
    files.write("./d//a", "small")
    assert files.read("d/a") == "small"
    with pytest.raises(PolicyError):
        box.workspace({"../x": ""})


def test_closed_workspaces_refuse(box: Sandbox) -> None:
    files = box.workspace({"a": "1"})
    files.close()
    files.close()
    for call in (
        lambda: files.read("a"),
        lambda: files.write("a", "2"),
        lambda: files.run(["true"], 1.0),
        files.fork,
    ):
        with pytest.raises(PolicyError, match="closed"):
            call()
