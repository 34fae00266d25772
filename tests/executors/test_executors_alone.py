"""What every executor promises, of executors that a test has for itself (a process has one local Ray cluster)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from importlib import import_module
from pathlib import Path

import pytest
from test_executors import PATIENCE_S, RAY, Make, listen, maker

from noria.core.errors import EngineError, UserError


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


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_a_worker_in_the_middle_of_long_work_ends_with_its_parent(start: str) -> None:
    script = f"""
        from noria.executors import local
        made = local.build(local.Config(workers=1, start={start!r}), "countdown.Countdown", 1)
        made.send(0, "sleep")
        made.receive(0, None)
    """
    words = [sys.executable, "-c", textwrap.dedent(script)]
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    with subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    until = time.monotonic() + PATIENCE_S
    while _alive(worker) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _alive(worker)


@pytest.mark.slow
def test_executors_of_one_process_share_its_local_cluster() -> None:
    """As rollout workers and teachers do; the one that started it ends it."""
    pytest.importorskip("ray")
    ray = import_module("noria.executors.ray")
    first = ray.build(ray.Config(workers=1), "countdown.Countdown", 1)
    try:
        second = ray.build(ray.Config(workers=2), "countdown.Countdown", 1)
        second.send(1, ("too", 0))
        assert listen(second, 1, 1)[0][0] == "too"
        with pytest.raises(UserError, match="executor.workers must fit the cluster: 300 of them need 300 CPU, it has"):
            ray.build(ray.Config(workers=300), "countdown.Countdown", 1)
        second.close()
        first.send(0, ("there", 0))
        assert listen(first, 0, 1)[0][0] == "there"
    finally:
        first.close()


@pytest.mark.slow
def test_a_local_cluster_beside_one_of_somebody_else_is_refused() -> None:
    raylib = pytest.importorskip("ray")
    ray = import_module("noria.executors.ray")
    raylib.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        with pytest.raises(EngineError, match="must be the only one of its process"):
            ray.build(ray.Config(workers=1), "countdown.Countdown", 1)
    finally:
        raylib.shutdown()
