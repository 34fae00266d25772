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


@pytest.mark.parametrize("env", self_contained())
def test_its_tasks_are_validated_listed_shown_and_made_under_a_seed(noria, tmp_path: Path, env: str) -> None:
    where = ("--env", env, "--seed", SEED)
    proved = noria("tasks", "validate", *where, "--n", "2", "--repeats", "1", "--sandbox", "process", "--json")
    found = json.loads(proved.out)
    assert proved.code == 0 and (found["refused"], found["flaky"], found["warnings"]) == (0, 0, [])
    for row in found["worlds"]:
        assert (row["world"], row["seed"], row["tasks"]) == (env, int(SEED), 2)
        assert all(row["attempts"][kind] for kind in ATTEMPTS if kind != "leak"), row
    listed = noria("tasks", "list", *where, "--n", "2", "--json")
    tasks = json.loads(listed.out)["tasks"]
    assert listed.code == 0 and len({task["id"] for task in tasks}) == 2 and all(task["prompt"] for task in tasks)
    shown = noria("tasks", "show", "1", *where, "--json")
    assert shown.code == 0 and json.loads(shown.out)["id"] == tasks[1]["id"]
    played = noria("tasks", "show", tasks[1]["id"], *where, "--n", "2", "--sandbox", "process")
    assert played.code == 0 and played.out.rstrip().endswith("reward  1.0")
    file = tmp_path / "tasks.jsonl"
    made = noria("tasks", "make", env, "--seed", SEED, "--n", "2", "--out", str(file), "--json")
    assert made.code == 0 and json.loads(made.out)["tasks"] == 2
    written = list(read_jsonl(file, Task))
    assert len(written) == 2 and all(task.world == env and task.split == "train" for task in written)
