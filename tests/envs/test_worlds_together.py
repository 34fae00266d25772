"""Commands of one turn that change nothing run in the sandbox at once; those that do keep their order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sandboxes"))

from hostile import bwrap_reason

from noria.core.types import Task, Tool
from noria.envs import claw, harbor
from noria.envs.tooluse.desk import Desk
from noria.envs.tooluse.tasks import ASK
from noria.sandboxes import bwrap, process
from noria.sandboxes._client import Pool
from noria.tokens.calls import render_call


class Counted:
    """Counts requests of a pool, and how many are under way at once; `wanted` of them wait for each other."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask, self._lock = ask, threading.Lock()
        self.inside = self.most = self.all = 0
        self.barrier: threading.Barrier | None = None

    def __call__(self, header: dict[str, Any], payload: bytes, timeout_s: float) -> Any:
        with self._lock:
            self.inside, self.all = self.inside + 1, self.all + 1
            self.most = max(self.most, self.inside)
        try:
            if self.barrier is not None:
                self.barrier.wait(120)
            return self._ask(header, payload, timeout_s)
        finally:
            with self._lock:
                self.inside -= 1


@pytest.fixture
def claw_world() -> Iterator[tuple[Any, Any]]:
    sandbox = process.build(process.Config(type="process", servers=3))
    world = claw.build(claw.Config(level="easy", shell_share=0.0), sandbox)
    yield world, world.open(world.tasks("train", 1, 0)[0])
    sandbox.close()


def counted(pool: Pool, patch: pytest.MonkeyPatch) -> Counted:
    found = Counted(pool.ask)
    patch.setattr(pool, "ask", found)
    return found


def test_claw(claw_world: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    world, episode = claw_world
    count = counted(world._sandbox._pool, monkeypatch)

    def said(*commands: str) -> str:
        return str(episode.act("".join(render_call("sh", command=each) for each in commands)).text)

    said("echo 1 > n")
    count.barrier, count.most = threading.Barrier(3), 0
    assert said("cat n", "exit 3", "wc -l n") == "[1 sh] 1\n[2 sh] (exit 3)\n[3 sh] 1 n"
    assert count.most == 3
    count.barrier, count.most, count.all = None, 0, 0
    # By its words the second changes nothing; what is behind it sees what it did all the same.
    assert said("cat n", "python3 -c \"open('n', 'w').write('2')\"", "cat n") == "[1 sh] 1\n[2 sh] ok\n[3 sh] 2"
    assert count.all == 4
    count.most, count.all = 0, 0
    assert said("echo 3 > n", "cat n > m", "echo 4 > n") == "[1 sh] ok\n[2 sh] ok\n[3 sh] ok"
    assert (count.most, count.all) == (1, 3) and episode.bench.workspace.read("m") == "3\n"
    mixed = render_call("python", code="print(open('n').read())") + render_call("python", code="print(7)")
    assert episode.act(mixed + render_call("read", path="none")).text.startswith(
        "[1 python] 4\n[2 python] 7\n[3 read] err"
    )
    episode.bench.budget_s = 0.0
    assert said("cat n", "cat m").count("no time is left") == 2


@pytest.mark.skipif(bwrap_reason() is not None, reason=str(bwrap_reason()))
def test_harbor(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = bwrap.build(bwrap.Config(type="bwrap", servers=2))
    world = harbor.build(harbor.Config(), sandbox)
    try:
        task = next(t for t in world.tasks("train", 9, 1) if t.data["name"].startswith("total"))
        episode = world.open(task)
        call = [render_call("bash", command=each) for each in ("echo a > /app/x", "cat x", "python3 -c 'print(1)'")]
        assert episode.act(call[0]).text == ""
        (shaped,) = world._shaped.values()
        assert isinstance(shaped, bwrap.BwrapSandbox)
        count = counted(shaped._pool, monkeypatch)
        count.barrier = threading.Barrier(2)
        assert episode.act(call[1] + call[2]).text == "[1 bash] a\n[2 bash] 1"
        assert count.most == 2
        count.barrier, count.most = None, 0
        assert episode.act(call[0].replace("echo a", "echo b") + call[1]).text.endswith("[2 bash] b")
        assert count.most == 1
        sly = render_call("bash", command="python3 -c \"open('x', 'a').write('c')\"")
        assert episode.act(call[1] + sly + call[1]).text == "[1 bash] b\n[2 bash] \n[3 bash] b\nc"
        other = episode.fork()
        other.act(call[0])
        assert episode.act(call[1]).text == "b\nc"
    finally:
        world.close()
        sandbox.close()


def test_questions_to_the_user_of_tooluse() -> None:
    barrier, seen = threading.Barrier(3), []

    def answer(about: str) -> str:
        barrier.wait(120)
        seen.append(about)
        return f"it is {about}"

    task = Task("t", "tooluse", "", "", (Tool(ASK, "", {"about": ("string", "")}),), {}, "train")
    no_domain: Any = None
    desk = Desk(no_domain, task, answer, {})
    message = "".join(render_call(ASK, about=each) for each in "abc")
    assert desk.run(message) == (["user: it is a", "user: it is b", "user: it is c"], False)
    assert sorted(seen) == ["a", "b", "c"]
