"""What every executor promises: messages arrive, deaths are told, neither side waits for the other for ever."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from noria.core.errors import EngineError, UserError
from noria.core.protocols import Executor

#: Longer than anything here takes, even on a machine that is busy; what is asserted never depends on it.
PATIENCE_S = 600.0
RAY = pytest.param(
    "ray",
    marks=[pytest.mark.slow, pytest.mark.skipif(find_spec("ray") is None, reason="Ray is missing: make test-ray")],
)
Make = Callable[..., Executor]


def maker(kind: str) -> Make:
    """Starts workers of one kind."""
    module = import_module(f"noria.executors.{kind}")

    def start(service: str, argument: Any, workers: int = 1) -> Executor:
        made: Executor = module.build(module.Config(workers=workers), service, argument)
        return made

    return start


@pytest.fixture(scope="module", params=["local", RAY])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    made = maker(request.param)("countdown.Countdown", 10, workers=2)
    yield made
    made.close()


def listen(executor: Executor, index: int, wanted: int) -> list[tuple[object, int, bytes]]:
    """`wanted` messages of one worker."""
    out: list[tuple[object, int, bytes]] = []
    while len(out) < wanted:
        got = executor.receive(index, PATIENCE_S)
        assert got, "nothing was said"
        out += got
    return out


def process_of(executor: Executor, index: int) -> int:
    executor.send(index, ("who", 0))
    return listen(executor, index, 1)[0][1]


def test_each_worker_answers_what_it_was_told_in_order(executor: Executor) -> None:
    assert executor.size == 2
    for index in range(2):
        for k in range(5):
            executor.send(index, (f"{index}/{k}", 3))
    processes = set()
    for index in range(2):
        found = listen(executor, index, 5)
        assert [name for name, _, _ in found] == [f"{index}/{k}" for k in range(5)]
        assert {payload for _, _, payload in found} == {b"x" * 10}
        assert executor.receive(index, 0) == []
        processes |= {pid for _, pid, _ in found}
    assert len(processes) == 2 and os.getpid() not in processes
    executor.send(1, ("last", 0))
    assert executor.ready([0, 1]) == [1]
    assert listen(executor, 1, 1)[0][0] == "last"


@pytest.mark.parametrize("how", ["kill", "die", "fail"])
def test_a_death_is_told_and_a_successor_takes_over(executor: Executor, how: str) -> None:
    first = process_of(executor, 0)
    if how == "kill":
        os.kill(first, signal.SIGKILL)
    else:
        executor.send(0, how)
    assert executor.ready([0, 1]) == [0]
    with pytest.raises(EngineError, match="died"):
        executor.receive(0, PATIENCE_S)
    with pytest.raises(EngineError, match="died"):
        executor.send(0, ("lost", 0))
        executor.receive(0, PATIENCE_S)
    executor.restart(0)
    assert process_of(executor, 0) != first
    assert process_of(executor, 1) != first


def test_what_had_arrived_before_a_death_is_not_lost(executor: Executor) -> None:
    for k in range(20):
        executor.send(0, (k, 0))
    executor.send(0, "fail")
    found: list[object] = []
    with pytest.raises(EngineError):
        while True:
            found += [name for name, _, _ in executor.receive(0, PATIENCE_S)]
    assert found == list(range(len(found)))  # in order, none twice, and no error before the last of them
    executor.restart(0)


@pytest.mark.parametrize(("how", "code"), [("kill", -signal.SIGKILL), ("die", 7), ("fail", 1)])
@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_a_local_death_is_told_with_its_exit_code(how: str, code: int, start: str) -> None:
    local = import_module("noria.executors.local")
    made = local.build(local.Config(workers=1, start=start), "countdown.Countdown", 1)
    try:
        process = process_of(made, 0)
        if how == "kill":
            os.kill(process, signal.SIGKILL)
        else:
            made.send(0, how)
        with pytest.raises(EngineError, match=f"died with exit code {code}"):
            made.receive(0, PATIENCE_S)
    finally:
        made.close()
    assert not made.workers[0].process.is_alive()


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is here")
def test_without_ray_the_message_says_what_to_install() -> None:
    ray = import_module("noria.executors.ray")
    with pytest.raises(UserError, match=r'executor.type = "ray" needs .*pip install "noria\[ray\]"'):
        ray.build(ray.Config(), "countdown.Countdown", 1)


def test_a_cluster_that_is_too_small_is_refused() -> None:
    ray = import_module("noria.executors.ray")
    with pytest.raises(UserError, match="executor.workers must fit the cluster: 2 of them need 4 CPU, it has 3"):
        ray._check_room(ray.Config(workers=2, num_cpus=2.0), {"CPU": 3.0})
    with pytest.raises(UserError, match="need 2 fpga, it has 0"):
        ray._check_room(ray.Config(workers=2, resources={"fpga": 1.0}), {"CPU": 3.0})
    ray._check_room(ray.Config(workers=2, num_cpus=1.5), {"CPU": 3.0})
