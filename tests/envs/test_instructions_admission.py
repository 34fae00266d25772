"""Composition: what is refused and why, that a proof of conflict is one, and that what is admitted can be done."""

from __future__ import annotations

import random
from itertools import combinations, islice
from typing import Any

import pytest

from noria.envs.instructions import Config, admission, build
from noria.envs.instructions.conflicts import conflict, redundant
from noria.envs.instructions.grammar import Constraint
from noria.envs.instructions.kinds import all_kinds
from noria.envs.instructions.lexicon import TOPICS
from noria.envs.instructions.pens import Pen

KINDS = all_kinds()
WORLD = build(Config(constraints=(2, 3)), None)
TASKS = [*WORLD.tasks("train", 60, 3), *WORLD.tasks("unseen", 40, 3)]


def some(*named: tuple[str, dict[str, Any]]) -> list[Constraint]:
    return [Constraint(KINDS[name], values) for name, values in named]


@pytest.mark.parametrize(
    ("constraints", "reason"),
    [
        ([("words", {"n": 4}), ("words_least", {"n": 9})], "words would have to be at least 9 and at most 4"),
        ([("words_most", {"n": 4}), ("sentences", {"n": 5})], "words"),
        ([("words_below", {"n": 5}), ("keyword_least", {"w": "red", "n": 5})], "words"),
        ([("words", {"n": 5}), ("sentence_words", {"n": 6})], "words"),
        ([("sentence_words", {"n": 4}), ("sentences", {"n": 3}), ("words_below", {"n": 12})], "sentences"),
        ([("sentence_least", {"n": 6}), ("sentence_most", {"n": 5})], "sentence"),
        ([("lines", {"n": 2}), ("bullets", {"n": 3})], "lines"),
        ([("lines", {"n": 1}), ("paragraphs", {"n": 2})], "lines"),
        ([("all_small", {}), ("loud_words", {"n": 1})], "upper"),
        ([("all_small", {}), ("capital_share", {"n": 20})], "upper"),
        ([("all_small", {}), ("postscript", {})], "upper"),
        ([("all_capitals", {}), ("closing", {"w": "The end."})], "lower"),
        ([("no_stops", {}), ("closing", {"w": "The end."})], "stops"),
        ([("no_stops", {}), ("items", {"n": 2})], "stops"),
        ([("letter_none", {"l": "o"}), ("keyword", {"w": "box"})], "letter:o"),
        ([("letter_most", {"l": "e", "n": 1}), ("first_word", {"w": "here"})], "letter:e"),
        ([("short_words", {"n": 4}), ("keyword", {"w": "friend"})], "longest word"),
        ([("short_words", {"n": 4}), ("long_words", {"k": 6, "n": 1})], "longest word"),
        ([("commonest", {"n": 1}), ("keyword_times", {"w": "red", "n": 2})], "commonest"),
        ([("forbidden", {"w": "it"}), ("both_words", {"w": "it", "v": "red"})], "count:it"),
        ([("sentences", {"n": 1}), ("nth_starts", {"k": 2, "w": "now"})], "sentences"),
        ([("script", {"w": "Greek"}), ("keyword", {"w": "red"})], "latin"),
        ([("json", {"w": "text"}), ("quoted", {})], "quoted"),
        ([("sections", {"w": "Part", "n": 3}), ("numbers", {"n": 2})], "sections:Part"),
    ],
)
def test_conflicts_are_proved(constraints: list[tuple[str, dict[str, Any]]], reason: str) -> None:
    assert reason in conflict(some(*constraints))
    assert admission.refusal(some(*constraints), TOPICS["dog"], 1.0) == "conflict"
    assert conflict(some(*reversed(constraints)))
    for one in constraints:
        assert conflict(some(one)) == ""


@pytest.mark.parametrize(
    ("constraints", "name"),
    [
        ([("words", {"n": 9}), ("words_least", {"n": 4})], "words_least"),
        ([("bullets", {"n": 3}), ("bullets_least", {"n": 2})], "bullets_least"),
        ([("keyword", {"w": "red"}), ("keyword_times", {"w": "red", "n": 2})], "keyword"),
        ([("keyword", {"w": "now"}), ("last_word", {"w": "now"})], "keyword"),
        ([("all_small", {}), ("words", {"n": 7})], ""),
        ([("words_least", {"n": 4}), ("words_most", {"n": 9})], ""),
    ],
)
def test_what_says_nothing_new_is_redundant(constraints: list[tuple[str, dict[str, Any]]], name: str) -> None:
    assert conflict(some(*constraints)) == ""
    assert redundant(some(*constraints)) == redundant(some(*reversed(constraints))) == name


def test_no_answer_keeps_what_is_proved_impossible() -> None:
    """An enumeration: of random pairs in conflict, no known text keeps both; of the others, many are kept together."""
    rng = random.Random(5)
    texts = [text for task in TASKS if (text := admission.reference(task, WORLD.config.rules))]
    for topic in TOPICS.values():
        texts += [Pen(rng).plain(topic).render() for _ in range(3)]
    proved = kept = 0
    for _ in range(1500):
        topic = rng.choice(list(TOPICS.values()))
        pair = [Constraint(kind, kind.draw(rng, topic)) for kind in rng.sample(list(KINDS.values()), 2)]
        together = sum(all(one.holds(text) for one in pair) for text in texts)
        if conflict(pair):
            proved += 1
            assert together == 0, [one.to_json() for one in pair]
        kept += together > 0
    assert proved > 30 and kept > 200


def test_what_is_implied_holds_in_every_known_text() -> None:
    rng = random.Random(6)
    texts = [text for task in TASKS if (text := admission.reference(task, WORLD.config.rules))]
    found = 0
    for first, second in combinations(list(KINDS.values()), 2):
        pair = [Constraint(kind, kind.draw(rng, TOPICS["dog"])) for kind in (first, second)]
        name = redundant(pair) if not conflict(pair) else ""
        if name:
            found += 1
            other, implied = sorted(pair, key=lambda one: one.kind.name == name)
            assert all(implied.holds(text) for text in texts if other.holds(text))
    assert found > 5


def test_what_a_plain_answer_keeps_is_vacuous() -> None:
    dog = TOPICS["dog"]
    assert admission.refusal(some(("words_most", {"n": 99})), dog, 0.5) == "vacuous"
    assert admission.refusal(some(("all_capitals", {}), ("sentences_below", {"n": 9})), dog, 0.5) == "vacuous"
    assert admission.refusal(some(("words_most", {"n": 99})), dog, 1.0) == ""
    assert admission.refusal(some(("all_capitals", {})), dog, 0.5) == ""
    naive = [Pen(random.Random(f"plain:dog:{at}")).plain(dog).render() for at in range(16)]
    once = Constraint(KINDS["sentences"], {"n": 3})
    assert admission.plain_share(once, dog) == sum(once.holds(text) for text in naive) / 16


def test_no_admitted_task_is_kept_by_most_plain_answers() -> None:
    for task in TASKS:
        topic = TOPICS[task.data["topic"]]
        assert all(admission.plain_share(one, topic) <= 0.5 for one in admission.constraints_of(task))
        assert admission.refusal(admission.constraints_of(task), topic, 0.5) == ""


def test_the_reference_of_every_task_keeps_every_constraint() -> None:
    for task in TASKS:
        text = admission.reference(task, WORLD.config.rules)
        assert text and all(one.holds(text) for one in admission.constraints_of(task))
        assert all(one.wording(random.Random(0)) for one in admission.constraints_of(task))


def test_refusals_are_counted() -> None:
    tally = admission.Tally()
    drawn = list(islice(WORLD.stream("train", 4, tally), 40))
    assert tally.admitted == len(drawn) == 40
    assert tally.drawn == 40 + sum(tally.refused.values()) and set(tally.refused) <= set(admission.REFUSALS)
    assert tally.refused["conflict"] and tally.refused["vacuous"] and tally.refused["unbuilt"]
    judged = tally.drawn - tally.refused["other split"] - tally.refused["seen"]
    shares = [tally.share(reason) for reason in ("conflict", "redundant", "vacuous", "unbuilt")]
    assert sum(shares) == pytest.approx(1 - 40 / judged) and 0.1 < sum(shares) < 0.7


def test_a_filter_knows_what_it_saw_and_stays_as_large() -> None:
    seen = admission.Seen()
    digests = [admission.digest_of(TOPICS["dog"], some(("words", {"n": n}))) for n in range(3000)]
    assert all(seen.add(digest) for digest in digests)
    assert not any(seen.add(digest) for digest in digests)


def test_the_digest_ignores_the_order() -> None:
    pair = some(("words", {"n": 4}), ("keyword", {"w": "red"}))
    assert admission.digest_of(TOPICS["dog"], pair) == admission.digest_of(TOPICS["dog"], pair[::-1])
    assert admission.digest_of(TOPICS["dog"], pair) != admission.digest_of(TOPICS["cat"], pair)
