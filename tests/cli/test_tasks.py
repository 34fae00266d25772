"""`noria tasks`: every task of a world is proved; a world with faults is refused with the reasons."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from noria.core.codec import read_jsonl
from noria.core.types import Task

WORLD = '''"""A world with a fault of each kind."""
from types import SimpleNamespace

from pydantic import BaseModel

from noria.core.errors import SandboxError, UserError
from noria.core.types import Observation, Outcome, Task

FAULTS = ("good", "no gold", "free", "ungraded", "raises", "empty", "flaky")
PLAYED = []


class Config(BaseModel):
    type: str = "faulty"
    tasks: int = 6


class Episode:
    def __init__(self, task):
        self.fault, self.said = task.data["fault"], []

    def act(self, message):
        if self.fault == "raises":
            raise SandboxError("it died")
        self.said.append(message)
        return Observation("", done=True)

    def grade(self):
        if self.fault == "ungraded":
            return Outcome.unknown("nobody looked")
        if self.fault == "flaky" and self.said == ["gold"]:
            PLAYED.append(1)
            return Outcome(0.25 if len(PLAYED) % 3 == 1 else 1.0, reason="wrong")
        solved = self.fault == "free" or (self.said == ["gold"] and self.fault != "no gold")
        return Outcome(1.0 if solved else 0.25, reason="" if solved else "wrong")

    def close(self):
        pass


class World:
    splits = ("train", "heldout")

    def __init__(self):
        self.drawn = 0

    def tasks(self, split, n, seed):
        if split == "unseen":
            raise UserError("split must be train or heldout")
        self.drawn += 1
        shift = 0 if split == "train" else 100
        return [
            Task(f"{split}-{i}", "faulty", "", f"task {i + shift}", (), {"fault": FAULTS[i % 7]}, split)
            for i in range(n)
        ]

    def open(self, task):
        return Episode(task)

    def reference(self, task):
        return [] if task.data["fault"] == "empty" else ["gold"]

    def close(self):
        pass


def build(config, sandbox):
    return World()
'''


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "faulty_pack").mkdir()
    (tmp_path / "faulty_pack" / "__init__.py").write_text("")
    (tmp_path / "faulty_pack" / "world.py").write_text(WORLD)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("faulty_pack", "faulty_pack.world"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "faulty_pack.world"


@pytest.mark.parametrize("env", ["ledger", "arithmetic"])
def test_the_worlds_that_ship_prove_themselves(noria, env: str) -> None:
    result = noria("tasks", "validate", "--env", env, "--n", "25", "--json")
    data = json.loads(result.out)
    assert result.code == 0 and data["refused"] == 0
    assert {"train", "heldout"} <= {row["split"] for row in data["worlds"]}
    assert all(row["tasks"] == 25 and row["refused"] == [] for row in data["worlds"])


def test_the_world_of_code_proves_itself_in_the_sandbox(noria) -> None:
    result = noria("tasks", "validate", "--env", "microswe", "--n", "4", "--split", "heldout", "--json")
    assert result.code == 0, result.out + result.err
    assert json.loads(result.out)["worlds"][0]["tasks"] == 4


def test_each_fault_is_refused_with_its_reason(noria, faulty: str) -> None:
    result = noria("tasks", "validate", "--env", faulty, "--json")
    assert result.code == 1
    train = json.loads(result.out)["worlds"][0]
    assert (train["split"], train["tasks"]) == ("train", 6)
    assert {item["id"]: item["reason"] for item in train["refused"]} == {
        "train-1": "the reference scores 0.25: wrong",
        "train-2": "doing nothing scores 1",
        "train-3": "the reference is not graded: nobody looked",
        "train-4": "raised SandboxError: it died",
        "train-5": "the reference has 0 messages, expected 1 to 64",
    }
    table = noria("tasks", "validate", "--env", faulty, "--split", "train")
    assert table.code == 1 and "train-2: doing nothing scores 1" in table.out


def test_what_fails_now_and_then_is_set_aside_as_flaky(noria, faulty: str) -> None:
    often = ("tasks", "validate", "--env", faulty, "--split", "train", "--repeats", "3")
    result = noria(*often, "--json")
    assert result.code == 1
    (row,) = json.loads(result.out)["worlds"]
    assert [item["id"] for item in row["refused"]] == [f"train-{i}" for i in range(1, 6)]  # alike in all repeats
    assert row["flaky"] == [] and row["repeats"] == 3
    result = noria(*often, "--set", "tasks=7", "--json")
    (row,) = json.loads(result.out)["worlds"]
    assert row["flaky"] == [{"id": "train-6", "reason": "in 1 of 3 repeats the reference scores 0.25: wrong"}]
    table = noria(*often, "--set", "tasks=7")
    assert table.code == 1 and "in 1 of 3 repeats" in table.out


def test_a_split_that_was_asked_for_must_exist(noria, faulty: str) -> None:
    result = noria("tasks", "validate", "--env", faulty, "--split", "unseen")
    assert result.code == 2 and "split must be train or heldout" in result.err


def test_splits_that_share_content_or_change_are_refused(noria, faulty: str) -> None:
    path = Path(sys.path[0]) / "faulty_pack" / "world.py"
    path.write_text(WORLD.replace("else 100", "else self.drawn // 2").replace("FAULTS[i % 7]", '"good"'))
    result = noria("tasks", "validate", "--env", faulty, "--n", "3", "--json")
    reasons = [item["reason"] for row in json.loads(result.out)["worlds"] for item in row["refused"]]
    assert result.code == 1
    assert "its content is also in the split train" in reasons
    assert "split heldout, seed 0: the tasks differ when they are drawn again" in reasons
    path.write_text(WORLD.replace('f"{split}-{i}"', '"same"').replace("}, split)", '}, "heldout")'))
    sys.modules.pop(faulty)
    result = noria("tasks", "validate", "--env", faulty, "--n", "2", "--split", "train", "--json")
    reasons = [item["reason"] for item in json.loads(result.out)["worlds"][0]["refused"]]
    assert reasons.count("says split heldout, was drawn for train") == 2 and "occurs twice" in reasons


def test_make_writes_what_list_and_show_tell(noria, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    assert noria("tasks", "make", "--env", "ledger", "--n", "5", "--seed", "3", "--out", str(file)).code == 0
    tasks = list(read_jsonl(file, Task))
    assert len(tasks) == 5 and all(task.split == "train" for task in tasks)
    listed = noria("tasks", "list", "--env", "ledger", "--n", "5", "--seed", "3").out
    assert all(task.id in listed for task in tasks)
    shown = noria("tasks", "show", tasks[2].id, "--env", "ledger", "--seed", "3")
    assert tasks[2].prompt in shown.out and shown.out.rstrip().endswith("reward  1.0")
    by_index = noria("tasks", "show", "2", "--env", "ledger", "--seed", "3", "--json")
    assert json.loads(by_index.out)["id"] == tasks[2].id
    told = json.loads(noria("tasks", "list", "--env", "ledger", "--n", "5", "--seed", "3", "--json").out)
    assert told["tasks"] == [{"id": task.id, "prompt": task.prompt} for task in tasks]
    assert (told["world"], told["split"], told["seed"]) == ("ledger", "train", 3)
    for index, words in (("2\u00b2", "must be an id or an index"), ("9" * 30, "must be below 1000000")):
        odd = noria("tasks", "show", index, "--env", "ledger", "--n", "2")
        assert odd.code == 2 and words in odd.err
