"""The world `verifiers_env` with the real package: its interception, its tool servers, its rewards."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from world_contract import WorldContract

from noria.cli_worlds import ProvableWorld, opened
from noria.core.errors import UserError

pytest.importorskip("verifiers", reason="the package verifiers is not installed: run `make test-ecosystem`")


def options(*more: str) -> list[str]:
    return ["taskset=sums_taskset", "solutions=solution", "timeout_s=60", *more]


@pytest.fixture(scope="module")
def world() -> Iterator[ProvableWorld]:
    with opened("verifiers_env", "process", options()) as made:
        yield made


class TestVerifiersContract(WorldContract):
    """A taskset without tools."""

    experts = 1


def test_tools_are_those_of_the_environment_and_do_what_they_do_there() -> None:
    with opened("verifiers_env", "process", options("options.tool=true", "options.rows=8")) as made:
        task = made.tasks("train", 1, 0)[0]
        (tool,) = task.tools
        assert tool.name == "add" and tool.description == "Add two numbers."
        assert {key: kind for key, (kind, _) in tool.parameters.items()} == {"left": "integer", "right": "integer"}
        episode = made.open(task)
        call, answer = made.reference(task)
        assert episode.act(call).text == answer.removeprefix("please: ")
        assert "no tool 'subtract'" in episode.act('<call name="subtract"></call>').text
        two = episode.act(call + call).text.splitlines()
        assert [line.partition(" ")[0] for line in two] == ["[1]", "[2]"]
        before = threading.active_count()
        assert episode.grade().reward == 0.0 and episode.grade().parts["right"] == 0.0
        assert threading.active_count() <= before
        assert episode.act(answer.removeprefix("please: ")).done
        assert episode.grade().reward == 0.75 and episode.grade().parts == {"raw": 0.75, "right": 0.75, "polite": 0.0}
        episode.close()


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


@pytest.mark.parametrize(
    ("given", "said"),
    [(["taskset=no_such_taskset"], "taskset must name an installed taskset"), (options("options.rowz=3"), "rowz")],
)
def test_what_cannot_be_played_is_said(given: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said), opened("verifiers_env", "process", given) as made:
        made.tasks("train", 1, 0)
