"""`noria tasks import` and `export`: what is said of folders, and that they come out as they went in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noria.cli_formats import export_tasks, import_tasks
from noria.core.errors import UserError
from noria.envs.harbor.folder import find_folders, read_folder, write_folder
from noria.envs.harbor.samples import sample


def test_refused_folders_are_told_and_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(sample("words-1"), tmp_path / "in/good")
    write_folder(sample("total-1"), tmp_path / "in/bad")
    docker = tmp_path / "in/bad/environment/Dockerfile"
    docker.write_text("FROM debian:12\nRUN apt-get install -y gcc\n")
    sheet = tmp_path / "in/good/task.toml"
    sheet.write_text(sheet.read_text().replace("network_mode", 'colour = "red"\nnetwork_mode'))
    with pytest.raises(SystemExit) as left:
        call(import_tasks, "harbor", tmp_path / "in", out=tmp_path / "out", as_json=True)
    assert left.value.code == 1
    told = {row["task"]: row for row in json.loads(capsys.readouterr().out)["tasks"]}
    assert told["noria/total-1"]["refused"] == ["needs an image: its Dockerfile has RUN apt-get install -y gcc"]
    assert told["noria/words-1"] == {
        "task": "noria/words-1", "steps": 2, "refused": [], "notes": ["unknown key environment.colour"],
    }  # fmt: skip
    assert [path.name for path in find_folders(tmp_path / "out")] == ["words-1"]
    assert read_folder(tmp_path / "out/words-1") == read_folder(tmp_path / "in/good")


def test_tasks_of_a_world_become_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(export_tasks, "harbor", env="microswe", out=tmp_path / "out", n=2, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"tasks": 2, "folder": str(tmp_path / "out")}
    call(import_tasks, "harbor", tmp_path / "out", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["refused"] == 0 and [row["notes"] for row in found["tasks"]] == [[], []]
    with pytest.raises(UserError, match="must not hold"):
        call(export_tasks, "harbor", env="microswe", out=tmp_path / "out", n=2)
    with pytest.raises(UserError, match="no `package`"):
        call(export_tasks, "harbor", env="ledger", out=tmp_path / "other")
    with pytest.raises(UserError, match="FORMAT must be one of"):
        call(import_tasks, "harbour", tmp_path)
    with pytest.raises(UserError, match="NAME=VALUE"):
        call(import_tasks, "harbor", tmp_path / "out", variables=["x"])


def call(command: object, *args: object, **options: object) -> None:
    """A command as typer would call it, its exit as the program's."""
    import typer

    assert callable(command)
    try:
        command(*args, **options)
    except typer.Exit as left:
        raise SystemExit(left.exit_code) from left
