"""Teachers' workers: every death and every silence is answered by asking again, and faults say whose they are."""

from __future__ import annotations

import copy
import pickle
from collections import deque
from pathlib import Path
from typing import Any

import pytest
import torch

from noria.core.errors import EngineError, UserError
from noria.core.recipe_tables import ExecutorTable, TrainerTable
from noria.stages.bank import ModelBank
from noria.stages.learning import FarLearner
from noria.stages.scoring import Elsewhere, Scorers, ScoringService, Setup
from noria.teachers import ema
from noria.trainers.local import Config, LocalTrainer
from noria.trainers.rows import Row

OPTIONS = {"line_tokens": 64}


class Beside:
    """An executor whose workers are objects of this process; everything travels pickled. `dies` says before which
    messages, counted over all, a worker dies, `mute` after which it says nothing."""

    def __init__(self, size: int = 1, dies: tuple[int, ...] = (), mute: tuple[int, ...] = ()) -> None:
        self.size, self.dies, self.mute, self.sent, self.restarts = size, dies, mute, 0, 0
        self.services: list[ScoringService | None] = [self._new() for _ in range(size)]
        self.said: list[deque[Any]] = [deque() for _ in range(size)]

    @staticmethod
    def _new() -> ScoringService:
        return ScoringService(Setup("local", OPTIONS))

    def send(self, worker: int, message: Any) -> None:
        self.sent += 1
        if self.sent in self.dies:
            self.services[worker] = None
        service = self.services[worker]
        if service is None:
            raise EngineError("gone")
        service.receive(pickle.loads(pickle.dumps(message)))
        answers = pickle.loads(pickle.dumps(service.work()))
        if self.sent not in self.mute:
            self.said[worker] += answers

    def receive(self, worker: int, timeout_s: float | None) -> list[Any]:
        assert timeout_s is not None, "whoever waits has a limit"
        found = list(self.said[worker])
        self.said[worker].clear()
        if not found and self.services[worker] is None:
            raise EngineError("gone")
        return found

    def ready(self, workers: Any) -> list[int]:
        return list(workers)

    def restart(self, worker: int) -> None:
        self.restarts += 1
        self.said[worker].clear()
        self.services[worker] = self._new()

    def close(self) -> None:
        """Nothing is held."""


def folders(random_model: Any, tmp_path: Path, n: int = 2) -> list[Path]:
    out = []
    for i in range(n):
        model = copy.deepcopy(random_model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + 0.1 * i)
        out.append(tmp_path / f"t{i}")
        model.save_pretrained(out[-1])
    return out


def rows() -> list[Row]:
    return [Row.plain([3, 4, 5, 6 + g, 7], [0, 0, 1, 1, 1], g, g % 3) for g in range(6)]


def scored(bank: ModelBank, student: LocalTrainer) -> list[list[float]]:
    """Two steps of two frozen teachers and a moving one, asked before the answers are wanted."""
    found = []
    for _ in range(2):
        now = rows()
        bank.tick()
        bank.begin(now, states=True)
        bank.score(now, states=True)
        found += [row.logp_teacher.tolist() + row.scored[0].hidden.flatten().tolist() for row in now]
        with torch.no_grad():
            next(student.model.parameters()).mul_(1.01)
    return found


def bank_of(host: Any, random_model: Any, at: list[Path], **more: Any) -> tuple[ModelBank, LocalTrainer]:
    student = LocalTrainer(Config(**OPTIONS), copy.deepcopy(random_model))
    teachers: list[Any] = [*at, ema.build(ema.Config(decay=0.5))]
    return ModelBank(host, teachers, student=student, home=at[0], **more), student


@pytest.mark.parametrize("workers", [1, 2])
def test_a_death_before_any_message_changes_no_bit(random_model: Any, tmp_path: Path, workers: int) -> None:
    at = folders(random_model, tmp_path)
    here = LocalTrainer(Config(**OPTIONS), copy.deepcopy(random_model))
    wanted = scored(*bank_of(here, random_model, at))
    calm = Beside(workers)
    bank, student = bank_of(Elsewhere(calm, 2), random_model, at)
    assert scored(bank, student) == wanted and calm.sent == 6
    # Each teacher is loaded once a step; one that has a worker for itself stays there.
    assert dict(bank.loads) == {0: 2, 1: 2 if workers == 1 else 1, 2: 2}
    for moment in range(1, 7):
        for executor in (Beside(workers, dies=(moment,)), Beside(workers, mute=(moment,))):
            assert scored(*bank_of(Elsewhere(executor, 2), random_model, at)) == wanted
            assert executor.restarts == 1
    with pytest.raises(EngineError, match="died 3 times in one phase"):
        scored(*bank_of(Elsewhere(Beside(dies=(2, 3, 4)), 2), random_model, at))


def test_an_abandoned_question_disturbs_nobody(random_model: Any, tmp_path: Path) -> None:
    at = folders(random_model, tmp_path)
    host = Elsewhere(Beside(), 2)
    bank, _ = bank_of(host, random_model, at)
    bank.tick()
    bank.begin(rows())
    host.forget()  # the phase ended there, another begins
    again, student = bank_of(host, random_model, at)
    here = LocalTrainer(Config(**OPTIONS), copy.deepcopy(random_model))
    assert scored(again, student) == scored(*bank_of(here, random_model, at))


def test_a_teacher_whose_files_are_wrong_is_the_recipes_fault(random_model: Any, tmp_path: Path) -> None:
    at = folders(random_model, tmp_path)
    bank, _ = bank_of(Elsewhere(Beside(), 2), random_model, at)
    (at[1] / "model.safetensors").write_bytes(b"cut")
    now = rows()[:2]
    with pytest.raises(UserError, match="a teacher could not score: model must be whole: .*t1.* anew"):
        bank.score(now)


@pytest.mark.parametrize("far", [True, False], ids=["far", "near"])
def test_a_teacher_whose_folder_has_gone_is_told_by_its_folder(random_model: Any, tmp_path: Path, far: bool) -> None:
    scorer: Any = Elsewhere(Beside(), 2) if far else LocalTrainer(Config(), copy.deepcopy(random_model))
    bank = ModelBank(scorer, [tmp_path / "gone"])
    with pytest.raises(UserError, match=r"/gone' has no config.json, or is gone - put it back") as fault:
        bank.score([Row.plain([5, 6, 7], [0, 1, 1])])
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(("field", "make"), [("scorers", Scorers), ("learner", FarLearner)])
def test_an_executor_that_cannot_be_had_is_told_by_its_own_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, make: Any
) -> None:
    (tmp_path / "rooms").mkdir()
    (tmp_path / "rooms" / "small.py").write_text(
        "from noria.core.errors import UserError\nfrom noria.executors.local import Config\n"
        "def build(config, service, argument):\n    raise UserError('executor.workers must fit: got 2 - lower it')\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    table = ExecutorTable(type="rooms.small")
    with pytest.raises(UserError, match=rf"^{field}\.workers must fit: got 2 - lower it$"):
        make(table, TrainerTable())()
