"""`noria tasks` for every world that is whole by itself: a new one is covered unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noria.cli_tasks import ATTEMPTS
from noria.cli_worlds import self_contained
from noria.core.codec import read_jsonl
from noria.core.types import Task

SEED = "5"
#: Worlds whose attempts each start a sandbox: their proofs take minutes.
SANDBOXED = {"claw", "code", "microswe"}


def proved(noria, env: str, *few: str, tasks: int) -> None:
    said = noria(
        "tasks", "validate", "--env", env, "--seed", SEED, "--repeats", "1", "--sandbox", "process", "--json", *few
    )
    found = json.loads(said.out)
    assert said.code == 0 and (found["refused"], found["flaky"], found["warnings"]) == (0, 0, [])
    for row in found["worlds"]:
        assert (row["world"], row["seed"], row["tasks"]) == (env, int(SEED), tasks)
        assert all(row["attempts"][kind] for kind in ATTEMPTS if kind != "leak"), row


@pytest.mark.parametrize("env", self_contained())
def test_its_tasks_are_listed_shown_and_made_under_a_seed(noria, tmp_path: Path, env: str) -> None:
    where = ("--env", env, "--seed", SEED)
    listed = noria("tasks", "list", *where, "--n", "2", "--json")
    tasks = json.loads(listed.out)["tasks"]
    assert listed.code == 0 and len({task["id"] for task in tasks}) == 2 and all(task["prompt"] for task in tasks)
    shown = noria("tasks", "show", "1", *where, "--json")
    assert shown.code == 0 and json.loads(shown.out)["id"] == tasks[1]["id"]
    file = tmp_path / "tasks.jsonl"
    made = noria("tasks", "make", env, "--seed", SEED, "--n", "2", "--out", str(file), "--json")
    assert made.code == 0 and json.loads(made.out)["tasks"] == 2
    written = list(read_jsonl(file, Task))
    assert len(written) == 2 and all(task.world == env and task.split == "train" for task in written)


@pytest.mark.parametrize("env", [env for env in self_contained() if env not in SANDBOXED])
def test_a_task_of_it_is_proved(noria, env: str) -> None:
    proved(noria, env, "--n", "1", "--split", "train", tasks=1)


@pytest.mark.slow
@pytest.mark.parametrize("env", self_contained())
def test_tasks_of_all_its_splits_are_proved_and_played(noria, env: str) -> None:
    proved(noria, env, "--n", "2", tasks=2)
    played = noria("tasks", "show", "1", "--env", env, "--seed", SEED, "--n", "2", "--sandbox", "process")
    assert played.code == 0 and played.out.rstrip().endswith("reward  1.0")
