"""The world `instructions`: tasks, splits, episodes and grading."""

from __future__ import annotations

import json
import tracemalloc
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from noria import cli_worlds
from noria.core.errors import UserError
from noria.core.proofs import Guarded
from noria.core.types import Outcome, Split, Task
from noria.envs.instructions import Config, build
from noria.envs.instructions.kinds import all_kinds
from noria.envs.instructions.world import InstructionsWorld

WORLD = build(Config(), None)
SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")
TASKS = {split: WORLD.tasks(split, 60, 1) for split in SPLITS}


def task_of(prompt: str, topic: str, *constraints: tuple[str, dict[str, Any]]) -> Task:
    """A task written by hand."""
    data = {"topic": topic, "constraints": [list(one) for one in constraints]}
    return Task("by-hand", "instructions", "", prompt, (), data)


def grade(task: Task, message: str, world: InstructionsWorld = WORLD) -> Outcome:
    episode = world.open(task)
    seen = episode.act(message)
    assert seen.done == (seen.text == "")  # what is told may be mended
    return episode.grade()


WORDS_7 = task_of("Write about the dog. Use 7 words.", "dog", ("words", {"n": 7}))
TWO = task_of(
    "Write about the dog. Use 7 words. Begin with now.", "dog", ("words", {"n": 7}), ("first_word", {"w": "now"})
)


@pytest.mark.parametrize("split", SPLITS)
def test_gold_scores_one_and_doing_nothing_scores_zero(split: Split) -> None:
    for task in TASKS[split]:
        assert grade(task, WORLD.reference(task)[0]).reward == 1.0
        assert WORLD.open(task).grade().reward == 0.0
        for idle in ("", "<think></think>", task.prompt, "done", "."):
            assert grade(task, idle).reward == 0.0


@pytest.mark.parametrize("split", SPLITS)
def test_tasks_are_deterministic_distinct_and_prefix_stable(split: Split) -> None:
    tasks = TASKS[split]
    assert tasks[:25] == build(Config(), None).tasks(split, 25, 1)
    assert len({task.id for task in tasks}) == len({str(task.data) for task in tasks}) == 60
    assert tasks[:5] != WORLD.tasks(split, 5, 2)
    assert {task.split for task in tasks} == {split}


def test_splits_are_disjoint_in_content_and_unseen_kinds_are_never_trained() -> None:
    small = build(Config(constraints=(1, 1), kinds=("sentences", "lines", "answers")), None)
    content = {
        split: {json.dumps(task.data, sort_keys=True) for seed in range(3) for task in small.tasks(split, 25, seed)}
        for split in SPLITS
    }
    assert not content["train"] & content["heldout"] and not content["unseen"] & content["train"]
    unseen = {name for name, kind in all_kinds().items() if kind.unseen}
    for split in SPLITS:
        for task in TASKS[split]:
            assert bool(unseen & {name for name, _ in task.data["constraints"]}) == (split == "unseen")


def test_one_content_is_one_task_whatever_the_seed() -> None:
    small = build(Config(constraints=(1, 1), kinds=("sentences", "lines")), None)
    one = {json.dumps(task.data): task for task in small.tasks("train", 60, 0)}
    two = {json.dumps(task.data): task for task in small.tasks("train", 60, 1)}
    common = one.keys() & two.keys()
    assert len(common) > 5 and all(one[key] == two[key] for key in common)


def test_data_is_plain_json_and_prompts_are_short() -> None:
    for split in SPLITS:
        for task in TASKS[split]:
            assert json.loads(json.dumps(task.data)) == task.data
            assert task.prompt.isascii() and len(task.prompt.split()) <= 45 and len(task.system.split()) <= 8
            assert len(WORLD.reference(task)[0].split()) <= 80


def test_memory_of_a_stream_does_not_grow() -> None:
    drawn = WORLD.stream("train", 5)
    for _ in islice(drawn, 60):
        pass
    tracemalloc.start()
    for _ in islice(drawn, 60):
        pass
    before = tracemalloc.get_traced_memory()[0]
    for _ in islice(drawn, 180):
        pass
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 300_000


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"constraints": (2, 1)}, "constraints"),
        ({"constraints": (0, 1)}, "constraints"),
        ({"constraints": (1, 7)}, "constraints"),
        ({"kinds": ("wordz",)}, "kinds"),
        ({"kinds": ("words", "words")}, "kinds"),
        ({"kinds": ("words",), "constraints": (2, 2)}, "kinds"),
        ({"rules": {"max_ran": 3}}, "max_ran"),
        ({"judge": {"base_url": "nowhere", "model": "m"}}, "base_url"),
        ({"tusks": 3}, "tusks"),
    ],
)
def test_config_refuses_what_cannot_work(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        Config(**options)


def test_options_are_honoured() -> None:
    chosen = ("words", "keyword", "all_small", "title")
    world = build(Config(constraints=(2, 3), kinds=chosen), None)
    for task in world.tasks("train", 20, 0):
        names = [name for name, _ in task.data["constraints"]]
        assert 2 <= len(names) <= 3 and set(names) <= set(chosen) and len(set(names)) == len(names)


def test_what_the_space_does_not_hold_is_refused() -> None:
    with pytest.raises(UserError, match="split must be one of"):
        WORLD.tasks("test", 1, 0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="kinds must hold one for the split unseen"):
        build(Config(kinds=("words",)), None).tasks("unseen", 1, 0)
    with pytest.raises(UserError, match=r"tasks must fit the space: \d+ train tasks were found"):
        build(Config(kinds=("all_small",), constraints=(1, 1)), None).tasks("train", 100, 0)


@pytest.mark.parametrize(
    ("answer", "strict", "loose"),
    [
        ("The dog runs, and it barks here.", 1.0, 1.0),
        ("The dog runs, and it barks.", 0.0, 0.0),
        ("Sure:\nThe dog runs, and it barks here.", 0.0, 1.0),
        ("The dog runs, and it barks here.\nDone", 0.0, 1.0),
        ("Sure:\nThe dog runs, and it barks here.\nDone", 0.0, 1.0),
        ("Sure:\nWell:\nThe dog runs, and it barks here.", 0.0, 0.0),
    ],
)
def test_strict_and_loose_differ_by_the_first_and_last_line(answer: str, strict: float, loose: float) -> None:
    found = grade(WORDS_7, answer)
    assert (found.parts["strict"], found.parts["loose"]) == (strict, loose)
    assert found.reward == strict
    assert grade(WORDS_7, answer, build(Config(grade="loose"), None)).reward == loose


def test_loosely_stars_may_go() -> None:
    task = task_of("Write about the dog. Use small letters only. End with: That is all.", "dog",
                   ("first_letter", {"w": "t"}), ("closing", {"w": "That is all."}))  # fmt: skip
    parts = grade(task, "The dog runs. **That is all.**").parts
    assert parts["strict"] == 1.0  # marks around the end do not count as its end
    parts = grade(task, "The dog runs. That **is** all.").parts
    assert (parts["strict"], parts["loose"], parts["closing"], parts["first_letter"]) == (0.0, 1.0, 0.0, 1.0)


def test_every_constraint_has_its_part_and_the_reward_may_be_their_share() -> None:
    half = "Now the dog runs."
    assert grade(TWO, half) == Outcome(
        0.0, {"words": 0.0, "first_word": 1.0, "strict": 0.0, "loose": 0.0, "fluent": 1.0}, "missed: words = 7"
    )
    dense = build(Config(reward="share"), None)
    assert grade(TWO, half, dense).reward == 0.5
    assert grade(TWO, "Now the dog runs, and it barks.", dense).reward == 1.0
    assert grade(TWO, "now dog dog dog", dense).reward == 0.0  # a degenerate answer has no share


@pytest.mark.parametrize("message", ["<think>plan", '<call name="run"></call>', "</think>The dog runs."])
def test_malformed_messages_are_told_so_and_earn_nothing(message: str) -> None:
    episode = WORLD.open(WORDS_7)
    seen = episode.act(message)
    assert not seen.done and seen.text.startswith("error:")
    mended = episode.fork()
    assert mended.act("The dog runs, and it barks here.").done and mended.grade().reward == 1.0
    assert episode.grade().reward == 0.0 and episode.grade().reason == seen.text
    assert WORLD.kind(message) == "malformed"


def test_only_the_first_answer_counts_and_thoughts_do_not() -> None:
    right = "The dog runs, and it barks here."
    late = WORLD.open(WORDS_7)
    late.act("The dog.")
    assert late.act(right).text.startswith("error:") and late.grade().reward == 0.0
    assert grade(WORDS_7, f"<think>nonsense dog dog</think>\n{right}\n").reward == 1.0
    assert grade(WORDS_7, f"<think>{right}</think>The dog.").reward == 0.0


def test_a_fork_is_independent() -> None:
    episode = WORLD.open(WORDS_7)
    twin = episode.fork()
    episode.act("The dog runs, and it barks here.")
    assert episode.grade().reward == 1.0 and twin.grade().reward == 0.0
    twin.act("The dog.")
    assert episode.grade().reward == 1.0 and episode.fork().grade().reward == 1.0


def test_the_world_proves_itself_and_is_not_deceived() -> None:
    assert isinstance(WORLD, Guarded)
    for split in SPLITS:
        tasks = TASKS[split][:20]
        assert cli_worlds.prove(WORLD, tasks) == []
        refused, played = cli_worlds.guard(WORLD, tasks)
        assert refused == [] and played >= 10 * len(tasks)
    assert cli_worlds.overlaps(TASKS) == []


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    st.one_of(
        st.text(max_size=80),
        st.lists(
            st.sampled_from(
                ["<think>", "</think>", "{", '"', "***", "\n", "- ", "1. ", "the dog", "P.S. ", "<<", ">>", "["]
            ),
            max_size=12,
        ).map("".join),
    )
)
def test_no_message_can_break_an_episode(message: str) -> None:
    task = TASKS["unseen"][len(message) % 60]
    outcome = grade(task, message)
    assert outcome.reward in (0.0, 1.0)
    assert WORLD.kind(message) in WORLD.advice


@pytest.mark.parametrize("piece", ["[a", "*", "<<a", "\n", " \n", "- ", "1. ", '"', "{", "a: ", "!?", "P.S. "])
def test_long_rubbish_is_graded_in_time(piece: str) -> None:
    for task in TASKS["unseen"][:12]:
        assert grade(task, piece * 5_000).reward == 0.0
