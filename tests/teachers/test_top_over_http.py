"""Distillation from the likeliest tokens that a real server tells, against the same teacher in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from serving import Served
from teaching import distilled, recipe_at

from noria.core.errors import UserError
from noria.losses import ce, forward_kl_topk, reverse_kl_topk
from noria.losses.base import Loss
from noria.stages.bank import ModelBank
from noria.teachers._answers import TokenScores
from noria.teachers.model import Config, ModelTeacher, build
from noria.tokens.renderer import Renderer
from noria.trainers import local
from noria.trainers.rows import Row, own_channel

TERMS: dict[str, Any] = {
    "forward": lambda: forward_kl_topk.build(forward_kl_topk.Config(top_k=8)),
    "reverse": lambda: reverse_kl_topk.build(reverse_kl_topk.Config(top_k=8, support="teacher")),
}
TEXTS = ("compute 3 + 4", '<call name="edit"><line>3</line></call>', "total 12 and 30", "ab")


@pytest.fixture
def teacher(server: Served) -> Iterator[ModelTeacher]:
    made = build(Config(base_url=server.url, model="builtin:tiny"))
    yield made
    made.close()


def student(folder: Path) -> local.LocalTrainer:
    """The teacher's model, moved away from it."""
    made = local.build(local.Config(line_tokens=64), folder)
    gen = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in made.model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=gen) * 0.02)
    made.configure(1e-3, (0.9, 0.99), 0.0, 0.0)
    return made


def rows_of(renderer: Renderer) -> list[Row]:
    """Rows with a hole in the mask; the first token is never trained."""
    rows = []
    for i, text in enumerate(TEXTS):
        ids = renderer.encode(text)
        rows.append(Row.plain(ids, [int(t > 0 and t != 2) for t in range(len(ids))], group=i))
    return rows


def step(teacher: ModelTeacher | Path, name: str, folder: Path, renderer: Renderer) -> dict[str, float]:
    """The facts of one step towards a teacher."""
    mine, rows, term = student(folder), rows_of(renderer), TERMS[name]()
    bank = ModelBank(local.build(local.Config(), folder), [teacher], student=mine)
    assert bank.score(rows, states=True, top=term.teacher_top) == []
    terms: dict[str, Loss] = {name: term}
    return mine.step(rows, terms, {name: 1.0}, temperature=0.8)


@pytest.mark.parametrize("name", TERMS)
def test_the_loss_and_its_gradient_are_those_of_the_local_teacher(
    name: str, teacher: ModelTeacher, tiny_folder: Path, renderer: Renderer
) -> None:
    remote, here = (step(which, name, tiny_folder, renderer) for which in (teacher, tiny_folder))
    assert here[f"loss/{name}"] > 0.01
    assert remote[f"loss/{name}"] == pytest.approx(here[f"loss/{name}"], abs=1e-5)
    assert remote["grad_norm"] == pytest.approx(here["grad_norm"], rel=1e-3)


def test_joint_weights_take_a_server_and_a_folder(teacher: ModelTeacher, tiny_folder: Path, renderer: Renderer) -> None:
    found = []
    for teachers in ([teacher, tiny_folder], [tiny_folder, tiny_folder]):
        mine, rows, term = student(tiny_folder), rows_of(renderer), TERMS["forward"]()
        bank = ModelBank(local.build(local.Config(), tiny_folder), teachers, shares=[1.0, 3.0], student=mine)
        bank.score(rows, states=True, top=8)
        assert [[scored.share for scored in row.scored] for row in rows] == [[0.25, 0.75]] * len(rows)
        found.append(mine.step(rows, {"forward": term}, {"forward": 1.0})["loss/forward"])
    assert found[0] == pytest.approx(found[1], abs=1e-5)


class Sometimes:
    """A teacher that knows two tokens, and cannot score rows that begin with 9."""

    folder, gold = None, False

    def score(self, rows: Sequence[Sequence[int]], top: int = 0) -> list[TokenScores | None]:
        assert top == 2
        known = ((5, -0.5), (6, -1.5))
        return [
            None if row[0] == 9 else TokenScores((0.0, *(-1.0,) * (len(row) - 1)), ((), *(known,) * (len(row) - 1)))
            for row in rows
        ]

    def check(self, renderer: Any, longest: int, top: int = 0) -> None:
        assert longest > top

    def data(self) -> bytes:
        raise AssertionError("it has none")


def test_a_row_without_an_answer_has_no_states_and_stays_in_what_else_it_trains(tiny_folder: Path) -> None:
    mine = student(tiny_folder)
    bank = ModelBank(mine, [Sometimes()], student=mine)  # type: ignore[list-item]
    rows = [Row.plain([4, 5, 6, 7], [0, 1, 0, 1], 0), Row.plain([9, 5, 6], [0, 1, 1], 1)]
    assert bank.score(rows, states=True, top=2) == [rows[1]]
    assert rows[1].scored == [] and rows[0].scored[0].at.tolist() == [1, 3]
    assert rows[0].scored[0].hidden.tolist() == [[5.0, 6.0, -0.5, -1.5]] * 2
    rows[0].channels, rows[1].channels = {"opd": own_channel(rows[0])}, {"ce": own_channel(rows[1])}
    terms: dict[str, Loss] = {
        "forward": forward_kl_topk.build(forward_kl_topk.Config(top_k=2)),
        "ce": ce.build(ce.Config()),
    }
    facts = mine.step(rows, terms, {"forward": 1.0, "ce": 1.0})
    assert facts["loss/forward"] > 0 and facts["loss/ce"] > 0


LOSS = "{forward_kl_topk = {top_k = 20}, k1_pg = {coef = 0.1}}"


@pytest.mark.slow
def test_two_steps_of_a_phase(server: Served, tiny_folder: Path, renderer: Renderer, tmp_path: Path) -> None:
    recipe = recipe_at(server.url, tmp_path, "phase.distill.signal=teacher", f"phase.distill.loss={LOSS}")
    _, (first, second) = distilled(recipe, tiny_folder, renderer, tmp_path)
    # Teacher and student are one model: nothing is left to learn at first.
    assert abs(first["forward_kl_topk/divergence"]) < 1e-5 < second["forward_kl_topk/divergence"]
    assert first["loss/k1_pg"] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["reverse_kl={}"], "phase.distill.loss.reverse_kl needs the hidden states of teachers.own.*forward_kl_topk"),
        (["jsd={}"], "gives its likeliest tokens only"),
        (["reverse_kl_topk={}"], 'reverse_kl_topk.support must be .teacher. .* - set support = "teacher"'),
        (['reverse_kl_topk={support = "student"}'], "support must be 'teacher' with teachers.own"),
        (["k1_pg={}", "phase.distill.teacher_temperature=0.7"], "teacher_temperature must be 1 with teachers.own"),
        (["forward_kl_topk={}", "teachers.own.ask=echo"], "teachers.own.ask must be 'prompt_logprobs' for .*echo"),
    ],
)
def test_what_cannot_be_right_is_refused_by_check(tmp_path: Path, changes: list[str], told: str) -> None:
    values = [
        change if change.startswith(("teachers", "phase")) else f"phase.distill.loss.{change}" for change in changes
    ]
    with pytest.raises(UserError, match=told):
        recipe_at("http://127.0.0.1:9/v1", tmp_path, "phase.distill.signal=teacher", *values)
