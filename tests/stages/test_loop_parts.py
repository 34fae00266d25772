"""The parts of the training loop that decide what is drawn, how it is cut and what is reported."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage_helpers import rolled

from noria.core.recipe_phases import RlPhase, SftPhase
from noria.core.types import Task
from noria.losses.base import LossConfig
from noria.sources.turns import Turns
from noria.stages.context import derive, heldout, named
from noria.stages.loop import build_terms, describe, schedule, split
from noria.stages.snapshot import load_state, save_state
from noria.trainers.rows import Row


def source(sizes: dict[str, int], seed: int = 0) -> Turns:
    return Turns({w: [Task(f"{w}{i}", w, "", "") for i in range(n)] for w, n in sizes.items()}, seed)


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 7), min_size=1), st.integers(0, 9), st.integers(1, 3))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_worlds_take_turns_and_each_epoch_is_a_permutation(sizes: dict[str, int], seed: int, epochs: int) -> None:
    tasks = source(sizes, seed)
    worlds = list(sizes)
    drawn = [tasks.task(g) for g in range(len(worlds) * epochs * max(sizes.values()))]
    assert [task.world for task in drawn] == [worlds[g % len(worlds)] for g in range(len(drawn))]
    for world, n in sizes.items():
        mine = [task.id for task in drawn if task.world == world]
        for start in range(0, len(mine) - n + 1, n):
            assert sorted(mine[start : start + n]) == sorted(f"{world}{i}" for i in range(n))
    assert [source(sizes, seed).task(g) for g in range(len(drawn))] == drawn


def test_epochs_and_seeds_differ_in_their_order() -> None:
    def order(seed: int, epoch: int) -> list[str]:
        return [source({"a": 20}, seed).task(20 * epoch + i).id for i in range(20)]

    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 6), st.integers(0, 99))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_a_split_keeps_groups_whole_and_loses_no_row(groups: list[int], parts: int, seed: int) -> None:
    rows = [Row.plain([i], [1], group=group) for i, group in enumerate(groups)]
    cut = split(rows, parts, seed)
    assert sorted(int(row.ids[0]) for part in cut for row in part) == list(range(len(rows)))
    assert len(cut) == min(parts, len(set(groups)))
    where = [{groups[int(row.ids[0])] for row in part} for part in cut]
    assert sum(map(len, where)) == len(set(groups))
    sizes = [len(found) for found in where]
    assert max(sizes) - min(sizes) <= 1
    for part, found in zip(cut, where, strict=True):
        # Groups are numbered anew in each part, from 0 on.
        new = {groups[int(row.ids[0])]: row.group for row in part}
        assert sorted(new.values()) == list(range(len(found)))
        assert all(row.group == new[groups[int(row.ids[0])]] for row in part)


def test_a_split_is_seeded() -> None:
    def ids(seed: int) -> list[list[int]]:
        rows = [Row.plain([i], [1], group=i) for i in range(12)]
        return [[int(row.ids[0]) for row in part] for part in split(rows, 3, seed)]

    assert ids(1) == ids(1) and ids(1) != ids(2)


def test_what_a_step_reports() -> None:
    rollouts = [
        rolled(1.0, tokens=4, version=3),
        rolled(0.0, ("a", "b"), tokens=3, version=5, stop="token_limit"),
        rolled(None, tokens=2, version=4),
        rolled(0.5, tokens=0, version=1),  # nothing sampled: no age
    ]
    assert describe(rollouts, groups=4, useful=3, version=5) == pytest.approx(
        {
            "reward/mean": 0.5,
            "reward/frac_zero_std": 0.25,
            "outcome/unknown_frac": 0.25,
            "response_tokens/mean": 3.0,
            "truncated_frac": 0.25,
            "staleness/mean": 1.0,
            "staleness/max": 2.0,
            "groups": 4.0,
        }
    )
    assert describe([rolled(None)], 1, 0, 0)["reward/mean"] == 0.0


def test_schedules() -> None:
    flat = RlPhase(signal="group_mean", steps=8, warmup_steps=4)
    assert [schedule(flat, s) for s in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    cosine = SftPhase(signal="curated", steps=4)
    assert [schedule(cosine, s) for s in range(4)] == pytest.approx([1.0, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5])
    assert schedule(RlPhase(signal="group_mean"), 1000) == 1.0


def test_terms_take_the_phases_loss_table() -> None:
    terms = build_terms(RlPhase(signal="group_mean"))
    assert list(terms) == ["clipped"] and terms["clipped"].config.aggregate == "prompt"
    assert build_terms(SftPhase(signal="curated"))["ce"].config.aggregate == LossConfig().aggregate == "token"


def test_a_state_is_written_whole_or_not_at_all(tmp_path) -> None:
    path = tmp_path / "state.pt"
    assert load_state(path) is None
    save_state(path, {"step": 3, "consumed": [[0, "a"]]})
    (tmp_path / ".state.pt.tmp").write_bytes(b"torn")  # left by a process that died while it wrote
    assert load_state(path) == {"step": 3, "consumed": [[0, "a"]]}


def test_seeds_are_stable_and_depend_on_every_part() -> None:
    assert derive(0, 1, "weak", "ledger-train-0123456789", 3) == 939990084858035505
    assert derive(0, "heldout", "ledger") == 2601426819753170496
    assert derive(1, 23) != derive(12, 3)
    seeds = [derive(a, b, c) for a in range(8) for b in range(8) for c in "xyz"]
    assert len(set(seeds)) == len(seeds) and all(0 <= seed < 1 << 62 for seed in seeds)
    # The bits are even: no seed is a neighbour of the next.
    ones = np.array([[seed >> bit & 1 for bit in range(62)] for seed in seeds]).mean(0)
    assert (abs(ones - 0.5) < 0.2).all()


def test_heldout_tasks_are_the_same_in_every_round(ctx, worlds) -> None:
    from dataclasses import replace

    later = replace(ctx, round=2)
    assert ctx.heldout_tasks("ledger", "heldout", 5) == later.heldout_tasks("ledger", "heldout", 5)
    assert ctx.heldout_tasks("ledger", "heldout", 5) == heldout(worlds["ledger"], "ledger", "heldout", 5, 3)
    first, second = ctx.train_tasks(), later.train_tasks()
    assert Counter(map(len, [*first.values(), *second.values()])) == {6: 4}
    assert {t.id for t in first["ledger"]} != {t.id for t in second["ledger"]}
    assert {t.world for t in named(first["ledger"], "bank")} == {"bank"}
    held = {t.id for t in ctx.heldout_tasks("ledger", "heldout", 50)}
    assert not held & {t.id for t in first["ledger"]}
