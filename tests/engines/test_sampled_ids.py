"""What an engine samples is what is trained, from the roller to the rows: every end, and every way to spell a text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noria.core.protocols import Completion
from noria.core.types import Trajectory
from noria.engines import embedded
from noria.envs import ledger
from noria.stages import rows
from noria.stages.roller import Job, Limits, Roller
from noria.tokens.renderer import Renderer
from noria.trainers.local import Config as TrainerConfig
from noria.trainers.local import build as build_trainer

LIMITS = Limits(max_turns=6, max_new_tokens=120, max_tokens=440)


def finish(roller: Roller, jobs: Sequence[Job]) -> list[Trajectory]:
    roller.submit(jobs)
    found: list[Trajectory] = []
    while roller.pending:
        found += roller.step()
    return found


class Spelling:
    """Says each of `messages` letter by letter, as no tokenizer would spell it; keeps what it was given and said."""

    def __init__(self, renderer: Renderer, messages: Sequence[str]) -> None:
        self._renderer, self._messages = renderer, list(messages)
        self._asked: list[int] = []
        self.read: list[int] = []
        self.said: list[Completion] = []

    def add(self, seq: int, ids: Sequence[int], max_new: int, seed: int) -> None:
        self.read.extend(ids)
        self._asked.append(seq)

    def step(self) -> list[Completion]:
        done = []
        for seq in self._asked:
            letters = [i for letter in self._messages.pop(0) for i in self._renderer.encode(letter)]
            ids = (*letters, self._renderer.end_ids[0])
            logp = tuple(-0.5 - 0.001 * k for k in range(len(ids)))
            done.append(Completion(seq, ids, logp, (7,) * len(ids), "end"))
            self.read.extend(ids)
        self.said += done
        self._asked = []
        return done

    def drop(self, seq: int) -> None: ...

    def load(self, checkpoint: Path | Mapping[str, Any], version: int) -> None: ...


def test_an_unusual_spelling_is_trained_as_it_was_sampled(renderer: Renderer, tiny_folder: Path) -> None:
    world = ledger.build(ledger.Config(), None)
    (task,) = world.tasks("train", 1, 5)
    messages = list(world.reference(task))
    engine = Spelling(renderer, messages)
    limits = Limits(max_turns=12, max_new_tokens=400, max_tokens=4000)
    (found,) = finish(Roller({"ledger": world}, renderer, engine, limits, 1), [Job("a", task, 3)])
    assert found.solved and [turn.message for turn in found.turns] == messages
    usual = [renderer.message(message) for message in messages]
    assert all(len(one.ids) > len(other) for one, other in zip(engine.said, usual, strict=True))
    for turn, completion in zip(found.turns, engine.said, strict=True):
        span = slice(turn.token_start, turn.token_end)
        assert found.record.ids[span] == completion.ids and found.record.logp_mu[span] == completion.logp
        assert set(found.record.mask[span]) == {1} and set(found.record.versions[span]) == {7}
    # The engine's cache and the record hold one sequence: nothing between them was encoded anew.
    assert list(found.record.ids) == engine.read[: len(found.record)]
    row = rows.sampled(found, group=0)
    assert row.ids.tolist() == list(found.record.ids)
    trained = row.ids[row.mask].tolist()
    assert trained == [i for completion in engine.said for i in completion.ids]
    assert row.logp_mu[row.mask].tolist() == [x for completion in engine.said for x in completion.logp]
    assert not row.logp_mu[~row.mask].any()
    scores = build_trainer(TrainerConfig(), tiny_folder).score([row])[0]
    assert np.count_nonzero(scores[row.mask]) == len(trained) and not scores[~row.mask].any()


def with_another_end(folder: Path, like: Path, token: int) -> Path:
    """A copy of the checkpoint whose generation config names `token` beside its own end."""
    shutil.copytree(like, folder)
    path = folder / "generation_config.json"
    given = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(given | {"eos_token_id": [given["eos_token_id"], token]}), encoding="utf-8")
    return folder


def test_a_turn_ends_at_every_end_that_the_checkpoint_names(
    renderer: Renderer, tiny_folder: Path, tmp_path: Path
) -> None:
    world = ledger.build(ledger.Config(), None)
    jobs = [Job(str(i), task, i) for i, task in enumerate(world.tasks("train", 3, 5))]
    (closer,) = renderer.encode("</call>")
    folder = with_another_end(tmp_path / "two", tiny_folder, closer)
    two = Renderer.load(folder)
    assert two.end_ids == (*renderer.end_ids, closer) and two.message("x") == renderer.message("x")
    engine = embedded.build(embedded.Config(slots=4, max_tokens=448), folder, two.end_ids, temperature=0)
    found = finish(Roller({"ledger": world}, two, engine, LIMITS, 4), jobs)
    ends = []
    for trajectory in found:
        for turn in trajectory.turns:
            ids = trajectory.record.ids[turn.token_start : turn.token_end]
            assert not set(ids[:-1]) & set(two.end_ids)  # the first end is the last token
            assert set(trajectory.record.mask[turn.token_start : turn.token_end]) == {1}
            assert turn.message == two.decode(ids[:-1] if ids[-1] in two.end_ids else ids)
            ends.append(ids[-1])
        row = rows.sampled(trajectory, group=0)
        assert int(row.mask.sum()) == sum(turn.token_end - turn.token_start for turn in trajectory.turns)
    assert closer in ends
