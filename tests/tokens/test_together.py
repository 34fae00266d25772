"""Calls of one turn that run at once: how many do is counted, and what they give is that of one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from noria.bases.turn import carried_out
from noria.core.errors import PolicyError, SandboxError
from noria.tokens.calls import Call, hear, render_call
from noria.tokens.together import Ahead, at_once
from noria.tokens.toolbox import Result, Toolbox, tool


class Meeting:
    """Counts who is inside at once; where `wanted` must meet, none goes on before all are there."""

    def __init__(self, wanted: int) -> None:
        self.inside = self.most = 0
        self._lock, self._all = threading.Lock(), threading.Barrier(wanted)

    def __call__(self) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        try:
            self._all.wait(60)
        finally:
            with self._lock:
                self.inside -= 1


class Store:
    """A list of words: `show` looks at it, `add` writes; both may be tried on a copy."""

    def __init__(self, meet: Callable[[], None]) -> None:
        self.words: list[str] = []
        self.asked: list[str] = []
        self.dropped: list[str] = []
        self._meet = meet

    def do(self, text: str) -> str:
        """Do what a text says."""
        self.asked.append(text)
        return self._done(self.words, text)

    def ahead(self, text: str) -> Ahead:
        copy = list(self.words)
        self._meet()
        said = self._done(copy, text)

        def keep() -> None:
            if text == "late":
                raise PolicyError("too late")
            self.words = copy

        return Ahead(said, copy != self.words, keep, lambda: self.dropped.append(text))

    def box(self) -> Toolbox:
        return Toolbox([tool(self.do, ahead=self.ahead, looks=lambda text: not text.startswith("add"))])

    def _done(self, words: list[str], text: str) -> str:
        if text == "no":
            raise PolicyError("refused")
        if text == "fault":
            raise SandboxError("gone")
        if text.startswith(("add", "sly")):
            words.append(text[4:])
        return ",".join(words) or "none"


def texts(store: Store, *given: str) -> list[str]:
    found = store.box().run([Call("do", {"text": text}) for text in given])
    assert all(isinstance(each, Result) for each in found)
    return [("!" if each.failed else "") + each.text for each in found]


def test_neighbours_that_look_meet_and_answer_in_call_order() -> None:
    meeting = Meeting(4)
    store = Store(meeting)
    assert texts(store, "add a", "x", "no", "late", "y", "add b", "z") == [
        "a", "a", "!refused", "!too late", "a", "a,b", "a,b"
    ]  # fmt: skip
    assert (meeting.most, meeting.inside, store.asked) == (4, 0, ["add a", "add b", "z"])


@pytest.mark.parametrize("given", [("x", "sly b", "y", "sly c", "z"), ("sly a", "sly b"), ("sly a", "no", "x")])
def test_what_changes_the_state_unexpectedly_makes_those_behind_it_run_anew(given: tuple[str, ...]) -> None:
    one_by_one = Store(lambda: None)
    wanted = [each for text in given for each in texts(one_by_one, text)]
    together = Store(Meeting(len(given)))
    assert texts(together, *given) == wanted and together.words == one_by_one.words
    first = next(k for k, text in enumerate(given) if text.startswith("sly"))
    assert together.asked == list(given[first + 1 :])
    assert together.dropped == [text for text in given[first + 1 :] if text != "no"]


def test_a_fault_leaves_only_where_its_turn_comes() -> None:
    ill = Store(Meeting(4))
    with pytest.raises(SandboxError):
        texts(ill, "x", "late", "fault", "y")
    assert ill.dropped == ["late", "y"]
    store = Store(Meeting(2))
    store._done = lambda words, text: words.append(text) or "ok"  # type: ignore[method-assign, func-returns-value]
    assert texts(store, "sly", "other") == ["ok", "ok"]


def test_lines_of_a_turn_meet_where_a_world_says_so() -> None:
    meeting, done = Meeting(3), []

    def do(call: Call) -> str:
        if call.name == "ask":
            meeting()
            if call.args["about"] == "c":
                raise PolicyError("unknown")
            return "about " + call.args["about"]
        done.append(call.name)
        return "done"

    asks = [render_call("ask", about=each) for each in "abc"]
    message = render_call("set") + "".join(asks) + render_call("end") + render_call("set")
    assert len(hear(message).calls) == 6
    lines = carried_out(message, do, lambda: "end" in done, "no call", together=lambda call: call.name == "ask")
    assert lines == ["done", "about a", "about b", "error: unknown", "done"] and meeting.most == 3


def test_all_have_ended_when_one_failed() -> None:
    ended = []

    def slow() -> str:
        ended.append("slow")
        return "x"

    def failing() -> str:
        raise SandboxError("gone")

    first, second = at_once([failing, slow])
    assert ended == ["slow"] and second.result() == "x" and isinstance(first.exception(), SandboxError)
