"""A limit of time is one of the run's own time: what others take of the processors does not count against it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

from noria.core.protocols import Sandbox
from noria.sandboxes._watching import (
    LEAST_TICK_S,
    MOST_TICK_S,
    PATIENCE,
    Clock,
    Starved,
    Times,
    Told,
    longest,
    told_of,
)
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


#: Lets all others go first. / Is crowded out by children that come and go, of which nobody hears.
MEEK = """
import os

def test_it():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True:
        pass
"""
CROWDED_OUT = """
import os, signal, time

def test_it():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if os.fork() == 0:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        while True:
            pass
    while True:
        if os.fork() == 0:
            end = time.monotonic() + 0.02
            while time.monotonic() < end:
                pass
            os._exit(0)
        time.sleep(0.004)
"""


@pytest.mark.parametrize("text", [MEEK, CROWDED_OUT])
def test_no_run_makes_itself_unknown(crowded: Sandbox, text: str) -> None:
    report = crowded.test({"test_it.py": text}, "test_it.py", 0.2)
    assert report.results == {"test_it": "timeout after 0.2 s"}


def test_sleep_counts() -> None:
    sandbox = build(Config(type="process", servers=1))
    try:
        text = "import time\n\n\ndef test_it():\n    time.sleep(60)\n"
        assert "timeout after 0.3 s" in str(sandbox.test({"test_it.py": text}, "test_it.py", 0.3))
    finally:
        sandbox.close()


# The clock alone


def clock(limit_s: float, now: float = 0.0, processors: int = 2) -> Clock:
    return Clock(limit_s, now, processors, 1)


def told(threads: Mapping[int, Times], used_s: float = 0.0, newest: int = 65, **more: frozenset[int]) -> Told:
    return Told(threads, used_s, newest=newest, **more)


def test_standing_in_line_does_not_count() -> None:
    run = clock(2.0, 100.0)
    run.see(told({7: (1 * S, 3 * S)}), 105.0)
    assert run.counts_s(105.0) == pytest.approx(2.0)  # 1 s it ran, 3 s it stood, 1 s it slept
    assert run.left_s(105.0) == 0.0
    assert run.left_s(104.0) == pytest.approx(min(1.0, 0.1))


def test_threads_in_each_others_way_are_not_waited_for() -> None:
    """Three that compute on two processors stand a third of the time; nobody else is in their way."""
    run = clock(10.0)
    run.see(told({1: (2 * S, 1 * S), 2: (2 * S, 1 * S), 3: (2 * S, 1 * S)}), 3.0)
    assert run.counts_s(3.0) == pytest.approx(3.0)


def test_threads_in_each_others_way_and_others_in_theirs() -> None:
    """Two on four processors, each half the time: others had two of the four, so half of the time counts."""
    run = clock(10.0, processors=4)
    run.see(told(dict.fromkeys((1, 2, 3, 4), (2 * S, 2 * S))), 4.0)
    assert run.counts_s(4.0) == pytest.approx(2.0)
    run.see(told(dict.fromkeys((1, 2, 3, 4), (2 * S, 2 * S)), used_s=12.0), 4.0)  # children that nobody saw ran as well
    assert run.counts_s(4.0) == pytest.approx(3.0)


def test_what_ended_is_kept_and_a_number_may_come_again() -> None:
    run = clock(10.0)
    run.see(told({5: (1 * S, 1 * S)}), 1.0)
    run.see(told({}), 2.0)
    run.see(told({5: (1 * S, 0)}), 3.0)
    assert run.counts_s(4.0) == pytest.approx(4.0 - 3.0 * 1 / 3)
    run.see(told({5: (S // 2, 0)}), 4.0)  # less than before: another thread
    assert run.counts_s(4.0) == pytest.approx(4.0 - 3.5 * 1 / 3.5)


def test_who_crowds_itself_out_is_over() -> None:
    run = clock(2.0)
    run.see(told(dict.fromkeys(range(64), (1 * S, 60 * S))), 1.0)
    assert run.left_s(longest(2.0)) == 0.0


def test_who_had_nothing_is_unknown() -> None:
    run = clock(2.0)
    run.see(told({1: (1 * S, 60 * S)}, newest=2), 41.0)
    assert run.left_s(longest(2.0) - 1.0) > 0.0
    with pytest.raises(Starved, match=r"so busy that a run had 1\.00 s of a processor in 42 s"):
        run.left_s(longest(2.0))


def test_who_lets_others_go_first_is_over() -> None:
    run = clock(2.0)
    run.see(told({1: (S // 10, 3 * S)}, newest=2), 3.0)
    assert run.counts_s(3.0) == pytest.approx(3.0 - 3.0 * 3 / 3.1)
    run.see(told({1: (S // 5, 41 * S)}, newest=2, yielding=frozenset({1})), 42.0)
    assert run.counts_s(42.0) == pytest.approx(42.0 - 3.2 * 3 / 3.2)  # its later wait is of its own choice
    assert run.left_s(longest(2.0)) == 0.0


@pytest.mark.parametrize(("threads", "newest"), [({1: (S // 10, 41 * S)}, 9), ({}, 2), ({1: (S // 10, 41 * S)}, 0)])
def test_what_nobody_saw_may_have_run(threads: Mapping[int, Times], newest: int) -> None:
    """Seven that were made and ended between two looks, one that is gone, and numbers that begin anew."""
    run = clock(2.0)
    run.see(told({1: (S // 10, 40 * S)}, newest=2), 40.0)
    run.see(told(threads, newest=newest), 42.0)
    assert run.left_s(longest(2.0)) == 0.0


def test_one_that_nobody_saw_for_a_moment_ran_no_longer() -> None:
    run = clock(2.0)
    run.see(told({1: (S // 10, 40 * S)}, newest=2), 41.0)
    run.see(told({1: (S // 10, 41 * S)}, newest=3), 42.0)  # half of its limit at most, on one processor
    with pytest.raises(Starved):
        run.left_s(longest(2.0))


def test_without_what_linux_tells_it_is_the_clock() -> None:
    run = clock(2.0)
    run.see(told({}), 2.0)
    assert run.counts_s(2.0) == 2.0
    assert run.left_s(2.0) == 0.0
    assert told_of([0]).threads == {}


@pytest.mark.parametrize("limit_s", [0.1, 2.0, 60.0, 3600.0])
def test_looks_are_neither_rare_nor_many(limit_s: float) -> None:
    wait_s = clock(limit_s).left_s(0.0)
    assert LEAST_TICK_S <= wait_s <= MOST_TICK_S
    assert longest(limit_s) <= (1 + PATIENCE) * limit_s


def test_this_process_is_told_of() -> None:
    here = told_of([os.getpid()])
    ran, stood = here.threads[os.getpid()]
    assert ran > 0
    assert stood >= 0
    assert here.used_s > 0.0
    assert here.newest is not None


@pytest.mark.parametrize("how", ["os.nice(1)", "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))"])
def test_a_thread_that_lets_others_go_first_is_known(how: str) -> None:
    code = f"import os, sys\n{how}\nprint(flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = told_of([child.pid, os.getpid()])
        child.kill()
    assert found.yielding == {child.pid}
    assert os.getpid() in found.threads
