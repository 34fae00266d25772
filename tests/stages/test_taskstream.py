"""Streams of tasks: distinct, the same whether interrupted or not, pruned by pass rates; and files that grow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from noria.core.codec import read_jsonl
from noria.core.errors import SandboxError, UserError
from noria.core.recipe_phases import Difficulty
from noria.core.types import Outcome, Split, Task
from noria.envs import ledger
from noria.stages import prune, taskstream
from noria.stages.growing import Growing, tasks_from
from noria.stages.taskstream import Wanted, chunks, grow

CHUNK = 32


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taskstream, "CHUNK", CHUNK)


class Words:
    """A world of sentences: in each chunk, tasks 0 and 1 occur in every chunk, and 2 and 3 are nearly alike."""

    name = "words"
    strategies: Mapping[str, float] = {"right": 1.0, "wrong": 1.0}
    drawn = 0

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        self.drawn += 1
        out = []
        for at in range(n):
            key = at if at < 2 else f"{seed}-{2 if at == 3 else at}"
            prompt = " ".join(f"w{key}-{k}" for k in range(40)) + (" end" if at == 3 else "")
            out.append(Task(f"words-{seed if at >= 2 else ''}{at}", "words", "", prompt, (), {"at": at % 2}, split))
        return out


def wanted(n: int, **more: Any) -> Wanted:
    return Wanted("words", "train", 5, n, **more)


def stop_after(n: int) -> Any:
    def advance(kept: int) -> None:
        if kept == n:
            raise KeyboardInterrupt

    return advance


def test_a_stream_drops_what_is_known_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    report = grow(Words(), path, wanted(75, near=0.8), lambda task: "bad" if task.id == "words-56" else "")
    tasks = list(read_jsonl(path, Task))
    assert len(tasks) == len({task.id for task in tasks}) == report["tasks"] == 75
    assert report["dropped"] == {"same id": 4, "same content": 0, "near duplicate": 3, "refused": 1}
    assert report["drawn"] == 83 and not report["used_up"]
    assert not {"words-53", "words-56"} & {task.id for task in tasks}
    assert [task.id for task in tasks[:3]] == ["words-0", "words-1", "words-52"]
    all_kept = grow(Words(), tmp_path / "all.jsonl", wanted(75))
    assert all_kept["dropped"]["near duplicate"] == 0 and all_kept["drawn"] == 79


@pytest.mark.parametrize("at", [1, 30, 31, 50])
def test_an_interrupted_stream_goes_on_to_the_same_bytes(tmp_path: Path, at: int) -> None:
    whole, path = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    report = grow(Words(), whole, wanted(75, near=0.8))
    with pytest.raises(KeyboardInterrupt):
        grow(Words(), path, wanted(75, near=0.8), advance=stop_after(at))
    if path.exists():  # nothing is left where nothing was committed
        with path.open("ab") as file:
            file.write(b'{"torn')
    again = grow(Words(), path, wanted(75, near=0.8))
    assert path.read_bytes() == whole.read_bytes()
    assert again | {"file": ""} == report | {"file": ""}


def test_a_longer_stream_begins_with_the_shorter(tmp_path: Path) -> None:
    world, path = Words(), tmp_path / "out.jsonl"
    grow(world, path, wanted(40, near=0.8))
    first, drawn = path.read_bytes(), world.drawn
    assert grow(world, path, wanted(40, near=0.8))["tasks"] == 40
    assert world.drawn == drawn
    grow(world, path, wanted(75, near=0.8))
    assert path.read_bytes().startswith(first)
    grow(world, tmp_path / "whole.jsonl", wanted(75, near=0.8))
    assert path.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_worlds_that_ship_stream_and_begin_as_they_draw(tmp_path: Path) -> None:
    world = ledger.build(ledger.Config(type="ledger"), None)
    asked = Wanted("ledger", "heldout", 3, 70, near=0.8)
    assert grow(world, tmp_path / "out.jsonl", asked)["tasks"] == 70
    found = list(read_jsonl(tmp_path / "out.jsonl", Task))
    stream = chunks(world, asked)
    assert [next(stream) for _ in range(CHUNK)] == world.tasks("heldout", CHUNK, 3)
    assert found[0] == world.tasks("heldout", 1, 3)[0] and found[-1].split == "heldout"


def test_a_small_world_is_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taskstream, "CHUNK", 2000)  # the world has fewer: 500 are tried then, then 125
    monkeypatch.setattr(Words, "tasks", lambda self, split, n, seed: _few(n))
    report = grow(Words(), tmp_path / "out.jsonl", wanted(300, near=0.9))
    assert (report["tasks"], report["used_up"], report["drawn"]) == (125, True, 125 * 21)
    assert report["dropped"]["same id"] == 125 * 20


def _few(n: int) -> list[Task]:
    if n > 130:
        raise UserError("tasks must be fewer")
    return [Task(f"few-{at}", "few", "", f"count to {at}") for at in range(n)]


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    foreign, path = tmp_path / "foreign.jsonl", tmp_path / "out.jsonl"
    foreign.write_text("mine\n")
    with pytest.raises(UserError, match="--out must be a new file"):
        grow(Words(), foreign, wanted(3))
    assert foreign.read_text() == "mine\n"
    grow(Words(), path, wanted(3))
    with pytest.raises(UserError, match="differs in near, seed"):
        grow(Words(), path, Wanted("words", "train", 6, 3, near=0.5))
    with Growing(tmp_path / "held.jsonl", {}), pytest.raises(UserError, match="another makes"):
        Growing(tmp_path / "held.jsonl", {})
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match="was cut"):
        grow(Words(), path, wanted(5))
    with pytest.raises(UserError, match="must be a file"):
        grow(Words(), tmp_path, wanted(5))
    state = tmp_path / "out.jsonl.state"
    state.write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        grow(Words(), path, wanted(3))


def test_what_fails_at_once_leaves_no_files(tmp_path: Path) -> None:
    world, path = ledger.build(ledger.Config(type="ledger"), None), tmp_path / "out.jsonl"
    for asked in (Wanted("ledger", "train", 0, 5, near=2.0), Wanted("ledger", "none", 0, 5)):  # type: ignore[arg-type]
        with pytest.raises(UserError):
            grow(world, path, asked)
    grow(world, tmp_path / "tasks.jsonl", Wanted("ledger", "train", 0, 5))
    roll = prune.by_habits(Words(), 2, 0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="--env must be the tasks' world: got 'words'"):
        prune.prune(tmp_path / "tasks.jsonl", path, Difficulty(), {}, roll)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["tasks.jsonl", "tasks.jsonl.state"]


def test_memory_of_the_file_is_its_commits(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    task = Task("a", "w", "", "p")
    with Growing(path, {"x": [1]}, (".more",)) as file:
        assert (file.state, file.done) == ({}, False)
        file.add(task)
        file.add({"rate": 0.5}, 1)
        file.commit({"at": 1})
        file.add(task)
    with Growing(path, {"x": [1]}, (".more",)) as file:
        assert file.state == {"at": 1} and list(file.tasks()) == [task]
        file.commit({"at": 2}, True)
    with Growing(path, {"x": [1]}, (".more",)) as file:
        assert (file.state, file.done) == ({"at": 2}, True)
    assert (tmp_path / "g.jsonl.more").read_text() == '{"rate":0.5}\n'
    path.write_text('{"no": "task"}\n')
    with pytest.raises(UserError, match="line at byte 0 is none"):
        list(tasks_from(path, 0))


def rolls(tasks: Sequence[Task]) -> list[list[Outcome]]:
    """Of four rollouts, as many are solved as the task's number says; task 9 cannot be graded."""
    out = []
    for task in tasks:
        number = int(task.id.removeprefix("t"))
        if number == 9:
            out.append([Outcome.unknown("it died")] * 4)
        elif number == 8:  # known ones alone count: 1 of 2
            out.append([Outcome(1.0), Outcome(0.0), Outcome.unknown("x"), Outcome.unknown("x")])
        else:
            out.append([Outcome(float(k < number)) for k in range(4)])
    return out


def write(path: Path, ids: Sequence[int]) -> None:
    from noria.core.codec import write_jsonl

    write_jsonl(path, [Task(f"t{number}", "w", "", f"p{number}") for number in ids])


def test_pruning_keeps_the_band_and_all_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "BATCH", 2)
    source, path = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write(source, [0, 1, 2, 3, 4, 8, 9])
    band = Difficulty(rollouts=4, low=0.25, high=0.5)
    asked = 0

    def roll(tasks: Sequence[Task]) -> list[list[Outcome]]:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise KeyboardInterrupt
        return rolls(tasks)

    with pytest.raises(KeyboardInterrupt):
        prune.prune(source, path, band, {"seed": 0}, roll)
    report = prune.prune(source, path, band, {"seed": 0}, rolls)
    assert [task.id for task in read_jsonl(path, Task)] == ["t1", "t2", "t8"]
    assert report["dropped"] == {"too hard": 1, "too easy": 2, "unknown": 1} and report["measured"] == 7
    lines = [json.loads(line) for line in Path(f"{path}.rates").read_text().splitlines()]
    assert [(line["id"], line["rate"], line["known"]) for line in lines] == [
        ("t0", 0.0, 4), ("t1", 0.25, 4), ("t2", 0.5, 4), ("t3", 0.75, 4), ("t4", 1.0, 4), ("t8", 0.5, 2),
        ("t9", None, 0),
    ]  # fmt: skip
    write(source, [0, 1, 2, 3, 4, 8, 9, 2])  # it has grown
    assert prune.prune(source, path, band, {"seed": 0}, rolls)["measured"] == 8
    with pytest.raises(UserError, match="differs in seed"):
        prune.prune(source, path, band, {"seed": 1}, rolls)
    for wrong, message in ((tmp_path / "no", "does not exist"), (path, "another file than the tasks")):
        with pytest.raises(UserError, match=message):
            prune.prune(wrong, path, band, {}, rolls)


def test_habits_measure_what_they_play(tmp_path: Path) -> None:
    world = ledger.build(ledger.Config(type="ledger"), None)
    tasks = world.tasks("train", 3, 0)
    expert = prune.by_habits(world, 4, 0, world.experts[0])
    assert [[one.solved for one in found] for found in expert(tasks)] == [[True] * 4] * 3
    mixture = prune.by_habits(world, 8, 0)
    assert mixture(tasks) == mixture(tasks)
    solved = [sum(one.solved for one in found) for found in mixture(world.tasks("train", 20, 1))]
    assert 0 < sum(solved) < 160 and len(set(solved)) > 3
    with pytest.raises(UserError, match="--strategy must be one of"):
        prune.by_habits(world, 4, 0, "none")

    class Broken:
        def open(self, task: Task) -> Any:
            raise SandboxError("it died")

    assert prune.played(Broken(), tasks[0], "careful", 0) == Outcome.unknown("SandboxError: it died")  # type: ignore[arg-type]
