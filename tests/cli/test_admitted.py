"""Lists of admission: what `noria tasks validate --out` strikes is never drawn by a run, resumed ones included."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from noria.cli_worlds import opened
from noria.core import admission
from noria.core.errors import UserError
from noria.core.recipe import Recipe, load
from noria.core.store import Run
from noria.core.types import Task
from noria.stages.context import Context, struck_by

RECIPE = """
name = "struck"
[env]
ledger = {{ type = "ledger", tasks = 12, admitted = {path} }}
bank = {{ type = "ledger", tasks = 4 }}
[teachers]
a = {{ type = "scripted", strategy = "careful" }}
b = {{ type = "scripted", strategy = "direct" }}
[phase]
sft = {{ signal = "curated" }}
"""


def recipe_of(tmp_path: Path, path: Path, *overrides: str) -> Recipe:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE.format(path=json.dumps(str(path))), encoding="utf-8")
    return load([file], overrides)


def context(recipe: Recipe, run: Run, worlds: dict[str, Any]) -> Context:
    nothing = cast(Any, None)
    return Context(recipe, run, 1, run.path, worlds, nothing, nothing, struck=struck_by(recipe, worlds, run))


@pytest.fixture
def world() -> Any:
    with opened("ledger") as made:
        yield made


def listed(path: Path, tasks: list[Task], struck: list[Task], seed: int = 3, world: str = "ledger") -> Path:
    """A list of `tasks` of which `struck` are flaky."""
    flaky = [{"id": task.id, "reason": "in 1 of 2 repeats the reference scores 0"} for task in struck]
    admission.write(path, [admission.looked_at(world, "train", seed, tasks, [], flaky)])
    return path


def test_what_validate_finds_is_what_a_run_reads(noria, tmp_path: Path, world: Any) -> None:
    file = tmp_path / "list.json"
    asked = ("--env", "ledger", "--n", "3", "--seed", "9", "--repeats", "1")
    assert noria("tasks", "validate", *asked, "--out", str(file)).code == 0
    looked = admission.read(file, "x").worlds
    assert [(one.split, one.seed, one.tasks) for one in looked] == [(s, 9, 3) for s in ("train", "heldout", "unseen")]
    assert [one.digest for one in looked] == [
        admission.digest_of(world.tasks(split, 3, 9)) for split in ("train", "heldout", "unseen")
    ]
    assert admission.refused_of(file, "x", "ledger", world) == frozenset()
    odd = noria("tasks", "validate", *asked, "--split", "train", "--out", str(tmp_path / "no" / "list.json"))
    assert odd.code == 2 and "--out must be a file that can be written" in odd.err


def test_struck_tasks_are_never_drawn_and_others_take_their_places(tmp_path: Path, world: Any) -> None:
    file = tmp_path / "list.json"
    plain = recipe_of(tmp_path, file, 'env.ledger.admitted=""')
    run = Run.create(tmp_path, plain)
    free = context(plain, run, {"ledger": world, "bank": world})
    before, rest = free.train_tasks(), free.fresh_tasks("ledger", "rl", 9)
    gone = [*before["ledger"][2:5], rest[4]]
    held = free.heldout_tasks("ledger", "heldout", 6)
    listed(file, [*gone, held[1]], [*gone, held[1]])
    # The list is of other tasks than its seed draws; it is refused as such, so the digest is made to fit.
    found = json.loads(file.read_text())
    found["worlds"][0]["digest"] = admission.digest_of(world.tasks("train", found["worlds"][0]["tasks"], 3))
    file.write_text(json.dumps(found))

    recipe = recipe_of(tmp_path, file)
    assert recipe.env["ledger"].admitted == str(file) and recipe.env["ledger"].config().tasks == 12
    held_to = context(recipe, Run.create(tmp_path, recipe), {"ledger": world, "bank": world})
    after = held_to.train_tasks()
    assert len(after["ledger"]) == 12 and not {task.id for task in gone} & {task.id for task in after["ledger"]}
    # What stays keeps its order, and the world without a list is as it was.
    kept = [task for task in before["ledger"] if task not in gone]
    assert after["ledger"][: len(kept)] == kept and after["bank"] == before["bank"]
    fresh = held_to.fresh_tasks("ledger", "rl", 9)
    assert len(fresh) == 9 and not {t.id for t in fresh} & {t.id for t in [*gone, *after["ledger"]]}
    again = held_to.heldout_tasks("ledger", "heldout", 6)
    assert [task.id for task in again][:5] == [task.id for task in held if task is not held[1]]


def test_a_run_goes_on_with_the_list_that_it_began_with_and_with_no_other(tmp_path: Path, world: Any) -> None:
    tasks = world.tasks("train", 8, 3)
    file = listed(tmp_path / "list.json", tasks, tasks[:2])
    recipe = recipe_of(tmp_path, file)
    run = Run.create(tmp_path, recipe)
    worlds = {"ledger": world, "bank": world}
    first = context(recipe, run, worlds).train_tasks()
    again = Run.open(run.path)
    assert context(again.recipe(), again, worlds).train_tasks() == first
    listed(file, tasks, tasks[:3])
    with pytest.raises(UserError, match=r"env\.ledger\.admitted must be what this run began with"):
        struck_by(again.recipe(), worlds, again)
    assert len(struck_by(recipe, worlds)["ledger"]) == 3
    file.unlink()
    with pytest.raises(
        UserError, match=r"env\.ledger\.admitted must be a file: .* - write it by `noria tasks validate"
    ):
        struck_by(again.recipe(), worlds, again)


def test_a_list_of_something_else_is_refused(tmp_path: Path, world: Any) -> None:
    tasks = world.tasks("train", 8, 3)
    field, file = "env.ledger.admitted", tmp_path / "list.json"
    file.write_text("[]")
    with pytest.raises(UserError, match="must be a list of admission"):
        admission.refused_of(file, field, "ledger", world)
    listed(file, tasks, tasks[:1], world="claw")
    with pytest.raises(UserError, match=r"must be a list of the world 'ledger': .* which is of claw - write it by"):
        admission.refused_of(file, field, "ledger", world)
    listed(file, tasks, tasks[:1], seed=4)
    with pytest.raises(UserError, match="seed 4 - the world's options or its generator have changed"):
        admission.refused_of(file, field, "ledger", world)
    with opened("ledger", options=["frozen_share=0.0"]) as other:
        listed(file, tasks, tasks[:1])
        assert len(admission.refused_of(file, field, "ledger", world)) == 1
        with pytest.raises(UserError, match="with --set for every option"):
            admission.refused_of(file, field, "ledger", other)
    whole = [{"id": "", "reason": "split train, seed 3: the tasks differ when they are drawn again"}]
    admission.write(file, [admission.looked_at("ledger", "train", 3, tasks, whole, [])])
    with pytest.raises(UserError, match=re.escape("refuses 'ledger': split train, seed 3")):
        admission.refused_of(file, field, "ledger", world)


class Small:
    """A world of ten tasks."""

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        if n > 10:
            raise UserError("tasks must be at most 10")
        return [Task(f"small-{i}", "small", "", f"task {i}", (), {"i": i}) for i in range(n)]


def test_a_world_that_has_too_few_says_so() -> None:
    small: Any = Small()
    struck = frozenset(map(admission.key_of, small.tasks("train", 3, 0)))
    assert [task.id for task in admission.draw(small, "train", 7, 0, struck, "s")] == [
        f"small-{i}" for i in range(3, 10)
    ]
    with pytest.raises(UserError, match=r"env\.s\.tasks must leave room for the tasks that admitted strikes: 5 of 8"):
        admission.draw(small, "train", 8, 0, struck, "s")


def test_a_check_reads_the_list_and_so_does_a_proof_its_sandbox(noria, tmp_path: Path, world: Any) -> None:
    tasks, file = world.tasks("train", 8, 3), tmp_path / "list.json"
    recipe_of(tmp_path, listed(file, tasks, tasks[:2]))
    asked = ("check", str(tmp_path / "recipe.toml"))
    assert noria(*asked).code == 0
    for text, said in (("", "must be a list of admission"), ('{"worlds": []}', "which is of none")):
        file.write_text(text)
        refused = noria(*asked)
        assert refused.code == 2 and said in refused.err and "env.ledger.admitted" in refused.err
    with pytest.raises(UserError, match="must be a file: .*null byte"):
        admission.read(Path("a\0b"), "env.ledger.admitted")
    refused = noria("tasks", "validate", "--env", "arithmetic", "--n", "1", "--sandbox", "zz")
    assert refused.code == 2 and "type must name one of the sandboxes: got 'zz'" in refused.err
