"""What a careless user gives the factory: each source is refused by itself, and nothing is lost."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_repos import lay
from typer.testing import CliRunner

from noria.cli import app
from noria.core.codec import read_jsonl
from noria.core.errors import NoriaError, UserError
from noria.core.types import Task
from noria.envs.swe import Config, build
from noria.envs.swe.records import Dataset
from noria.factory.journal import JOURNAL, Journal
from noria.factory.make import Plan, make
from noria.factory.origins import git, pypi
from noria.factory.origins.base import Unfetched
from noria.factory.place import begin
from noria.factory.repository import Names, Refused, prepare
from noria.sandboxes import bwrap

FILES = {
    "pkg/__init__.py": "",
    "pkg/m.py": "def clamp(x, low, high):\n    if x < low:\n        return low\n"
    "    if x > high:\n        return high\n    return x\n",
    "tests/test_m.py": "from pkg.m import clamp\n\n\n"
    + "\n\n".join(f"def test_{n}():\n    assert clamp({n}, 1, 3) == {min(max(n, 1), 3)}\n" for n in range(5)),
    ".gitattributes": "tests export-ignore\n",
}


# Sources


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "it is no folder and names no kind of source"),
        ("~nobody-of-this-name/x", "it cannot be looked at: Could not determine home directory"),
        ("a" * 5000, "it cannot be looked at: .*File name too long"),
    ],
)
def test_a_source_that_cannot_be_looked_at_is_refused(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        prepare(source, tmp_path, object(), Names(tmp_path))  # type: ignore[arg-type]


def packed(place: Path, members: list[tuple[str, bytes | str]]) -> Path:
    """An archive of files (bytes) and links (text)."""
    with tarfile.open(place, "w:gz") as archive:
        for name, what in members:
            about = tarfile.TarInfo(name)
            if isinstance(what, str):
                about.type, about.linkname = tarfile.SYMTYPE, what
                archive.addfile(about)
            else:
                about.size = len(what)
                archive.addfile(about, io.BytesIO(what))
    return place


def test_links_that_lead_out_cost_no_archive_and_nothing_is_written_through_one(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    members: list[tuple[str, bytes | str]] = [
        ("p/a.py", b"1"), ("p/abs", "/etc/passwd"), ("p/up", "../../x"), ("p/in", "a.py"),
        ("p/door", str(outside)), ("p/door/evil.py", b"2"), ("p/a.py", b"3"),
    ]  # fmt: skip
    into = tmp_path / "into"
    into.mkdir()
    folder = pypi.build().fetch(str(packed(tmp_path / "p-1.tar.gz", members)), into).folder
    found = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == {"a.py": b"3", "in": b"3", "evil.py": b"2"}
    assert list(outside.iterdir()) == []


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 0xFF for byte in data[middle : middle + 40]) + data[middle + 40 :]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], _flipped, lambda data: b"", lambda data: b"x"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    place = packed(tmp_path / "p-1.tar.gz", [("p/a.py", bytes(range(256)) * 400), ("p/b.py", os.urandom(4000))])
    place.write_bytes(damage(place.read_bytes()))
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(Unfetched, match=r"p-1\.tar\.gz: it cannot be unpacked"):
        pypi.build().fetch(str(place), into)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_commit_is_whole_but_for_links_that_lead_out(tmp_path: Path) -> None:
    """Tests that a repository leaves out of its releases are there."""
    source = Path(lay(tmp_path / "source", FILES))
    (source / "abs").symlink_to("/etc/passwd")
    (source / "in").symlink_to("pkg/m.py")
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"}
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(source), *words], check=True, env={**os.environ, **who})
    into = tmp_path / "into"
    into.mkdir()
    folder = git.build().fetch(str(source), into).folder
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    assert found == {*FILES, "in"}


# The folder that is written


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("mine\n")
    with pytest.raises(UserError, match=r"--out must be empty, or begun by this command: .* which holds tasks\.jsonl"):
        make(Plan(("x",), tmp_path, 1), object())  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["tasks.jsonl"]
    assert (tmp_path / "tasks.jsonl").read_text() == "mine\n"


def test_a_folder_is_begun_and_gone_on_with(tmp_path: Path) -> None:
    assert begin(tmp_path / "new" / "out") == tmp_path / "new" / "out" / "lock"
    (tmp_path / "new" / "out" / "lock").touch()
    begin(tmp_path / "new" / "out")  # stopped at once
    for name in ("layers", "other"):
        (tmp_path / "new" / "out" / name).mkdir()
    begin(tmp_path / "new" / "out")


@pytest.mark.parametrize("out", ["/proc/noria", "/dev/null", "/dev/null/x"])
def test_a_folder_that_cannot_be_made_is_said(out: str) -> None:
    with pytest.raises(UserError, match="--out must be a folder"):
        begin(Path(out))


# The journal


@pytest.mark.parametrize(
    ("line", "number"), [("rubbish", 2), ('{"a": 1}', 2), ("[]", 2), ('{"key": 7}', 2), ("[" * 99_999, 2), ("[]", 1)]
)
def test_a_changed_line_of_the_journal_is_named(tmp_path: Path, line: str, number: int) -> None:
    journal = Journal(tmp_path, {"seed": 0})
    journal.note("k", {"reason": "no test fails", "seconds": 1.0})
    journal.close()
    place = tmp_path / JOURNAL
    lines = place.read_text().splitlines()
    lines[number - 1 : number - 1] = [line]
    place.write_text("\n".join(lines) + "\n")
    what, fix = (
        ("settings", "use another --out") if number == 1 else ("key", "delete that line: its candidate is tried")
    )
    with pytest.raises(
        UserError, match=rf"journal\.jsonl must be as it was written: line {number} .*no {what} - {fix}"
    ):
        Journal(tmp_path, {"seed": 0})
    assert place.read_text().splitlines() == lines
    place.write_text("\n".join(each for each in lines if each != line) + "\n")
    assert list(Journal(tmp_path, {"seed": 0}).known) == ["k"]


# What was made, changed by hand


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    place = tmp_path_factory.mktemp("made")
    plan = Plan((lay(place / "pkg", FILES),), place / "out", 2, workers=1)
    box = bwrap.build(bwrap.Config(type="bwrap", memory_mb=768, disk_mb=64, servers=1))
    try:
        make(plan, box)
    finally:
        box.close()
    return place / "out", plan


def test_a_changed_task_of_the_journal_is_named(made: tuple[Path, Plan], tmp_path: Path) -> None:
    out, plan = made
    shutil.copytree(out, tmp_path / "out", symlinks=True)
    place = tmp_path / "out" / JOURNAL
    first, *lines = place.read_text().splitlines()
    place.write_text("\n".join([first, *(json.dumps({**json.loads(line), "seconds": "x"}) for line in lines)]) + "\n")
    box = bwrap.build(bwrap.Config(type="bwrap", memory_mb=768, disk_mb=64, servers=1))
    try:
        with pytest.raises(UserError, match=r"line with the key \w+ has ValueError.* - delete that line"):
            make(Plan(plan.sources, tmp_path / "out", 2, workers=1), box)
    finally:
        box.close()


def test_what_an_earlier_call_has_found_is_whole_or_said(made: tuple[Path, Plan], tmp_path: Path) -> None:
    out, plan = made
    shutil.copytree(out, tmp_path / "out", symlinks=True)
    place = tmp_path / "out" / "repos" / "pkg.json"
    repo = json.loads(place.read_text())
    shutil.rmtree(tmp_path / "out" / "layers" / repo["tree"])
    names = Names(tmp_path / "out")
    with pytest.raises(Refused, match=f"its layer {repo['tree']} is gone - delete .*pkg.json"):
        prepare(plan.sources[0], tmp_path / "out", object(), names)  # type: ignore[arg-type]
    place.write_text("[]")
    with pytest.raises(UserError, match=r"--out must be as it was written: .*pkg\.json.*delete pkg\.\* there"):
        prepare(plan.sources[0], tmp_path / "out", object(), names)  # type: ignore[arg-type]


def _task(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def changed(out: Path) -> None:
        tasks = [json.loads(line) for line in (out / "tasks.jsonl").read_text().splitlines()]
        change(tasks[0])
        (out / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))

    return changed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda out: (out / "tasks.jsonl").write_bytes((out / "tasks.jsonl").read_bytes()[:-40]),
            "Unterminated|Expect",
        ),
        (lambda out: (out / "dataset.json").write_text("[" * 99_999), "recursion"),
        (lambda out: (out / "tasks.jsonl").write_text((out / "tasks.jsonl").read_text() * 2), "stands in .* twice"),
        (lambda out: shutil.rmtree(out / "repos"), "is of 'pkg', of which there is no file"),
        (_task(lambda task: task.update(repo="other")), "is of 'other', of which there is no file"),
        (_task(lambda task: task.update(id=7)), "id of the task 7 is no text"),
        (_task(lambda task: task.update(statement="\udcff")), "statement of the task .* is no text"),
        (_task(lambda task: task.update(fail_to_pass=["no::such"])), "asks 'no::such', which is no test"),
        (_task(lambda task: task.update(fail_to_pass=[])), "no test that fails with it"),
        (_task(lambda task: task.pop("bug")), "no 'bug'"),
    ],
)
def test_a_changed_dataset_is_refused(
    made: tuple[Path, Plan], tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    shutil.copytree(made[0], tmp_path / "out", symlinks=True)
    change(tmp_path / "out")
    with pytest.raises(UserError, match=rf"path must hold a sound dataset: .*({said}).* - make it anew"):
        Dataset(tmp_path / "out")


def test_a_file_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="path must be a folder that `noria tasks make swe` wrote"):
        Dataset(tmp_path / "file")


@pytest.mark.parametrize(("keep", "said"), [(False, "is gone"), (True, "has other files")])
def test_changed_layers_are_not_played(made: tuple[Path, Plan], tmp_path: Path, keep: bool, said: str) -> None:
    shutil.copytree(made[0], tmp_path / "out", symlinks=True)
    dataset = Dataset(tmp_path / "out")
    repo = dataset.repos["pkg"]
    dataset.check_layers(repo)
    tree = dataset.layer(repo.tree)
    (tree / "pkg" / "m.py").write_text("\n" + (tree / "pkg" / "m.py").read_text())
    if not keep:
        shutil.rmtree(tree)
    dataset.check_layers(repo)  # looked at once
    with pytest.raises(
        NoriaError, match=f"path must hold the layers of pkg as they were made: .* {said} - make it anew"
    ):
        Dataset(tmp_path / "out").check_layers(repo)


def test_a_dataset_without_its_sources_or_tasks_is_no_unknown_outcome(made: tuple[Path, Plan], tmp_path: Path) -> None:
    """It ends the call: outcomes that are unknown are asked again and again."""
    shutil.copytree(made[0], tmp_path / "out", symlinks=True)
    config = Config(path=str(tmp_path / "out"), heldout=0.0)
    sandbox = bwrap.build(bwrap.Config(type="bwrap"))
    world = build(config, sandbox)
    try:
        (task,) = world.tasks("train", 1, 0)
        shutil.rmtree(world.dataset.layer(world.dataset.repos["pkg"].tree))
        with pytest.raises(UserError, match="path must hold the layers of pkg .* is gone - make it anew"):
            world.open(task).act('<call name="sh"><command>ls</command></call>')
        with pytest.raises(UserError, match="is gone - make it anew"):
            world.policy(task, "edits", 0)([])
    finally:
        world.close()
        sandbox.close()
    (tmp_path / "out" / "tasks.jsonl").write_text("")
    with pytest.raises(UserError, match="path must hold tasks: got .* which has none"):
        build(config, None)


def test_tasks_of_a_dataset_are_streamed_and_pruned(made: tuple[Path, Plan], tmp_path: Path) -> None:
    """Not taken for sources that are missing, as `swe` without any would be."""
    out, kept, path = tmp_path / "tasks.jsonl", tmp_path / "kept.jsonl", f"path={made[0]}"
    count = len(Dataset(made[0]).tasks)
    asked = ["tasks", "make", "--env", "swe", "--set", path, "--set", "heldout=0.0", "--n", str(count)]
    answer = CliRunner().invoke(app, [*asked, "--out", str(out)])
    assert answer.exit_code == 0, answer.output
    assert {task.data["id"] for task in read_jsonl(out, Task)} == set(Dataset(made[0]).tasks)
    asked = ["tasks", "prune", str(out), "--env", "swe", "--set", path, "--set", "heldout=0.0", "--strategy", "edits"]
    answer = CliRunner().invoke(app, [*asked, "--rollouts", "2", "--low", "0.5", "--high", "1", "--out", str(kept)])
    assert answer.exit_code == 0, answer.output
    assert kept.read_bytes() == out.read_bytes()
