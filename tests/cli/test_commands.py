"""Exit codes, messages, and the commands that need no model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import noria as package
from noria.core.recipe import load
from noria.core.store import Run

BLOCKED = """
import json
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
from noria.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["noria", *arguments]
    try:
        main()
    except SystemExit as done:
        print("exit", done.code)
"""


def without_torch(folder: Path, *commands: list[str]) -> subprocess.CompletedProcess[str]:
    """Run commands one after the other in a process that has no torch."""
    paths = os.pathsep.join([str(Path(package.__file__).parents[1]), str(folder)])
    command = [sys.executable, "-c", BLOCKED, json.dumps(commands)]
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


def test_version_and_help(noria) -> None:
    assert noria("version").out.strip() == package.__version__ == noria("--version").out.strip()
    help_text = noria("--help")
    assert help_text.code == 0 and "noria run recipes/quickstart.toml" in help_text.out
    for command in ("run", "check", "resume", "show", "eval", "list", "doctor", "version", "tasks"):
        assert command in help_text.out


@pytest.mark.parametrize("command", ["run", "check", "resume", "show", "eval", "list"])
def test_the_help_of_each_command_has_an_example(noria, command: str) -> None:
    assert f"noria {command}" in noria(command, "--help").out.partition("Example")[2]


def test_check_prints_the_arithmetic(noria, recipe: Path) -> None:
    result = noria("check", str(recipe), "phase.experts.prompts_per_step=12")
    assert result.code == 0
    assert "12 prompts x 8 = 96 rollouts" in result.out
    assert "24 rollouts" in result.out  # a mini-batch of 96 / 4
    assert load([recipe], ["phase.experts.prompts_per_step=12"]).fingerprint() in result.out


def test_check_as_json_counts_what_a_round_does(noria, recipe: Path) -> None:
    data = json.loads(noria("check", str(recipe), "--json", "rollout.samples_per_task=3").out)
    plan = data["plan"]
    assert plan["worlds"]["repair"] == {
        "type": "cliplug.plug", "tasks": 10, "weak_rollouts": 30, "teacher_rollouts": 20, "rollouts": 50,
    }  # fmt: skip
    assert plan["rollouts"] == 150
    experts = plan["phases"]["experts"]
    assert (experts["models"], experts["steps"], experts["rollouts_per_step"]) == (2, 20, 128)
    assert (experts["optimiser_steps"], experts["rollouts"]) == (80, 2 * 20 * 128)
    assert plan["evaluate"]["rollouts_per_model"] == 2 * 384
    assert data["recipe"]["rollout"]["samples_per_task"] == 3


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_wrong_key_ends_with_2_and_one_message(noria, recipe: Path, command: str) -> None:
    result = noria(command, str(recipe), "phase.experts.lrr=1")
    assert result.code == 2 and result.out == ""
    assert result.err == "error: unknown key 'lrr' in [phase.experts]: did you mean 'lr'?\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "absent.toml"], ["'absent.toml'", "small.toml"]),
        (["check", "rounds=1"], ["a recipe must be given"]),
        (["resume", "runs/nothing"], ["RUN", "'runs/nothing'"]),
        (["show", "."], ["RUN must be the folder of a run"]),
        (["list", "loses"], ["'loses'", "did you mean 'losses'"]),
        (["eval", "builtin:tiny", "--env", "ledgr"], ["'ledgr'", "did you mean 'ledger'"]),
        (["eval", "builtin:tini", "--env", "ledger"], ["model must", "'builtin:tini'", "builtin:tiny"]),
        (["eval", "builtin:tiny", "eval.temprature=1"], ["[eval]", "'temperature'"]),
        (["eval", "model", "--split", "test"], ["--split", "heldout", "'test'"]),
        (["tasks", "validate", "--env", "ledgr"], ["'ledgr'", "did you mean 'ledger'"]),
        (["tasks", "show", "nothing", "--env", "ledger", "--n", "4"], ["TASK", "'nothing'"]),
        (["tasks", "list", "--env", "ledger", "--split", "test"], ["--split", "'test'"]),
        (["tasks", "make", "--env", "ledger", "--out", "no/such/file"], ["--out", "'no/such'"]),
    ],
)
def test_wrong_input_ends_with_2_and_names_the_fix(noria, recipe: Path, arguments: list[str], words: list[str]) -> None:
    result = noria(*arguments)
    assert result.code == 2 and "Traceback" not in result.err
    for word in words:
        assert word in result.err


def test_a_strategy_that_a_world_lacks_is_named(noria, recipe: Path) -> None:
    recipe.write_text(
        'name = "small"\nenv.ledger.type = "ledger"\nteachers.a = { type = "scripted", strategy = "carefull" }\n'
    )
    result = noria("check", str(recipe))
    assert result.code == 2
    for words in (
        "teachers.a.strategy",
        "'carefull'",
        "env.ledger",
        "did you mean 'careful'",
        "careful, direct",
    ):
        assert words in result.err
    assert noria("check", str(recipe), "teachers.a.strategy=careful").code == 0


def test_bad_toml_ends_with_2_and_the_place(noria, recipe: Path) -> None:
    recipe.write_text("name = \n")
    result = noria("check", str(recipe))
    assert result.code == 2 and "small.toml must be valid TOML: line 1, column 8" in result.err


def test_only_the_heavy_commands_need_torch(recipe: Path) -> None:
    run = Run.create(recipe.parent / "runs", load([recipe]))
    done = without_torch(
        recipe.parent,
        ["check", str(recipe), "student.engine.type=embedded"],
        ["list", "losses"],
        ["show", run.name],
        ["run", str(recipe)],
    )
    assert [line for line in done.stdout.splitlines() if line.startswith("exit")] == [
        "exit 0", "exit 0", "exit 0", "exit 2",
    ], done.stderr  # fmt: skip
    assert "'torch', which is missing" in done.stderr
    assert [path.name for path in run.path.parent.iterdir()] == [run.name]  # no folder that nothing would fill


def test_list_shows_name_and_docstring(noria) -> None:
    rows = json.loads(noria("list", "losses", "--json").out)["losses"]
    assert {"ce", "clipped"} <= {row["name"] for row in rows}
    assert "cross entropy" in next(row["doc"] for row in rows if row["name"] == "ce").lower()
    assert "balance" in next(row["keys"] for row in rows if row["name"] == "clipped")
    assert "bwrap" in noria("list").out
    assert "memory_mb" in noria("list", "sandboxes").out


def test_doctor_reports_each_check_with_its_fix(noria) -> None:
    result = noria("doctor", "--json")
    checks = {item["name"]: item for item in json.loads(result.out)}
    assert {
        "python",
        "torch",
        "transformers",
        "cores",
        "memory",
        "disk",
        "bubblewrap",
        "sandbox",
    } <= checks.keys()
    assert checks["python"]["status"] == "ok" and checks["torch"]["status"] == "ok"
    for item in checks.values():
        assert item["status"] in ("ok", "warn", "fail")
        assert bool(item["fix"]) == (item["status"] != "ok")
    assert result.code == (1 if any(item["status"] == "fail" for item in checks.values()) else 0)


def test_a_run_that_another_process_works_on_is_not_resumed(noria, recipe: Path) -> None:
    run = Run.create(recipe.parent / "runs", load([recipe]))
    with run.lock():
        holder = json.loads((run.path / "lock").read_text())
        result = noria("resume", run.name)
    assert result.code == 2 and f"process {holder['pid']} is at it" in result.err
