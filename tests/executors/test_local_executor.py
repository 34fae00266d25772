"""Processes of this machine: messages arrive, deaths are told, neither side waits for the other for ever."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from noria.core.errors import EngineError
from noria.executors.local import Config, LocalExecutor, build

#: Longer than anything here takes, even on a machine that is busy; what is asserted never depends on it.
PATIENCE_S = 600.0


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    made = build(Config(workers=2), "countdown.Countdown", 10)
    yield made
    made.close()
    assert not any(worker.process.is_alive() for worker in made.workers)


def listen(executor: LocalExecutor, index: int, wanted: int) -> list[tuple[object, int, bytes]]:
    """`wanted` messages of one worker."""
    out: list[tuple[object, int, bytes]] = []
    while len(out) < wanted:
        got = executor.workers[index].receive(PATIENCE_S)
        assert got, "nothing was said"
        out += got
    return out


def test_each_worker_answers_what_it_was_told(executor: LocalExecutor) -> None:
    for index, worker in enumerate(executor.workers):
        for k in range(5):
            worker.send((f"{index}/{k}", 4 - k))
    for index, worker in enumerate(executor.workers):
        found = listen(executor, index, 5)
        assert sorted(name for name, _, _ in found) == [f"{index}/{k}" for k in range(5)]
        assert {pid for _, pid, _ in found} == {worker.process.pid}
        assert {payload for _, _, payload in found} == {b"x" * 10}
        assert worker.receive(0) == []
    executor.workers[1].send(("last", 0))
    assert executor.ready([0, 1]) == [1]
    assert listen(executor, 1, 1)[0][0] == "last"


@pytest.mark.parametrize(("how", "code"), [("kill", -signal.SIGKILL), ("die", 7), ("fail", 1)])
def test_a_death_is_told_and_a_successor_takes_over(executor: LocalExecutor, how: str, code: int) -> None:
    worker = executor.workers[0]
    first = worker.process.pid
    worker.send(("before", 0))
    listen(executor, 0, 1)
    if how == "kill":
        assert first is not None
        os.kill(first, signal.SIGKILL)
    else:
        worker.send(how)
    assert executor.ready([0, 1]) == [0]
    with pytest.raises(EngineError, match=f"died with exit code {code}"):
        worker.receive(PATIENCE_S)
    with pytest.raises(EngineError, match=f"died with exit code {code}"):
        worker.send(("lost", 0))
    worker.restart()
    worker.send(("after", 0))
    ((name, pid, _),) = listen(executor, 0, 1)
    assert name == "after" and pid == worker.process.pid != first


def test_what_was_said_before_a_death_is_not_lost(executor: LocalExecutor) -> None:
    worker = executor.workers[0]
    for k in range(20):
        worker.send((k, 0))
    worker.send("die")
    found: list[object] = []
    with pytest.raises(EngineError):
        while True:
            found += [name for name, _, _ in worker.receive(PATIENCE_S)]
    assert found == list(range(len(found)))  # in order, none twice, and no error before the last of them
    worker.restart()


def test_neither_side_waits_for_the_other() -> None:
    """Both have far more to say than a pipe holds, and nobody listens in between."""
    talker = build(Config(workers=1), "countdown.Countdown", 300_000)
    try:
        for k in range(8):
            talker.workers[0].send((k, 0))
        for _ in range(3):
            talker.workers[0].send(b"w" * 3_000_000)
        found = listen(talker, 0, 11)
    finally:
        talker.close()
    assert [name for name, _, _ in found] == [*range(8), 3_000_000, 3_000_000, 3_000_000]
    assert {len(payload) for _, _, payload in found} == {300_000}


def test_a_service_that_cannot_start_is_told() -> None:
    made = build(Config(workers=1), "countdown.Nothing", 0)
    try:
        with pytest.raises(EngineError, match="died with exit code 1"):
            made.workers[0].receive(PATIENCE_S)
    finally:
        made.close()
