"""Constraints on which words and letters are used, and where they stand."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from noria.envs.instructions import edits, measures
from noria.envs.instructions.drafts import Draft, Sentence, Word
from noria.envs.instructions.grammar import Bounds, Edit, Kind, Values, counted
from noria.envs.instructions.lexicon import (
    CLOSINGS,
    KEY_ADVERBS,
    KEY_LOOKS,
    KEY_NOUNS,
    LOOKS_BY_LETTER,
    STARTERS,
    Topic,
)
from noria.envs.instructions.pens import Pen, StuckError

_KEYS = (*KEY_LOOKS, *KEY_ADVERBS, *KEY_NOUNS)
#: Words that most answers use, so that forbidding one means something.
_COMMON = ("the", "it", "is", "and")
_RARE_LETTERS = "bgkmpw"
_COMMON_LETTERS = "aeorst"
_PARTED = 0.5


def a_word(rng: random.Random, _topic: Topic) -> dict[str, Any]:
    """Value `w`: a word that an answer does not use by itself."""
    return {"w": rng.choice(_KEYS)}


def two_words(rng: random.Random, _topic: Topic) -> dict[str, Any]:
    """Values `w` and `v`."""
    first, second = rng.sample(_KEYS, 2)
    return {"w": first, "v": second}


def with_number(pool: tuple[str, ...] | str, key: str, lo: int, hi: int) -> Callable[..., dict[str, Any]]:
    """Values `key` from a pool and `n` from `lo` to `hi`."""
    return lambda rng, topic: {key: rng.choice(pool), "n": rng.randint(lo, hi)}


def kinds() -> tuple[Kind, ...]:
    """The kinds of this file."""
    return (*_frequencies(), *_letters(), *_choices(), *_orders(), *_places(), *_ends())


def said(values: Values) -> dict[str, Bounds]:
    """That the words of the values are in the text."""
    return {f"count:{values[key]}": (1.0, math.inf) for key in ("w", "v") if key in values}


def _frequencies() -> tuple[Kind, ...]:
    def entry(name: str, relation: Any, draw: Any, wordings: tuple[str, ...], note: str, layer: Any = "word") -> Kind:
        return counted(
            name, layer, "count:{w}", relation, lambda text, values: measures.occurrences(text, values["w"]), draw,
            wordings, note, edits.occurrences,
        )  # fmt: skip

    return (
        entry("keyword", "has", a_word, ("Use the word {w}.", "Say {w} in it.", "The word {w} must be in it."),
              "{w} in"),
        entry("keyword_times", "=", with_number(_KEYS, "w", 2, 3),
              ("Use the word {w} exactly {n} times.", "Say {w} {n} times."), "{w} = {n}"),
        entry("keyword_least", ">=", with_number(_KEYS, "w", 2, 3),
              ("Use the word {w} at least {n} times.", "Say {w} {n} times or more."), "{w} >= {n}"),
        entry("topic_times", "=", lambda rng, topic: {"w": topic.name, "n": rng.randint(1, 3)},
              ("Name the {w} {n} time{s}.", "Use the word {w} {n} time{s}."), "{w} = {n}"),
        entry("topic_most", "<=", lambda rng, topic: {"w": topic.name, "n": 1},
              ("Use the word {w} at most {n} time{s}.", "Do not say {w} more than {n} time{s}."), "{w} <= {n}"),
        entry("forbidden", "no", lambda rng, topic: {"w": rng.choice((*_COMMON, topic.name))},
              ("Do not use the word {w}.", "Never say {w}.", "The word {w} must not be in it."), "no {w}", "ban"),
    )  # fmt: skip


def _letters() -> tuple[Kind, ...]:
    def entry(name: str, relation: Any, draw: Any, wordings: tuple[str, ...], note: str, layer: Any = "length") -> Kind:
        return counted(
            name, layer, "letter:{l}", relation, lambda text, values: measures.letter(text, values["l"]), draw,
            wordings, note, edits.letters,
        )  # fmt: skip

    return (
        entry("letter_least", ">=", with_number(_RARE_LETTERS, "l", 2, 4),
              ("Use the letter {l} at least {n} times.", "Write the letter {l} {n} times or more."),
              "letter {l} >= {n}"),
        entry("letter_most", "<=", with_number(_COMMON_LETTERS, "l", 1, 3),
              ("Use the letter {l} at most {n} time{s}.", "Write no more than {n} times the letter {l}."),
              "letter {l} <= {n}"),
        entry("letter_none", "no", lambda rng, topic: {"l": rng.choice(_COMMON_LETTERS)},
              ("Do not use the letter {l}.", "Write it without the letter {l}."), "no letter {l}", "ban"),
        counted("initials", "word", "initials:{l}", ">=",
                lambda text, values: measures.initials(text, values["l"]),
                with_number(tuple(LOOKS_BY_LETTER), "l", 3, 5),
                ("Use at least {n} words that begin with {l}.", "Let {n} words or more begin with {l}."),
                "words on {l} >= {n}", edits.initials),
    )  # fmt: skip


def _choices() -> tuple[Kind, ...]:
    return (
        counted("commonest", "ban", "commonest", "<=", lambda text, values: measures.commonest(text),
                lambda rng, topic: {"n": rng.choice((1, 2))},
                ("Use no word more than {n} time{s}.", "No word may come more than {n} time{s}."), "any word <= {n}",
                edits.commonest),
        counted("short_words", "ban", "longest word", "<=", lambda text, values: measures.longest(text),
                lambda rng, topic: {"n": rng.choice((4, 5))},
                ("Use no word with more than {n} letters.", "Use words of at most {n} letters."), "letters <= {n}",
                edits.longest_word),
        counted("long_words", "word", "long:{k}", ">=", lambda text, values: measures.of_length(text, values["k"]),
                lambda rng, topic: {"k": 6, "n": rng.randint(1, 3)},
                ("Use at least {n} word{s} of {k} letters or more.", "Use {n} long word{s}, of {k} letters or more."),
                "words of {k} letters >= {n}", edits.long_words, unseen=True),
    )  # fmt: skip


def _spoken(relation: str) -> tuple[Edit, Edit]:
    """Edits for kinds that want two words: put both in, in order; swap them or leave one out."""

    def put(pen: Pen, draft: Draft, values: Values, order: tuple[str, str]) -> None:
        for word in draft.words():
            if word.text in order:
                word.keep, word.extra = False, True
        for sentence in draft.sentences():
            sentence.words = [word for word in sentence.words if word.text not in order or word.role == "end"]
        open_ = [sentence for sentence in draft.sentences() if not sentence.fixed and sentence.mark != "?"]
        if len(open_) < 2:
            raise StuckError("the words need two sentences")
        for text, places in zip(order, (open_[:1], open_[1:]), strict=True):
            if not any(pen.place(draft, sentence, text) for sentence in places):
                raise StuckError("no sentence takes the word")

    def mend(pen: Pen, draft: Draft, values: Values) -> None:
        first, second = str(values["w"]), str(values["v"])
        put(pen, draft, values, (second, first) if relation == "after" else (first, second))

    def spoil(pen: Pen, draft: Draft, values: Values) -> None:
        first, second = str(values["w"]), str(values["v"])
        if relation == "contains" or pen.rng.random() < _PARTED:
            gone = pen.rng.choice((first, second))
            edits.occurrences(pen, draft, {"w": gone}, (0, 0))
        else:
            put(pen, draft, values, (first, second) if relation == "after" else (second, first))

    return mend, spoil


def _orders() -> tuple[Kind, ...]:
    def entry(name: str, relation: Any, wordings: tuple[str, ...], note: str, unseen: bool = False) -> Kind:
        mend, spoil = _spoken(relation)
        return Kind(
            name, "word", lambda text, values: measures.low_words(text), relation, two_words, wordings, note, mend,
            spoil, more=said, unseen=unseen,
        )  # fmt: skip

    return (
        entry("both_words", "contains", ("Use the words {w} and {v}.", "Say {w} and also {v}."), "{w} in, {v} in"),
        entry("word_before", "before", ("Say {w} before {v}.", "The word {w} must come before {v}."), "{w} before {v}"),
        entry("word_after", "after", ("Say {w} after {v}.", "The word {w} must come after {v}."), "{w} after {v}",
              unseen=True),
    )  # fmt: skip


def _nth(values: Values) -> int:
    return int(values["k"]) - 1


def _sentence_of(draft: Draft, values: Values) -> Sentence:
    found = draft.sentences()
    if len(found) <= _nth(values):
        raise StuckError("there is no such sentence")
    return found[_nth(values)]


def _begin(pen: Pen, draft: Draft, values: Values) -> None:
    while len(draft.sentences()) <= _nth(values) and not draft.counted:
        pen.add(draft)
    pen.start(draft, _sentence_of(draft, values), str(values["w"]))


def _begin_otherwise(pen: Pen, draft: Draft, values: Values) -> None:
    other = pen.pick(draft, [text for text in STARTERS if text != values["w"]])
    pen.start(draft, _sentence_of(draft, values), other)


def _begin_first(edit: Edit) -> Edit:
    return lambda pen, draft, values: edit(pen, draft, {**values, "k": 1})


def _frame(pen: Pen, draft: Draft, values: Values) -> None:
    pen.start(draft, draft.sentences()[0], str(values["w"]))
    pen.finish(draft, draft.sentences()[0], str(values["v"]))


def _frame_otherwise(pen: Pen, draft: Draft, values: Values) -> None:
    if pen.rng.random() < _PARTED:
        pen.start(draft, draft.sentences()[0], pen.pick(draft, [text for text in STARTERS if text != values["w"]]))
    else:
        pen.finish(draft, draft.sentences()[0], pen.pick(draft, [text for text in KEY_ADVERBS if text != values["v"]]))


def _begin_all(pen: Pen, draft: Draft, values: Values, allowed: Bounds) -> None:
    word = str(values["w"])
    for sentence in draft.sentences():
        pen.start(draft, sentence, word)
    if allowed[0] > 0:
        _begin_otherwise(pen, draft, {"w": word, "k": pen.rng.randint(1, len(draft.sentences()))})


def _begin_with_letter(pen: Pen, draft: Draft, values: Values) -> None:
    pen.start(draft, draft.sentences()[0], pen.pick(draft, [text for text in STARTERS if text[0] == values["w"]]))


def _begin_with_other_letter(pen: Pen, draft: Draft, values: Values) -> None:
    pen.start(draft, draft.sentences()[0], pen.pick(draft, [text for text in STARTERS if text[0] != values["w"]]))


def _put_in_nth(pen: Pen, draft: Draft, values: Values) -> None:
    while len(draft.sentences()) <= _nth(values) and not draft.counted:
        pen.add(draft)
    sentence = _sentence_of(draft, values)
    if sentence.fixed or not pen.place(draft, sentence, str(values["w"])):
        raise StuckError("the sentence has no place for the word")


def _leave_out_of_nth(_pen: Pen, draft: Draft, values: Values) -> None:
    sentence = _sentence_of(draft, values)
    edits.take_out(Draft(draft.topic, [[sentence]]), str(values["w"]))


def _places() -> tuple[Kind, ...]:
    def nth(text: str, values: Values) -> list[str]:
        found = measures.sentences(text)
        return list(found[_nth(values)].words) if len(found) > _nth(values) else []

    def there(values: Values) -> dict[str, Bounds]:
        return {**said(values), "sentences": (float(values["k"]), math.inf)}

    def late(pool: tuple[str, ...]) -> Callable[..., dict[str, Any]]:
        return lambda rng, topic: {"k": rng.randint(2, 3), "w": rng.choice(pool)}

    def starter(rng: random.Random, _topic: Topic) -> dict[str, Any]:
        return {"w": rng.choice(STARTERS)}

    def framed(rng: random.Random, _topic: Topic) -> dict[str, Any]:
        first = rng.choice(STARTERS)
        return {"w": first, "v": rng.choice([text for text in KEY_ADVERBS if text != first])}

    return (
        Kind("first_word", "place", lambda text, values: measures.first_word(text), "is", starter,
             ("Begin with the word {w}.", "The first word must be {w}.", "Start with {w}."), "first {w}",
             _begin_first(_begin), _begin_first(_begin_otherwise), more=said),
        Kind("first_not", "place", lambda text, values: measures.first_word(text), "!=",
             lambda rng, topic: {"w": "the"},
             ("Do not begin with {w}.", "The first word must not be {w}."), "first not {w}",
             _begin_first(_begin_otherwise), lambda pen, draft, values: _first_the(pen, draft)),
        Kind("first_letter", "place", lambda text, values: measures.opening(text), "is",
             lambda rng, topic: {"w": rng.choice("nhosty")},
             ("Begin with the letter {w}.", "The first letter must be {w}."), "first letter {w}",
             _begin_with_letter, _begin_with_other_letter,
             more=lambda values: {f"letter:{values['w']}": (1.0, math.inf)}),
        Kind("nth_starts", "place", nth, "starts", late(STARTERS),
             ("Begin sentence {k} with {w}.", "The first word of sentence {k} must be {w}."), "sentence {k} first {w}",
             _begin, _begin_otherwise, more=there),
        Kind("nth_contains", "word", nth, "contains", late((*KEY_LOOKS, *KEY_ADVERBS)),
             ("Use the word {w} in sentence {k}.", "Say {w} in sentence {k}."), "sentence {k} {w}",
             _put_in_nth, _leave_out_of_nth, more=there),
        Kind("opening_form", "place", lambda text, values: nth(text, {"k": 1}), "matches", framed,
             ("Sentence 1 must read: {w} ... {v}.", "The form of sentence 1 is: {w} ... {v}."),
             "sentence 1 {w} ... {v}", _frame, _frame_otherwise, more=said),
        counted("all_start", "place", "off start:{w}", "no",
                lambda text, values: _off(measures.first_words(text), values["w"]), starter,
                ("Begin each sentence with {w}.", "The first word of each sentence must be {w}."),
                "each first {w}", _begin_all, more=said),
        counted("disorder", "place", "disorder", "no", lambda text, values: measures.disorder(text),
                lambda rng, topic: {},
                ("Put the first words of the sentences in the order of the alphabet.",
                 "The sentences must begin in the order of the alphabet."), "first words a to z", _sort),
    )  # fmt: skip


def _first_the(pen: Pen, draft: Draft) -> None:
    first = draft.sentences()[0]
    if first.fixed:
        raise StuckError("the sentence cannot begin so")
    first.words = [Word("the", "det"), Word(pen.pick(draft, draft.topic.nouns), "noun"),
                   Word(pen.pick(draft, draft.topic.verbs), "verb")]  # fmt: skip


def _sort(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    flat = sorted(draft.sentences(), key=lambda one: (one.last, one.words[0].text), reverse=allowed[0] > 0)
    if allowed[0] > 0 and len({sentence.words[0].text for sentence in flat}) == 1:
        pen.start(draft, flat[0], pen.pick(draft, ("yet", "today", "there")))
    for block in draft.blocks:
        block[:], flat = flat[: len(block)], flat[len(block) :]


def _off(found: list[str], word: str) -> int:
    """Words that are not `word`; one where there is no word."""
    return sum(other != word for other in found) if found else 1


def _ends() -> tuple[Kind, ...]:
    def last(pen: Pen, draft: Draft, values: Values) -> None:
        pen.finish(draft, draft.sentences()[-1], str(values["w"]))

    def other_last(pen: Pen, draft: Draft, values: Values) -> None:
        pen.finish(draft, draft.sentences()[-1], pen.pick(draft, [text for text in KEY_ADVERBS if text != values["w"]]))

    def ending(rng: random.Random, _topic: Topic) -> dict[str, Any]:
        return {"w": rng.choice(KEY_ADVERBS)}

    def closing(rng: random.Random, _topic: Topic) -> dict[str, Any]:
        return {"w": rng.choice(CLOSINGS)}

    def closes(values: Values) -> dict[str, Bounds]:
        held = measures.low_words(values["w"])
        return {f"count:{word}": (1.0, math.inf) for word in held} | {
            "words": (float(len(held)), math.inf), "stops": (1.0, math.inf), "lower": (1.0, math.inf),
            "upper": (1.0, math.inf),
        }  # fmt: skip

    return (
        Kind("last_word", "place", lambda text, values: measures.last_word(text), "is", ending,
             ("End with the word {w}.", "The last word must be {w}."), "last {w}", last, other_last, more=said),
        Kind("closing", "shape", lambda text, values: measures.ending(text), "ends", closing,
             ("End with the words: {w}", "The last sentence must be: {w}"), "end {w}", _close, _unclose, more=closes),
        counted("all_end", "place", "off end:{w}", "no",
                lambda text, values: _off(measures.last_words(text), values["w"]), ending,
                ("End each sentence with {w}.", "The last word of each sentence must be {w}."), "each last {w}",
                _end_all, more=said, unseen=True),
        counted("rhymes", "place", "rhymes", "no", lambda text, values: measures.rhymes(text), lambda rng, topic: {},
                ("No two sentences may end with the same two letters.", "Do not rhyme: end each sentence otherwise."),
                "no rhymes", _unrhyme),
    )  # fmt: skip


def _close(pen: Pen, draft: Draft, values: Values) -> None:
    texts = measures.low_words(values["w"])
    if not all(draft.allows(text) for text in texts):
        raise StuckError("a word of the closing is banned")
    sentence = Sentence([Word(text, "end", keep=True) for text in texts], fixed=True, last=True)
    draft.blocks[-1] = [other for other in draft.blocks[-1] if not other.last] + [sentence]


def _unclose(pen: Pen, draft: Draft, _values: Values) -> None:
    if len(draft.blocks[-1]) < 2:
        raise StuckError("nothing else would be left")
    draft.blocks[-1] = [other for other in draft.blocks[-1] if not other.last]


def _end_all(pen: Pen, draft: Draft, values: Values, allowed: Bounds) -> None:
    for sentence in draft.sentences():
        pen.finish(draft, sentence, str(values["w"]))
    if allowed[0] > 0:
        other = pen.pick(draft, [text for text in KEY_ADVERBS if text != values["w"]])
        pen.finish(draft, pen.rng.choice(draft.sentences()), other)


def _unrhyme(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    if allowed[0] > 0:
        while len(draft.sentences()) < 2:
            pen.add(draft)
        word = pen.pick(draft, KEY_ADVERBS)
        for sentence in draft.sentences()[:2]:
            pen.finish(draft, sentence, word)
        return
    seen: set[str] = set()
    for sentence in draft.sentences():
        for _ in range(20):
            if sentence.words[-1].text[-2:] not in seen:
                break
            if sentence.fixed or sentence.words[-1].keep:
                raise StuckError("the sentence has to end so")
            length = len(sentence.words)
            pen.replace(draft, sentence)
            if draft.counted and len(sentence.words) > length:
                pen.shrink_one(draft, sentence)
        seen.add(sentence.words[-1].text[-2:])
