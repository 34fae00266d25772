"""`noria tasks validate`: a world that can be deceived or tells too much is refused; the world of code holds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from noria import cli_worlds
from noria.core.proofs import Guarded
from noria.envs.microswe import forgeries

WORLD = '''"""A world whose tasks are guarded badly, each in its own way."""
from pydantic import BaseModel

from noria.core.errors import SandboxError
from noria.core.types import Observation, Outcome, Task

FAULTS = ("sound", "deceived", "ungraded", "raises", "leaks in the prompt", "leaks in the view", "prefix")


class Config(BaseModel):
    type: str = "guarded"
    tasks: int = 7


class Episode:
    def __init__(self, task):
        self.fault, self.said = task.data["fault"], []

    def act(self, message):
        if self.fault == "raises" and message == "forged edit":
            raise SandboxError("it died")
        self.said.append(message)
        shown = {"leaks in the view": "1 a\\n2 mended", "prefix": "1 a\\n2 mended + 1"}
        return Observation(shown.get(self.fault, "1 a\\n2 b"), done=message == "submit")

    def grade(self):
        if self.fault == "ungraded" and "forged edit" in self.said:
            return Outcome.unknown("nobody looked")
        deceived = self.fault == "deceived" and self.said == ["forged edit", "submit"]
        return Outcome(1.0 if deceived or "gold" in self.said else 0.0)

    def close(self):
        pass


class World:
    def tasks(self, split, n, seed):
        return [
            Task(f"{split}-{i}", "guarded", "", self.prompt(split, i), (), {"fault": FAULTS[i % 7]}, split)
            for i in range(n)
        ]

    def prompt(self, split, i):
        return f"{split} {i}" + (" SECRET" if FAULTS[i % 7] == "leaks in the prompt" else "")

    def open(self, task):
        return Episode(task)

    def reference(self, task):
        return ["view", "gold", "submit"]

    def forgeries(self, task):
        return [["forged edit", "submit"], ["prose"]]

    def secrets(self, task):
        return ["SECRET", "\\n2 mended\\n"]

    def close(self):
        pass


def build(config, sandbox):
    return World()
'''


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "guarded_pack").mkdir()
    (tmp_path / "guarded_pack" / "__init__.py").write_text("")
    (tmp_path / "guarded_pack" / "world.py").write_text(WORLD)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("guarded_pack", "guarded_pack.world"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "guarded_pack.world"


def test_deceit_that_pays_and_words_that_tell_are_refused(noria, guarded: str) -> None:
    result = noria("tasks", "validate", "--env", guarded, "--split", "train", "--json")
    assert result.code == 1
    (row,) = json.loads(result.out)["worlds"]
    assert (row["tasks"], row["forged"]) == (7, 14)
    assert row["attempts"] == {"gold": 14, "no-op": 14, "wrong": 0, "forged": 14, "leak": 14}
    assert json.loads(result.out)["warnings"] == [
        "guarded_pack.world has 0 attempts of the kind wrong: no wrong work was graded"
    ]
    assert {item["id"]: item["reason"] for item in row["refused"]} == {
        "train-1": "a forged attempt scores 1: 'forged edit'",
        "train-2": "a forged attempt is not graded: nobody looked; it says 'forged edit'",
        "train-3": "raised SandboxError: it died",
        "train-4": "its prompt gives the solution away: 'SECRET'",
        "train-5": "its first observation gives the solution away: '\\n2 mended\\n'",
    }
    table = noria("tasks", "validate", "--env", guarded, "--split", "train").out
    assert "forged" in table and "14" in table and "train-1: a forged attempt scores 1" in table
    assert "warning: guarded_pack.world has 0 attempts of the kind wrong" in table


@pytest.mark.parametrize("env", ["ledger", "arithmetic"])
def test_worlds_without_code_hold_forgeries_as_well(noria, env: str) -> None:
    result = noria("tasks", "validate", "--env", env, "--n", "3", "--split", "train", "--json")
    found = json.loads(result.out)
    assert result.code == 0 and found["warnings"] == []
    attempts = found["worlds"][0]["attempts"]
    assert (attempts["gold"], attempts["no-op"], attempts["wrong"]) == (6, 6, 3)
    assert attempts["forged"] >= 45 and attempts["leak"] >= 6


def test_the_world_of_code_is_not_deceived() -> None:
    with cli_worlds.opened("microswe") as world:
        assert isinstance(world, Guarded)
        tasks = [task for split in ("train", "heldout", "unseen") for task in cli_worlds.draw(world, split, 1, 3)]
        refused, played = cli_worlds.guard(world, tasks)
        assert refused == [] and played == sum(len(world.forgeries(task)) for task in tasks) >= 90
        # The attempts that name what is forbidden in pieces are told so and change nothing, or leave no Python at all.
        for message in (said[0] for said in world.forgeries(tasks[0]) if "mock" in said[0] or "raise" in said[0]):
            episode = world.open(tasks[0])
            if episode.act(message).text == "ok":
                with pytest.raises(SyntaxError):
                    compile(episode.text, "app.py", "exec")
            else:
                assert episode.text == tasks[0].data["app"]


def test_what_gives_a_repair_away_is_said_in_its_gold_file() -> None:
    with cli_worlds.opened("microswe") as world:
        for task in cli_worlds.draw(world, "train", 60, 4):
            gold, tests, unseen, numbered, *_ = forgeries.secrets(task)
            assert [gold, tests, unseen] == [task.data[name] for name in ("gold", "tests", "unseen_tests")]
            number, line = numbered.strip("\n").split(" ", 1)
            assert gold.split("\n")[int(number) - 1] == line != task.data["app"].split("\n")[int(number) - 1]
            assert world.reference(task)[1] in forgeries.secrets(task)
            assert cli_worlds._leak(world, task) == ""
