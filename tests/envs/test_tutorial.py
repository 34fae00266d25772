"""The tutorial on worlds: its one file, taken from the page, is a world like any other, and its recipe runs."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from noria.bases.play import play, said
from noria.cli import app
from noria.cli_worlds import ProvableWorld, consistent, draw, guard, opened, overlaps, prove
from noria.core.recipe import load
from noria.core.types import Message
from noria.tokens.calls import render_call

PAGE = Path(__file__).resolve().parents[2] / "docs" / "worlds" / "tutorial.md"
NAME = "own.guess"


def block(language: str) -> str:
    """The page's code in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "guess.py").write_text(block("python"), encoding="utf-8")
    (tmp_path / "guess.toml").write_text(block("toml"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    for name in (NAME, "own"):
        sys.modules.pop(name, None)


@pytest.fixture
def world(here: Path) -> Iterator[ProvableWorld]:
    with opened(NAME, "process") as made:
        yield made


def test_the_commands_of_the_page_say_what_it_shows(here: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(block("python").splitlines()) <= 110
    proved = CliRunner().invoke(app, ["tasks", "validate", "--env", NAME, "--json"])
    rows = json.loads(proved.stdout)["worlds"]
    assert proved.exit_code == 0 and [row["split"] for row in rows] == ["train", "heldout"]
    assert all((row["tasks"], row["forged"], row["refused"]) == (32, 160, []) for row in rows)
    shown = CliRunner().invoke(app, ["tasks", "show", "0", "--env", NAME])
    for line in shown.stdout.splitlines()[1:8]:
        assert line in text
    assert shown.stdout.splitlines()[-1] == "reward  1.0"
    listed = CliRunner().invoke(app, ["tasks", "list", "--env", NAME, "--n", "5", "--set", "highest=30"])
    assert listed.stdout.count("Which number from 1 to ") == 5
    refused = CliRunner().invoke(app, ["tasks", "list", "--env", NAME, "--set", "highest=3"])
    assert "env.guess.highest must be greater" in str(refused.exception)


def test_it_is_a_world_like_any_other(world: ProvableWorld) -> None:
    drawn = {split: draw(world, split, 20, 3) for split in world.splits}
    assert not overlaps(drawn)
    for split, tasks in drawn.items():
        assert not consistent(world, split, tasks, 3) and not prove(world, tasks) and guard(world, tasks) == ([], 100)
        assert tasks[:7] == draw(world, split, 7, 3) and draw(world, split, 7, 4) != tasks[:7]
    wins = dict.fromkeys(world.strategies, 0)
    for task in drawn["train"]:
        for name in wins:
            episode = world.open(task)
            told = play(episode, world.policy(task, name, 1), 12)
            wins[name] += episode.grade().solved
            fresh = world.policy(task, name, 1)
            assert [fresh(told[:at]) for at in range(0, len(told), 2)] == said(told)
            assert (world.kind(told[0].content), world.kind(said(told)[-1])) == ("compare", "answer")
    assert wins["halve"] == wins["third"] == 20 and wins["hasty"] < 10
    assert world.kind(render_call("fly")) == world.kind('<call name="') == "malformed"


def test_a_fork_has_tools_of_its_own_and_a_wrong_call_costs_its_neighbours_nothing(world: ProvableWorld) -> None:
    task = draw(world, "train", 1, 0)[0]
    hidden = task.data["hidden"]
    episode = world.open(task)
    calls = [render_call("compare", number=hidden), render_call("compare", number="ten"), '<call name="compare']
    lines = episode.act("".join(calls)).text.splitlines()
    assert lines[0] == f"[1 compare] {hidden} is right"
    assert lines[1].startswith("[2 compare] error: 'number' of compare must be of type integer")
    assert lines[2].startswith("[3 call] error: malformed call")
    fork = episode.fork()
    fork.hidden = 0  # type: ignore[attr-defined]
    assert fork.act(calls[0]).text == f"{hidden} is high" and episode.act(calls[0]).text == f"{hidden} is right"
    assert fork.act(str(hidden)).done and fork.grade().reward == 0.0
    assert episode.act(str(hidden)).done and episode.grade().reward == 1.0
    taken_over = [Message("assistant", calls[1]), Message("tool", "error"), Message("assistant", "hm")]
    assert world.kind(world.policy(task, "halve", 0)(taken_over)) == "compare"


def test_its_recipe_is_valid(here: Path) -> None:
    recipe = load([here / "guess.toml"], [])
    assert recipe.env["guess"].type == NAME and list(recipe.phase) == ["sft", "experts"]


@pytest.mark.slow
def test_its_recipe_runs(here: Path) -> None:
    noria = Path(sys.executable).with_name("noria")
    done = subprocess.run([noria, "run", "guess.toml"], cwd=here, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (next((here / "runs").iterdir()) / "report.html").is_file()
