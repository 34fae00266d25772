"""What worlds share: calls of a message one by one, scripted play, answers of one message."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import copy
from typing import ClassVar

import pytest

from noria.bases.answer import AnswerEpisode, answer_in
from noria.bases.play import play, said
from noria.bases.small import Drawn, SmallWorld, Way
from noria.bases.turn import MOST_CALLS, answered, carried_out, error_line, kind_of_first
from noria.bases.world import check_split, habit_named
from noria.cli_worlds import ProvableWorld, draw, opened
from noria.core.errors import PolicyError, UserError
from noria.core.types import Message, Observation, Outcome, Task
from noria.tokens.calls import Call, render_call

CUT = '<call name="cut"><id>A1</id>'
#: World -> a call that reads and changes nothing.
READS = {
    "ledger": render_call("list"),
    "microswe": render_call("view"),
    "mechanisms": render_call("look"),
    "deepsearch": render_call("search", query="nobody"),
}
#: Messages of an expert's episode at most.
MOST = 40


@pytest.fixture(scope="module", params=[*READS, "tooluse"])
def world(request: pytest.FixtureRequest) -> Iterator[ProvableWorld]:
    with opened(request.param, "process") as made:
        yield made


def test_a_call_that_cannot_be_read_is_answered_alone(world: ProvableWorld) -> None:
    for task in draw(world, "train", 3, 1):
        read = READS.get(world.name) or render_call(next(tool.name for tool in task.tools if "list" in tool.name))
        line = world.open(task).act(read).text
        assert line and not line.startswith("error:")
        seen = world.open(task).act(f"{read}{CUT}{read}{render_call('fly')}{read}")
        assert not seen.done
        parts = seen.text.split(line)
        assert len(parts) == 4 and parts[0] == parts[3] == ""
        assert all(part.startswith("\nerror:") and part.count("\n") == 2 for part in parts[1:3]), seen.text
        assert world.kind(f"{read}{CUT}") != "malformed" == world.kind(f"{CUT}{read}")


def test_experts_take_over_behind_a_message_that_was_heard_in_part(world: ProvableWorld) -> None:
    for task in draw(world, "train", 3, 2):
        read = READS.get(world.name) or render_call(next(tool.name for tool in task.tools if "list" in tool.name))
        for expert in world.experts:
            episode = world.open(task)
            begun = [Message("assistant", f"{CUT}{read}{CUT}{read}")]
            begun.append(Message("tool", episode.act(begun[0].content).text))
            told = play(episode, world.policy(task, expert, 0), MOST, begun)
            assert episode.grade().reward == 1.0 and said(told)[0] == begun[0].content, (task.id, expert)


def test_calls_run_in_order_until_the_end() -> None:
    done: list[str] = []

    def do(call: Call) -> str:
        if call.name == "bad":
            raise PolicyError("no 'bad' \u00fc")
        done.append(call.name)
        return call.name.upper()

    def run(message: str, most: int = MOST_CALLS) -> list[str]:
        done.clear()
        return carried_out(message, do, lambda: "end" in done, "say something", most)

    a, bad, end = render_call("a"), render_call("bad"), render_call("end")
    assert run(a + bad + CUT + end + a) == ["A", "error: no 'bad' \u00fc", error_line("call of 'cut' is not closed: "
                                            "end it with </call>"), "END"]  # fmt: skip
    assert run("only words") == ["error: say something"] and run(a * 3, 2) == ["error: at most 2 calls in one message"]
    assert run(a * 2, 2) == ["A", "A"]
    assert run("<think>open" + a)[0].startswith("error: unclosed <think> block")
    told = [(call.name, line) for call, line in answered(a + CUT + end, "1\nerror: x\n2")]
    assert told == [("a", "1"), ("end", "2")]
    assert list(answered(a + a, "1")) == [(Call("a"), "1")]  # what was cut off is not read
    assert error_line("ü\n" + "x" * 200) == "error: " + ("\\xfc\\n" + "x" * 200)[:100]


def test_kinds_go_by_the_first_call() -> None:
    def kind(call: Call) -> str:
        if call.name != "a":
            raise PolicyError("unknown")
        return "known"

    a = render_call("a")
    assert [kind_of_first(text, kind) for text in (a + CUT, CUT + a, render_call("b"), "hm", "")] == [
        "known", "malformed", "malformed", "answer", "answer",
    ]  # fmt: skip
    assert kind_of_first("hm", kind, "talk") == "talk"


def test_an_answer_is_one_message_and_calls_are_told_what_is_wrong() -> None:
    assert answer_in("<think>1</think> 2 ") == "2" and answer_in("") == ""
    assert answer_in(render_call("a")) is answer_in("<think>") is answer_in("2</call>") is None
    right, wrong = AnswerEpisode(), AnswerEpisode()
    assert right.act("<think>1</think>2").done and (right.answer, right.fault) == ("2", "")
    assert right.act("3").text == "error: the episode is over" and right.answer == "2"
    none = "error: there are no tools here: write only the answer after the think block"
    assert wrong.act(render_call("a") + "2").text == none
    assert wrong.answer is None and not wrong.done and wrong.fault == none
    # One line for each call, in its place; and the last message that may be mended.
    both = wrong.act(render_call("a") + CUT)
    assert both.text.split("\n")[0] == none and both.text.split("\n")[1].startswith("error: ") and not both.done
    assert wrong.act(render_call("a") * 40) == Observation(
        "error: at most 16 calls in one message, and there are no tools here", done=True
    )
    assert wrong.act("2").text == "error: the episode is over" and wrong.answer is None
    mended = AnswerEpisode()
    assert not mended.act("<think>1").done and mended.act("2").done and (mended.answer, mended.fault) == ("2", "")


def test_play_ends_with_the_episode_or_the_policy_s_last_message() -> None:
    episode = AnswerEpisode()
    assert [m.content for m in play(episode, lambda heard: "7", 5)] == ["7"] and episode.answer == "7"
    with opened("ledger", "process") as ledger:
        (task,) = draw(ledger, "train", 1, 0)
        told = play(ledger.open(task), lambda heard: render_call("list"), 3)
    assert [m.role for m in told] == ["assistant", "tool"] * 3 and said(told) == [render_call("list")] * 3


def test_names_that_there_are_not_are_refused() -> None:
    assert habit_named({"a": 1}, "a") == 1
    with pytest.raises(UserError, match="strategy must be one of a, b: got 'c' - choose one of them"):
        habit_named({"a": 1, "b": 2}, "c")
    check_split("train", ("train", "heldout"))
    with pytest.raises(UserError, match="split must be one of train, heldout: got 'unseen' - choose one of them"):
        check_split("unseen", ("train", "heldout"))


class Echo(AnswerEpisode):
    """Right is what was asked for."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.word: str = task.data["words"][0]

    def grade(self) -> Outcome:
        return Outcome(float(self.answer == self.word))

    def fork(self) -> Echo:
        return copy(self)


class Echoes(SmallWorld):
    """Ten words to be said again, from a draw that gives no plain JSON."""

    name, experts = "echoes", ("again",)
    ways: ClassVar = {"again": Way(1.0, lambda task, heard, chance: str(task.data["words"][0]), "answer")}

    def draw(self, rng: random.Random) -> Drawn:
        word = rng.choice("abcdefghij")
        return Drawn(f"Say {word}.", {"words": (word, rng.choice("xy"))})

    def open(self, task: Task) -> Echo:
        return Echo(task)


def test_a_small_world_without_tools_draws_plain_tasks_until_there_are_no_more() -> None:
    world = Echoes()
    train, heldout = world.tasks("train", 5, 0), world.tasks("heldout", 2, 0)
    assert train[:3] == world.tasks("train", 3, 0) and not {t.prompt for t in train} >= {t.prompt for t in heldout}
    assert all(isinstance(task.data["words"], list) and not task.tools for task in train)
    assert world.reference(train[0]) == [train[0].data["words"][0]] and world.advice_for("again") == "answer"
    assert world.strategies == {"again": 1.0} and world.kind("a") == "answer" and world.kind(CUT) == "malformed"
    assert world.kind(render_call("answer")) == "answer" and world.kind(render_call("fly")) == "malformed"
    with pytest.raises(UserError, match="tasks must be fewer: got 21, found "):
        world.tasks("train", 21, 0)
    with pytest.raises(UserError, match="split must be one of train, heldout"):
        world.tasks("unseen", 1, 0)
    with pytest.raises(TypeError, match="abstract method"):
        SmallWorld()  # type: ignore[abstract]
