"""Constraints on how much is written, and in what blocks."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from noria.envs.instructions import edits, measures
from noria.envs.instructions.grammar import Kind, Values, counted
from noria.envs.instructions.lexicon import LABELS, Topic

Draw = Callable[[random.Random, Topic], dict[str, Any]]


def number(lo: int, hi: int) -> Draw:
    """Values `n` from `lo` to `hi`, both included."""
    return lambda rng, topic: {"n": rng.randint(lo, hi)}


def span(lo: int, hi: int, width: int) -> Draw:
    """Values `lo` and `hi`, `width` apart."""

    def draw(rng: random.Random, _topic: Topic) -> dict[str, Any]:
        least = rng.randint(lo, hi)
        return {"lo": least, "hi": least + width}

    return draw


def uneven(text: str, values: Values) -> int:
    """Sentences of another length than `n`; an answer without a sentence has one."""
    found = measures.lengths(text)
    return sum(length != values["n"] for length in found) if found else 1


def kinds() -> tuple[Kind, ...]:
    """The kinds of this file."""
    return (*_words(), *_sentences(), *_blocks())


def _words() -> tuple[Kind, ...]:
    def entry(name: str, relation: Any, draw: Draw, wordings: tuple[str, ...], note: str, **more: Any) -> Kind:
        return counted(
            name, "length", "words", relation, lambda text, values: len(measures.words(text)), draw, wordings, note,
            edits.words, **more,
        )  # fmt: skip

    return (
        entry("words", "=", number(4, 20), ("Use exactly {n} words.", "Write {n} words.", "Use {n} words in all."),
              "words = {n}"),
        entry("words_least", ">=", number(15, 26), ("Use at least {n} words.", "Write {n} words or more."),
              "words >= {n}"),
        entry("words_most", "<=", number(4, 9), ("Use at most {n} words.", "Write {n} words or less."), "words <= {n}"),
        entry("words_above", ">", number(14, 24), ("Use more than {n} words.", "Write over {n} words."), "words > {n}"),
        entry("words_below", "<", number(5, 10), ("Use fewer than {n} words.", "Write under {n} words."),
              "words < {n}"),
        entry("words_between", "in range", span(4, 18, 2),
              ("Use {lo} to {hi} words.", "Write from {lo} to {hi} words."), "words {lo} to {hi}", unseen=True),
    )  # fmt: skip


def _sentences() -> tuple[Kind, ...]:
    def count(text: str, _values: Values) -> int:
        return len(measures.sentences(text))

    return (
        counted("sentences", "length", "sentences", "=", count, number(1, 5),
                ("Write {n} sentence{s}.", "Use exactly {n} sentence{s}.", "Say it in {n} sentence{s}."),
                "sentences = {n}", edits.sentences),
        counted("sentences_least", "length", "sentences", ">=", count, number(4, 6),
                ("Write at least {n} sentences.", "Use {n} sentences or more."), "sentences >= {n}", edits.sentences),
        counted("sentences_below", "length", "sentences", "<", count, number(2, 3),
                ("Write fewer than {n} sentences.", "Stay under {n} sentences."), "sentences < {n}", edits.sentences),
        counted("sentence_most", "length", "longest sentence", "<=",
                lambda text, values: max(measures.lengths(text), default=0), number(3, 5),
                ("No sentence may have more than {n} words.", "Use at most {n} words in each sentence."),
                "each sentence <= {n}", edits.longest_sentence),
        counted("sentence_least", "length", "shortest sentence", ">=",
                lambda text, values: min(measures.lengths(text), default=0), number(5, 7),
                ("Use at least {n} words in each sentence.", "No sentence may have fewer than {n} words."),
                "each sentence >= {n}", edits.shortest_sentence),
        counted("sentence_words", "length", "uneven:{n}", "no", uneven, number(3, 7),
                ("Use {n} words in each sentence.", "Each sentence must have {n} words."), "each sentence = {n}",
                edits.even_sentences,
                more=lambda values: {"shortest sentence": (values["n"],) * 2, "longest sentence": (values["n"],) * 2,
                                     "sentences": (1.0, float("inf"))}),
    )  # fmt: skip


def _blocks() -> tuple[Kind, ...]:
    def sections(text: str, values: Values) -> int:
        return measures.sections(text, values["w"])

    return (
        counted("paragraphs", "shape", "paragraphs", "=", lambda text, values: measures.paragraphs(text), number(2, 3),
                ("Write {n} paragraphs.", "Use {n} paragraphs, with a blank line between them."), "paragraphs = {n}",
                edits.blocks("prose")),
        counted("paragraphs_least", "shape", "paragraphs", ">=", lambda text, values: measures.paragraphs(text),
                number(2, 4), ("Write at least {n} paragraphs.", "Use {n} paragraphs or more."), "paragraphs >= {n}",
                edits.blocks("prose")),
        counted("lines", "shape", "lines", "=", lambda text, values: len(measures.lines(text)), number(2, 5),
                ("Write {n} lines.", "Put it on {n} lines."), "lines = {n}",
                edits.rows("lines", lambda text: len(measures.lines(text)))),
        counted("bullets", "shape", "bullets", "=", lambda text, values: measures.bullets(text), number(2, 5),
                ("Write {n} bullets.", "Make a list of {n} bullets.", "Use {n} bullets with -."), "bullets = {n}",
                edits.rows("bullets", measures.bullets)),
        counted("bullets_least", "shape", "bullets", ">=", lambda text, values: measures.bullets(text), number(2, 4),
                ("Write at least {n} bullets.", "Use {n} bullets or more."), "bullets >= {n}",
                edits.rows("bullets", measures.bullets)),
        counted("items", "shape", "items", "=", lambda text, values: measures.items(text), number(2, 4),
                ("Make a list from 1 to {n}.", "Number {n} lines from 1."), "items = {n}",
                edits.rows("items", measures.items), unseen=True),
        counted("sections", "shape", "sections:{w}", "=", sections,
                lambda rng, topic: {"w": rng.choice(LABELS), "n": rng.randint(2, 3)},
                ("Make {n} parts, each under a line such as {w} 1:.", "Use {n} heads: {w} 1: and so on."),
                "{w} = {n}", edits.blocks("sections")),
        counted("answers", "shape", "answers", "=", lambda text, values: measures.parts(text), number(2, 3),
                ("Give {n} answers with *** between them.", "Write {n} texts with *** on a line between."),
                "answers = {n}", edits.blocks("answers"), unseen=True),
    )  # fmt: skip
