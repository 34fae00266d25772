"""`tooluse` as a world: tasks and splits, verifier, policies, users, forged attempts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from talking import Talker, talking

from noria.core.errors import SandboxError, UserError
from noria.core.types import Message, Task
from noria.engines.scripted import Reply
from noria.envs.tooluse import Config, build
from noria.envs.tooluse.habits import HABITS
from noria.envs.tooluse.spec import signature
from noria.envs.tooluse.tasks import SPLITS, is_unseen
from noria.envs.tooluse.user import NOTHING, ModelConfig, ModelUser, asked_for, scripted
from noria.envs.tooluse.world import DeskEpisode, ToolWorld
from noria.tokens.calls import render_call

CONFIG = Config(domains=3, ask_share=0.4)
MAX_TURNS = 20
TASKS = 12


@pytest.fixture(scope="module")
def world() -> ToolWorld:
    return build(CONFIG, None)


@pytest.fixture(scope="module")
def drawn(world: ToolWorld) -> dict[str, list[Task]]:
    return {split: world.tasks(split, TASKS, 0) for split in SPLITS}


@pytest.fixture(scope="module")
def every(drawn: dict[str, list[Task]]) -> list[Task]:
    return [task for tasks in drawn.values() for task in tasks]


def play(world: ToolWorld, task: Task, strategy: str, seed: int = 0) -> tuple[DeskEpisode, list[Message]]:
    """A policy's whole episode; fails where it does not end."""
    episode, policy = world.open(task), world.policy(task, strategy, seed)
    messages: list[Message] = []
    for _ in range(MAX_TURNS):
        said = policy(messages)
        seen = episode.act(said)
        messages.append(Message("assistant", said))
        if seen.done:
            return episode, messages
        messages.append(Message("tool", seen.text))
    raise AssertionError(f"{strategy} did not end on {task}")


def reward(world: ToolWorld, task: Task, strategy: str, seed: int = 0) -> float | None:
    return play(world, task, strategy, seed)[0].grade().reward


def test_reference_scores_one_and_submitting_at_once_does_not(world: ToolWorld, every: list[Task]) -> None:
    for task in every:
        episode = world.open(task)
        assert episode.grade().reward == 0.0
        for message in world.reference(task):
            seen = episode.act(message)
        assert seen.done and episode.grade().reward == 1.0, task
        assert episode.act('<call name="list"></call>').done


def test_tasks_repeat_and_a_short_list_is_a_prefix(world: ToolWorld, drawn: dict[str, list[Task]]) -> None:
    fresh = build(Config(domains=3, ask_share=0.4), None)
    for split, tasks in drawn.items():
        assert fresh.tasks(split, 5, 0) == tasks[:5]
        assert len({task.id for task in tasks}) == TASKS
        assert all(task.id.startswith(f"tooluse-{split}-") and task.split == split for task in tasks)
    assert fresh.tasks("train", 5, 1) != drawn["train"][:5]


def test_splits_share_neither_states_nor_domains(world: ToolWorld, drawn: dict[str, list[Task]]) -> None:
    starts = {split: {json.dumps(task.data["start"]) for task in tasks} for split, tasks in drawn.items()}
    assert not starts["train"] & starts["heldout"]
    other = world.tasks("train", TASKS, 1)
    assert not {json.dumps(task.data["start"]) for task in other} & starts["heldout"]
    domains = {split: {task.data["domain"] for task in tasks} for split, tasks in drawn.items()}
    assert len(domains["train"] | domains["heldout"]) <= 3
    assert not (domains["train"] | domains["heldout"]) & domains["unseen"]
    for split, tasks in drawn.items():
        assert all(is_unseen(world.domain(task)) == (split == "unseen") for task in tasks)
    seen, unseen = (
        {signature(op) for task in drawn[split] for op in world.domain(task).operations}
        for split in ("train", "unseen")
    )
    assert len(seen & unseen) <= 0.02 * len(unseen)


def test_texts_and_schemas_keep_to_the_knobs(world: ToolWorld, every: list[Task]) -> None:
    for task in every:
        assert len(task.prompt.split()) <= 60 and task.prompt.isascii()
        needed = {name for name, _ in task.data["gold"]}
        assert needed < {tool.name for tool in task.tools}
        assert 2 <= task.data["length"] <= 4 and task.data["paths"] >= 1
        assert json.loads(json.dumps(task.data)) == task.data
        assert all(len(rows) <= 3 for rows in task.data["start"].values())
    small = build(
        Config(domains=2, tools=1, rows=2, steps_min=1, steps_max=2, asks=1, ask_share=0, hidden_share=0), None
    )
    for task in small.tasks("train", 6, 0):
        assert len(task.tools) <= 8 and task.data["length"] <= 2 and not task.data["details"]
    with pytest.raises(UserError, match="steps_max must be at least steps_min: got 2 and 3"):
        build(Config(steps_min=3, steps_max=2), None)


def test_right_habits_solve_everything(world: ToolWorld, every: list[Task]) -> None:
    right = [name for name, habit in HABITS.items() if habit.right]
    assert set(world.experts) <= set(right)
    for at, task in enumerate(every):
        for strategy in right:
            assert reward(world, task, strategy, at) == 1.0, (strategy, task)
    first, second = world.experts
    differ = [play(world, t, first)[1][0].content != play(world, t, second)[1][0].content for t in every]
    assert all(differ)


def test_policies_repeat_and_depend_on_the_conversation_alone(world: ToolWorld, drawn: dict[str, list[Task]]) -> None:
    for task in drawn["train"][:8]:
        for strategy in world.strategies:
            _, messages = play(world, task, strategy, seed=7)
            assert play(world, task, strategy, seed=7)[1] == messages
            fresh = world.policy(task, strategy, 7)
            for at in range(len(messages) - 1, -1, -2):
                assert fresh(messages[:at]) == messages[at].content


def test_an_expert_goes_on_from_where_another_habit_stopped(world: ToolWorld, every: list[Task]) -> None:
    solved = tried = 0
    for task in every[:24]:
        for starter in ("early", "wrong_id"):
            messages = play(world, task, starter)[1][:-1]
            episode = world.open(task)
            for message in messages[::2]:
                episode.act(message.content)
            policy = world.policy(task, "direct", 0)
            for _ in range(MAX_TURNS):
                said = policy(messages)
                seen = episode.act(said)
                if seen.done:
                    break
                messages += [Message("assistant", said), Message("tool", seen.text)]
            tried += 1
            solved += episode.grade().solved
    assert solved > 0.7 * tried  # what was made or used up by mistake cannot always be taken back


def test_wrong_habits_fail_and_the_mixture_is_weak_but_able(world: ToolWorld, every: list[Task]) -> None:
    assert sum(world.strategies.values()) == pytest.approx(1.0)
    rate = {
        name: sum(reward(world, task, name, at) == 1.0 for at, task in enumerate(every)) / len(every)
        for name in world.strategies
    }
    for name in ("early", "quit", "units", "guess", "wrong_id"):
        assert rate[name] <= 0.15, (name, rate[name])
    assert rate["skip"] < 0.8 and rate["leave"] < 0.85
    assert 0.25 <= sum(world.strategies[name] * rate[name] for name in rate) <= 0.42


def test_forged_attempts_score_less_than_one(world: ToolWorld, every: list[Task]) -> None:
    for task in every:
        scripts = world.forgeries(task)
        assert len(scripts) >= 6
        for script in scripts:
            episode = world.open(task)
            for message in script:
                episode.act(message)
            assert episode.grade().reward == 0.0, script
        shown = "\n".join([task.system, task.prompt, *(f"{t.name} {t.description} {t.parameters}" for t in task.tools)])
        assert not any(secret in shown for secret in world.secrets(task))


def test_nothing_that_a_model_writes_raises(world: ToolWorld, every: list[Task]) -> None:
    task = every[0]
    tool = task.tools[0].name
    for message in (
        "", "<think>", "<call", f'<call name="{tool}">', '<call name="__import__"><x>os</x></call>', "x" * 5000,
        render_call(tool, state="x", data="y"), render_call("submit", now="1"), render_call("ask"),
        render_call("call", data="x"), "\x00", render_call(tool) * 13, '<call name="validate"></call>',
    ):  # fmt: skip
        episode = world.open(task)
        seen = episode.act(message)
        assert not seen.done and "error: " in seen.text and len(seen.text) < 200, message
        assert episode.desk.state == task.data["start"]


def test_a_fork_is_independent(world: ToolWorld, every: list[Task]) -> None:
    task = every[0]
    episode = world.open(task)
    name, args = task.data["gold"][0]
    other = episode.fork()
    other.act(render_call(name, **args))
    assert other.desk.state != episode.desk.state == task.data["start"]


def test_kinds_have_advice_that_names_nothing(world: ToolWorld, every: list[Task]) -> None:
    kinds = {world.kind(render_call(tool.name)) for task in every for tool in task.tools}
    assert kinds <= set(world.advice) and {"list", "get", "step", "submit"} <= kinds and "malformed" not in kinds
    assert world.kind("done") == "answer" and world.kind("<call") == "malformed"
    assert world.kind(render_call("frobnicate_book")) == "malformed"
    for hints in world.advice.values():
        assert len(hints) == 3
        assert all(len(hint.split()) <= 12 and not any(c.isdigit() for c in hint) for hint in hints)
    assert set(world.remedies.values()) <= set(world.advice)
    for name, habit in HABITS.items():
        assert (world.advice_for(name) in world.advice) if habit.right else (world.advice_for(name) is None)


def test_a_detail_is_kept_back_until_it_is_asked_for(world: ToolWorld, every: list[Task]) -> None:
    asking = [task for task in every if task.data["details"]]
    assert len(asking) >= 6
    for task in asking:
        ((topic, detail),) = task.data["details"].items()
        assert "ask" in {tool.name for tool in task.tools}
        part = next(p for p in task.prompt.split("; ") if "ask" in p or "as the user says" in p)
        assert f" {detail} " not in f" {part.split(' of ')[0]} " or not detail.isdigit()
        episode = world.open(task)
        assert episode.act(render_call("ask", about="the weather")).text == f"user: {NOTHING}"
        said = episode.act(render_call("ask", about=topic)).text
        assert detail in said.replace(".", " ").replace(",", " ").split()
        assert world.open(task).act(render_call("ask", about=topic)).text == said
    told = [task for task in every if not task.data["details"]]
    assert all("ask" not in {tool.name for tool in task.tools} for task in told)
    assert world.open(told[0]).act(render_call("ask", about="x")).text == "error: no tool 'ask'"


def test_the_scripted_user_tells_only_what_is_asked() -> None:
    details = {"coal of T7": "3", "reader of B2": "M1"}
    assert asked_for(details, "How much coal?") == ["coal of T7"] and asked_for(details, "B2?") == ["reader of B2"]
    assert asked_for(details, "tell me everything") == []
    assert "M1" not in scripted("t", details, "coal of T7") and "3" in scripted("t", details, "coal of T7")
    assert scripted("t", details, "") == NOTHING
    assert len({scripted(f"task {n}", details, "coal") for n in range(40)}) == 4


@pytest.fixture
def chat() -> Iterator[Talker]:
    with talking() as model:
        yield model


def test_a_model_plays_the_user_and_gives_nothing_away(chat: Talker) -> None:
    user = ModelUser(ModelConfig(base_url=chat.url, model="m", max_retries=0))
    details = {"coal of T7": "3", "reader of B2": "M1"}
    chat.says = "That would be 3,\nplease."
    assert user.answer("t", details, "how much coal?") == "That would be 3, please."
    assert chat.asked[0]["messages"][1] == {"role": "user", "content": "how much coal?"}
    chat.says = "3, and the reader is M1"
    assert user.answer("t", details, "how much coal?") == scripted("t", details, "how much coal?")
    chat.says = "Five."
    assert user.answer("t", details, "how much coal?") == scripted("t", details, "how much coal?")
    chat.says = "The coal is 3."
    assert user.answer("t", details, "what is the time?") == NOTHING
    chat.says = Reply(status=400)
    with pytest.raises(SandboxError, match="the simulated user did not answer: BadRequestError"):
        user.answer("t", details, "how much coal?")


def test_a_world_with_a_model_user_asks_it(chat: Talker) -> None:
    world = build(Config(domains=3, ask_share=1.0, user=ModelConfig(base_url=chat.url, model="m", max_retries=0)), None)
    task = next(task for task in world.tasks("train", 3, 0) if task.data["details"])
    ((topic, detail),) = task.data["details"].items()
    chat.says = f"I think {detail} is right"
    assert world.open(task).act(render_call("ask", about=topic)).text == f"user: I think {detail} is right"


def test_unknown_names_are_refused(world: ToolWorld, every: list[Task]) -> None:
    with pytest.raises(UserError, match="split must be one of train, heldout, unseen"):
        world.tasks("dev", 1, 0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="strategy must be one of careful"):
        world.policy(every[0], "lazy", 0)
