"""The world `verifiers_env` with the real package: its interception, its tool servers, its rewards."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from world_contract import WorldContract

from noria.cli_worlds import ProvableWorld, opened, prove
from noria.core.errors import SandboxError, UserError

pytest.importorskip("verifiers", reason="the package verifiers is not installed: run `make test-ecosystem`")

#: A taskset whose tool server is a module that runs nothing.
NO_PROGRAM = """
import sums_taskset
import verifiers.v1 as vf

class Idle(sums_taskset.Adder):
    pass

class Task(sums_taskset.Sums):
    @classmethod
    def toolsets(cls, config):
        return [Idle(vf.ToolsetConfig())]

class NoProgramTaskset(vf.Taskset[Task, sums_taskset.SumsConfig]):
    def load(self):
        data = sums_taskset.SumsData(prompt="?", left=1, right=2, solution=["please: 3"])
        yield from (Task(data, self.config.task),)

__all__ = ["NoProgramTaskset"]
"""
WITH_TOOL = ("options.tool=true", "options.rows=8")


def options(*more: str, timeout_s: float = 900.0) -> list[str]:
    return ["taskset=sums_taskset", "solutions=solution", f"timeout_s={timeout_s}", "replay_s=1800", *more]


def rollouts() -> int:
    return sum(thread.name == "noria-verifiers" for thread in threading.enumerate())


@pytest.fixture(autouse=True, scope="module")
def found_by_processes() -> Iterator[None]:
    """A tool server is a process of its own, which must find the taskset too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        yield


@pytest.fixture(scope="module")
def world() -> Iterator[ProvableWorld]:
    with opened("verifiers_env", "process", options()) as made:
        yield made


@pytest.fixture(scope="module")
def tools() -> Iterator[ProvableWorld]:
    with opened("verifiers_env", "process", options(*WITH_TOOL)) as made:
        yield made


class TestVerifiersContract(WorldContract):
    """A taskset without tools."""

    experts = 1


def test_tools_are_those_of_the_environment_and_do_what_they_do_there(tools: ProvableWorld) -> None:
    task = tools.tasks("train", 1, 0)[0]
    add, draw = task.tools
    assert (add.name, add.description, draw.name) == ("add", "Add two numbers.", "draw")
    assert {key: kind for key, (kind, _) in add.parameters.items()} == {"left": "integer", "right": "integer"}
    episode = tools.open(task)
    call, answer = tools.reference(task)
    assert episode.act(call).text == answer.removeprefix("please: ")
    assert "no tool 'subtract'" in episode.act('<call name="subtract"></call>').text
    two = episode.act(call + call).text.splitlines()
    assert [line.partition(" ")[0] for line in two] == ["[1]", "[2]"]
    assert episode.act(answer.removeprefix("please: ")).done
    assert episode.grade().reward == 0.75 and episode.grade().parts == {"raw": 0.75, "right": 0.75, "polite": 0.0}
    assert rollouts() == 0
    episode.close()


def test_a_task_with_tools_is_proved(tools: ProvableWorld) -> None:
    assert not prove(tools, tools.tasks("train", 1, 1))
    assert rollouts() == 0


def test_a_rollout_is_graded_by_its_own_end_and_a_fork_begins_one_when_it_speaks(tools: ProvableWorld) -> None:
    task = tools.tasks("train", 1, 2)[0]
    call, answer = tools.reference(task)
    episode = tools.open(task)
    episode.act(call)
    other = episode.fork()
    assert rollouts() == 1
    before = episode.grade()
    assert before.reward == 0.0 and before.parts["right"] == 0.0
    assert rollouts() == 0 and episode.grade() == before == episode.grade()
    assert other.act(answer).done and other.grade().reward == 1.0
    assert episode.act(answer).done and episode.grade().reward == 1.0
    assert rollouts() == 0
    for each in (episode, other):
        each.close()


def test_an_environment_that_answers_otherwise_cannot_be_forked(tools: ProvableWorld) -> None:
    task = tools.tasks("train", 1, 3)[0]
    episode = tools.open(task)
    assert episode.act('<call name="draw"></call>').text.isdigit()
    other = episode.fork()
    with pytest.raises(SandboxError, match="answered otherwise"):
        other.act("please: 1")
    assert other.grade().reward is None and "answered otherwise" in other.grade().reason
    assert episode.act("please: 1").done and episode.grade().reward == 0.25
    assert rollouts() == 0


def test_a_grader_that_breaks_leaves_the_outcome_unknown() -> None:
    with opened("verifiers_env", "process", options("options.broken=true")) as made:
        task = made.tasks("train", 1, 0)[0]
        episode = made.open(task)
        assert episode.act("please: 1").done
        assert episode.grade().reward is None and "the grader broke" in episode.grade().reason
        episode.close()


def test_rewards_are_mapped_from_the_range_that_is_named() -> None:
    with opened("verifiers_env", "process", options("reward_high=0.75")) as made:
        task = made.tasks("train", 1, 0)[0]
        episode = made.open(task)
        episode.act(made.reference(task)[0].removeprefix("please: "))
        assert episode.grade().reward == 1.0
        episode.close()


def test_a_policy_that_says_nothing_is_not_waited_for_for_ever() -> None:
    with opened("verifiers_env", "process", options("patience_s=0.5")) as made:
        episode = made.open(made.tasks("train", 1, 0)[0])
        live = episode._live()  # type: ignore[attr-defined]
        kind, found = live.next()
        assert kind == "ended" and (found.errors or found.traces[-1].errors)
        episode.close()
        assert rollouts() == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["taskset=no_such_taskset"], "taskset must name an installed taskset"),
        (options("options.rowz=3"), "rowz"),
        (options(*WITH_TOOL, timeout_s=0.01), "taskset must start within timeout_s"),
    ],
)
def test_what_cannot_be_played_is_said(given: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said), opened("verifiers_env", "process", given) as made:
        made.tasks("train", 1, 0)
    assert rollouts() == 0


def test_a_tool_server_that_cannot_be_started_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no_program.py").write_text(NO_PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    with (
        pytest.raises(UserError, match="Idle is started by `python -m no_program`, which runs nothing"),
        opened("verifiers_env", "process", ["taskset=no_program"]) as made,
    ):
        made.tasks("train", 1, 0)
