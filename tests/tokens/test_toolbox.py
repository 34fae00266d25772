"""Typed tools: several calls of a turn at once, results in call order, every error its own call's."""

from __future__ import annotations

import threading

import pytest

from noria.core.errors import PolicyError, SandboxError
from noria.core.turns import FOLLOWS, IllegalTransition, Progress, State
from noria.core.types import Observation, Tool
from noria.tokens.calls import Call, Malformed, render_call
from noria.tokens.tool_episode import ToolEpisode
from noria.tokens.toolbox import Result, Toolbox, told, tool

LIMIT_S = 60.0
LEGAL = {
    ("pending", "generating"), ("pending", "terminated"), ("generating", "processing_tools"),
    ("generating", "terminated"), ("processing_tools", "generating"), ("processing_tools", "terminated"),
}  # fmt: skip


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_every_transition_is_legal_or_refused(before: State, after: State) -> None:
    progress = Progress(before)
    if (before.value, after.value) in LEGAL:
        progress.to(after)
        assert progress.state is after
    else:
        with pytest.raises(IllegalTransition, match=f"{after.value} cannot follow {before.value}"):
            progress.to(after)
        assert progress.state is before
    assert (after in FOLLOWS[before]) == ((before.value, after.value) in LEGAL)


def add(a: int, b: float = 0.5, loud: bool = False) -> str:
    """Adds two numbers.

    More that is not shown.
    """
    return f"{a + b}{'!' * loud}"


def refuse(why: str) -> str:
    """Refuses."""
    raise PolicyError(why)


def join(parts: list[str], names: dict[str, int]) -> str:
    """Joins."""
    return "".join(parts) + ",".join(names)


def test_a_schema_comes_from_the_signature() -> None:
    made = tool(add, a="the first")
    assert made.schema == Tool(
        "add", "Adds two numbers.", {"a": ("integer", "the first"), "b": ("number", ""), "loud": ("boolean", "")}
    )
    assert made.required == {"a"}
    with pytest.raises(TypeError, match="parameter 'x'"):
        tool(lambda x: "")


@pytest.mark.parametrize(
    ("call", "text", "failed"),
    [
        (Call("add", {"a": "1"}), "1.5", False),
        (Call("add", {"a": "1", "b": "2", "loud": "true"}), "3.0!", False),
        (Call("join", {"parts": '["x"]', "names": '{"y": 1}'}), "xy", False),
        (Call("add", {"a": "one"}), "'a' of add must be of type integer: got 'one'", True),
        (Call("add", {"a": "true"}), "'a' of add must be of type integer: got 'true'", True),
        (Call("add", {"a": "1", "loud": "1"}), "'loud' of add must be of type boolean: got '1'", True),
        (Call("add", {"b": "1"}), "add needs the argument 'a'", True),
        (Call("add", {"a": "1", "c": "1"}), "add has no argument 'c': it takes a, b, loud", True),
        (Call("ad", {}), "no tool 'ad': there are add, refuse, join, did you mean 'add'?", True),
        (Call("refuse", {"why": "no"}), "no", True),
        (Malformed("odd"), "odd", True),
    ],
)
def test_a_call_gives_its_result_or_its_own_error(call: Call | Malformed, text: str, failed: bool) -> None:
    box = Toolbox([tool(add), tool(refuse), tool(join)])
    good = Call("add", {"a": "1"})
    first, mine, last = box.run([good, call, good])
    assert (mine.text, mine.failed) == (text, failed)
    assert first == last == Result("add", "1.5")


def test_parallel_calls_run_at_once_and_answer_in_order() -> None:
    meet = threading.Barrier(3)

    def fetch(n: int) -> str:
        """Waits for two others."""
        meet.wait(LIMIT_S)
        return str(n)

    box = Toolbox([tool(fetch, parallel=True)])
    assert [r.text for r in box.run([Call("fetch", {"n": str(n)}) for n in (3, 1, 2)])] == ["3", "1", "2"]


def test_other_calls_run_alone_and_in_order() -> None:
    log: list[str] = []
    running = threading.Lock()

    def write(n: int) -> str:
        """Writes."""
        assert running.acquire(blocking=False)
        log.append(f"write {n}")
        running.release()
        return ""

    def read(n: int) -> str:
        """Reads."""
        return str(len(log))

    box = Toolbox([tool(write), tool(read, parallel=True)])
    one = {"n": "1"}
    calls = [Call("read", one), Call("read", one), Call("write", one), Call("write", {"n": "2"}), Call("read", one)]
    assert [r.text for r in box.run(calls)] == ["0", "0", "", "", "2"]
    assert log == ["write 1", "write 2"]


def test_a_fault_of_the_world_leaves_when_all_have_ended() -> None:
    ended: list[str] = []

    def fetch(n: int) -> str:
        """Fails for 1."""
        if n == 1:
            raise SandboxError("gone")
        ended.append(str(n))
        return str(n)

    box = Toolbox([tool(fetch, parallel=True)])
    with pytest.raises(SandboxError, match="gone"):
        box.run([Call("fetch", {"n": str(n)}) for n in (1, 2, 3)])
    assert sorted(ended) == ["2", "3"]


def test_results_are_told_in_order() -> None:
    assert told([Result("a", "x")]) == "x"
    assert told([Result("a", "x", True)]) == "error: x"
    assert told([Result("a", "x"), Result("", "y", True)]) == "[1 a] x\n[2 call] error: y"


def test_an_episode_of_typed_tools() -> None:
    episode = ToolEpisode(Toolbox([tool(add)]))
    good, bad = render_call("add", a=1), '<call name="add">1</call>'
    assert episode.act(good + bad + good) == Observation(
        "[1 add] 1.5\n[2 call] error: call of 'add' is not closed: end it with </call>\n[3 add] 1.5"
    )
    assert episode.progress.state is State.GENERATING
    assert episode.act("<think>sure</think> 1.5 ") == Observation("", done=True)
    assert episode.answer == "1.5" and episode.progress.state is State.TERMINATED
    with pytest.raises(IllegalTransition):
        episode.act(good)
