"""Edits that move a count of a draft into an interval: the `bring` of kinds that count."""

from __future__ import annotations

import math
from collections.abc import Callable

from noria.envs.instructions import measures
from noria.envs.instructions.drafts import Case, Draft, Sentence, Shape, Word
from noria.envs.instructions.grammar import Bounds, Bring, Values
from noria.envs.instructions.lexicon import ADVERBS, KEY_LOOKS, LONG_LOOKS, LOOKS_BY_LETTER
from noria.envs.instructions.pens import Pen, StuckError

_STEPS = 60
_CLAUSE_WORDS = 3


def steer(
    draft: Draft, allowed: Bounds, count: Callable[[str], float], up: Callable[[], bool], down: Callable[[], bool]
) -> None:
    """Call `up` and `down` until the count of the rendered draft is allowed. StuckError where they do not get there."""
    for _ in range(_STEPS):
        found = count(draft.render())
        if allowed[0] <= found <= allowed[1]:
            return
        if not (up() if found < allowed[0] else down()):
            break
    raise StuckError(f"the count stays outside of {allowed}")


def lay_out(draft: Draft, shape: Shape, label: str = "") -> None:
    """Give a draft of running text a shape. StuckError where it has another one."""
    if draft.shape not in ("prose", shape) or (draft.shape == "prose" and len(draft.blocks) > 1):
        raise StuckError(f"the draft is {draft.shape} already")
    draft.shape, draft.label = shape, label or draft.label


def words(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    """The number of words, within sentences where their number is asked for."""

    def up() -> bool:
        missing = allowed[0] - len(measures.words(draft.render()))
        if not draft.counted and missing > _CLAUSE_WORDS:
            pen.add(draft)
            return True
        if pen.grow(draft):
            return True
        if not draft.counted:
            pen.add(draft)
            return True
        return any(pen.phrase(draft, sentence) for sentence in draft.sentences())

    def down() -> bool:
        return pen.shrink(draft) or (not draft.counted and pen.drop(draft)) or _shorter(pen, draft)

    steer(draft, allowed, lambda text: len(measures.words(text)), up, down)


def sentences(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    """The number of sentences."""
    draft.counted = True
    steer(
        draft,
        allowed,
        lambda text: len(measures.sentences(text)),
        lambda: _added(pen, draft),
        lambda: _dropped(pen, draft),
    )


def rows(shape: Shape, count: Callable[[str], float]) -> Bring:
    """The number of lines of one shape."""

    def bring(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
        lay_out(draft, shape)
        draft.counted = True
        steer(draft, allowed, count, lambda: _added(pen, draft), lambda: _dropped(pen, draft))

    return bring


def blocks(shape: Shape) -> Bring:
    """The number of blocks: paragraphs, sections or answers."""

    def bring(pen: Pen, draft: Draft, values: Values, allowed: Bounds) -> None:
        if draft.shape not in ("prose", shape):
            raise StuckError(f"the draft is {draft.shape} already")
        draft.shape, draft.label = shape, str(values.get("w", draft.label))
        least = max(allowed[0], 1)
        pen.regroup(draft, int(least if math.isinf(allowed[1]) else min(max(len(draft.blocks), least), allowed[1])))

    return bring


def longest_sentence(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    """The length of the longest sentence."""
    draft.cap = 0 if math.isinf(allowed[1]) else int(allowed[1])
    for sentence in draft.sentences():
        while draft.cap and len(sentence.words) > draft.cap:
            if not pen.shrink_one(draft, sentence):
                pen.replace(draft, sentence)
    ranked = sorted(draft.sentences(), key=lambda sentence: -len(sentence.words))
    while len(ranked[0].words) < allowed[0]:
        if not pen.grow_one(draft, ranked[0]) and not pen.phrase(draft, ranked[0]):
            raise StuckError("no sentence grows so long")


def shortest_sentence(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    """The length of the shortest sentence."""
    if math.isinf(allowed[1]):
        draft.floor = int(allowed[0])
        for sentence in draft.sentences():
            _lengthen(pen, draft, sentence, draft.floor)
        return
    draft.floor, sentence = 0, pen.rng.choice(draft.sentences())
    for _ in range(_STEPS):
        if len(sentence.words) <= allowed[1]:
            return
        if not pen.shrink_one(draft, sentence):
            sentence.words = pen.sentence(draft).words
    raise StuckError("no sentence gets so short")


def even_sentences(pen: Pen, draft: Draft, values: Values, allowed: Bounds) -> None:
    """Sentences of another length than `n`."""
    n = int(values["n"])
    draft.cap, draft.floor = n, 0
    for sentence in draft.sentences():
        while len(sentence.words) > n:
            if not pen.shrink_one(draft, sentence):
                pen.replace(draft, sentence)
        _lengthen(pen, draft, sentence, n)
    draft.floor = n
    if allowed[0] > 0:
        draft.cap, draft.floor = n + 1, 0
        _lengthen(pen, draft, draft.sentences()[-1], n + 1)


def occurrences(pen: Pen, draft: Draft, values: Values, allowed: Bounds) -> None:
    """How often the word `w` is said."""
    word = str(values["w"])
    if allowed[1] == 0:
        take_out(draft, word)
        draft.banned_words.add(word)
        pen.weed(draft, lambda text: text == word)
        return
    draft.banned_words.discard(word)

    def up() -> bool:
        try:
            pen.insert(draft, word)
        except StuckError:
            if draft.counted:
                raise
            pen.add(draft)
        return True

    steer(
        draft,
        allowed,
        lambda text: measures.occurrences(text, word),
        up,
        lambda: _less(pen, draft, lambda t: t == word),
    )


def letters(pen: Pen, draft: Draft, values: Values, allowed: Bounds) -> None:
    """How often the letter `l` is written."""
    one = str(values["l"])
    if allowed[1] == 0:
        draft.banned_letters.add(one)
        pen.weed(draft, lambda text: one in text)
        return
    draft.banned_letters.discard(one)
    pool = [text for text in (*KEY_LOOKS, *draft.topic.looks, *LONG_LOOKS) if one in text]
    steer(
        draft, allowed, lambda text: measures.letter(text, one),
        lambda: _more(pen, draft, pool), lambda: _less(pen, draft, lambda text: one in text),
    )  # fmt: skip


def initials(pen: Pen, draft: Draft, values: Values, allowed: Bounds) -> None:
    """How many words begin with the letter `l`."""
    one = str(values["l"])
    steer(
        draft, allowed, lambda text: measures.initials(text, one),
        lambda: _more(pen, draft, LOOKS_BY_LETTER[one]), lambda: _less(pen, draft, lambda text: text.startswith(one)),
    )  # fmt: skip


def long_words(pen: Pen, draft: Draft, values: Values, allowed: Bounds) -> None:
    """How many words have `k` letters or more."""
    least = int(values["k"])
    pool = [text for text in LONG_LOOKS if len(text) >= least]
    steer(
        draft, allowed, lambda text: measures.of_length(text, least),
        lambda: _more(pen, draft, pool), lambda: _less(pen, draft, lambda text: len(text) >= least),
    )  # fmt: skip


def longest_word(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    """The letters of the longest word."""
    draft.longest = 0 if math.isinf(allowed[1]) else int(allowed[1])
    if allowed[0] > 0:
        draft.longest = int(allowed[0])
        pool = [text for text in (*LONG_LOOKS, *KEY_LOOKS, *draft.topic.looks, *ADVERBS) if len(text) == allowed[0]]
        pen.insert(draft, pen.pick(draft, pool))
    most = draft.longest
    pen.weed(draft, lambda text: len(text) > most > 0)


def commonest(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    """How often the most used word is said."""
    if allowed == (0, 1):
        draft.fresh, draft.blocks = True, [[]]
        for _ in range(pen.rng.choice((1, 2))):
            pen.add(draft)
        return
    draft.fresh = False

    def down() -> bool:
        said = [word.text for word in draft.words()]
        most = max(said, key=said.count)
        return _less(pen, draft, lambda text: text == most)

    def up() -> bool:
        pen.add(draft)
        return True

    steer(draft, allowed, measures.commonest, up, down)


def case(of: Case) -> Bring:
    """0 where the draft is written in one case, more where it is not."""

    def bring(_pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
        if draft.case not in ("plain", of):
            raise StuckError(f"the draft is in {draft.case} case already")
        draft.case = of if allowed[0] == 0 else "plain"

    return bring


def flags(flag: str, count: Callable[[str], float], least_letters: int) -> Bring:
    """Words dressed by a flag of theirs: in capitals, in stars or in brackets."""

    def bring(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
        def turn(on: bool) -> bool:
            found = [
                word
                for word in draft.words()
                if bool(vars_of(word, flag)) != on and len(word.text) >= least_letters and word.role != "start"
            ]
            if found:
                setattr(pen.rng.choice(found), flag, on)
            return bool(found)

        steer(draft, allowed, count, lambda: turn(True), lambda: turn(False))

    return bring


def vars_of(word: Word, flag: str) -> bool:
    """The flag of a word."""
    return {"loud": word.loud, "star": word.star, "box": word.box}[flag]


def numbers(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    """How many numbers are said, each as `at 7`."""

    def up() -> bool:
        taken = {word.text for word in draft.words()}
        free = [str(n) for n in range(2, 10) if str(n) not in taken]
        sentence = pen.rng.choice([one for one in draft.sentences() if not one.fixed])
        new = [Word("at", "link", keep=True), Word(pen.rng.choice(free), "noun", keep=True)]
        return pen.append(draft, sentence, new) or any(pen.append(draft, one, new) for one in draft.sentences())

    def down() -> bool:
        for sentence in draft.sentences():
            for at, word in enumerate(sentence.words):
                if word.text.isdigit():
                    del sentence.words[at - 1 : at + 1]
                    return True
        return False

    steer(draft, allowed, measures.numbers, up, down)


def take_out(draft: Draft, text: str) -> None:
    """Take a word out of every sentence, a noun with the phrase that it was put in with."""
    for sentence in draft.sentences():
        for at in reversed([at for at, word in enumerate(sentence.words) if word.text == text and word.keep]):
            first = at - 2 if sentence.words[at].role == "noun" and at > 2 else at
            del sentence.words[first : at + 1]


def _added(pen: Pen, draft: Draft) -> bool:
    pen.add(draft)
    return True


def _dropped(pen: Pen, draft: Draft) -> bool:
    if pen.drop(draft):
        return True
    # Words that must stay hold every sentence: write the last one anew, which frees it; they are put in again later.
    for sentence in reversed(draft.sentences()):
        if not sentence.fixed and not sentence.free:
            pen.replace(draft, sentence)
            return pen.drop(draft)
    return False


def _shorter(pen: Pen, draft: Draft) -> bool:
    """Write a longest sentence anew, shorter than it was."""
    for sentence in sorted(draft.sentences(), key=lambda one: -len(one.words)):
        if not sentence.free:
            continue
        named = any(word.text in draft.topic.nouns for word in sentence.words)
        before = len(sentence.words)
        for _ in range(6):
            made = pen.sentence(draft, named=named)
            if len(made.words) < before:
                sentence.words = made.words
                return True
    return False


def _lengthen(pen: Pen, draft: Draft, sentence: Sentence, least: int) -> None:
    while len(sentence.words) < least:
        if not pen.grow_one(draft, sentence) and not pen.phrase(draft, sentence):
            raise StuckError("a sentence cannot grow")


def _more(pen: Pen, draft: Draft, pool: list[str] | tuple[str, ...]) -> bool:
    """Put a word of the pool into a sentence, a new one where none takes it."""
    ranked = sorted(draft.sentences(), key=lambda sentence: len(sentence.words))
    word = pen.pick(draft, pool)
    if any(not sentence.fixed and pen.place(draft, sentence, word) for sentence in ranked):
        return True
    if draft.counted:
        return False
    pen.add(draft)
    return True


def _less(pen: Pen, draft: Draft, bad: Callable[[str], bool]) -> bool:
    """Take one bad word out, or write a sentence anew without any."""
    for sentence in draft.sentences():
        for word in sentence.words:
            if bad(word.text) and word.extra and not word.keep:
                sentence.words = [other for other in sentence.words if other is not word]
                return True
    for sentence in reversed(draft.sentences()):
        held = {text for text in sentence.texts() if bad(text)}
        if held and not sentence.fixed:
            had = set(draft.banned_words)
            draft.banned_words |= held
            try:
                pen.replace(draft, sentence)
            finally:
                draft.banned_words = had
            return True
    return False
