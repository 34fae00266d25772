"""Criteria that can be measured: each gives a text a score in [0, 1]; none raises, whatever the text is.

general  any text: its length, sentences, capitals, variety, whether it is about the thing at all
genre    any letter, notice, story …: its form, person, tense
task     this brief: each of its points in a real sentence, their order, the tone asked for
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from noria.envs.writing.drafts import Brief
from noria.envs.writing.genres import GENRES
from noria.graders.prose import FUNCTION_WORDS, sentences, words

Level = Literal["general", "genre", "task"]
Measure = Callable[[str, Brief], float]

#: Words of a sentence that says something; of a list of keywords none does.
_LEAST_SENTENCE = 4
_LONGEST_SENTENCE = 20
#: Least share of words such as the and is in a sentence.
_SMALL = 0.15
_VARIETY = 0.6
_FIRST = frozenset({"i", "me", "my", "mine"})
_SECOND = frozenset({"you", "your", "yours"})
_POLITE = frozenset({"please", "thank", "thanks", "kindly"})
_ORDER = ("first", "then", "next", "later", "at last", "in the end", "finally")
_PAST = frozenset({
    "was", "were", "had", "did", "lost", "found", "came", "went", "saw", "met", "felt", "said", "took", "got", "made",
    "ran", "told", "gave", "knew", "thought", "left", "slept", "wrote",
})  # fmt: skip
_PRESENT = frozenset({
    "is", "are", "am", "has", "have", "does", "do", "goes", "comes", "loses", "finds", "looks", "helps", "sees", "want",
    "wants", "begins", "takes", "say",
})  # fmt: skip
_VERDICTS = frozenset({"good", "bad", "fine", "poor", "great", "excellent", "worth", "worthless"})
_VERBS = frozenset({
    "heat", "put", "add", "stir", "wait", "cook", "serve", "pour", "boil", "mix", "cut", "let", "take", "bring",
    "cover", "fill", "wash", "peel", "simmer", "turn", "keep", "remove",
})  # fmt: skip
_STEP = re.compile(r"^[ \t]*(\d+)[.)][ \t]+(\S.*)$", re.MULTILINE)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _ratio(found: float, wanted: float) -> float:
    return min(1.0, found / wanted) if wanted > 0 else 1.0


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0


def length(text: str, brief: Brief) -> float:
    """1 within the words asked for, falling with the share that is missing or too much."""
    n = len(words(text))
    if brief.least <= n <= brief.most:
        return 1.0
    return n / brief.least if n < brief.least else max(0.0, 1.0 - (n - brief.most) / brief.most)


def sentence_form(text: str, brief: Brief) -> float:
    """Share of lines of four words or more that end with a mark."""
    long = [line for line in _lines(text) if len(words(line)) > _LEAST_SENTENCE]
    return _share([line[-1] in ".!?:" for line in long])


def capitals(text: str, brief: Brief) -> float:
    """Share of sentences that begin with a capital letter, and of the word I that is one, less what is shouted."""
    starts = [m[0] for m in re.findall(r"(?:^|(?<=[.!?]\s))[ \t]*(?:\d+[.)][ \t]+)?([^\W\d_])", text, re.MULTILINE)]
    ego = [word == "I" for word in re.findall(r"\b[iI]\b", text)]
    long = re.findall(r"[^\W\d_]{2,}", text)
    return _share([letter.isupper() for letter in starts] + ego) * (1.0 - _share([word.isupper() for word in long]))


def sentence_length(text: str, brief: Brief) -> float:
    """Share of sentences of at most twenty words."""
    return _share([len(held) <= _LONGEST_SENTENCE for held in sentences(text)])


def variety(text: str, brief: Brief) -> float:
    """Different pairs of neighbours and different openings of sentences, against what is usual."""
    said = words(text)
    pairs = list(pairwise(said))
    openings = [tuple(held[:2]) for held in sentences(text) if len(held) >= _LEAST_SENTENCE]
    by_word = _ratio(len(set(said)) / len(said), _VARIETY) if said else 0.0
    by_pair = len(set(pairs)) / len(pairs) if pairs else 0.0
    return min(by_word, _ratio(by_pair, 0.9), _ratio(len(set(openings)), len(openings)))


def topic(text: str, brief: Brief) -> float:
    """Whether any word that the brief is about stands in the text."""
    about = {word for point in brief.points for need in point.need for word in words(need)}
    return float(bool(about & set(words(text))))


def greeting(text: str, brief: Brief) -> float:
    """A first line of its own that greets who is written to; half for a greeting of somebody."""
    first = _lines(text)[:1]
    if not first or len(words(first[0])) > _LEAST_SENTENCE or words(first[0])[:1] not in (["dear"], ["hello"]):
        return 0.0
    return 1.0 if brief.slots.get("to", "").lower() in words(first[0]) else 0.5


def closing(text: str, brief: Brief) -> float:
    """A last line with the sender's name alone; half where it closes without one."""
    last = _lines(text)[-2:]
    if len(last) < 2 or any(len(words(line)) > _LEAST_SENTENCE for line in last[-1:]):
        return 0.0
    return 1.0 if words(last[-1])[-1:] == words(brief.slots.get("from", "")) else 0.5


def title(text: str, brief: Brief) -> float:
    """A first line of two to eight words that is no sentence, over more lines."""
    found = _lines(text)
    return float(len(found) > 1 and 2 <= len(words(found[0])) <= 8 and found[0][-1] not in ".!?,;")


def heading(text: str, brief: Brief) -> float:
    """A first line that names the dish."""
    found = _lines(text)
    return float(len(found) > 1 and brief.slots.get("dish", "") in words(found[0]) and not _STEP.match(found[0]))


def date_line(text: str, brief: Brief) -> float:
    """A first line that is the day and no more than three words."""
    found = _lines(text)
    named = bool(found) and brief.slots.get("day", "").lower() in words(found[0])
    return float(named and len(found) > 1 and len(words(found[0])) <= 3)


def steps(text: str, brief: Brief) -> float:
    """Numbered lines from 1 on without a gap, three or more."""
    numbers = [int(found) for found, _ in _STEP.findall(text[:20_000]) if len(found) < 4]
    held = 0
    for number in numbers:
        if number != held + 1:
            return 0.0
        held = number
    return _ratio(held, 3)


def imperative(text: str, brief: Brief) -> float:
    """Share of numbered lines that begin with what is to be done."""
    return _share([bool(words(said)) and words(said)[0] in _VERBS for _, said in _STEP.findall(text)])


def first_person(text: str, brief: Brief) -> float:
    """Two words such as I and my or more."""
    return _ratio(sum(word in _FIRST for word in words(text)), 2)


def no_first_person(text: str, brief: Brief) -> float:
    """No word such as I and my."""
    return float(not any(word in _FIRST for word in words(text)))


def second_person(text: str, brief: Brief) -> float:
    """Speaks to somebody."""
    return float(any(word in _SECOND for word in words(text)))


def past(text: str, brief: Brief) -> float:
    """Share of past forms among verbs whose tense shows, against nine in ten."""
    said = words(text)
    before = sum(word in _PAST or (len(word) > 4 and word.endswith("ed")) for word in said)
    now = sum(word in _PRESENT for word in said)
    return _ratio(before / (before + now), 0.9) if before else 0.0


def sequence(text: str, brief: Brief) -> float:
    """Two different words that tell the order of events, or more."""
    low = " " + " ".join(words(text)) + " "
    return _ratio(sum(f" {each} " in low for each in _ORDER), 2)


def verdict(text: str, brief: Brief) -> float:
    """Says whether it is good."""
    return float(any(word in _VERDICTS for word in words(text)))


def polite(text: str, brief: Brief) -> float:
    """Asks and thanks: two polite words or more."""
    return _ratio(sum(word in _POLITE for word in words(text)), 2)


def points_in_order(text: str, brief: Brief) -> float:
    """Share of neighbouring points that are both made, and in the order in which they are asked for."""
    places = [_place(text, brief, k) for k in range(len(brief.points))]
    kept = [a is not None and b is not None and a <= b for a, b in pairwise(places)]
    return _share(kept) if kept else 1.0


def point(k: int) -> Measure:
    """Whether one sentence that says something holds all words of point `k`; half where they stand apart."""

    def measure(text: str, brief: Brief) -> float:
        if _place(text, brief, k) is not None:
            return 1.0
        said = set(words(text))
        return 0.5 if all(said & {word.lower()} for word in brief.points[k].need) and _is_said(words(text)) else 0.0

    return measure


def _place(text: str, brief: Brief, k: int) -> int | None:
    need = {word.lower() for word in brief.points[k].need}
    found = (i for i, held in enumerate(sentences(text)) if need <= set(held) and _is_said(held))
    return next(found, None)


def _is_said(held: Sequence[str]) -> bool:
    """Whether words are a sentence and not a list of keywords."""
    small = sum(word in FUNCTION_WORDS for word in held)
    return len(held) >= _LEAST_SENTENCE and small >= _SMALL * len(held)


GENERAL: tuple[Measure, ...] = (length, sentence_form, capitals, sentence_length, variety, topic)
OF_GENRE: tuple[Measure, ...] = (
    greeting, closing, title, heading, date_line, steps, imperative, first_person, no_first_person, second_person, past,
    sequence, verdict,
)  # fmt: skip
POINTS = 3
MEASURES: Mapping[str, Measure] = {
    **{measure.__name__: measure for measure in (*GENERAL, *OF_GENRE, polite, points_in_order)},
    **{f"point_{k + 1}": point(k) for k in range(POINTS)},
}  # fmt: skip


def candidates(genre: str) -> list[tuple[str, Level]]:
    """Names and levels of the criteria that a task of a genre may have, from coarse to fine."""
    found = GENRES[genre]
    fine = [*(f"point_{k + 1}" for k in range(POINTS)), "points_in_order", *filter(None, (found.tone[1],))]
    return [
        *((measure.__name__, "general") for measure in GENERAL),
        *((name, "genre") for name in found.criteria),
        *((name, "task") for name in fine),
    ]


def wording(name: str, brief: Brief) -> str:
    """A criterion in words, for a judge that is a model."""
    if name.startswith("point_"):
        return f"Says {brief.points[int(name[6:]) - 1].ask}, in a real sentence."
    if name == "length":
        return f"Has {brief.least} to {brief.most} words."
    return (MEASURES[name].__doc__ or name).partition("\n")[0]
