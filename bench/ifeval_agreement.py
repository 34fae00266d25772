"""How often our checkers agree with IFEval's, kind by kind, on generated answers.

    python bench/ifeval_agreement.py [--answers 200] [--json]

IFEval (Zhou et al. 2023, arXiv 2311.07911) is the outside reference for the kinds that both have. Its checkers come
from the package `if-verifiable` (Apache-2.0); nothing of it is part of this repository. Only its folder `ifeval` is
loaded, so `pip install --no-deps if-verifiable` with `langdetect`, `nltk`, `immutabledict` is enough. Answers are right
ones, ones spoilt on purpose, plain ones, and right ones of other kinds. IFEval's counts of sentences and of words in
capitals need the data `punkt` of nltk; without it those kinds are named as left out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noria.envs.instructions import admission
from noria.envs.instructions.grammar import Constraint, Values
from noria.envs.instructions.kinds import all_kinds
from noria.envs.instructions.lexicon import TOPICS, Topic
from noria.envs.instructions.measures import first_word
from noria.envs.instructions.pens import Pen, StuckError

PACKAGE = "if_verifiable"
Arguments = Callable[[Values, str], dict[str, Any]]

#: Our kind -> IFEval's id, its arguments for our values and the answer, and values that both can have.
SHARED: Mapping[str, tuple[str, Arguments, dict[str, Any]]] = {
    "keyword": ("keywords:existence", lambda v, _: {"keywords": [v["w"]]}, {}),
    "keyword_least": (
        "keywords:frequency", lambda v, _: {"keyword": v["w"], "frequency": v["n"], "relation": "at least"}, {},
    ),
    "forbidden": ("keywords:forbidden_words", lambda v, _: {"forbidden_words": [v["w"]]}, {}),
    "letter_least": (
        "keywords:letter_frequency",
        lambda v, _: {"letter": v["l"], "let_frequency": v["n"], "let_relation": "at least"}, {},
    ),
    "words_least": (
        "length_constraints:number_words", lambda v, _: {"num_words": v["n"], "relation": "at least"}, {},
    ),
    "words_below": (
        "length_constraints:number_words", lambda v, _: {"num_words": v["n"], "relation": "less than"}, {},
    ),
    "sentences_least": (
        "length_constraints:number_sentences", lambda v, _: {"num_sentences": v["n"], "relation": "at least"}, {},
    ),
    "sentences_below": (
        "length_constraints:number_sentences", lambda v, _: {"num_sentences": v["n"], "relation": "less than"}, {},
    ),
    # The word is always the right one, so that the number of paragraphs decides.
    "paragraphs": (
        "length_constraints:nth_paragraph_first_word",
        lambda v, text: {"num_paragraphs": v["n"], "nth_paragraph": 1, "first_word": first_word(text)}, {},
    ),
    "boxed": ("detectable_content:number_placeholders", lambda v, _: {"num_placeholders": v["n"]}, {}),
    "postscript": ("detectable_content:postscript", lambda v, _: {"postscript_marker": "P.S."}, {}),
    "bullets": ("detectable_format:number_bullet_lists", lambda v, _: {"num_bullets": v["n"]}, {}),
    "starred": ("detectable_format:number_highlighted_sections", lambda v, _: {"num_highlights": v["n"]}, {}),
    "sections": (
        "detectable_format:multiple_sections",
        lambda v, _: {"section_spliter": v["w"], "num_sections": v["n"]}, {"w": "Section"},
    ),
    "json": ("detectable_format:json_format", lambda v, _: {}, {}),
    "title": ("detectable_format:title", lambda v, _: {}, {}),
    "answers": ("combination:two_responses", lambda v, _: {}, {"n": 2}),
    "closing": ("startend:end_checker", lambda v, _: {"end_phrase": v["w"]}, {}),
    "quoted": ("startend:quotation", lambda v, _: {}, {}),
    "loud_least": (
        "change_case:capital_word_frequency",
        lambda v, _: {"capital_frequency": v["n"], "capital_relation": "at least"}, {},
    ),
    "all_capitals": ("change_case:english_capital", lambda v, _: {}, {}),
    "all_small": ("change_case:english_lowercase", lambda v, _: {}, {}),
    "no_commas": ("punctuation:no_comma", lambda v, _: {}, {}),
}  # fmt: skip


@dataclass
class Row:
    """What was found for one kind: answers, those that both pass and fail, and one on which they differ."""

    kind: str
    theirs: str
    n: int = 0
    both: int = 0
    neither: int = 0
    example: str = ""
    left_out: str = ""
    only: dict[str, int] = field(default_factory=lambda: {"ours": 0, "theirs": 0})

    @property
    def agreement(self) -> float:
        return (self.both + self.neither) / max(1, self.n)


def registry() -> Mapping[str, Any] | None:
    """IFEval's checkers by id; None where the package is missing. Leaves the package's own __init__ out."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        return None
    package = types.ModuleType(PACKAGE)
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules[PACKAGE] = package
    found: Mapping[str, Any] = importlib.import_module(f"{PACKAGE}.ifeval.instructions_registry").INSTRUCTION_DICT
    importlib.import_module("langdetect").DetectorFactory.seed = 0
    return found


def answers(constraint: Constraint, topic: Topic, rng: random.Random) -> list[str]:
    """A right answer, a spoilt one, a plain one, and one that keeps another kind; what cannot be built is left out."""
    other = rng.choice(list(all_kinds().values()))
    drafts = [admission.build([one], topic, rng) for one in (constraint, Constraint(other, other.draw(rng, topic)))]
    found = [draft.render() for draft in (*drafts, Pen(rng).plain(topic)) if draft]
    if drafts[0]:
        try:
            constraint.kind.spoil(Pen(rng), drafts[0], constraint.values)
            found.append(drafts[0].render())
        except StuckError:
            pass
    # IFEval parts two answers by six stars; ours takes three or more.
    return [text.replace("\n***\n", "\n******\n") for text in found]


def compare(name: str, checkers: Mapping[str, Any], count: int) -> Row:
    """Both checkers on `count` answers."""
    theirs, arguments, fixed = SHARED[name]
    row, kind = Row(name, theirs), all_kinds()[name]
    for seed in range(count):
        rng = random.Random(f"{name}:{seed}")
        topic = rng.choice(list(TOPICS.values()))
        constraint = Constraint(kind, {**kind.draw(rng, topic), **fixed})
        for text in answers(constraint, topic, rng):
            checker = checkers[theirs](theirs)
            try:
                checker.build_description(**arguments(constraint.values, text))
                passed = bool(checker.check_following(text))
            except LookupError:
                row.left_out = "its data (punkt of nltk) is missing"
                return row
            held = constraint.holds(text)
            row.n += 1
            row.both += held and passed
            row.neither += not held and not passed
            if held != passed:
                row.only["ours" if held else "theirs"] += 1
                row.example = row.example or text
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=200, help="draws of each kind; each gives up to four answers")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    checkers = registry()
    if checkers is None:
        print("skipped: package if-verifiable is not installed")
        return
    rows = [compare(name, checkers, args.answers) for name in SHARED]
    if args.json:
        print(json.dumps([row.__dict__ | {"agreement": row.agreement} for row in rows], indent=2))
        return
    for row in rows:
        if row.left_out:
            print(f"{row.kind:16} {row.theirs:46} left out: {row.left_out}")
            continue
        told = f"  as {row.example!r}" if row.example else ""
        print(f"{row.kind:16} {row.theirs:46} {row.agreement:7.4f} of {row.n}, only ours {row.only['ours']}, "
              f"only theirs {row.only['theirs']}{told}")  # fmt: skip
    compared = [row for row in rows if not row.left_out]
    total = sum(row.n for row in compared)
    agreed = sum(row.both + row.neither for row in compared)
    print(f"{len(compared)} kinds, {total} answers, agreement {agreed / max(1, total):.4f}")


if __name__ == "__main__":
    main()
