"""What every executor promises, of executors that a test has for itself (a process has one local Ray cluster)."""

from __future__ import annotations

from importlib import import_module

import pytest
from test_executors import PATIENCE_S, RAY, Make, listen, maker

from noria.core.errors import EngineError


@pytest.fixture(scope="module", params=["local", RAY])
def make(request: pytest.FixtureRequest) -> Make:
    """Starts workers of one kind; every test closes what it started."""
    return maker(request.param)


def test_neither_side_waits_for_the_other(make: Make) -> None:
    """Both have far more to say than a pipe holds, and nobody listens in between."""
    talker = make("countdown.Countdown", 300_000)
    try:
        for k in range(8):
            talker.send(0, (k, 0))
        for _ in range(3):
            talker.send(0, b"w" * 3_000_000)
        found = listen(talker, 0, 11)
    finally:
        talker.close()
    assert [name for name, _, _ in found] == [*range(8), 3_000_000, 3_000_000, 3_000_000]
    assert {len(payload) for _, _, payload in found} == {300_000}


def test_a_service_that_cannot_start_is_told(make: Make) -> None:
    made = make("countdown.Nothing", 0)
    try:
        with pytest.raises(EngineError, match="died"):
            made.receive(0, PATIENCE_S)
    finally:
        made.close()


@pytest.mark.slow
def test_a_second_local_cluster_in_one_process_is_refused() -> None:
    pytest.importorskip("ray")
    ray = import_module("noria.executors.ray")
    first = ray.build(ray.Config(workers=1), "countdown.Countdown", 1)
    try:
        with pytest.raises(EngineError, match="must be the only one of its process"):
            ray.build(ray.Config(workers=1), "countdown.Countdown", 1)
        first.send(0, ("still", 0))
        assert listen(first, 0, 1)[0][0] == "still"
        shared = ray.Config(workers=1, address="auto", num_cpus=0.0)
        second = ray.build(shared, "countdown.Countdown", 1)
        second.close()
        first.send(0, ("there", 0))
        assert listen(first, 0, 1)[0][0] == "there"
    finally:
        first.close()
