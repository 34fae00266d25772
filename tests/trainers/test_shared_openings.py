"""Rows that begin alike share tokens of a line: each still sees its own tokens only, and no result changes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from architectures import tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.losses import clipped, reverse_kl
from noria.losses.states import Head
from noria.trainers.local import Config, LocalTrainer
from noria.trainers.packing import joined_batches, micro_batches
from noria.trainers.rows import Channel, Row, Scored, trained_positions

#: For each prompt its length and the lengths of what follows it.
groups = st.lists(
    st.tuples(st.integers(0, 6), st.lists(st.integers(1, 7), min_size=1, max_size=5)), min_size=1, max_size=4
)


def rows_of(shape: list[tuple[int, list[int]]], seed: int = 0) -> list[Row]:
    """Rows of several prompts, in mixed order; the first token after the prompt is trained."""
    rng = np.random.default_rng(seed)
    out = []
    for group, (prompt, answers) in enumerate(shape):
        given = rng.integers(0, 50, prompt).tolist()
        for n in answers:
            mask = [0] * prompt + [1] + (rng.random(n - 1) < 0.7).astype(int).tolist()
            row = Row.plain([*given, *rng.integers(0, 50, n).tolist()], mask, group=group)
            row.advantage, row.weight = rng.normal(size=len(row)), rng.uniform(0.5, 1.5, len(row))
            row.logp_old = np.where(row.mask, -rng.uniform(2, 5, len(row)), 0.0)
            row.logp_mu = row.logp_old
            out.append(row)
    return [out[i] for i in rng.permutation(len(out))]


@given(groups, st.integers(0, 40), st.integers(1, 90))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_every_token_sees_its_own_row_up_to_itself(
    shape: list[tuple[int, list[int]]], line_tokens: int, tokens: int
) -> None:
    rows = rows_of(shape)
    seen = []
    for micro in micro_batches(rows, line_tokens, tokens):
        lines, width = micro.ids.shape
        assert lines * width <= tokens or lines == 1
        ids, positions = micro.ids.reshape(-1), micro.positions.reshape(-1)
        for place in micro.places:
            row = rows[place.row]
            seen.append(place.row)
            line = place.start // width
            for flat in range(place.start, place.start + place.n):
                at = int(positions[flat])
                keys = micro.attention[line, 0, flat - line * width].nonzero().squeeze(1) + line * width
                assert ids[keys].tolist() == row.ids[: at + 1].tolist()
                assert positions[keys].tolist() == list(range(at + 1))
                if at:
                    assert int(micro.source[flat]) == int(keys[-2])
                else:
                    assert int(micro.source[flat]) == -1
            assert place.at(np.arange(place.skip, len(row))).tolist() == list(range(place.start, place.start + place.n))
    assert sorted(seen) == list(range(len(rows)))


@given(groups, st.integers(1, 90))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_every_token_of_a_joined_line_reads_its_own_row_up_to_itself(
    shape: list[tuple[int, list[int]]], tokens: int
) -> None:
    rows = rows_of(shape)
    seen, held = [], 0
    for micro in joined_batches(rows, tokens):
        assert micro.attention is None and micro.reads is not None
        ids, positions = micro.ids[0], micro.positions[0]
        assert len(ids) <= tokens or len(micro.places) == 1
        assert [place.start for place in micro.places] == np.cumsum([0, *(p.n for p in micro.places)]).tolist()[:-1]
        lines = [line for grid in micro.reads.rectangles for line in grid]
        read = [line[: t + 1] for line in lines for t in range(len(line))]
        for place in micro.places:
            row = rows[place.row]
            seen.append(place.row)
            assert place.skip <= row.opening()
            for flat in range(place.start, place.start + place.n):
                keys = read[int(micro.reads.back[flat])]
                at = place.skip + flat - place.start
                assert int(keys[-1]) == flat and ids[keys].tolist() == row.ids[: at + 1].tolist()
                assert positions[keys].tolist() == list(range(at + 1)) and int(micro.segment[flat]) == place.row
                assert int(micro.source[flat]) == (int(keys[-2]) if at else -1)
        held += len(ids)
    assert sorted(seen) == list(range(len(rows)))
    assert held <= sum(map(len, rows))


def test_a_joined_line_shares_every_beginning() -> None:
    """As in a tree: five tokens of all rows, two more of two of them."""
    heads = ([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 8], [9, 2, 3, 4, 5, 6, 7])
    rows = [Row.plain([*head, 20 + i, 30], [0] * len(head) + [1, 1], group=i) for i, head in enumerate(heads)]
    (micro,) = joined_batches(rows, 99)
    assert micro.ids.shape == (1, 9 + 2 + 3 + 9)
    assert {place.row: place.skip for place in micro.places} == {0: 0, 1: 7, 2: 5, 3: 0}
    apart = joined_batches(rows, 12)
    want = [[(0, 0), (1, 7)], [(2, 0)], [(3, 0)]]
    assert [[(place.row, place.skip) for place in micro.places] for micro in apart] == want


def test_the_prompt_of_a_group_is_read_once() -> None:
    rows = rows_of([(6, [4, 3, 2, 5])])
    (micro,) = micro_batches(rows, 40, 200)
    assert micro.ids.shape == (1, 6 + 4 + 3 + 2 + 5)
    (apart,) = micro_batches(rows, 0, 200)
    assert apart.ids.shape == (4, 11)


def test_what_is_trained_or_compared_is_not_shared() -> None:
    row, other = rows_of([(6, [4, 4])])
    assert row.opening() == other.opening() == 6
    row.channels["rl"] = Channel(np.arange(10) >= 3, row.weight, row.advantage)
    assert row.opening() == 3
    row.channels.clear()
    row.scored.append(Scored(Head("t", lambda: torch.zeros(1, 1)), torch.zeros(2, 1), np.array([2, 7])))
    assert row.opening() == 2
    other.mask[:] = False
    assert other.opening() == 0


def trainer_of(model: Any, line_tokens: int, joins: bool = True) -> LocalTrainer:
    """A trainer; with `line_tokens` 0 each row has a line of its own, without `joins` lines have a mask."""
    trainer = LocalTrainer(Config(line_tokens=line_tokens or 16, chunk_tokens=16), copy.deepcopy(model))
    assert trainer._joins
    trainer._line_tokens, trainer._joins = line_tokens, joins
    trainer.configure(1e-2, (0.9, 0.99), 0.0, 0.0)
    return trainer


@pytest.mark.parametrize("joins", [True, False])
# The products of a mixture's experts have no float64.
@pytest.mark.parametrize(
    ("name", "dtype", "error"),
    [("qwen3", torch.float64, 1e-6), ("llama", torch.float64, 1e-6), ("qwen3_moe", torch.float32, 2e-4)],
)
def test_scores_states_and_gradients_are_those_of_rows_alone(
    name: str, dtype: torch.dtype, error: float, joins: bool
) -> None:
    rows = rows_of([(6, [4, 3, 2, 5]), (1, [3, 3]), (5, [1, 7]), (0, [4])], seed=3)
    model, teacher = tiny_model(name).to(dtype), trainer_of(tiny_model(name, seed=1).to(dtype), 0)
    wanted, got = trainer_of(model, 0), trainer_of(model, 64, joins)
    for mine, other in zip(got.score(rows), wanted.score(rows), strict=True):
        assert np.allclose(mine, other, atol=error)
    for mine, other in zip(got.states(rows), wanted.states(rows), strict=True):
        assert torch.allclose(mine, other, atol=error)
    for row, states in zip(rows, teacher.states(rows), strict=True):
        row.scored = [Scored(teacher.head("teacher"), states, trained_positions(row))]
    terms = {"clipped": clipped.build(clipped.Config()), "reverse_kl": reverse_kl.build(reverse_kl.Config())}
    found = []
    for trainer in (wanted, got):
        facts = trainer.step(copy.deepcopy(rows), terms, {"clipped": 1.0, "reverse_kl": 0.5}, tokens=100)
        grads = {name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None}
        found.append((facts, grads))
    (facts, grads), (other_facts, other_grads) = found
    assert facts == pytest.approx(other_facts, abs=error)
    assert grads.keys() == other_grads.keys()
    assert all(torch.allclose(grads[name], other_grads[name], atol=error) for name in grads)
    assert max(float(grad.abs().max()) for grad in grads.values()) > 1e-3
