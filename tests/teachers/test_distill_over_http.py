"""A teacher on a real server: its scores, two steps of a distill phase, unknown scores, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import Served
from teaching import context, distilled, recipe_at

from noria.cli_check import check_engines
from noria.core.errors import EngineError, UserError
from noria.core.recipe import Recipe
from noria.stages import teach
from noria.stages.bank import ModelBank, Remote
from noria.stages.distil import Distillation
from noria.teachers._answers import TokenScores
from noria.teachers.model import Config, build
from noria.tokens.renderer import Renderer
from noria.trainers import local
from noria.trainers.rows import Channel, Row


@pytest.fixture
def recipe(server: Served, tmp_path: Path) -> Recipe:
    return recipe_at(server.url, tmp_path)


def test_the_students_own_model_on_a_server_scores_as_the_trainer_does(
    server: Served, renderer: Renderer, tiny_folder: Path
) -> None:
    rows = [list(renderer.encode(text)) for text in ("compute 3 + 4", '<call name="edit"><line>3</line></call>', "ab")]
    trainer = local.build(local.Config(), tiny_folder)
    wanted = trainer.score([Row.plain(ids, [1] * len(ids)) for ids in rows])
    for ask in ("prompt_logprobs", "echo"):
        config = Config.model_validate({"base_url": server.url, "model": "builtin:tiny", "ask": ask})
        mine = build(config)
        mine.check(renderer, 320)
        for scores, values in zip(mine.score(rows), wanted, strict=True):
            assert scores is not None
            assert scores.logp[1:] == pytest.approx(values[1:].tolist(), abs=1e-4)
        with pytest.raises(UserError, match="sequences of rollout.max_tokens = 321 tokens and one more"):
            mine.check(renderer, 321)
    mine = build(Config(base_url=server.url, model="builtin:tiny"))
    with pytest.raises(UserError, match="prompt_logprobs must be at most 20: got 64"):
        mine.check(renderer, 320, top=64)


def test_two_steps_towards_the_students_own_model(
    recipe: Recipe, tiny_folder: Path, renderer: Renderer, tmp_path: Path
) -> None:
    ctx, (first, second) = distilled(recipe, tiny_folder, renderer, tmp_path)
    # Teacher and student are one model, so nothing is left to learn; AdamW moves along what rounding left, if anything.
    assert abs(first["distill/k1/ledger"]) < 1e-3 and first["distill/abs/ledger"] < 1e-3
    assert second["distill/abs/ledger"] < 0.1
    assert first["rows"] == second["rows"] == 6
    assert (ctx.run.folder(ctx.name("distill")) / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("teachers.own.model=other", "teachers.own.model must be one that .* serves: got 'other'"),
        ("rollout.max_tokens=400", "teachers.own.model must take sequences of rollout.max_tokens = 400"),
        (
            "phase.distill.overlap_every=1",
            'teachers.own.type = "model" gives log-probabilities of its likeliest tokens alone',
        ),
        (
            'phase.distill={signal = "teacher", loss = {forward_kl_topk = {}}}',
            r"teachers.own.model must give the 64 likeliest .*at most 20: got 64.* - lower top_k .*--max-logprobs",
        ),
    ],
)
def test_what_cannot_teach_is_refused_before_the_round(
    server: Served, tiny_folder: Path, renderer: Renderer, tmp_path: Path, change: str, told: str
) -> None:
    changed = recipe_at(server.url, tmp_path, change)
    with pytest.raises(UserError, match=told):
        teach.check_teachers(context(changed, tiny_folder, renderer, tmp_path, None))


def test_a_missing_key_is_told_by_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(
        UserError, match=r"^teachers\.own\.api_key_env must name a variable .*OPENAI_API_KEY is not set"
    ):
        check_engines(recipe_at("https://models.example/v1", tmp_path))


class Forgetful:
    """A teacher that likes every token alike, and cannot score rows that begin with 9."""

    folder, gold = None, False

    def score(self, rows: Sequence[Sequence[int]], top: int = 0) -> list[TokenScores | None]:
        return [
            None if row[0] == 9 else TokenScores((0.0, *(-2.0,) * (len(row) - 1)), ((),) * len(row)) for row in rows
        ]

    def check(self, renderer: Any, longest: int) -> None:
        assert longest

    def data(self) -> bytes:
        raise AssertionError("it has none")

    def tick(self, step: int, student: Any) -> None:
        assert step >= 0


@pytest.fixture
def signal(recipe: Recipe, tiny_folder: Path) -> Distillation:
    student = local.build(local.Config(), tiny_folder)
    bank = ModelBank(student, [Forgetful()], student=student)  # type: ignore[list-item]
    return Distillation(recipe.phase["distill"], bank, {"ledger": 0})  # type: ignore[arg-type]


def made(*ids: int) -> Row:
    row = Row.plain(ids, [0, *[1] * (len(ids) - 1)])
    row.logp_old = np.where(row.mask, -1.5, 0.0)
    row.roles = ("answer",) * len(ids)
    return row


def test_a_row_without_a_score_is_left_out_and_no_zero(signal: Distillation) -> None:
    rows = [made(5, 6, 7), made(9, 6), made(7, 7)]
    metrics = signal.prepare(rows)
    assert [row.ids.tolist() for row in rows] == [[5, 6, 7], [7, 7]]
    assert metrics["distill/unknown_frac"] == pytest.approx(1 / 3)
    assert metrics["distill/k1/ledger"] == pytest.approx(0.5)
    assert rows[0].logp_teacher.tolist() == [0.0, -2.0, -2.0]
    assert rows[0].advantage[1:].tolist() == pytest.approx([-0.5, -0.5])


def test_what_a_row_has_of_reinforcement_stays(signal: Distillation) -> None:
    rows = [made(5, 6), made(9, 6)]
    for row in rows:
        row.channels = {name: Channel(row.mask, row.weight, row.advantage) for name in ("opd", "rl")}
    metrics = signal.prepare(rows)
    assert [list(row.channels) for row in rows] == [["opd", "rl"], ["rl"]]
    assert metrics["distill/k1/ledger"] == pytest.approx(0.5)


def test_a_step_without_any_score_fails(signal: Distillation) -> None:
    with pytest.raises(EngineError, match="its teachers could score none of them"):
        signal.prepare([made(9, 6), made(9, 7)])


def test_the_teacher_of_a_recipe_scores_and_has_no_weights(recipe: Recipe) -> None:
    table = recipe.teachers["own"]
    teacher = table.module().build(table.config())
    assert isinstance(teacher, Remote) and table.scores_tokens
    with pytest.raises(UserError, match='use type = "frozen"'):
        teacher.data()
    assert build(Config.model_validate(table.options)).config == teacher.config
