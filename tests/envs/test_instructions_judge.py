"""The judge stage: what is degenerate scores 0 whatever it keeps; a model's fault makes the outcome unknown."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from talking import Talker, talking

from noria.core.errors import UserError
from noria.core.types import Outcome, Task
from noria.engines.scripted import Reply
from noria.envs.instructions import Config, build
from noria.envs.instructions.judge import Rules, fault, fluency, said
from noria.envs.instructions.lexicon import TOPICS
from noria.graders.prose import longest_run

DOG, RULES = TOPICS["dog"], Rules()
PROMPT = "Write about the dog. Use at least 4 words."
TASK = Task("by-hand", "instructions", "", PROMPT, (), {"topic": "dog", "constraints": [["words_least", {"n": 4}]]})
RIGHT = "The dog runs here."


def grade(message: str, config: Config | None = None) -> Outcome:
    world = build(config or Config(), None)
    episode = world.open(TASK)
    episode.act(message)
    outcome = episode.grade()
    world.close()
    return outcome


@pytest.mark.parametrize(
    "answer",
    [
        RIGHT,
        "The dogs run. We like them.",
        "My puppy eats, and it naps.",
        '{"text": "The dog runs here."}',
        "- *The* dog runs.\n- It [naps] now.",
        "<<Dog>>\nThe dog runs.\n\nP.S. It is big.",
        "The dog is big. The dog is old. The dog is wet.",
        "THE DOG RUNS HERE!",
        "1. The dog is a good friend.\n2. It protects the house, plays with children and guards sheep.",
        "Dogs are strengths of rhythm: naïve, brave.",
    ],
)
def test_language_about_the_topic_passes(answer: str) -> None:
    assert fault(RULES, answer, PROMPT, DOG) == ""


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("dog dog dog dog", "one word 4 times in a row"),
        ("the dog the dog the dog the dog", "the same words again and again"),
        ("The dog runs. The dog runs. The dog runs.", "again and again"),
        ("The dog runs, and it is here. The dog runs, and it is here.", "a sentence twice"),
        ("The dog is. The dog is.", "a sentence twice"),
        ("Dog", "fewer than 2 words"),
        ("", "hardly a letter"),
        ("1 2 3 4 5 6 7 8 dog", "hardly a letter"),
        ("!!! --- ??? dog", "hardly a letter"),
        ("the dog xzkw bbbb qqqqq ffff", "words that are none"),
        ("dog red sun stone", "a heap of words"),
        ("the of and to it is in at", "a heap of words"),
        ("Write about the dog. Use at least 4 words.", "copied from the prompt"),
        ("My big pet. Write about the dog. Use at least 4 words. It is wet, and it runs to us.", "copied"),
        ("The cat runs here.", "nothing about the dog"),
        ("The \u200bdog runs here.", "signs that nobody sees"),
        ("The d\u043eg runs here.", "letters of another script"),
        ("The d\uff4fg runs here.", "letters of another script"),
        ("The dog r\u0251ns here.", "letters of another script"),
    ],
)
def test_rubbish_is_told_from_language(answer: str, reason: str) -> None:
    assert reason in fault(RULES, answer, PROMPT, DOG)
    outcome = grade(answer)
    assert outcome.reward == 0.0 and (outcome.parts.get("fluent", 0.0) == 0.0)


def test_rubbish_scores_nothing_although_it_keeps_the_rule() -> None:
    found = grade("dog dog dog dog")
    assert found.parts == {"words_least": 1.0, "strict": 1.0, "loose": 1.0, "fluent": 0.0}
    assert (found.reward, found.reason) == (0.0, "degenerate: one word 4 times in a row")


def test_a_script_that_is_asked_for_is_read_back() -> None:
    assert fault(RULES, "Τηε δογ ρθνσ ηερε.", PROMPT, DOG, "Greek") != ""  # θ is q here
    assert fault(RULES, "Τηε δογ ρυνσ ηερε.", PROMPT, DOG, "Greek") == ""
    assert fault(RULES, RIGHT, PROMPT, DOG, "Greek") == "letters of another script"


def test_rules_are_options() -> None:
    assert grade("dog dog dog dog", Config(rules=Rules(max_run=9, min_function=0.0, min_variety=0.0))).reward == 1.0
    assert fluency(Rules(min_words=5), said(RIGHT), RIGHT) == "fewer than 5 words"


def test_runs_are_counted() -> None:
    assert [longest_run(words) for words in ([], ["a"], ["a", "b", "b"], ["a", "a", "a", "b"])] == [0, 1, 2, 3]


@pytest.fixture
def judge() -> Iterator[Talker]:
    with talking() as model:
        yield model


def judged(judge: Talker) -> Config:
    return Config.model_validate({"judge": address(judge.url)})


def address(url: str) -> dict[str, Any]:
    return {"base_url": url, "model": "judge", "max_retries": 0, "timeout_s": 5.0}


@pytest.mark.parametrize(
    ("verdict", "reward"), [("Yes", 1.0), ("no.", 0.0), (" *Yes*, it is.", 1.0), ("No, a trick", 0.0)]
)
def test_a_model_has_the_last_word(judge: Talker, verdict: str, reward: float) -> None:
    judge.says = Reply(verdict)
    found = grade(RIGHT, judged(judge))
    assert found.reward == found.parts["judge"] == reward
    (asked,) = judge.asked
    assert asked["model"] == "judge" and PROMPT in asked["messages"][0]["content"]
    assert RIGHT in asked["messages"][0]["content"]


def test_a_model_is_asked_only_about_what_passed(judge: Talker) -> None:
    judge.says = Reply("yes")
    for answer in ("The dog.", "dog dog dog dog", "", "<think>"):
        assert grade(answer, judged(judge)).reward == 0.0
    assert judge.asked == []


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("maybe"), "neither yes nor no"),
        (Reply(""), "neither yes nor no"),
        (Reply(status=200, body="{}"), "not a chat completion"),
        (Reply(status=200, body="<html>"), "not a chat completion"),
        (Reply(status=200, body='{"choices": []}'), "not a chat completion"),
        (Reply(status=500, body="broken"), "status 500"),
        (Reply(status=429, body="busy"), "status 429"),
    ],
)
def test_a_fault_of_the_judge_is_unknown_and_never_zero(judge: Talker, reply: Reply, reason: str) -> None:
    judge.says = reply
    found = grade(RIGHT, judged(judge))
    assert found.reward is None and reason in found.reason


def test_a_judge_that_is_not_there_is_unknown() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = grade(RIGHT, Config.model_validate({"judge": address(f"http://127.0.0.1:{port}/v1")}))
    assert found.reward is None and "APIConnectionError" in found.reason


def test_an_unknown_outcome_is_asked_for_again_and_a_known_one_is_kept(judge: Talker) -> None:
    world = build(judged(judge), None)
    episode = world.open(TASK)
    episode.act(RIGHT)
    judge.says = Reply("hm")
    assert episode.grade().reward is None
    judge.says = Reply("yes")
    assert episode.grade().reward == episode.grade().reward == episode.fork().grade().reward == 1.0
    assert len(judge.asked) == 2
    world.close()


def test_a_judge_that_refuses_the_key_is_the_users_fault(judge: Talker) -> None:
    judge.says = Reply(status=401, body="{}")
    with pytest.raises(UserError, match=r"check judge\.base_url"):
        grade(RIGHT, judged(judge))
