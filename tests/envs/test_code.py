"""The world of code: solutions pass, typical errors and deceit do not, and the share of calls is the dense signal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from noria.core.errors import SandboxError, UserError
from noria.core.protocols import TestReport, Workspace
from noria.core.types import Message
from noria.envs.code import Config, build
from noria.envs.code.habits import HABITS
from noria.envs.code.tasks import FAMILIES, HIDDEN, SHOWN, suite_of
from noria.envs.code.world import CodeWorld
from noria.graders._shown import show
from noria.sandboxes import process
from noria.tokens.calls import render_call


@pytest.fixture(scope="module")
def sandbox() -> Iterator[process.ProcessSandbox]:
    made = process.build(process.Config(type="process", servers=1, timeout_s=60.0))
    yield made
    made.close()


@pytest.fixture(scope="module")
def world(sandbox: process.ProcessSandbox) -> Iterator[CodeWorld]:
    made = build(Config(run_timeout_s=60.0), sandbox)
    yield made
    made.close()


def test_every_family_tells_its_errors_from_its_solution(world: CodeWorld) -> None:
    tasks = [task for split in world.splits for task in world.tasks(split, 60, 3)]
    assert {task.data["family"] for task in tasks} == set(FAMILIES) and len(FAMILIES) >= 30
    for task in tasks:
        data = task.data
        assert len(data["spec"]["calls"]) == SHOWN + HIDDEN and len(data["errors"]) >= 1
        assert all(call in task.prompt for call, _ in data["shown"])
    errors = {key: set() for key in FAMILIES}
    for task in tasks:
        errors[task.data["family"]] |= set(task.data["errors"])
    assert all(len(kinds) >= 2 for kinds in errors.values()), errors


def test_suites_are_those_of_the_solution() -> None:
    suite = suite_of("second_largest", ())
    for (nums,), value in suite.calls:
        distinct = sorted({*nums}, reverse=True)
        assert value == (distinct[1] if len(distinct) > 1 else None)
    suite = suite_of("window_sums", (("k", 3),))
    for (nums,), value in suite.calls:
        assert value == [nums[i] + nums[i + 1] + nums[i + 2] for i in range(len(nums) - 2)]


def test_the_share_of_calls_is_told_and_paid_where_that_is_set(
    world: CodeWorld, sandbox: process.ProcessSandbox
) -> None:
    task = world.tasks("train", 1, 3)[0]
    error = next(iter(task.data["errors"].values()))
    found = world.graded(task, error)
    assert found.reward == 0.0 and 0 < found.parts["calls"] < 1 and "calls are wrong" in found.reason
    assert world.graded(task, task.data["gold"]).reward == 1.0
    shared = build(Config(reward="share"), sandbox)
    try:
        assert shared.graded(task, error).reward == found.parts["calls"]
    finally:
        shared.close()


def test_code_is_run_and_what_it_raises_is_told(world: CodeWorld) -> None:
    task = world.tasks("train", 1, 3)[0]
    name = task.data["function"]
    episode = world.open(task)
    assert "write first" in episode.act(render_call("run", call="1")).text
    assert "nothing is written" in episode.act(render_call("submit")).text
    episode.act(render_call("write", code=f"def {name}(x):\n    return [x, 'a b']\n"))
    assert episode.act(render_call("run", call=f"{name}(1)")).text == "[1,'a b']"
    assert episode.act(render_call("run", call=f"{name}()")).text.startswith("TypeError")
    assert "one expression" in episode.act(render_call("run", call="x = 1")).text
    fork = episode.fork()
    fork.act(render_call("write", code=task.data["gold"]))
    assert fork.act(render_call("submit")).done and fork.grade().solved and not episode.grade().solved


def test_a_fenced_block_in_the_answer_hands_it_in(world: CodeWorld) -> None:
    task = world.tasks("heldout", 1, 3)[0]
    episode = world.open(task)
    assert episode.act(f"Here it is.\n```python\n{task.data['gold']}```").done and episode.grade().solved


def test_testers_mend_what_the_examples_show(world: CodeWorld) -> None:
    tasks = world.tasks("train", 10, 4)
    solved = dict.fromkeys(HABITS, 0)
    for task in tasks:
        for name in ("reviewer", "tester", "trusting", "heart"):
            episode = world.open(task)
            for message in world.played(task, name, 1):
                episode.act(message)
            solved[name] += episode.grade().solved
    assert solved["reviewer"] == 10 and solved["trusting"] == solved["heart"] == 0 and 0 < solved["tester"] < 10
    policy = world.policy(tasks[0], "careful", 0)
    taken_over = [Message("assistant", render_call("write", code=tasks[0].data["gold"])), Message("tool", "ok")]
    assert policy(taken_over).count('name="run"') == 2


class Dead:
    """A sandbox that fails whatever it is asked."""

    def workspace(self, files: Mapping[str, str]) -> Workspace:
        raise SandboxError("gone")

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        raise SandboxError("gone")

    def close(self) -> None:
        """Nothing is held."""


def test_a_dead_sandbox_makes_the_outcome_unknown_and_none_a_message() -> None:
    made = build(Config(), Dead())
    try:
        task = made.tasks("train", 1, 3)[0]
        found = made.graded(task, "x = 1")
        assert found.reward is None and "gone" in found.reason
    finally:
        made.close()
    bare = build(Config(), None)
    with pytest.raises(UserError, match="must have a sandbox"):
        bare.graded(task, "x = 1")


def test_values_are_shown_alike_where_they_are_equal() -> None:
    assert show({"b": 1, "a": [2, (3,)]}) == show({"a": [2, (3,)], "b": 1}) == "{'a':[2,(3)],'b':1}"
    assert show(2.0) == show(2) != show(True) and show([1]) != show((1,)) and show("a b") == r"'a\x20b'"
    assert show(0.1 + 0.2) == show(0.3) and show(float("nan")) == "nan" and show({2, 1}) == "set(1,2)"
    assert show("x" * 500).startswith("sha256:") and show("x" * 500) != show("x" * 501)
    assert show(type("E", (int,), {"__eq__": lambda a, b: True})(3)) == "<E>"
