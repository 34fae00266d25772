"""Workspaces over layers: what they begin with, what becomes of it, and what nobody inside sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.core.errors import PolicyError, UserError
from noria.core.protocols import Layered, Sandbox, Shape
from noria.sandboxes import bwrap


def lay(folder: Path, files: dict[str, str]) -> str:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return str(folder)


@pytest.fixture(scope="module")
def layered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    base = tmp_path_factory.mktemp("base")
    low = lay(base / "low", {"pkg/a.py": "A = 1\n", "pkg/sub/b.py": "B = 1\n", "c.txt": "low\n"})
    top = lay(base / "top", {"c.txt": "top\n"})
    (base / "top" / "way").symlink_to("pkg/a.py")
    deps = lay(base / "deps", {"tool.txt": "tool\n"})
    hidden = lay(base / "hidden", {"secret": "s"})
    for each in (base, base.parent, base / "deps", base / "hidden"):
        each.chmod(0o755)
    parent = bwrap.build(bwrap.Config(type="bwrap", readonly=(hidden,) if not hidden.startswith("/tmp") else ()))
    shape = Shape(layers=(("/workspace", low), ("/workspace", top), ("/deps", deps)), hidden=("/usr/lib/python3",))
    sandbox = parent.shaped(shape)
    yield sandbox
    sandbox.close()
    parent.close()


def bash(workspace: object, command: str) -> str:
    assert hasattr(workspace, "run")
    done = workspace.run(["bash", "-c", command], 10)
    return str(done.stdout + done.stderr)


def test_the_last_layer_is_on_top_and_others_are_read_only(layered: Sandbox) -> None:
    space = layered.workspace({})
    assert bash(space, "cat c.txt way pkg/sub/b.py /deps/tool.txt; ls /usr/lib/python3") == "top\nA = 1\nB = 1\ntool\n"
    assert "Read-only" in bash(space, "touch /deps/tool.txt") or "denied" in bash(space, "touch /deps/tool.txt")
    assert (space.read("c.txt"), space.read("way")) == ("top\n", "A = 1\n")


def test_a_workspace_holds_what_has_changed(layered: Sandbox) -> None:
    space = layered.workspace({"pkg/a.py": "A = 2\n"})
    assert isinstance(space, Layered)
    bash(space, "rm pkg/sub/b.py; echo hi > new; chmod 700 new; mkdir -p q/r; touch q/r/s; chmod 000 q/r")
    assert space.changes() == {
        "pkg/a.py": (b"A = 2\n", 0o644), "pkg/sub/b.py": None, "new": (b"hi\n", 0o700), "q/r/s": (b"", 0o644)
    }  # fmt: skip
    with pytest.raises(PolicyError, match="no such file"):
        space.read("pkg/sub/b.py")
    assert bash(space, "find . -type f | sort") == "./c.txt\n./new\n./pkg/a.py\n./q/r/s\n"


def test_nothing_of_one_workspace_shows_in_another(layered: Sandbox) -> None:
    one = layered.workspace({})
    bash(one, "rm -rf pkg c.txt; echo x > pkg; mkdir c.txt; touch c.txt/y; chmod 000 .")
    other = layered.workspace({})
    assert bash(other, "find . -type f | sort; cat c.txt pkg/a.py; stat -c %a . pkg") == (
        "./c.txt\n./pkg/a.py\n./pkg/sub/b.py\ntop\nA = 1\n755\n755\n"
    )
    assert bash(one, "cat pkg; ls c.txt") == "x\ny\n"


def test_a_fork_goes_its_own_way(layered: Sandbox) -> None:
    one = layered.workspace({})
    assert isinstance(one, Layered)
    one.remove("c.txt")
    two = one.fork()
    two.write("c.txt", "again\n")
    assert two.read("c.txt") == "again\n" and bash(two, "cat c.txt") == "again\n"
    assert one.changes() == {"c.txt": None}


def test_times_do_not_tell_what_a_workspace_was_made_with(layered: Sandbox) -> None:
    space = layered.workspace({"pkg/a.py": "A = 3\n"})
    assert len(set(bash(space, "stat -c %Y pkg/a.py pkg/sub/b.py c.txt").split())) == 1
    bash(space, "echo 'A = 4' > pkg/a.py")
    assert len(set(bash(space, "stat -c %Y pkg/a.py c.txt").split())) == 2


def test_no_copy_of_a_layer_lies_inside(layered: Sandbox) -> None:
    space = layered.workspace({"pkg/a.py": "A = 5\n"})
    assert bash(space, "grep -rsl 'A = 1' /opt /tmp /deps /workspace /dev/shm /run; true") == ""


def test_a_folder_is_no_file(layered: Sandbox) -> None:
    space = layered.workspace({})
    with pytest.raises(PolicyError, match="it is a folder"):
        space.write("pkg", "x")
    with pytest.raises(PolicyError, match="is not a folder"):
        space.write("c.txt/d", "x")


def test_a_layer_that_is_not_there_is_refused(layered: Sandbox) -> None:
    assert isinstance(layered, bwrap.BwrapSandbox)
    with pytest.raises(UserError, match="must be a folder"):
        layered.shaped(Shape(layers=(("/deps", "/nowhere/at/all"),)))
