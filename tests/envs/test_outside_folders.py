"""Episodes whose files somebody else's harness works on: what is laid out, and what is taken of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sandboxes"))

from hostile import bwrap_reason

from noria.core.errors import PolicyError, SandboxError
from noria.core.files import MOST_FILES, Entry, lay_files, take_files
from noria.core.protocols import Folders
from noria.core.types import Task
from noria.envs import claw, harbor
from noria.envs.claw.world import ClawWorld
from noria.envs.harbor.world import Harbor
from noria.sandboxes import bwrap, process


@pytest.fixture(scope="module")
def world() -> Iterator[ClawWorld]:
    sandbox = process.build(process.Config(type="process", servers=1, disk_mb=4))
    yield claw.build(claw.Config(level="easy", shell_share=0.0), sandbox)
    sandbox.close()


@pytest.fixture(scope="module")
def tasks_of_folders() -> Iterator[Harbor]:
    if (reason := bwrap_reason()) is not None:
        pytest.skip(reason)
    sandbox = bwrap.build(bwrap.Config(type="bwrap", servers=1, disk_mb=4))
    made = harbor.build(harbor.Config(), sandbox)
    yield made
    made.close()
    sandbox.close()


def by_hand(task: Task, folder: Path) -> str:
    """The task's work in a folder, as somebody with a shell does it; the answer."""
    said = ""
    for part in task.data["parts"]:
        for name, args in part["shell"]:
            argv = ["sh", "-c", args["command"]] if name == "sh" else []
            assert argv, name
            said = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False).stdout
    return said.splitlines()[-1] if said else ""


def test_claw_is_worked_on_in_a_folder(world: ClawWorld, tmp_path: Path) -> None:
    kinds: set[bool] = set()
    for number, task in enumerate(world.tasks("train", 40, 3)):
        steps = [name for part in task.data["parts"] for name, _ in part["shell"]]
        answers = any(part["answer"] for part in task.data["parts"])
        if set(steps) != {"sh"} or answers in kinds:
            continue
        kinds.add(answers)
        episode, folder = world.open(task), tmp_path / str(number)
        folder.mkdir()
        assert isinstance(episode, Folders)
        assert task.prompt in episode.lay(folder)
        assert {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} == {
            *task.data["files"], *task.data["databases"]
        }  # fmt: skip
        idle = world.open(task)
        idle.take(folder, "nothing")
        assert idle.grade().reward == 0.0
        answer = by_hand(task, folder)
        episode.take(folder, answer)
        assert episode.grade().reward == 1.0, episode.grade()
        if answers:
            other = world.open(task)
            other.take(folder, "")
            assert other.grade().reward == 0.0
    assert kinds == {True, False}


def test_what_lies_there_is_not_trusted(world: ClawWorld, tmp_path: Path) -> None:
    (task,) = world.tasks("train", 1, 5)
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    folder = tmp_path / "work"
    folder.mkdir()
    episode = world.open(task)
    episode.lay(folder)
    name = next(iter(task.data["files"] or task.data["databases"]))
    kept = episode.bench.workspace.read(name)
    (folder / "odd\nname \udcff").write_text("x")
    (folder / "out").symlink_to(secret)
    (folder / "dir").symlink_to(tmp_path)
    (folder / "hard").write_text("x")
    os.link(folder / "hard", folder / "linked")
    episode.take(folder, "half \ud800")
    assert episode.answer == "" and episode.bench.workspace.read("odd\nname \udcff") == "x"
    for path in ("out", "dir/secret", "../secret"):
        with pytest.raises(PolicyError):
            episode.bench.workspace.read(path)
    (folder / "out").unlink()
    for make, why in (
        (lambda path: os.mkfifo(path), "plain file"),
        (lambda path: (path.touch(), os.truncate(path, 1 << 40)), "plain file"),
        (lambda path: path.write_bytes(bytes(5 << 20)), "workspace is full"),
    ):
        make(folder / "out")
        fresh = world.open(task)
        with pytest.raises(PolicyError, match=why):
            fresh.take(folder, "")
        assert fresh.bench.workspace.read(name) == kept  # all or nothing
        (folder / "out").unlink()


def test_harbor_is_worked_on_below_a_root(tasks_of_folders: Harbor, tmp_path: Path) -> None:
    drawn = {task.data["name"].partition("-")[0]: task for task in tasks_of_folders.tasks("train", 40, 1)}
    task = drawn["total"]
    episode = tasks_of_folders.open(task)
    words = episode.lay(tmp_path)
    assert "what is called /x there lies at ./x" in words and task.prompt in words
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["app", "app/sales.csv"]
    (plan,) = (tasks_of_folders.plan(task).stages,)
    solve = plan[0].solution["solve.sh"].data.decode().replace("/app/", f"{tmp_path}/app/")
    idle = tasks_of_folders.open(task)
    idle.take(tmp_path, "")
    assert idle.grade().reward == 0.0
    subprocess.run(["bash", "-c", solve], check=True)
    episode.take(tmp_path, "done")
    assert episode.grade().reward == 1.0
    steps = tasks_of_folders.open(drawn["words"])
    with pytest.raises(SandboxError, match="several steps"):
        steps.lay(tmp_path)


def test_forged_rewards_and_places_of_the_system_count_for_nothing(tasks_of_folders: Harbor, tmp_path: Path) -> None:
    task = next(t for t in tasks_of_folders.tasks("train", 40, 1) if t.data["name"].startswith("total"))
    one = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"
    for forged in (
        {"logs/verifier/reward.txt": Entry(b"1"), "logs/verifier/reward.json": Entry(b'{"reward": 1}')},
        {"tests/test.sh": Entry(one.encode(), 0o755), "usr/bin/bash": Entry(one.encode(), 0o755)},
        {"tests": Entry(link="/app"), "app/test.sh": Entry(one.encode(), 0o755)},
        {"logs": Entry(link="/app"), "app/verifier/reward.txt": Entry(b"1")},
        {"workspace/.root/logs/verifier/reward.txt": Entry(b"1"), "app/total.txt": Entry(link="/etc/passwd")},
        {"app": Entry(b"no folder any more")},
    ):
        folder = tmp_path / "t"
        episode = tasks_of_folders.open(task)
        folder.mkdir()
        if "app" not in forged:
            episode.lay(folder)
        lay_files(forged, folder)
        episode.take(folder, "")
        assert episode.grade().reward == 0.0, forged
        shutil.rmtree(folder)


def test_folders_there_and_back(tmp_path: Path) -> None:
    files = {"a/b": Entry(b"\0x", 0o755), "a/c\n": Entry(b"", 0o644), "l": Entry(mode=0, link="a/b")}
    (tmp_path / "f").mkdir()
    lay_files(files, tmp_path / "f")
    (tmp_path / "f" / "empty").mkdir()
    assert take_files(tmp_path / "f") == files
    for wrong in ("/x", "../x", "a//b", "a/./b", "", "a\0"):
        with pytest.raises(PolicyError, match="must be relative"):
            lay_files({wrong: Entry()}, tmp_path / "f")
    (tmp_path / "g").mkdir()
    with pytest.raises(PolicyError, match="do not fit together"):
        lay_files({"d": Entry(link=str(tmp_path)), "d/x": Entry(b"x")}, tmp_path / "g")
    assert not (tmp_path / "x").exists()
    with pytest.raises(PolicyError, match="files and folders at most"):
        take_files(tmp_path / "f", most_files=2)
    with pytest.raises(PolicyError, match="plain file of 1 bytes"):
        take_files(tmp_path / "f", most_bytes=1)
    with pytest.raises(PolicyError, match="must be a folder that can be read"):
        take_files(tmp_path / "none")
    assert MOST_FILES == 20_000
