"""The world `deepsearch`: episodes, truth, policies, mixture, and a corpus of one's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from noria.cli_worlds import guard, overlaps, prove
from noria.core.errors import UserError
from noria.core.protocols import Answers
from noria.core.types import Message, Task
from noria.envs.deepsearch import Config, build
from noria.envs.deepsearch.clues import NAME_ASKED, Rel, decode
from noria.envs.deepsearch.episode import SearchEpisode
from noria.envs.deepsearch.habits import HABITS
from noria.envs.deepsearch.schema import RELATIONS
from noria.envs.deepsearch.world import SearchWorld
from noria.tokens.calls import render_call

MAX_TURNS = 60
SPLITS = ("train", "heldout", "unseen")


@pytest.fixture(scope="module")
def world() -> SearchWorld:
    return build(Config(), None)


def play(world: SearchWorld, task: Task, strategy: str, seed: int = 0) -> tuple[SearchEpisode, list[Message]]:
    """A policy's whole episode; fails where it does not end."""
    messages: list[Message] = []
    episode = world.open(task)
    finish(world, episode, task, strategy, seed, messages)
    return episode, messages


def finish(
    world: SearchWorld, episode: SearchEpisode, task: Task, strategy: str, seed: int, messages: list[Message]
) -> None:
    policy = world.policy(task, strategy, seed)
    for _ in range(MAX_TURNS):
        said = policy(messages)
        seen = episode.act(said)
        messages.append(Message("assistant", said))
        if seen.done:
            return
        messages.append(Message("tool", seen.text))
    raise AssertionError(f"{strategy} did not end on {task}")


def reward(world: SearchWorld, task: Task, strategy: str, seed: int = 0) -> float | None:
    return play(world, task, strategy, seed)[0].grade().reward


def test_tasks_prove_themselves(world: SearchWorld) -> None:
    drawn = {split: world.tasks(split, 20, 0)[:10] for split in SPLITS}  # type: ignore[arg-type]
    tasks = [task for found in drawn.values() for task in found]
    assert prove(world, tasks) == []
    refused, played = guard(world, tasks)
    assert refused == [] and played >= 11 * len(tasks)
    assert overlaps(drawn) == []
    for task in tasks:
        assert world.open(task).grade().parts == {"right": 0.0, "evidence": 0.0}


def test_tasks_repeat_and_a_short_list_is_a_prefix() -> None:
    for split in SPLITS:
        long = build(Config(), None).tasks(split, 9, seed=5)  # type: ignore[arg-type]
        assert build(Config(questions=4), None).tasks(split, 5, seed=5) == long[:5]  # type: ignore[arg-type]
        assert len({task.id for task in long}) == 9
        assert all(task.id.startswith(f"deepsearch-{split}-") and task.split == split for task in long)
        assert [json.loads(json.dumps(task.data)) for task in long] == [task.data for task in long]


def test_unseen_tasks_need_what_training_never_shows(world: SearchWorld) -> None:
    def relations(task: Task) -> set[str]:
        return {clue.relation for clue in decode(task.data["query"]).clues if isinstance(clue, Rel)}

    fresh = {name for name, relation in RELATIONS.items() if relation.unseen}
    assert all(relations(task) & fresh for task in world.tasks("unseen", 20, 0))
    for split in ("train", "heldout"):
        for task in world.tasks(split, 20, 0):
            assert not relations(task) & fresh
            assert not {"ship", "bridge"} & set(world.country(task).graph.by_kind)
    names = [
        {one.name for task in world.tasks(split, 20, 0) for one in world.country(task).graph.entities.values()}
        for split in ("train", "heldout")
    ]
    # Made-up names are few, so a few recur; what is known of them does not.
    assert len(names[0] & names[1]) < 0.2 * len(names[0])


def test_an_episode_by_hand(world: SearchWorld) -> None:
    task = next(task for task in world.tasks("train", 20, 0) if decode(task.data["query"]).asked != NAME_ASKED)
    episode, evidence, gold = world.open(task), task.data["evidence"], task.data["answers"][0]
    title = world.country(task).graph.entities[evidence[0]].name
    seen = episode.act(f"<think>so</think>{render_call('search', query=title)}{render_call('browse', page=title)}").text
    lines = seen.split("\n")
    assert len(lines) == 2 and f"{evidence[0]} {title}, " in lines[0] and lines[1].startswith(f"{title} is a ")
    assert episode.visited == (evidence[0],)
    twin = episode.fork()
    assert twin.act(render_call("browse", page=evidence[1]) + render_call("answer", text=f" {gold}. ")).done
    assert twin.grade().reward == 1.0
    assert twin.grade().parts == {"right": 1.0, "evidence": 2 / len(evidence)}
    assert twin.act(render_call("answer", text="0")).done and twin.grade().reward == 1.0
    assert episode.visited == (evidence[0],) and episode.grade().reason == "no answer"
    assert episode.act(render_call("answer", text="nothing")).done
    assert episode.grade().reward == 0.0 and f"right is {gold}" in episode.grade().reason


def test_errors_go_back_to_the_model(world: SearchWorld) -> None:
    episode = world.open(world.tasks("train", 20, 0)[0])
    for message, told in (
        ("hello", "error: no call; search and browse, end with answer"),
        ("<think>", "error: unclosed <think> block"),
        (render_call("look"), "error: unknown tool 'look': use search, browse, answer"),
        (render_call("search"), "error: search needs query"),
        (render_call("answer", text=" "), "error: answer needs text"),
        (render_call("answer", value="3"), "error: answer has no argument 'value': it takes text"),
        (render_call("browse", page="p99999"), "error: page must be an id or a title: got 'p99999'"),
        (render_call("browse", page="p1", part="9" * 5000), "error: part must be a number from 1"),
        (render_call("search", query="é\n☃"), "error"),
        (render_call("search", query="a") * 9, "error: at most 8 calls in one message"),
    ):
        seen = episode.act(message)
        assert not seen.done
        if told != "error":
            assert seen.text.startswith(told) and seen.text.isascii() and len(seen.text) < 140
    both = episode.act(render_call("browse", page="?") + render_call("browse", page="p1")).text.split("\n")
    assert both[0].startswith("error: ") and " is a " in both[1]
    assert episode.grade().reward == 0.0 and episode.visited == ("p1",)


def test_evidence_can_be_demanded() -> None:
    strict = build(Config(grounded=True), None)
    for task in strict.tasks("train", 8, 0):
        blind = strict.open(task)
        blind.act(render_call("answer", text=task.data["answers"][0]))
        assert (blind.grade().reward, blind.grade().parts["right"]) == (0.0, 1.0)
        assert [reward(strict, task, expert) for expert in strict.experts] == [1.0, 1.0]


def test_right_habits_solve_everything(world: SearchWorld) -> None:
    right = [name for name, habit in HABITS.items() if habit.right]
    assert set(world.experts) <= set(right)
    for split in SPLITS:
        for at, task in enumerate(world.tasks(split, 20, 0)[8:]):  # type: ignore[arg-type]
            for strategy in right:
                episode, _ = play(world, task, strategy, at)
                assert episode.grade().solved, (strategy, task)
                if strategy in ("rarest", "steady", "check"):
                    assert episode.grade().parts["evidence"] >= 0.5


@pytest.mark.parametrize(
    "options",
    [
        {"pages": 27, "noise": 0, "hops": (2, 2), "shapes": ("chain",)},
        {"pages": 80, "noise": 4, "page_words": 12, "hits": 3, "described": 1.0, "max_turns": 60},
        {"hops": (3, 4), "names": 1.0, "first": 3},
    ],
)
def test_experts_solve_whatever_the_options(options: dict[str, object]) -> None:
    other = build(Config(**options), None)  # type: ignore[arg-type]
    for task in other.tasks("train", 3, 2):
        assert [reward(other, task, expert) for expert in other.experts] == [1.0, 1.0], task


def test_experts_take_different_paths(world: SearchWorld) -> None:
    for task in world.tasks("train", 20, 0):
        first, second = (play(world, task, name)[1] for name in world.experts)
        assert [m.content for m in first] != [m.content for m in second]
        assert world.kind(first[0].content) == world.kind(second[0].content) == "search"
        assert world.kind(first[-1].content) == "answer"


def test_policies_repeat_and_depend_on_the_conversation_alone(world: SearchWorld) -> None:
    for task in world.tasks("train", 20, 0)[:5]:
        for strategy in world.strategies:
            _, messages = play(world, task, strategy, seed=7)
            fresh = world.policy(task, strategy, 7)
            for at in range(len(messages) - 1, -1, -2):
                assert fresh(messages[:at]) == messages[at].content


def test_an_expert_finishes_what_another_habit_began(world: SearchWorld) -> None:
    for task in world.tasks("train", 20, 0)[:8]:
        for starter in ("one_chain", "first_hit", "early", "meet"):
            messages = play(world, task, starter)[1][:-1]
            episode = world.open(task)
            for message in messages[::2]:
                episode.act(message.content)
            finish(world, episode, task, "rarest", 0, messages)
            assert episode.grade().reward == 1.0, (starter, task)


def test_a_policy_ends_where_nothing_answers(world: SearchWorld) -> None:
    task = world.tasks("train", 20, 0)[0]
    for strategy in world.strategies:
        messages: list[Message] = []
        policy = world.policy(task, strategy, 0)
        for _ in range(MAX_TURNS):
            said = policy(messages)
            if world.answer(said) is not None:
                break
            messages += [Message("assistant", said), Message("tool", "error: gone\nerror: away")]
        assert world.answer(said) is not None, strategy


def test_mixture_is_weak_but_able(world: SearchWorld) -> None:
    assert sum(world.strategies.values()) == pytest.approx(1.0)
    tasks = world.tasks("train", 20, 0)
    solved = {
        name: [reward(world, task, name, at) == 1.0 for at, task in enumerate(tasks)] for name in world.strategies
    }
    chances = [sum(world.strategies[name] * solved[name][at] for name in solved) for at in range(len(tasks))]
    assert 0.25 <= sum(chances) / len(chances) <= 0.40
    for name, habit in HABITS.items():
        share = sum(solved[name]) / len(tasks)
        assert share == 1.0 if habit.right else share < 0.7, name
    # What a single search, the first page and the wrong end of a link give is next to nothing.
    for name in ("first_hit", "early", "wrong_hop", "misread", "guess"):
        assert sum(solved[name]) / len(tasks) <= 0.15, name


def test_kinds_advice_and_answers(world: SearchWorld) -> None:
    assert world.kind(render_call("browse", page="p1") + render_call("search", query="x")) == "browse"
    assert world.kind("well") == world.kind("") == "talk"
    for message in ("<think>", render_call("find", query="x"), render_call("answer")):
        assert world.kind(message) == "malformed"
    tools = {tool.name for tool in world.tasks("train", 20, 0)[0].tools}
    assert tools | {"talk", "malformed"} == set(world.advice)
    assert set(world.remedies) <= set(world.advice) and set(world.remedies.values()) <= set(world.advice)
    for hints in world.advice.values():
        assert len(hints) == 3
        assert all(len(hint.split()) <= 12 and hint.isascii() and not any(map(str.isdigit, hint)) for hint in hints)
    for name, habit in HABITS.items():
        kind = world.advice_for(name)
        assert (kind in world.advice) if habit.right else (kind is None)
    assert isinstance(world, Answers)
    assert world.answer(render_call("search", query="x") + render_call("answer", text="7")) == "7"
    assert world.answer("7") is None and world.answer("<think>") is None


def test_prompts_are_short(world: SearchWorld) -> None:
    for split in SPLITS:
        for task in world.tasks(split, 20, 0):  # type: ignore[arg-type]
            assert len(task.prompt.split()) <= 90 and task.prompt.isascii() and len(task.system.split()) <= 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": (1, 2)}, "hops must be two numbers from 2 to 4, the smaller first: got"),
        ({"hops": (3, 2)}, "hops must be two numbers from 2 to 4"),
        ({"shapes": ()}, "shapes must be one or more, each once"),
        ({"shapes": ("ring",)}, "shapes"),
        ({"corpus": "x"}, "questions_file must be set together with corpus"),
        ({"questions_file": "x"}, "corpus must be set together with questions_file"),
        ({"pages": 5}, "pages"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Config(**options)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="strategy must be one of rarest"):
        build(Config(), None).policy(build(Config(), None).tasks("train", 1, 0)[0], "lazy", 0)


def test_a_missing_engine_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(UserError, match="engine must be one that is installed: got 'bm25s' - pip install bm25s"):
        build(Config(engine="bm25s"), None)


def test_a_corpus_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "mill.md").write_text(
        "# The Mill\nIt stands on the [river](river.md).\n\nIt was built in 1801."
    )
    (tmp_path / "pages" / "river.md").write_text("# The Bann\nIt drives one mill and is 80 km long.")
    rows = [
        {"question": f"How long is the river of the mill, time {at}?", "answer": "80", "aliases": ["80 km"],
         "evidence": ["mill", "river"]}
        for at in range(30)
    ]  # fmt: skip
    rows.append({"question": "Who?", "answer": "Nobody", "split": "unseen"})
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    own = build(Config(corpus=str(tmp_path / "pages"), questions_file=str(tmp_path / "q.jsonl")), None)
    train, heldout = own.tasks("train", 10, 0), own.tasks("heldout", 3, 0)
    assert own.tasks("train", 4, 0) == train[:4] != own.tasks("train", 4, 1)
    assert not {task.prompt for task in train} & {task.prompt for task in heldout}
    assert [task.prompt for task in own.tasks("unseen", 1, 0)] == ["Who?"]
    assert prove(own, train + heldout) == [] and guard(own, train) == ([], 0)
    task = train[0]
    for strategy, habit in HABITS.items():
        episode, _ = play(own, task, strategy)
        assert episode.grade().solved is habit.right
    assert play(own, task, "steady")[1] != play(own, task, "meet")[1]
    episode = own.open(task)
    assert "river [river]" in episode.act(render_call("browse", page="the mill")).text
    with pytest.raises(UserError, match="questions must be at least 40 of the split train: got"):
        own.tasks("train", 40, 0)
    with pytest.raises(UserError, match="corpus must be the one that .* asks about"):
        build(Config(), None).open(task)
