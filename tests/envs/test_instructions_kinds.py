"""The kinds of constraints: each on answers written by hand, and its edits, which must mend and spoil."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.envs.instructions import admission, measures
from noria.envs.instructions.conflicts import AXIOMS
from noria.envs.instructions.grammar import Constraint, bounds, related
from noria.envs.instructions.kinds import all_kinds
from noria.envs.instructions.lexicon import SCRIPTS, TOPICS, to_latin, to_script
from noria.envs.instructions.pens import Pen, StuckError

KINDS = all_kinds()
THREE = "The dog runs. It eats. It naps."
#: Kind -> values, answers that keep it, answers that do not.
CASES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "words": ({"n": 4}, ["A dog runs now.", "- a b\n2 _"], ["A dog runs.", "A dog runs right now.", ""]),
    "words_least": ({"n": 3}, ["a b c", "a b c d"], ["a b", "..."]),
    "words_most": ({"n": 3}, ["a b c", "a"], ["a b c d", "it's a b"]),
    "words_above": ({"n": 3}, ["a b c d"], ["a b c"]),
    "words_below": ({"n": 3}, ["a b"], ["a b c"]),
    "words_between": ({"lo": 2, "hi": 3}, ["a b", "a b c"], ["a", "a b c d"]),
    "sentences": ({"n": 2}, ["A dog. A cat.", "A dog\nA cat", "A! B?", "<<Dogs>>\nA 3.5 b. C."],
                  [THREE, "A dog.", "Dogs:"]),
    "sentences_least": ({"n": 2}, [THREE, "A. B."], ["A."]),
    "sentences_below": ({"n": 3}, ["A. B."], [THREE]),
    "sentence_most": ({"n": 3}, [THREE], ["A dog runs now. It eats."]),
    "sentence_least": ({"n": 2}, [THREE], ["Dogs. It eats.", ""]),
    "sentence_words": ({"n": 2}, ["It eats. It naps.", "1. It eats.\n2. It naps."], [THREE, ""]),
    "paragraphs": ({"n": 2}, ["A dog.\n\nIt runs.", "A.\n \n\nB.\n\n***"], ["A dog.\nIt runs.", "A.\n\nB.\n\nC."]),
    "paragraphs_least": ({"n": 2}, ["A.\n\nB.", "A.\n\nB.\n\nC."], ["A."]),
    "lines": ({"n": 2}, ["A\nB", "A\n\nB\n"], ["A", "A\nB\nC"]),
    "bullets": ({"n": 2}, ["- a\n- b", "* a\n* b\nc"], ["- a", "-a\n-b", "**a**\n**b**"]),
    "bullets_least": ({"n": 2}, ["- a\n- b\n- c"], ["- a\nb"]),
    "items": ({"n": 2}, ["1. a\n2. b"], ["1. a", "1) a\n2) b"]),
    "sections": ({"w": "Part", "n": 2}, ["Part 1:\na\nPart 2:\nb"],
                 ["Part 1:\na", "Part 1:\na\nPart 3:\nb", "Part 1: a\nPart 2: b"]),
    "answers": ({"n": 2}, ["a dog\n***\na cat", "a\n *****\nb"], ["a", "a\n***\nA", "a\n***\n", "a *** b"]),
    "keyword": ({"w": "red"}, ["A Red dog.", "red"], ["A tired dog.", "reds"]),
    "keyword_times": ({"w": "red", "n": 2}, ["red RED"], ["red", "red red red"]),
    "keyword_least": ({"w": "red", "n": 2}, ["red red red"], ["red", "redder reds"]),
    "topic_times": ({"w": "dog", "n": 1}, [THREE], ["dog dog", "dogs"]),
    "topic_most": ({"w": "dog", "n": 1}, [THREE, "It runs."], ["dog dog"]),
    "forbidden": ({"w": "the"}, ["Then a dog.", ""], [THREE, "Thé dog."]),
    "letter_least": ({"l": "b", "n": 2}, ["Big b"], ["big"]),
    "letter_most": ({"l": "e", "n": 1}, ["The dog."], ["The bee.", "Théé"]),
    "letter_none": ({"l": "e"}, ["A dog."], ["The dog.", "Thé dog.", "Ė"]),
    "initials": ({"l": "b", "n": 2}, ["A Big bird."], ["A big crab."]),
    "commonest": ({"n": 1}, ["The dog runs."], ["The dog and the cat."]),
    "short_words": ({"n": 4}, ["The dog runs."], ["A horse."]),
    "long_words": ({"k": 6, "n": 2}, ["A gentle kitten."], ["A gentle horse."]),
    "both_words": ({"w": "red", "v": "now"}, ["Now a red dog."], ["A red dog.", "redness now"]),
    "word_before": ({"w": "red", "v": "now"}, ["A red dog now.", "red now red"], ["Now a red dog.", "red", "now"]),
    "word_after": ({"w": "red", "v": "now"}, ["Now a red dog."], ["A red dog now.", "red"]),
    "first_word": ({"w": "now"}, ["Now it runs.", '"*now*, a"'], ["A now.", "Nowhere.", ""]),
    "first_not": ({"w": "the"}, ["A dog."], ["The dog.", "", "..."]),
    "first_letter": ({"w": "n"}, ["Now.", '"- now'], ["A n.", ""]),
    "nth_starts": ({"k": 2, "w": "now"}, ["A dog. Now it runs."], ["Now. A dog.", "Now.", "A. So now."]),
    "opening_form": ({"w": "now", "v": "here"}, ["Now it runs here. A.", "now HERE"],
                     ["Now it runs. Here.", "A here.", ""]),
    "nth_contains": ({"k": 2, "w": "red"}, ["A. The red dog."], ["Red. A.", "red"]),
    "all_start": ({"w": "now"}, ["Now a. Now b."], ["Now a. B.", ""]),
    "disorder": ({}, ["A dog. It runs. The end."], ["The dog. It runs."]),
    "last_word": ({"w": "now"}, ["It runs now!", "(now)"], ["Now it runs.", ""]),
    "closing": ({"w": "The end."}, ["A dog. The end.", '"A dog. The end."\n', "A *The end.*"],
                ["A dog. the end.", "The end. A dog.", "xThe end.", ""]),
    "all_end": ({"w": "now"}, ["A now. B now!"], ["A now. B.", ""]),
    "rhymes": ({}, ["It runs. It is big."], ["It runs. He turns.", "A cat. A hat."]),
    "all_small": ({}, ["a dog.", "1 ünder"], ["A dog."]),
    "all_capitals": ({}, ["A DOG."], ["A DOg."]),
    "title_case": ({}, ["The Dog 3 Runs."], ["The dog."]),
    "loud_words": ({"n": 1}, ["A DOG."], ["A dog.", "A BIG DOG.", "I A"]),
    "loud_least": ({"n": 1}, ["A BIG DOG."], ["A Dog."]),
    "capital_share": ({"n": 50}, ["AB cd", "ABC"], ["ABc def", "", "12"]),
    "no_commas": ({}, ["a b"], ["a, b"]),
    "commas": ({"n": 1}, ["a, b"], ["a b", "a, b, c"]),
    "no_stops": ({}, ["A dog!"], ["A dog."]),
    "bangs": ({"n": 1}, ["A! B."], ["A.", "A! B!"]),
    "all_bangs": ({}, ["A! B!"], ["A! B.", "A", ""]),
    "questions": ({"n": 1}, ["A? B."], ["A.", "A? B?"]),
    "numbers": ({"n": 1}, ["At 7 now."], ["At seven.", "7 8", "a7"]),
    "title": ({}, ["<<Dogs>>\nA dog."], ["A <<dog>> runs.", "<< >>\na", "<Dogs>\na"]),
    "postscript": ({}, ["A.\nP.S. It is big."], ["A. P.S. It is big.", "A.\nP.S."]),
    "quoted": ({}, ['"A dog."\n'], ['A "dog."', '"', '""', '"A']),
    "starred": ({"n": 1}, ["A *dog*.", "*a b*"], ["A dog*.", "a * b *", "**"]),
    "boxed": ({"n": 1}, ["A [dog]."], ["A []", "[ ]", "(dog)", "[a\nb]"]),
    "json": ({"w": "text"}, ['{"text": "A dog."}', ' {"text":"a"}\n'],
             ['{"text": ""}', '{"note": "a"}', '{"text": "a", "b": 1}', '["text"]', "{text: a}", '{"text": 1}',
              "[" * 99_999]),
    "pairs": ({}, ["Dog: it runs.\nCat: 3"], ["Dog: it runs.\nIt naps.", "big dog: a", "Dog:", ""]),
    "script": ({"w": "Greek"}, ["Τηε δογ.", "η 3!"], ["The dog.", "Τηε dog.", "Дог", "3", ""]),
}  # fmt: skip


def fresh(name: str, seed: int) -> tuple[Constraint, admission.Topic, random.Random]:
    rng = random.Random(f"{name}{seed}")
    topic = rng.choice(list(TOPICS.values()))
    return Constraint(KINDS[name], KINDS[name].draw(rng, topic)), topic, rng


def test_there_are_many_kinds_and_each_has_a_case() -> None:
    assert len(KINDS) == len(CASES) == 69 and KINDS.keys() == CASES.keys()
    assert sum(kind.unseen for kind in KINDS.values()) == 12
    assert len({kind.relation for kind in KINDS.values()}) == 16


@pytest.mark.parametrize("name", KINDS)
def test_answers_written_by_hand(name: str) -> None:
    values, good, bad = CASES[name]
    constraint = Constraint(KINDS[name], values)
    assert [answer for answer in good if not constraint.holds(answer)] == []
    assert [answer for answer in bad if constraint.holds(answer)] == []


@pytest.mark.parametrize("name", KINDS)
def test_edits_mend_and_spoil(name: str) -> None:
    built = spoilt = 0
    for seed in range(8):
        constraint, topic, rng = fresh(name, seed)
        draft = admission.build([constraint], topic, rng)
        if draft is None:
            continue
        built += 1
        assert constraint.holds(draft.render())
        wrong = draft.copy()
        try:
            constraint.kind.spoil(Pen(rng), wrong, constraint.values)
        except StuckError:
            continue
        spoilt += not constraint.holds(wrong.render())
        assert constraint.holds(draft.render())  # the copy was edited, not the draft
    assert built >= 7 and spoilt >= 5


@pytest.mark.parametrize("name", KINDS)
def test_wordings_say_all_values(name: str) -> None:
    kind = KINDS[name]
    assert len(kind.wordings) >= 2 and name in kind.name
    for seed in range(10):
        constraint, _, rng = fresh(name, seed)
        assert json.loads(json.dumps(constraint.to_json())) == constraint.to_json()
        text = constraint.wording(rng)
        assert text.isascii() and len(text.split()) <= 16 and text[0].isupper()
        for value in constraint.values.values():
            assert str(value) in text and (str(value) in constraint.note())


def test_one_is_singular() -> None:
    one = Constraint(KINDS["sentences"], {"n": 1})
    assert all("sentences" not in one.wording(random.Random(seed)) for seed in range(9))


@pytest.mark.parametrize(
    ("relation", "allowed"),
    [("=", (3, 3)), ("<", (0, 2)), ("<=", (0, 3)), (">", (4, float("inf"))), (">=", (3, float("inf")))],
)
def test_relations_are_intervals(relation: Any, allowed: tuple[float, float]) -> None:
    assert bounds(relation, {"n": 3}) == allowed
    for found in range(8):
        naive = {"=": found == 3, "<": found < 3, "<=": found <= 3, ">": found > 3, ">=": found >= 3}[relation]
        assert related(relation, found, {"n": 3}) is naive


PIECES = st.lists(
    st.sampled_from(
        ["the", "Dog", "RUNS", "a", " ", "  ", "\n", "\n\n", ".", "!", "?", ",", "- ", "* ", "1. ", "***", "\n***\n",
         "P.S. ", "Part 1:\n", "Part 2:\n", "<<T>>\n", "[b]", "*c*", '"', "7", "A1", "É", "ß", "К", "ω",
         "İ", "\u212a", "_", "'", ": "]
    ),
    max_size=14,
).map("".join)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=40), PIECES)


@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(TEXTS)
def test_measures_agree_with_naive_ones(text: str) -> None:
    ascii_text = "".join(sign for sign in text if sign.isascii())
    tokens = "".join(sign if sign.isalnum() or sign == "_" else " " for sign in ascii_text).split()
    assert measures.words(ascii_text) == tokens
    assert measures.occurrences(ascii_text, "dog") == sum(token.lower() == "dog" for token in tokens)
    assert measures.initials(ascii_text, "d") == sum(token[0] in "dD" for token in tokens)
    assert measures.letter(ascii_text, "a") == ascii_text.count("a") + ascii_text.count("A")
    assert measures.longest(ascii_text) == max([len(token) for token in tokens], default=0)
    assert measures.loud(ascii_text) == sum(
        len(t) > 1 and re.search("[A-Z]", t) is not None and t == t.upper() for t in tokens
    )
    assert measures.small_initials(ascii_text) == sum(token[0] in "abcdefghijklmnopqrstuvwxyz" for token in tokens)
    assert len(measures.lines(text)) == len([line for line in text.split("\n") if line.strip() != ""])


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(TEXTS)
def test_axioms_hold_for_any_text(text: str) -> None:
    count = {kind.facet: kind.measure(text, {}) for kind in KINDS.values() if kind.facet and "{" not in kind.facet}
    for small, factor, big in AXIOMS:
        assert factor * count[small] <= count[big], f"{factor} {small} <= {big}"
    for letter in "dt":
        assert measures.initials(text, letter) <= measures.letter(text, letter)
        assert measures.initials(text, letter) <= count["words"]
    said = measures.occurrences(text, "dog")
    assert said <= count["commonest"] and said <= measures.letter(text, "g") and said <= measures.initials(text, "d")
    assert measures.sections(text, "Part") <= min(measures.occurrences(text, "part"), count["numbers"], count["lines"])
    assert count["shortest sentence"] * count["sentences"] <= count["words"]
    assert not said or (count["longest word"] >= 3 and measures.of_length(text, 3) >= said)
    assert not count["upper share"] or count["upper"]
    assert count["lower"] or not count["upper"] or count["upper share"] == 100


@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(TEXTS, st.sampled_from(sorted(KINDS)))
def test_what_a_kept_constraint_claims_is_so(text: str, name: str) -> None:
    constraint = Constraint(KINDS[name], CASES[name][0])
    for answer in (text, *CASES[name][1], f"{text}\n{CASES[name][1][0]}"):
        if not constraint.holds(answer):
            continue
        for facet, (lo, hi) in constraint.claims().items():
            head, _, value = facet.partition(":")
            measured = {
                "count": lambda value=value, answer=answer: measures.occurrences(answer, value),
                "letter": lambda value=value, answer=answer: measures.letter(answer, value),
                "latin": lambda answer=answer: sum("a" <= sign <= "z" for sign in answer.lower()),
            }.get(head) or (
                lambda facet=facet, answer=answer: next(
                    kind.measure(answer, constraint.values) for kind in KINDS.values()
                    if kind.facet.format(**{"w": "", "l": "", "n": "", "k": "", **constraint.values}) == facet
                )
            )  # fmt: skip
            assert lo <= measured() <= hi, f"{facet} of {answer!r}"


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_can_be_read_back(script: str) -> None:
    text = "The quick brown fox jumps over the lazy dog. QUIZ"
    there = to_script(text, script)
    assert to_latin(there) == text and measures.strangers(there, script.upper()) == 0
    assert len(set(SCRIPTS[script])) == 26
