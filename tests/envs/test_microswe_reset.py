"""The repair world's fifth tool: what it does, who may call it, and what habits and labels make of it."""

from __future__ import annotations

import pytest

from noria.core.types import Message
from noria.envs.microswe import Config, build
from noria.envs.microswe.mistakes import UNMENDED, WRONG_EDIT, mistakes
from noria.envs.microswe.trusted import TrustedRunner
from noria.envs.microswe.world import MicroSwe
from noria.tokens.calls import render_call


@pytest.fixture(scope="module")
def world() -> MicroSwe:
    return build(Config(type="microswe"), TrustedRunner())


@pytest.fixture(scope="module")
def offered() -> MicroSwe:
    return build(Config(type="microswe", reset=True), TrustedRunner())


def say(line: object, new: str) -> str:
    return render_call("edit", line=line, new=new)


def test_a_file_is_put_back_where_the_world_offers_it(world: MicroSwe, offered: MicroSwe) -> None:
    task, plain_task = (one.tasks("train", 1, 5)[0] for one in (offered, world))
    assert [tool.name for tool in task.tools] == ["view", "edit", "test", "submit", "reset"]
    assert (task.id, task.data) == (plain_task.id, plain_task.data)
    episode = offered.open(task)
    for _ in range(2):
        assert episode.act(say(2, "pass") + say(3, "pass")).text == "ok\nok" and episode.text != task.data["app"]
        assert episode.act(render_call("reset")).text == "ok" and episode.text == task.data["app"]
    assert episode.act(render_call("reset", line=1)).text == "error: reset takes no arguments"
    assert world.open(plain_task).act(render_call("reset")).text == (
        "error: no tool reset: use view, edit, test, submit"
    )
    assert offered.kind(render_call("reset")) == "edit"


def test_putting_back_is_no_mistake_and_what_follows_is_judged_anew(offered: MicroSwe) -> None:
    task = offered.tasks("train", 1, 5)[0]
    line, gold = int(task.data["line"]), task.data["gold"].split("\n")[int(task.data["line"]) - 1].strip()
    said = [say(line, gold), say(2, "pass"), render_call("reset"), say(2, "pass"), render_call("submit")]
    labels = mistakes(task, lambda text: text == task.data["gold"], said)
    assert labels == ["", WRONG_EDIT, "", WRONG_EDIT, UNMENDED]


@pytest.mark.parametrize("habit", ["search", "recover", "careful", "giveup", "stubborn"])
def test_habits_see_that_a_file_was_put_back(offered: MicroSwe, habit: str) -> None:
    for seed, task in enumerate(offered.tasks("train", 20, 6)):
        line, gold = int(task.data["line"]), task.data["gold"].split("\n")[int(task.data["line"]) - 1].strip()
        episode, policy = offered.open(task), offered.policy(task, habit, seed)
        messages = [
            Message("assistant", text)
            for text in (render_call("view"), say(line, gold), render_call("test"), render_call("reset"))
        ]
        heard = [one for said in messages for one in (said, Message("tool", episode.act(said.content).text))]
        done = False
        for _ in range(16):
            said = policy(heard)
            seen = episode.act(said)
            heard += [Message("assistant", said), Message("tool", seen.text)]
            done = seen.done
            if done:
                break
        assert done
        if habit in ("search", "recover", "careful"):
            assert episode.grade().reward == 1.0 or heard[-3].content.startswith("pass ")
