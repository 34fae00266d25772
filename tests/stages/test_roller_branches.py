"""Rows of a rollout in branches: each token once, and one rollout in every mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from stage_helpers import rolled

from noria.core.recipe_phases import RlPhase
from noria.core.seeds import derive
from noria.core.types import Branch, Trajectory
from noria.stages import rows as rows_of
from noria.stages.loop import build_terms, split
from noria.stages.signals import GroupAdvantage
from noria.stages.train import batches
from noria.tokens.calls import render_call
from noria.tokens.record import RecordBuilder
from noria.tokens.renderer import Piece
from noria.trainers.local import Config, LocalTrainer
from noria.trainers.rows import Channel, Row, denominators, own_channel

PAY, LOOK = render_call("transfer", src="A1", dst="B2", amount="3"), render_call("list")


def branched(t: Trajectory, n: int) -> Trajectory:
    """The same rollout with `n` branches before its last, each of one turn that is no longer shown."""
    turns = tuple(replace(turn, token_start=0, token_end=0) for turn in t.turns[:1]) * n
    return replace(
        t, turns=(*turns, *t.turns), branches=tuple(Branch(t.record, t.turns, k, "window") for k in range(n))
    )


def test_branches_are_rows_of_one_sequence() -> None:
    plain, long = rolled(1.0, ("a",), tokens=3), branched(rolled(1.0, ("a",), tokens=2), 2)
    rows = [
        row
        for g, t in enumerate([plain, long, plain])
        for row in rows_of.by_branch(replace(t, id=str(g)), lambda part, g=g: rows_of.sampled(part, g // 2))
    ]
    own = [int(row.mask[1:].sum()) for row in rows]
    assert [row.rollout for row in rows] == ["", "1", "1", "1", ""]
    assert sum(own[1:4]) == long.action_tokens
    counts = denominators(rows)
    assert counts.sequences.item() == 3 and counts.route_sequences.tolist() == [3.0]
    assert counts.sequence_tokens.tolist() == own
    assert counts.rollout_tokens.tolist() == [own[0], *[sum(own[1:4])] * 3, own[4]]
    assert counts.action_tokens.item() == sum(own) and counts.group_tokens.tolist() == [sum(own[:4]), own[4]]
    # A mean over rollouts gives every one of them the same share.
    shares = np.array(own) / counts.rollout_tokens.numpy() / counts.sequences.item()
    assert np.allclose([shares[0], shares[1:4].sum(), shares[4]], 1 / 3)


def test_rollouts_without_branches_are_counted_as_ever() -> None:
    rows = [Row.plain([1, 2, 3], [0, 1, 1], 0), Row.plain([1, 2], [0, 1], 0)]
    counts = denominators(rows)
    assert counts.rollout_tokens is counts.sequence_tokens and counts.sequences.item() == 2


def apart(t: Trajectory, name: str) -> Trajectory:
    """The same rollout with each turn in a branch of its own, whose prompt shows nothing but the task."""
    records, turns = [], []
    for turn in t.turns:
        builder = RecordBuilder()
        builder.rendered(Piece(t.record.ids[:2], ("user", "user")))
        ids = t.record.ids[turn.token_start : turn.token_end]
        span = builder.sampled(ids, ["answer"] * len(ids), [-1.0] * len(ids), [0] * len(ids))
        records.append(builder.freeze())
        turns.append(replace(turn, token_start=span[0], token_end=span[1]))
    empty = [replace(turn, token_start=0, token_end=0) for turn in t.turns[:-1]]
    before = tuple(Branch(r, (turn,), k, "window") for k, (r, turn) in enumerate(zip(records, turns, strict=True)))
    return replace(t, id=name, turns=(*empty, turns[-1]), record=records[-1], branches=before[:-1])


def weights(rows: list[Row]) -> list[float]:
    return [float(w) for row in rows for w in row.weight[row.mask]]


@pytest.mark.parametrize("decisive", [0, 1, 2])
def test_marks_of_earlier_branches_weigh_as_in_one_context(worlds: dict[str, Any], decisive: int) -> None:
    """A branch that is nothing but a key action weighs more than the others: the mean is one over the rollout."""
    said = [LOOK, LOOK, LOOK]
    said[decisive] = PAY
    whole, other = rolled(1.0, said, tokens=4), rolled(0.0, (LOOK,), name="o")
    phase = RlPhase(
        signal="group_mean", credit={"key_action": 3.0}, tis_cap=0,
        use={"role_credit": {"final_answer": 2.0}, "sequence_mask": {"low": 0.9, "high": 1.1}},
    )  # fmt: skip
    found = []
    for rollout in (whole, apart(whole, "w")):
        signal = GroupAdvantage(phase, worlds, {"ledger": ["transfer"]})
        rows = signal.rows(0, [rollout, other])
        rng = np.random.default_rng(1)
        gaps = iter(rng.normal(0, 0.3, 15))  # some branches are beyond the band alone, the rollout is not
        for row in rows:
            row.logp_mu = np.where(row.mask, -1.0, 0.0)
            row.logp_old = row.logp_mu + np.array([next(gaps) if there else 0.0 for there in row.mask])
        signal.prepare(rows)
        found.append(weights(rows))
        assert {float(a) for row in rows[:-1] for a in row.advantage[row.mask]} == {0.5}
        assert {float(a) for a in rows[-1].advantage} == {-0.5}
    assert found[0] == pytest.approx(found[1])
    assert sum(found[1][:12]) in (pytest.approx(12.0), 0.0) and len(found[1]) == 15
    if sum(found[1][:12]):
        key, rest = found[1][4 * decisive], found[1][(4 * decisive + 4) % 12]
        assert key / rest == pytest.approx(3.0)


def test_joint_phases_weigh_marks_over_the_rollout(worlds: dict[str, Any]) -> None:
    rollout = apart(rolled(1.0, (PAY, LOOK), tokens=4), "w")
    rl = GroupAdvantage(RlPhase(signal="group_mean", credit={"key_action": 3.0}), worlds, {"ledger": ["transfer"]})
    branches = rows_of.by_branch(rollout, lambda part: rl.row(part, 0, 0.5))
    for row in branches:
        row.channels = {"opd": own_channel(row), "rl": Channel(row.mask, row.weight, row.advantage)}
    first, last = rl.credited(branches)
    assert first.channels["rl"].weight[first.mask].tolist() == pytest.approx([1.5] * 4)
    assert last.channels["rl"].weight[last.mask].tolist() == pytest.approx([0.5] * 4)
    assert first.channels["opd"].weight[first.mask].tolist() == [1.0] * 4


@pytest.mark.parametrize("aggregate", ["token", "sequence", "prompt"])
def test_a_rollout_in_branches_moves_the_model_as_one(
    worlds: dict[str, Any], random_model: Any, aggregate: str
) -> None:
    """Loss and gradient of real steps: those of per-token losses with the shares of whole rollouts."""
    long, other = apart(rolled(1.0, (LOOK, PAY, LOOK), tokens=4), "w"), rolled(0.0, (LOOK,), tokens=5, name="o")
    phase = RlPhase(signal="group_mean", loss={"clipped": {"aggregate": aggregate}}, credit={"key_action": 3.0})
    signal = GroupAdvantage(phase, worlds, {"ledger": ["transfer"]})
    trainer = LocalTrainer(Config(), random_model)
    trainer.configure(1e-3, (0.9, 0.99), 0.0, 1.0)
    rows = signal.rows(0, [long, other])
    assert [row.rollout for row in rows] == ["w", "w", "w", ""]
    for row, logp in zip(rows, trainer.score(rows), strict=True):
        row.logp_old = row.logp_mu = logp
    signal.prepare(rows)
    (batch,) = split(rows, 4, 0)  # one group: it is not cut, whatever the number of mini-batches
    facts = trainer.step(batch, build_terms(phase), {"clipped": 1.0})
    per_token = {"token": 1 / 17, "prompt": 1 / 17, "sequence": None}[aggregate]
    want = sum(
        -row.advantage[row.mask] @ row.weight[row.mask] * (per_token or 0.5 / (12 if row.rollout else 5))
        for row in rows
    )
    assert facts["loss/clipped"] == pytest.approx(want, rel=1e-4, abs=1e-6)
    assert sum(row.weight[row.mask].sum() for row in rows[:3]) == pytest.approx(12.0)


def test_supervised_batches_hold_whole_rollouts_each_once_an_epoch() -> None:
    plain = [rolled(1.0, ("a",), tokens=3 + i, name=f"p{i}") for i in range(5)]
    long = [branched(rolled(1.0, ("a",), tokens=4, name=f"b{i}"), 2) for i in range(3)]
    ordered = [plain[0], long[0], long[1], plain[1], plain[2], long[2], plain[3], plain[4]]
    rows = [row for t in ordered for row in rows_of.by_branch(t, lambda part: rows_of.supervised(part, False))]
    assert len(rows) == 5 + 9
    stream, seen = batches(rows, 20, 7), list[str]()
    for _ in range(40):
        batch = next(stream)
        assert sum(map(len, batch)) >= 20
        named: dict[str, list[int]] = {}
        for row in batch:
            named.setdefault(row.rollout, []).append(row.group)
        assert all(len(groups) == 3 and len(set(groups)) == 1 for name, groups in named.items() if name)
        counts = denominators(batch)
        assert counts.sequences.item() == len({row.group for row in batch}) == len(counts.group_tokens)
        seen += [name.partition("#")[0] for name in named if name]
    thirds = [sorted(seen[i : i + 3]) for i in range(0, len(seen) - 2, 3)]
    assert thirds == [["b0", "b1", "b2"]] * len(thirds) and len(thirds) > 5


def test_supervised_batches_of_rollouts_without_branches_are_as_ever() -> None:
    rows = [Row.plain(list(range(3 + i)), [0] + [1] * (2 + i), 0) for i in range(7)]
    order = [int(i) for epoch in range(9) for i in np.random.default_rng(derive(5, epoch)).permutation(7)]
    stream = batches(rows, 14, 5)
    for _ in range(12):
        batch = next(stream)
        wanted, order = order[: len(batch)], order[len(batch) :]
        assert [id(row) for row in batch] == [id(rows[i]) for i in wanted]
        assert sum(map(len, batch)) >= 14 > sum(map(len, batch[:-1]))
