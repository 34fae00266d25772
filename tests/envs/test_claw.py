"""The world of files: families and mixtures in the real sandbox, what is drawn, tools and limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noria.core.errors import SandboxError, UserError
from noria.core.protocols import ExecResult, Spills, TestReport, Workspace
from noria.core.types import Message, Outcome, Task
from noria.envs.claw import BLOCKING, NEEDS_SANDBOX, Config, build
from noria.envs.claw.bench import HARNESSES
from noria.envs.claw.families import DOMAINS, FAMILIES, UNSEEN
from noria.envs.claw.mixing import TRAPS
from noria.envs.claw.world import ClawWorld
from noria.sandboxes import bwrap, process
from noria.tokens.calls import render_call
from noria.tokens.renderer import Renderer

REASON = bwrap.probe(bwrap.Config(type="bwrap"))
RIGHT = ("careful", "direct", "steady", "brisk")
#: Tokens of an easy episode, and how many characters one token of an ordinary vocabulary holds at least.
TOKENS, CHARS = 1000, 3


@pytest.fixture(scope="module")
def box() -> Iterator[bwrap.BwrapSandbox | process.ProcessSandbox]:
    made = process.build(process.Config(type="process")) if REASON else bwrap.build(bwrap.Config(type="bwrap"))
    yield made
    made.close()


def easy(
    box: bwrap.BwrapSandbox | process.ProcessSandbox | None, shell_share: float = 0.0, **more: object
) -> ClawWorld:
    return build(Config.model_validate({"level": "easy", "shell_share": shell_share, **more}), box)


def play(world: ClawWorld, task: Task, strategy: str, seed: int = 0) -> tuple[Outcome, list[Message]]:
    """What a policy earns, and what was said."""
    episode, policy, heard = world.open(task), world.policy(task, strategy, seed), list[Message]()
    try:
        for _ in range(40):
            heard.append(Message("assistant", policy(heard)))
            seen = episode.act(heard[-1].content)
            if seen.done:
                return episode.grade(), heard
            heard.append(Message("tool", seen.text))
        raise AssertionError(f"{strategy} did not end on {task.prompt}")
    finally:
        episode.close()


def test_it_says_what_it_needs_and_is_as_wide_as_promised() -> None:
    assert BLOCKING and NEEDS_SANDBOX
    assert len(FAMILIES) == 33 and all(len(found) >= 4 for found in DOMAINS.values())
    assert len(UNSEEN) == 4 and set(FAMILIES) >= UNSEEN
    with pytest.raises(UserError, match="claw must have a sandbox"):
        world = easy(None)
        world.open(world.tasks("train", 1, 0)[0])


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_family_is_solved_by_its_ways_and_by_no_slip(
    box: bwrap.BwrapSandbox | process.ProcessSandbox, family: str
) -> None:
    world = easy(box, families=[family])
    task = world.tasks("unseen" if family in UNSEEN else "train", 1, 2)[0]
    names = [item["name"] for item in task.data["checks"]]
    assert len(names) == len(set(names)) and any(not item["guard"] for item in task.data["checks"])
    episode = world.open(task)
    before = episode.grade()
    assert before.reward == 0.0 and before.parts["progress"] < 1.0
    assert all(before.parts[item["name"]] == 1.0 for item in task.data["checks"] if item["guard"])
    episode.close()
    outcome, heard = play(world, task, "careful")
    assert outcome == Outcome(1.0, dict.fromkeys(["progress", *names], 1.0)), outcome
    size = len(task.prompt) + sum(len(message.content) for message in heard)
    assert size <= TOKENS * CHARS
    assert play(world, task, "direct")[0].reward == 1.0
    assert play(world, task, "slip")[0].reward == 0.0


@pytest.mark.parametrize("shell_share", [0.0, 1.0])
def test_a_mixture_is_solved_with_all_tools_and_with_a_shell_alone(
    box: bwrap.BwrapSandbox | process.ProcessSandbox, shell_share: float
) -> None:
    world = build(Config(level="mixed-hard", shell_share=shell_share, jobs=(2, 2)), box)
    task = next(t for t in world.tasks("train", 12, 3) if t.data["trap"] == "note")
    assert {tool.name for tool in task.tools} == set(HARNESSES["shell" if shell_share else "full"])
    folders = {path.split("/")[0] for path in [*task.data["files"], *task.data["databases"]] if "/" in path}
    assert len(folders) == 2 and all(f"In {folder}: " in task.prompt for folder in folders)
    assert play(world, task, "careful")[0].reward == 1.0
    duped, _ = play(world, task, "duped")
    assert duped.reward == 0.0 and duped.parts["progress"] == 0.0
    half, _ = play(world, task, "half")
    assert half.reward == 0.0 and 0.0 < half.parts["progress"] < 1.0


def test_tasks_are_a_prefix_disjoint_and_of_the_level_asked_for() -> None:
    world = build(Config(hard_share=0.5), None)
    assert world.tasks("train", 12, 1)[:5] == world.tasks("train", 5, 1)
    drawn = {split: world.tasks(split, 60, 0) for split in world.splits}
    contents = {
        split: {(t.prompt, repr(t.data["files"]), repr(t.data["databases"])) for t in tasks}
        for split, tasks in drawn.items()
    }
    assert not contents["train"] & contents["heldout"]
    for split, tasks in drawn.items():
        assert all((set(t.data["families"]) <= UNSEEN) == (split == "unseen") for t in tasks)
        assert {t.data["level"] for t in tasks} == {"easy", "mixed-hard"}
    hard = [t for tasks in drawn.values() for t in tasks if t.data["level"] == "mixed-hard"]
    assert {t.data["trap"] for t in hard} == set(TRAPS)
    assert {len(t.data["families"]) for t in hard} == {2, 3}
    assert {t.data["level"] for t in build(Config(level="mixed-hard"), None).tasks("train", 8, 0)} == {"mixed-hard"}
    with pytest.raises(UserError, match="families must hold one of the split unseen"):
        easy(None, families=["redact"]).tasks("unseen", 1, 0)
    with pytest.raises(ValueError, match="did you mean 'redact'"):
        Config(families=("redactt",))
    with pytest.raises(ValueError, match="jobs must be two numbers"):
        Config(jobs=(3, 2))


def test_an_easy_episode_fits_into_the_built_in_context(
    box: bwrap.BwrapSandbox | process.ProcessSandbox, renderer: Renderer
) -> None:
    world = easy(box, families=["count_errors", "filter_rows"])
    for task in world.tasks("train", 2, 0):
        _, heard = play(world, task, "brisk")
        assert sum(len(renderer.encode(message.content)) for message in heard) < TOKENS


def opened(box: bwrap.BwrapSandbox | process.ProcessSandbox, **more: object) -> tuple[ClawWorld, Task]:
    world = easy(box, families=["redact"], **more)
    return world, world.tasks("train", 1, 0)[0]


def test_several_calls_of_a_turn_answer_in_order_and_errors_cost_their_neighbours_nothing(
    box: bwrap.BwrapSandbox | process.ProcessSandbox,
) -> None:
    world, task = opened(box)
    episode = world.open(task)
    calls = [
        render_call("write", path="a/b.txt", text="one\n"), render_call("read", path="a/b.txt"),
        render_call("read", path="none"), render_call("edit", path="a/b.txt", old="two", new="x"),
        render_call("read", path="../x"), render_call("fly"), render_call("sh", command="cat a/b.txt; exit 3"),
    ]  # fmt: skip
    lines = episode.act("".join(calls)).text.split("\n")
    assert lines[:3] == ["[1 write] ok", "[2 read] one", "[3 read] error: no such file: 'none'"]
    assert lines[3] == "[4 edit] error: old must stand in a/b.txt once: it is there 0 times"
    assert lines[4].startswith("[5 read] error: path must stay inside")
    assert lines[5].startswith("[6 fly] error: no tool 'fly'")
    assert lines[6:] == ["[7 sh] one", "(exit 3)"]
    assert episode.act(render_call("read", path="memo.txt") * 17).text == "error: at most 16 calls in one message"
    assert episode.act("\ud800").text.startswith("error: the message holds half a character")
    episode.act(render_call("sh", command="head -c 90000 /dev/zero | tr '\\0' x > big"))
    assert episode.act(render_call("read", path="big")).text.endswith("x\n(… 30000 more characters)")
    episode.close()


def test_a_command_and_the_whole_episode_are_limited(box: bwrap.BwrapSandbox | process.ProcessSandbox) -> None:
    world, task = opened(box, command_s=0.3, budget_s=0.5)
    episode = world.open(task)
    assert episode.act(render_call("sh", command="echo a; sleep 9")).text == "a\n(stopped after 0.3 s)"
    while episode.bench.budget_s > 0:
        episode.act(render_call("sh", command="sleep 9"))
    assert "no time is left" in episode.act(render_call("sh", command="ls")).text
    other = episode.fork()
    assert "no time is left" in other.act(render_call("sh", command="ls")).text
    assert episode.act("done").done and episode.grade().reward == 0.0
    other.close()
    episode.close()


def test_a_spilled_observation_can_be_read_and_changes_no_grade(
    box: bwrap.BwrapSandbox | process.ProcessSandbox,
) -> None:
    world, task = opened(box)
    episode = world.open(task)
    assert isinstance(episode, Spills)
    assert episode.spill("long\n" * 3) == ".spill/1.txt"
    other = episode.fork()
    assert [other.spill("x"), episode.spill("y")] == [".spill/2.txt"] * 2
    assert episode.act(render_call("sh", command="cat .spill/1.txt; ls")).text == "long\nlong\nlong\nmemo.txt"
    for message in world.reference(task):
        episode.act(message)
    assert episode.grade().reward == 1.0
    other.act(render_call("sh", command="rm -r .spill; touch .spill"))
    assert other.spill("z") == ""
    other.close()
    episode.close()


def test_shares_are_paid_where_they_are_asked_for(box: bwrap.BwrapSandbox | process.ProcessSandbox) -> None:
    world = easy(box, families=["letters"], reward="share")
    task = world.tasks("train", 1, 0)[0]
    episode = world.open(task)
    first = next(item for item in task.data["checks"] if item["kind"] == "text")
    episode.act(render_call("write", path=first["path"], text=first["want"]))
    assert episode.grade().reward == pytest.approx(1 / 3)
    assert episode.grade().parts["progress"] == pytest.approx(1 / 3)
    episode.act(render_call("sh", command="rm form.txt"))
    assert episode.grade().reward == 0.0
    episode.close()


class Dead:
    """A sandbox that opens workspaces and then is gone."""

    def read(self, path: str) -> str:
        raise SandboxError("gone")

    def write(self, path: str, text: str) -> None:
        raise SandboxError("gone")

    def run(self, argv: object, timeout_s: float) -> ExecResult:
        raise SandboxError("gone")

    def fork(self) -> Workspace:
        raise SandboxError("gone")

    def workspace(self, files: object) -> Workspace:
        return self

    def test(self, files: object, test_path: str, timeout_s: float) -> TestReport:
        raise SandboxError("gone")

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize("family", ["redact", "mend_city", "fix_crash"])
def test_a_sandbox_that_dies_makes_the_outcome_unknown(family: str) -> None:
    world = build(Config(level="easy", families=(family,)), Dead())
    episode = world.open(world.tasks("train", 1, 0)[0])
    outcome = episode.grade()
    assert outcome.reward is None and "gone" in outcome.reason
    with pytest.raises(SandboxError):
        episode.act(render_call("sh", command="ls"))
