"""Workspaces: what a command sees, what is carried back, forks, limits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from elsewhere import KEY, e2b_server, no_e2b, stand_in
from hostile import bwrap_reason

from noria.core.errors import PolicyError
from noria.core.protocols import Sandbox
from noria.sandboxes import bwrap, docker, process


@pytest.fixture(scope="module", params=["process", "bwrap", "e2b", "docker"])
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Each plug-in; `e2b` against the house's own server, `docker` with a stand-in for the program."""
    with ExitStack() as stack:
        sandbox = made(request.param, stack, tmp_path_factory)
        try:
            yield sandbox
        finally:
            sandbox.close()


def made(kind: str, stack: ExitStack, folders: pytest.TempPathFactory) -> Sandbox:
    if kind == "process":
        return process.build(process.Config(type="process", servers=1, disk_mb=2))
    if kind != "docker" and bwrap_reason() is not None:
        pytest.skip(str(bwrap_reason()))
    if kind == "bwrap":
        return bwrap.build(bwrap.Config(type="bwrap", servers=1, disk_mb=2))
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    if kind == "docker":
        stand_in(folders.mktemp("docker"), patch)
        return docker.build(docker.Config(servers=1, disk_mb=2))
    if no_e2b():
        pytest.skip(str(no_e2b()))
    from noria.sandboxes import e2b

    patch.setenv("NORIA_TEST_KEY", KEY)
    url = stack.enter_context(e2b_server())
    return e2b.build(e2b.Config(url=url, api_key_env="NORIA_TEST_KEY", servers=1, disk_mb=2))


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
    assert files.run(["sh", "-c", "./go; ls; cat x/y/z"], 5.0).stdout == "changed\nedit\ngo\nkeep\nthere\nx\nnew"


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
    files.run(["sh", "-c", "printf '\\377\\000x' > bin; printf n > \"$(printf 'a\\377b')\"; printf n > 'a b'"], 5.0)
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


def test_tests_are_run_and_told_apart(box: Sandbox) -> None:
    files = {
        "app.py": "def add(a, b):\n    return a + b\n",
        "test_app.py": "from app import add\n\n\ndef test_one():\n    assert add(1, 2) == 3\n\n\n"
        "def test_two():\n    assert add(1, 2) == 4\n",
    }
    report = box.test(files, "test_app.py", 5.0)
    assert (report.error, report.results["test_one"]) == ("", "pass")
    assert report.results["test_two"] != "pass" and not report.passed
    slow = {"test_app.py": "def test_one():\n    while True:\n        pass\n"}
    assert "timeout" in box.test(slow, "test_app.py", 0.3).results["test_one"]


def test_no_process_outlives_its_command(box: Sandbox) -> None:
    files = box.workspace({})
    line = "(setsid sh -c 'sleep 0.4; echo late > /workspace/f || echo late > f' &) > /dev/null 2>&1; echo done"
    assert files.run(["sh", "-c", line], 5.0).stdout == "done\n"
    assert files.run(["sh", "-c", "sleep 0.6; ls"], 5.0).stdout == ""
