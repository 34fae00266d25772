"""Recipes: merging, overrides, messages and rules between fields, on plug-ins made for the test."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from noria.core.errors import UserError
from noria.core.recipe import Recipe, from_json, load
from noria.core.recipe_phases import DistillPhase, EfficiencyPhase, RlPhase, SftPhase
from noria.core.recipe_report import models_in

PLUGIN = '''"""A plug-in for tests."""
from pydantic import BaseModel, ConfigDict
from typing import Literal


class Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    type: Literal["plug"] = "plug"
    tasks: int = 256
    slots: int = 8
    timeout_s: float = 2.5


def build(config):
    return config
'''

BASE = """
name = "base"
rounds = 2

[student]
engine = { type = "testplug.plug", slots = 4 }
trainer = { type = "testplug.plug" }

[executor]
type = "testplug.plug"

[sandbox]
type = "testplug.plug"

[teachers]
talker = { type = "testplug.plug" }
scorer = { type = "testplug.scorer" }

[env]
repair = { type = "testplug.plug", tasks = 16 }
ledger = { type = "testplug.plug" }

[phase]
sft = { signal = "curated" }
experts = { signal = "group_mean", split_by = "env" }
distill = { signal = "teacher_k1", route = "experts" }
efficiency = { signal = "hmpo", envs = ["ledger"] }
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "testplug"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "plug.py").write_text(PLUGIN)
    (package / "scorer.py").write_text(PLUGIN + "\n\nSCORES_TOKENS = True\n")
    (package / "heavy.py").write_text("import torch\n" + PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("testplug", "testplug.plug", "testplug.scorer", "testplug.heavy"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    file = tmp_path / "base.toml"
    file.write_text(BASE)
    return file


def fault(base: Path, *overrides: str) -> str:
    with pytest.raises(UserError) as raised:
        load([base], overrides)
    return str(raised.value)


def overlay(base: Path, text: str) -> Path:
    file = base.with_name("overlay.toml")
    file.write_text(text)
    return file


def test_defaults_are_filled_and_phases_keep_their_order(base: Path) -> None:
    recipe = load([base])
    assert list(recipe.phase) == ["sft", "experts", "distill", "efficiency"]
    kinds = [type(phase) for phase in recipe.phase.values()]
    assert kinds == [SftPhase, RlPhase, DistillPhase, EfficiencyPhase]
    assert (recipe.rounds, recipe.seed, recipe.runs_dir) == (2, 0, "runs")
    assert recipe.gate.tasks == 384 and recipe.gate.protected is None
    assert recipe.env["ledger"].options == {"tasks": 256, "slots": 8, "timeout_s": 2.5}
    assert recipe.env["repair"].config().tasks == 16
    assert recipe.phase["experts"].loss["clipped"].options["eps_high"] == 0.28
    assert recipe.phase["experts"].loss["clipped"].config("clipped").aggregate == "prompt"


def test_tables_merge_lists_replace_and_a_new_type_replaces_the_table(base: Path) -> None:
    over = overlay(
        base,
        """
        [env.repair]
        slots = 2
        [student.engine]
        type = "testplug.scorer"
        [phase.efficiency]
        envs = ["repair"]
        """,
    )
    recipe = load([base, over])
    assert recipe.env["repair"].options == {"tasks": 16, "slots": 2, "timeout_s": 2.5}
    assert recipe.student.engine.type == "testplug.scorer"
    assert recipe.student.engine.options["slots"] == 8  # the 4 belonged to the other type
    assert recipe.phase["efficiency"].envs == ["repair"]


def test_a_type_that_was_left_to_its_default_counts_as_changed(base: Path) -> None:
    base.write_text(BASE.replace('type = "testplug.plug", slots = 4', "slots = 4"))
    recipe = load([base], ["student.engine.type=testplug.plug"])
    assert recipe.student.engine.options["slots"] == 8
    same = overlay(base, 'student.engine = { type = "embedded" }')
    assert load([base, same]).student.engine.options == {"slots": 4}


def test_overrides_are_toml_or_text_and_come_last(base: Path) -> None:
    over = overlay(base, "rounds = 5\nseed = 3")
    recipe = load([base, over], ["rounds=7", "name=other", "phase.sft.lr=1e-4", 'phase.efficiency.envs=["repair"]'])
    assert (recipe.rounds, recipe.seed, recipe.name) == (7, 3, "other")
    assert recipe.phase["sft"].lr == 1e-4
    assert recipe.phase["efficiency"].envs == ["repair"]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("roundz=1", ["'roundz'", "the top level", "'rounds'"]),
        ("phase.experts.lrr=1", ["'lrr'", "[phase.experts]", "'lr'"]),
        ("student.lr=1", ["'lr'", "[student]", "belongs in [phase.<name>]"]),
        ("gate.pairs=1", ["'pairs'", "[gate]", "[supervisor]"]),
        ("phase.experts.credit.key_actoin=1", ["[phase.experts.credit]", "'key_action'"]),
        ("env.repair.taskz=1", ["'taskz'", "[env.repair]", "'tasks'"]),
        ("student.engine.slotz=1", ["'slotz'", "[student.engine]", "'slots'"]),
        ("phase.experts.loss.clipped.eps=1", ["'eps'", "[phase.experts.loss.clipped]", "'eps_low'"]),
        ("phase.experts.top_p=0.9", ["phase.experts.top_p", "refused", "temperature"]),
        ("rollout.top_k=5", ["rollout.top_k", "refused"]),
        ("student.engine.top_p=0.9", ["student.engine.top_p", "refused"]),
        ("rounds=0", ["rounds must be", "1", "got 0"]),
        ("rounds=two", ["rounds must be", "integer", "'two'"]),
        ("rounds=true", ["rounds must be", "integer"]),
        ("env.repair.timeout_s=x", ["env.repair.timeout_s", "number", "'x'"]),
        ("gate.confidence=1.5", ["gate.confidence", "less than 1", "1.5"]),
        ("name=a/b", ["name", "letters", "'a/b'"]),
        ("phase.sft.signal=curatd", ["phase.sft.signal", "'curated'", "'curatd'"]),
        ("phase.more={steps=1}", ["phase.more.signal must be given"]),
        ("env.repair.type=testplug.nothing", ["env.repair.type", "'testplug.nothing'"]),
        ("sandbox.type=bwrab", ["sandbox.type", "'bwrab'", "bwrap"]),
        ("phase.sft.loss={cee={}}", ["phase.sft.loss", "'cee'", "ce"]),
        ("teachers.other={strategy=1}", ["teachers.other.type must be given", "[teachers.other]"]),
        ("rounds.more=1", ["rounds.more", "rounds", "not a table"]),
        ("rounds", ["key.sub=value", "'rounds'"]),
    ],
)
def test_each_mistake_names_the_field_and_the_fix(base: Path, override: str, words: list[str]) -> None:
    message = fault(base, override)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["phase.distill.route=expert"], ["phase.distill.route", "'expert'", "did you mean 'experts'"]),
        (
            ["phase.distill.route=talker"],
            ["phase.distill.route", "teachers.talker.type", "cannot score tokens"],
        ),
        (["phase.distill.route=sft"], ["phase.distill.route", "phase.sft.split_by"]),
        (
            ["phase.distill.route=efficiency"],
            ["phase.distill.route", "earlier", "move phase.efficiency above"],
        ),
        (
            ["phase.experts.minibatches=7"],
            ["phase.experts.prompts_per_step", "minibatches", "16 * 8 = 128 and 7", "= 8"],
        ),
        (["phase.experts.steps=0"], ["phase.distill.route", "phase.experts.steps is 0"]),
        (['phase.experts.envs=["ledger"]'], ["phase.distill.envs", "phase.experts.envs", "'repair'"]),
        (['gate.protected=["repaired"]'], ["gate.protected", "'repaired'", "did you mean 'repair'"]),
        (['gate.protected=["repair", "repair"]'], ["gate.protected", "'repair' twice"]),
        (['gate.worlds=["repaired"]'], ["gate.worlds", "'repaired'", "did you mean 'repair'"]),
        (["gate.worlds=[]"], ["gate.worlds", "got []"]),
        (
            ['gate.worlds=["repair"]', 'gate.protected=["ledger"]', 'phase.experts.envs=["repair"]'],
            ["gate.protected must be of gate.worlds: got ledger"],
        ),
        (['gate.worlds=["repair"]'], ["phase.experts.envs must be of gate.worlds with split_by: got ledger"]),
        (['phase.sft.envs=["x"]'], ["phase.sft.envs", "'x'", "'repair', 'ledger'"]),
        (["phase.sft.envs=[]"], ["phase.sft.envs", "got []"]),
        (["phase.sft.loss={}"], ["phase.sft.loss"]),
        (["supervisor.type=model"], ["supervisor.type", "supervisor.engine"]),
        (["supervisor.replay_budget=9"], ["supervisor.replay_budget", "supervisor.continuations", "= 16"]),
        (
            ["student.engine.type=testplug.heavy", "student.engine.max_tokens=99"],
            ["rollout.max_tokens", "student.engine"],
        ),
        (['env={"a/b"={type="testplug.plug"}}'], ["[env]", "'a/b'"]),
        (["phase.efficiency.split_by=env"], ["phase.efficiency.split_by", "remove"]),
    ],
)
def test_fields_that_do_not_fit_are_both_named(base: Path, overrides: list[str], words: list[str]) -> None:
    message = fault(base, *overrides)
    for word in words:
        assert word in message


def test_every_fault_is_reported_at_once(base: Path) -> None:
    assert fault(base, "roundz=1", "seed=-1").count("\n") == 1


def test_a_teacher_that_scores_tokens_can_be_a_route(base: Path) -> None:
    recipe = load([base], ["phase.distill.route=scorer"])
    assert recipe.teachers["scorer"].scores_tokens and not recipe.teachers["talker"].scores_tokens


def test_bad_toml_gives_line_and_column(base: Path) -> None:
    base.write_text('name = "x"\nrounds = = 2\n')
    assert "base.toml must be valid TOML: line 2, column 10" in fault(base)
    base.write_text('name = "x"\n[env\n')
    assert "line 2, column 5" in fault(base)
    base.write_text('name = "x')
    assert "line 1, column 10" in fault(base)
    base.write_bytes(b"name = '\xff'")
    assert "must be UTF-8: byte 8" in fault(base)


def test_a_missing_file_is_named_with_the_nearest(base: Path) -> None:
    message = fault(base.with_name("bass.toml"))
    assert "bass.toml" in message and "did you mean 'base.toml'" in message
    assert "does not exist either" in fault(base.parent / "nowhere" / "base.toml")
    assert "must be a file" in fault(base.parent)
    with pytest.raises(UserError, match="a recipe must be given"):
        load([])


def test_required_fields(tmp_path: Path) -> None:
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    message = fault(empty)
    assert "name must be given" in message and "env must be given" in message


def test_resolved_json_round_trips_with_the_same_fingerprint(base: Path) -> None:
    recipe = load([base])
    again = from_json(recipe.resolved_json())
    assert again == recipe
    assert again.fingerprint() == recipe.fingerprint()
    assert json.loads(recipe.resolved_json())["gate"]["protected"] is None


def test_the_fingerprint_sees_results_and_nothing_else(base: Path) -> None:
    plain = load([base]).fingerprint()
    assert load([base], ["runs_dir=elsewhere"]).fingerprint() == plain
    assert load([base], ["env.ledger.tasks=256"]).fingerprint() == plain  # the default, written out
    for change in (
        "seed=1",
        "env.ledger.tasks=255",
        "phase.sft.lr=2e-3",
        "phase.experts.loss.clipped.eps_low=0.1",
    ):
        assert load([base], [change]).fingerprint() != plain
    moved = base.read_text().splitlines()
    at = next(i for i, line in enumerate(moved) if line.startswith("sft"))
    moved.append(moved.pop(at))
    base.write_text("\n".join(moved))
    assert load([base]).fingerprint() != plain  # another order of phases


def test_a_heavy_plugin_is_read_but_not_imported(base: Path) -> None:
    recipe = load([base], ["student.engine.type=testplug.heavy"])
    assert "testplug.heavy" not in sys.modules
    assert recipe.student.engine.options == {}
    message = fault(base, "student.engine.type=testplug.heavy", "student.engine.slotz=1")
    assert message == "unknown key 'slotz' in [student.engine]: did you mean 'slots'?"


def test_rules_hold_for_recipes_made_in_code_too() -> None:
    with pytest.raises(ValueError, match="rounds"):
        Recipe.model_validate({"name": "x", "env": {"a": {"type": "b"}}, "rounds": 0})
    with pytest.raises(ValueError, match="gate.protected"):
        Recipe.model_validate({"name": "x", "env": {"a": {"type": "b"}}, "gate": {"protected": ["c"]}})


def test_every_field_says_what_it_means() -> None:
    seen: set[type[BaseModel]] = set()
    waiting: list[type[BaseModel]] = [Recipe]
    while waiting:
        model = waiting.pop()
        seen.add(model)
        for name, field in model.model_fields.items():
            assert field.description or name in ("type", "signal"), f"{model.__name__}.{name}"
            waiting += [inner for inner in models_in(field.annotation) if inner not in seen]
    assert {SftPhase, RlPhase, DistillPhase, EfficiencyPhase} < seen
