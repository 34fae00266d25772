"""Files of tasks that somebody wrote by hand: what is no task of this world is refused with its line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from noria.core.errors import UserError
from noria.core.types import Split
from noria.envs.microswe import given
from noria.envs.microswe.world import Config, MicroSwe

GOLD = "def clamp(x, low):\n    best = x\n    if x < low:\n        best = low\n    return best\n"
ROW: dict[str, Any] = {
    "split": "train", "package": "hand", "function": "clamp", "kind": "comparison_flipped", "line": 3,
    "gold": GOLD, "app": GOLD.replace("<", ">"), "calls": [[["1", "2"], "2"], [["{'a'}", "set()"], "{'a'}"]],
    "spare": [[["5", "2"], "5"]], "wrong": [[3, "if x <= -low:"], [2, "best = low"]],
}  # fmt: skip


def load(path: Path, *rows: dict[str, Any] | str) -> dict[str, int]:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return {split: len(tasks) for split, tasks in given.load(str(path)).items()}


def test_a_row_is_a_task_once_and_its_experts_mend_it(tmp_path: Path) -> None:
    assert load(tmp_path / "f", ROW, ROW) == {"train": 1, "heldout": 0, "unseen": 0}
    world = MicroSwe(Config(type="microswe", path=str(tmp_path / "f")), None)
    (task,) = world.tasks("train", 1, 0)
    assert world.splits == ("train",) and task.data["calls"] == ["clamp(1,2)", "clamp({'a'},set())"]
    episode = world.open(task)
    for message in world.reference(task)[:2]:
        episode.act(message)
    assert episode.text == GOLD and world.forgeries(task) and GOLD in world.secrets(task)
    assert all(world.policy(task, habit, seed)([]) for habit in world.habits for seed in range(4))


def test_functions_that_are_too_long_are_not_played(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    longer = {key: ROW[key].replace("    return", "    best += 0\n    return") for key in ("app", "gold")}
    load(tmp_path / "f", ROW, {**ROW, **longer, "split": "heldout"})
    for longest, wanted in ((None, {"train": 5, "heldout": 6}), (6, {"train": 5, "heldout": 6}), (5, {"train": 5})):
        world = MicroSwe(Config(type="microswe", path=path, longest=longest), None)
        assert world.splits == tuple(wanted)
        for split, lines in wanted.items():
            (task,) = world.tasks(split, 9, 0)  # type: ignore[arg-type]
            assert task.data["gold"].count("\n") == lines
    with pytest.raises(UserError, match="got 4 - the shortest function has 5 lines"):
        MicroSwe(Config(type="microswe", path=path, longest=4), None)
    with pytest.raises(UserError, match="longest must go with path"):
        MicroSwe(Config(type="microswe", longest=4), None)


def test_functions_lie_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "f"
    names = [f"clamp{number}" for number in range(40)]
    rows = [json.loads(json.dumps(ROW).replace("clamp", name)) for name in names]
    load(path, *rows, {**ROW, "split": "heldout"})

    def drawn(part: str, split: Split = "train") -> set[str]:
        world = MicroSwe(Config(type="microswe", path=str(path), part=part), None)
        return {task.data["names"]["F"] for task in world.tasks(split, 99, 0)}

    first, second, third = (drawn(f"{number}/3") for number in (1, 2, 3))
    assert first | second | third == set(names) and not (first & second or second & third or first & third)
    assert min(len(first), len(second), len(third)) > 5
    assert drawn("2-3/3") == second | third and drawn("1/1") == set(names)
    assert drawn("3/3", "heldout") == {"clamp"}
    for part in ("3/2", "2-1/3", "2-4/3"):
        with pytest.raises(UserError, match=f"part must be .* got {part}"):
            drawn(part)
    with pytest.raises(UserError, match="got 7/999, which has none"):
        drawn("7/999")
    for part in ("0/3", "1", "a/b", "1/0"):
        with pytest.raises(ValueError, match="part"):
            drawn(part)
    with pytest.raises(UserError, match="part must go with path"):
        MicroSwe(Config(type="microswe", part="1/2"), None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"calls": [[["9" * 5000], "1"]]}, "Exceeds the limit"),
        ({"calls": [[["0x" + "f" * 9000], "1"]]}, "Exceeds the limit"),
        ({"calls": [[["[" * 400 + "]" * 400], "1"]]}, "."),
        ({"calls": [[["1 +" * 9000 + "1"], "1"]]}, "."),
        ({"calls": [[["1e999"], "1"]]}, "."),
        ({"calls": [[["{[]: 1}"], "1"]]}, "unhashable"),
        ({"calls": [[["1"], "{'a', 'b'}"]]}, "a set of several"),
        ({"calls": [[["__import__('os').system('x')"], "1"]]}, "malformed"),
        ({"app": "import os\n" + GOLD}, "one plain function clamp"),
        ({"app": GOLD.replace("x < low", "open(low)")}, "one plain function clamp"),
        ({"app": GOLD.replace("x < low", "x <")}, "invalid syntax"),
        ({"app": "x = 1\n"}, "one plain function clamp"),
        ({"app": ""}, "."),
        ({"function": "other"}, "one plain function other"),
        ({"app": GOLD}, "line 3 says that already"),
        ({"line": 4}, "an edit of its line must mend it|in its line alone"),
        ({"line": 6}, "line among them"),
        ({"line": 10**9}, "line among them"),
        ({"line": -1}, "line Input should be greater"),
        ({"app": GOLD.replace("x < low", "x > low").replace("best = x", "best = 0")}, "in its line alone"),
        ({"app": GOLD.replace("    return", "        return"), "line": 5}, "says that already|indentation"),
        ({"gold": GOLD.replace("x < low", "x < low" + " + 0" * 40)}, "one short line"),
        ({"wrong": [[7, "pass"]]}, "wrong edit must be of a line"),
        ({"wrong": [[-2, "pass"]]}, "wrong edit must be of a line"),
        ({"wrong": []}, "wrong .* at least 1 item"),
        ({"more": 1}, "more Extra inputs"),
    ],
)
def test_a_row_that_is_no_task_is_refused_with_its_line(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=rf"(?s)env path must hold one task per line.*line 1.*({why})"):
        load(tmp_path / "f", {**ROW, **change})
    assert given.fault({**ROW, **change}) and not given.fault(ROW)


def test_files_that_are_none_and_tasks_of_two_splits_are_refused(tmp_path: Path) -> None:
    for path in (str(tmp_path), str(tmp_path / "none"), "a\0b"):
        with pytest.raises(UserError, match="must be a file of tasks"):
            given.load(path)
    for text in ("\x00", "[]", "null", "{}", "", "[" * 9000):
        with pytest.raises(UserError, match="line 2"):
            load(tmp_path / "f", ROW, text, ROW)
    with pytest.raises(UserError, match="line 2.*in two splits"):
        load(tmp_path / "f", ROW, {**ROW, "split": "heldout"})
    (tmp_path / "empty").write_text("")
    with pytest.raises(UserError, match="which is empty"):
        MicroSwe(Config(type="microswe", path=str(tmp_path / "empty")), None)


def test_another_process_gives_tasks_the_same_ids(tmp_path: Path) -> None:
    load(tmp_path / "f", ROW, {**ROW, "calls": [[["{'a': 'b', 'c': {'d'}}", "''"], "1"]]})
    code = "import sys; from noria.envs.microswe.given import load; print(*(t.id for t in load(sys.argv[1])['train']))"
    said = {
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "f")],
            env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in "12"
    }  # fmt: skip
    assert len(said) == 1
