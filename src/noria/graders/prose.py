"""Whether a text is language at all: rules that stop what is degenerate and rank nothing that is not.

A text can hold every word that is asked for and say nothing: one word again and again, a heap of keywords, the prompt
copied, signs that nobody sees. Graders and worlds look here before they look for anything else. The rules know small
English alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from pydantic import Field

from noria.core.config import Checked

FUNCTION_WORDS = frozenset({
    "a", "an", "the", "my", "our", "your", "his", "her", "their", "this", "that", "these", "those", "it", "its", "he",
    "she", "they", "we", "you", "i", "me", "us", "them", "all", "some", "no", "is", "are", "was", "were", "be", "been",
    "am", "do", "does", "did", "has", "have", "had", "can", "cannot", "will", "would", "may", "must", "and", "or",
    "but", "so", "if", "as", "to", "of", "in", "on", "by", "at", "near", "with", "for", "from", "up", "out", "not",
    "very", "where", "who", "what", "when", "how", "there", "here", "then", "than", "before", "after",
})  # fmt: skip
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_VOWEL = re.compile(r"[aeiouy]")
_ALLOWED_CONTROLS = "\n\t"


@dataclass(frozen=True, slots=True)
class English:
    """What is taken for English.

    function        the words that hold sentences together
    consonants      in a row that no word has
    short           letters of words that are not looked at, as abbreviations
    variety_from    words from which on a text must not say the same again; a shorter one cannot help it
    """

    function: frozenset[str] = FUNCTION_WORDS
    consonants: int = 6
    short: int = 3
    variety_from: int = 8


ENGLISH = English()


class Fluency(Checked):
    """What language keeps to. Shares are of a text's words unless something else is said."""

    min_words: int = Field(default=3, ge=1, le=1000, description="fewest words")
    min_variety: float = Field(default=0.35, ge=0, le=1, description="least share of different words")
    min_pairs: float = Field(default=0.6, ge=0, le=1, description="least share of different pairs of neighbours")
    max_run: int = Field(default=2, ge=1, le=1000, description="the same word in a row at most")
    max_strange: float = Field(default=0.2, ge=0, le=1, description="largest share of words that cannot be English")
    min_function: float = Field(default=0.1, ge=0, le=1, description="least share of words such as the, is, and")
    max_function: float = Field(default=0.85, ge=0, le=1, description="largest share of those")
    min_letters: float = Field(default=0.5, ge=0, le=1, description="least share of letters among signs, blanks apart")
    max_copied_run: int = Field(default=7, ge=1, le=1000, description="words in a row taken from the prompt at most")


class Rules(Fluency):
    """What makes a text degenerate."""

    max_words: int = Field(default=400, ge=1, le=100_000, description="most words")


def words(text: str) -> list[str]:
    """Words in lower case; compatible characters of Unicode are one (NFKC), a contraction is one word."""
    return [found.replace("’", "'") for found in _WORD.findall(unicodedata.normalize("NFKC", text).lower())]


def sentences(text: str) -> list[list[str]]:
    """The words of each sentence; a sentence ends at `.`, `!`, `?` or with its line."""
    found = [words(piece) for piece in _SENTENCE.findall(text)]
    return [held for held in found if held]


def fault(rules: Rules, text: str, prompt: str = "") -> str:
    """Why the text is degenerate, "" where it is not. `prompt` is what must not be copied."""
    said = words(text)
    found = signs(rules, text)
    if not found and not rules.min_words <= len(said) <= rules.max_words:
        found = f"{len(said)} words, not {rules.min_words} to {rules.max_words}"
    held = [tuple(sentence) for sentence in sentences(text)]
    return found or language(rules, said, held) or _copied(rules, said, words(prompt))


def signs(rules: Fluency, text: str) -> str:
    """Why the signs of a text are none of a text, "" where they may be."""
    if (not text.isascii() or not text.isprintable()) and any(
        unicodedata.category(sign)[0] == "C" and sign not in _ALLOWED_CONTROLS for sign in text
    ):
        return "signs that nobody sees"
    seen = [sign for sign in text if not sign.isspace()]
    letters = sum(sign.isalpha() for sign in seen)
    if not letters or letters < rules.min_letters * len(seen):
        return "hardly a letter"
    return ""


def language(
    rules: Fluency, said: Sequence[str], held: Sequence[tuple[str, ...]], english: English = ENGLISH,
    max_repeated: float = 0.0,
) -> str:  # fmt: skip
    """Why these words (lower case) in these sentences are no language, "" where they may be.

    `max_repeated` is the largest share of sentences that were said before.
    """
    run = longest_run(said)
    if run > rules.max_run:
        return f"one word {run} times in a row"
    if len(said) >= english.variety_from:
        pairs = list(pairwise(said))
        if len(set(said)) < rules.min_variety * len(said) or len(set(pairs)) < rules.min_pairs * len(pairs):
            return "the same words again and again"
    if len(held) - len(set(held)) > max_repeated * len(held):
        return "a sentence twice"
    if sum(_strange(word, english) for word in said) > rules.max_strange * len(said):
        return "words that are none"
    function = sum(word in english.function for word in said)
    if not rules.min_function * len(said) <= function <= rules.max_function * len(said):
        return "a heap of words"
    return ""


def longest_run(said: Sequence[str]) -> int:
    """How often one word stands in a row at most."""
    most = run = 1 if said else 0
    for here, after in pairwise(said):
        run = run + 1 if here == after else 1
        most = max(most, run)
    return most


def longest_shared(said: Sequence[str], other: Sequence[str]) -> int:
    """Words of the longest run that stands in both; time and memory are those of one row of len(other)."""
    best = 0
    before = [0] * (len(other) + 1)
    for word in said:
        here = [0] * (len(other) + 1)
        for k, theirs in enumerate(other, 1):
            if word == theirs:
                here[k] = before[k - 1] + 1
                best = max(best, here[k])
        before = here
    return best


def _strange(word: str, english: English) -> bool:
    if word.isdigit() or len(word) <= english.short:
        return False
    return not _VOWEL.search(word) or bool(_rows(english.consonants).search(word))


@cache
def _rows(consonants: int) -> re.Pattern[str]:
    """A sign three times, or so many consonants in a row."""
    return re.compile(rf"(.)\1\1|[bcdfghjklmnpqrstvwxz]{{{consonants}}}")


def _copied(rules: Rules, said: Sequence[str], asked: Sequence[str]) -> str:
    shared = longest_shared(said, asked)
    return f"{shared} words in a row copied from the prompt" if shared > rules.max_copied_run else ""
