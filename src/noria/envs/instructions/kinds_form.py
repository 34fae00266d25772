"""Constraints on case, marks, dress and script."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from noria.envs.instructions import edits, measures
from noria.envs.instructions.drafts import Draft
from noria.envs.instructions.grammar import Bounds, Kind, Values, counted
from noria.envs.instructions.lexicon import JSON_KEYS, SCRIPTS, Topic
from noria.envs.instructions.pens import Pen, StuckError

INF = float("inf")


def nothing(_rng: random.Random, _topic: Topic) -> dict[str, Any]:
    """No values."""
    return {}


def number(lo: int, hi: int) -> Callable[[random.Random, Topic], dict[str, Any]]:
    """Values `n` from `lo` to `hi`, both included."""
    return lambda rng, topic: {"n": rng.randint(lo, hi)}


def kinds() -> tuple[Kind, ...]:
    """The kinds of this file."""
    return (*_cases(), *_marks(), *_dress(), *_wholes())


def _cases() -> tuple[Kind, ...]:
    loud = edits.flags("loud", measures.loud, 2)
    return (
        counted("all_small", "case", "upper", "no", lambda text, values: measures.upper(text), nothing,
                ("Use small letters only.", "Use no capital letters.", "Write all in small letters."),
                "no capitals", edits.case("lower")),
        counted("all_capitals", "case", "lower", "no", lambda text, values: measures.lower(text), nothing,
                ("Use capital letters only.", "Write all in capitals."), "all capitals", edits.case("upper")),
        counted("title_case", "case", "small initials", "no", lambda text, values: measures.small_initials(text),
                nothing, ("Begin each word with a capital letter.", "Let all words begin with a capital."),
                "each word capital", edits.case("title"), unseen=True),
        counted("loud_words", "case", "loud", "=", lambda text, values: measures.loud(text), number(1, 3),
                ("Write {n} word{s} in capitals.", "Put exactly {n} word{s} in capitals."), "capital words = {n}",
                loud),
        counted("loud_least", "case", "loud", ">=", lambda text, values: measures.loud(text), number(1, 3),
                ("Write at least {n} word{s} in capitals.", "Put {n} word{s} or more in capitals."),
                "capital words >= {n}", loud),
        counted("capital_share", "case", "upper share", ">=", lambda text, values: measures.upper_share(text),
                lambda rng, topic: {"n": rng.choice((20, 30, 40, 50))},
                ("Of all letters {n} in 100 or more must be capitals.", "Make {n} in 100 letters or more capitals."),
                "capital share >= {n}", _share),
    )  # fmt: skip


def _share(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    """Words in capitals until the share is reached."""
    quiet = [word for word in draft.words() if not word.loud]
    pen.rng.shuffle(quiet)
    if allowed[0] == allowed[1]:
        for word in draft.words():
            word.loud = False
        return
    for word in quiet:
        if measures.upper_share(draft.render()) >= allowed[0]:
            return
        word.loud = True


def _marks() -> tuple[Kind, ...]:
    return (
        counted("no_commas", "dress", "commas", "no", lambda text, values: text.count(","), nothing,
                ("Use no commas.", "Do not use a comma."), "no commas", _commas),
        counted("commas", "dress", "commas", "=", lambda text, values: text.count(","), number(1, 3),
                ("Use exactly {n} comma{s}.", "Put {n} comma{s} in it."), "commas = {n}", _commas, unseen=True),
        counted("no_stops", "dress", "stops", "no", lambda text, values: text.count("."), nothing,
                ("Use no full stops.", "Do not write a full stop."), "no stops", _marked(".", "!")),
        counted("bangs", "dress", "bangs", "=", lambda text, values: text.count("!"), number(1, 3),
                ("Use exactly {n} of the mark !.", "Put {n} of the mark ! in it."), "marks ! = {n}", _marked("!", ".")),
        counted("all_bangs", "dress", "unbanged", "no", lambda text, values: measures.unbanged(text), nothing,
                ("End each sentence with !.", "Each sentence must end with !."), "each end !", _bang_all,
                more=lambda values: {"bangs": (1.0, INF)}, unseen=True),
        counted("questions", "shape", "questions", "=", lambda text, values: text.count("?"), number(1, 2),
                ("Ask {n} question{s}.", "Put {n} question{s} in it.", "Use exactly {n} of the mark ?."),
                "questions = {n}", _questions),
        counted("numbers", "word", "numbers", "=", lambda text, values: measures.numbers(text), number(1, 2),
                ("Use exactly {n} number{s}.", "Put {n} number{s} in it."), "numbers = {n}", edits.numbers),
    )  # fmt: skip


def _commas(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    def down() -> bool:
        found = [word for word in draft.words() if word.comma]
        if found:
            pen.rng.choice(found).comma = False
        return bool(found)

    def up() -> bool:
        for sentence in draft.sentences():
            for here, after in zip(sentence.words, sentence.words[1:], strict=False):
                if not here.comma and (after.text == "and" or here.role == "start"):
                    here.comma = True
                    return True
        return any(pen.clause(draft, sentence) for sentence in draft.sentences())

    edits.steer(draft, allowed, lambda text: text.count(","), up, down)


def _marked(mark: str, other: str) -> Callable[[Pen, Draft, Values, Bounds], None]:
    """How often a mark is used: sentences that end with `other` get `mark`, and the other way round."""

    def bring(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
        def turn(old: str, new: str) -> bool:
            found = [one for one in draft.sentences() if one.mark == old and not one.fixed]
            if found:
                pen.rng.choice(found).mark = new
            return bool(found)

        def up() -> bool:
            if turn(other, mark):
                return True
            if not draft.counted:
                pen.add(draft)
            return not draft.counted

        edits.steer(draft, allowed, lambda text: text.count(mark), up, lambda: turn(mark, other))

    return bring


def _bang_all(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    for sentence in draft.sentences():
        if sentence.fixed:
            raise StuckError("a sentence has a mark of its own")
        sentence.mark = "!"
    if allowed[0] > 0:
        pen.rng.choice(draft.sentences()).mark = "."


def _questions(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    def up() -> bool:
        plain = [one for one in draft.sentences()[1:] if one.mark != "?" and one.free]
        if draft.counted and not plain:
            return False
        made = pen.question(draft)
        if plain:
            chosen = pen.rng.choice(plain)
            chosen.words, chosen.mark = made.words, made.mark
        else:
            pen.add(draft, made)
        return True

    def down() -> bool:
        for sentence in draft.sentences():
            if sentence.mark == "?":
                pen.replace(draft, sentence)
                return True
        return False

    edits.steer(draft, allowed, lambda text: text.count("?"), up, down)


def _dress() -> tuple[Kind, ...]:
    return (
        counted("title", "dress", "titles", "has", lambda text, values: measures.titles(text), nothing,
                ("Give it a title in << >>.", "Put a title such as <<Name>> on a line of its own."), "title",
                _titled, more=lambda values: {"words": (1.0, INF)}),
        counted("postscript", "dress", "postscripts", "has", lambda text, values: measures.postscripts(text), nothing,
                ("Add a last line that begins with P.S.", "At the end add a P.S."), "P.S.", _postscript,
                more=lambda values: {"upper": (2.0, INF), "stops": (2.0, INF), "words": (3.0, INF)}),
        counted("quoted", "dress", "quoted", "has", lambda text, values: measures.quoted(text), nothing,
                ('Put all of it in " marks.', 'Begin and end with the mark ".'), 'in "', _quoted),
        counted("starred", "dress", "starred", ">=", lambda text, values: measures.starred(text), number(1, 3),
                ("Put {n} word{s} or more in stars, as *this*.", "Mark at least {n} word{s} as *this*."),
                "stars >= {n}", edits.flags("star", measures.starred, 1)),
        counted("boxed", "dress", "boxed", ">=", lambda text, values: measures.boxed(text), number(1, 3),
                ("Put {n} word{s} or more in brackets, as [this].", "Mark at least {n} word{s} as [this]."),
                "brackets >= {n}", edits.flags("box", measures.boxed, 1), unseen=True),
    )  # fmt: skip


def _titled(_pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    draft.title = draft.topic.name.capitalize() if allowed[0] > 0 else ""


def _postscript(pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    draft.postscript = pen.sentence(draft) if allowed[0] > 0 else None


def _quoted(_pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    draft.quoted = allowed[0] > 0


def _wholes() -> tuple[Kind, ...]:
    return (
        counted("json", "shape", "json:{w}", "has", lambda text, values: measures.json_key(text, values["w"]),
                lambda rng, topic: {"w": rng.choice(JSON_KEYS)},
                ("Answer in JSON with the one key {w}.", "Write a JSON object with the key {w} only."), "JSON {w}",
                _json, more=lambda values: {"quoted": (0.0, 0.0)}),
        counted("pairs", "shape", "unpaired", "no", lambda text, values: measures.unpaired(text), nothing,
                ("Write each line as word: text.", "Each line must be a word, then : and a text."), "lines word: text",
                _paired, unseen=True),
        Kind("script", "dress",
             lambda text, values: "" if measures.strangers(text, values["w"].upper()) else values["w"],
             "is", lambda rng, topic: {"w": rng.choice(tuple(SCRIPTS))},
             ("Write it in {w} letters.", "Use {w} letters only."), "{w} letters", _written, _unwritten,
             more=lambda values: {"latin": (0.0, 0.0)}, unseen=True),
    )  # fmt: skip


def _json(_pen: Pen, draft: Draft, values: Values, allowed: Bounds) -> None:
    if allowed[0] > 0:
        edits.lay_out(draft, "json", str(values["w"]))
    elif draft.shape == "json":
        draft.shape = "prose"


def _paired(_pen: Pen, draft: Draft, _values: Values, allowed: Bounds) -> None:
    if allowed[0] > 0:
        draft.shape = "prose"
        return
    edits.lay_out(draft, "pairs")


def _written(_pen: Pen, draft: Draft, values: Values) -> None:
    draft.script = str(values["w"])


def _unwritten(pen: Pen, draft: Draft, values: Values) -> None:
    draft.script = pen.rng.choice(["", *(script for script in SCRIPTS if script != values["w"])])
