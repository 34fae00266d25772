"""A limit of time is one of the run's own time: what others take of the processors does not count against it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator

import pytest

from noria.core.protocols import Sandbox
from noria.sandboxes._watching import LEAST_TICK_S, MOST_TICK_S, PATIENCE, Clock, Starved, longest, told_of
from noria.sandboxes.process import Config, build

S = 10**9
#: Others on the same processor, and what the run under test computes, in s of a processor.
OTHERS, WORK_S = 5, 0.4
BUSY = f"""
import time

def test_work():
    while time.process_time() < {WORK_S}:
        pass
"""


def _spin() -> None:
    while True:
        pass


@pytest.fixture
def crowded() -> Iterator[Sandbox]:
    """A sandbox on one processor, which others keep busy."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    others = [multiprocessing.get_context("fork").Process(target=_spin, daemon=True) for _ in range(OTHERS)]
    try:
        for other in others:
            other.start()
        sandbox = build(Config(type="process", servers=1))
        try:
            yield sandbox
        finally:
            sandbox.close()
    finally:
        for other in others:
            other.kill()
            other.join()
        os.sched_setaffinity(0, before)


def test_others_do_not_make_a_run_slow(crowded: Sandbox) -> None:
    """It needs 0.4 s of a processor of which it has a sixth: 2.4 s by the clock, twice its limit."""
    report = crowded.test({"test_it.py": BUSY}, "test_it.py", 1.2)
    assert report.passed, report


def test_an_endless_run_ends_beside_others(crowded: Sandbox) -> None:
    report = crowded.test({"test_it.py": "def test_it():\n    while True:\n        pass\n"}, "test_it.py", 0.5)
    assert not report.passed
    assert "timeout after 0.5 s" in str(report)


def test_sleep_counts() -> None:
    sandbox = build(Config(type="process", servers=1))
    try:
        text = "import time\n\n\ndef test_it():\n    time.sleep(60)\n"
        assert "timeout after 0.3 s" in str(sandbox.test({"test_it.py": text}, "test_it.py", 0.3))
    finally:
        sandbox.close()


# The clock alone


def test_standing_in_line_does_not_count() -> None:
    clock = Clock(2.0, 100.0)
    clock.see({7: (1 * S, 3 * S)})
    assert clock.counts_s(105.0) == pytest.approx(2.0)  # 1 s it ran, 3 s it stood, 1 s it slept
    assert clock.left_s(105.0) == 0.0
    assert clock.left_s(104.0) == pytest.approx(min(1.0, 0.1))


def test_threads_in_each_others_way_share_the_processors() -> None:
    """Three that compute on two processors: each stands a third of the time, and two thirds of it count."""
    clock = Clock(10.0, 0.0)
    clock.see({1: (2 * S, 1 * S), 2: (2 * S, 1 * S), 3: (2 * S, 1 * S)})
    assert clock.counts_s(3.0) == pytest.approx(2.0)


def test_what_ended_is_kept_and_a_number_may_come_again() -> None:
    clock = Clock(10.0, 0.0)
    clock.see({5: (1 * S, 1 * S)})
    clock.see({})
    clock.see({5: (1 * S, 0)})
    assert clock.counts_s(4.0) == pytest.approx(4.0 - 3.0 * 1 / 3)
    clock.see({5: (S // 2, 0)})  # less than before: another thread
    assert clock.counts_s(4.0) == pytest.approx(4.0 - 3.5 * 1 / 3.5)


def test_who_crowds_itself_out_is_over() -> None:
    clock = Clock(2.0, 0.0)
    clock.see(dict.fromkeys(range(64), (1 * S, 60 * S)))
    assert clock.left_s(longest(2.0)) == 0.0


def test_who_had_nothing_is_unknown() -> None:
    clock = Clock(2.0, 0.0)
    clock.see({1: (1 * S, 60 * S)})
    assert clock.left_s(longest(2.0) - 1.0) > 0.0
    with pytest.raises(Starved, match=r"so busy that a run had 1\.00 s of a processor in 42 s"):
        clock.left_s(longest(2.0))


def test_without_what_linux_tells_it_is_the_clock() -> None:
    clock = Clock(2.0, 0.0)
    clock.see({})
    assert clock.counts_s(2.0) == 2.0
    assert clock.left_s(2.0) == 0.0
    assert told_of([0]) == {}


@pytest.mark.parametrize("limit_s", [0.1, 2.0, 60.0, 3600.0])
def test_looks_are_neither_rare_nor_many(limit_s: float) -> None:
    wait_s = Clock(limit_s, 0.0).left_s(0.0)
    assert LEAST_TICK_S <= wait_s <= MOST_TICK_S
    assert longest(limit_s) <= (1 + PATIENCE) * limit_s


def test_this_process_is_told_of() -> None:
    ran, stood = told_of([os.getpid()])[os.getpid()]
    assert ran > 0
    assert stood >= 0
