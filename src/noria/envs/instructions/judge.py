"""The judge stage's embedded rules: whether an answer is language about the topic at all, or only keeps the letter.

A constraint can be kept by rubbish: one word again and again, the prompt copied, letters of another script in the place
of forbidden ones. Such an answer scores 0 whatever it keeps. The rules know small English alone and are lenient: they
stop what is degenerate and do not rank what is not. A model may judge after them (`model_judge`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from pydantic import Field

from noria.core.config import Checked
from noria.envs.instructions import measures
from noria.envs.instructions.lexicon import FUNCTION_WORDS, Topic, to_latin

_STRANGE = re.compile(r"(.)\1\1|[bcdfghjklmnpqrstvwxz]{5}")
_VOWEL = re.compile(r"[aeiouy]")
_ALLOWED_CONTROLS = "\n\t"
#: Shorter answers cannot help saying half of their words twice.
_LEAST_FOR_VARIETY = 6
_COPIED = 3
_ABOUT = 3
#: Abbreviations that the rules would take for words without a vowel.
_SHORT = 2


class Rules(Checked):
    """What makes an answer degenerate. Shares are of the answer's words unless something else is said."""

    min_words: int = Field(default=2, ge=1, le=1000, description="fewest words of an answer")
    min_variety: float = Field(default=0.35, ge=0, le=1, description="least share of different words")
    min_pairs: float = Field(default=0.5, ge=0, le=1, description="least share of different pairs of neighbours")
    max_repeated: float = Field(default=0.25, ge=0, le=1, description="largest share of sentences said before")
    max_run: int = Field(default=2, ge=1, le=1000, description="the same word in a row at most")
    max_strange: float = Field(default=0.2, ge=0, le=1, description="largest share of words that cannot be English")
    min_function: float = Field(default=0.1, ge=0, le=1, description="least share of words such as the, is, and")
    max_function: float = Field(default=0.85, ge=0, le=1, description="largest share of those")
    min_letters: float = Field(default=0.5, ge=0, le=1, description="least share of letters among signs, blanks apart")
    max_copied: float = Field(default=0.5, ge=0, le=1, description="largest share of triples that the prompt has too")
    max_copied_run: int = Field(default=6, ge=1, le=1000, description="words in a row taken from the prompt at most")


def fault(rules: Rules, answer: str, prompt: str, topic: Topic, script: str = "Latin") -> str:
    """Why the answer is degenerate, "" where it is not. `script` is the one that its letters must be of."""
    strange = _signs(rules, answer, script)
    if strange:
        return strange
    text = prose(answer)
    words = said(text)
    return fluency(rules, words, text) or _copied(rules, words, prompt) or _relevance(words, topic)


def said(text: str) -> list[str]:
    """The words of a text in lower case."""
    return measures.low_words(text)


def prose(answer: str) -> str:
    """The answer in Latin letters without its dress: the texts of a JSON object, no marks of lists and stars."""
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        answer = "\n".join(value for value in found.values() if isinstance(value, str))
    return to_latin(re.sub(r"[*<>\[\]\"]|^[ \t]*(?:-|\d+\.)[ \t]+", " ", answer, flags=re.MULTILINE))


def fluency(rules: Rules, words: Sequence[str], text: str) -> str:
    """Why these words (lower case) of a text are no language, "" where they may be."""
    if len(words) < rules.min_words:
        return f"fewer than {rules.min_words} words"
    run = longest_run(words)
    if run > rules.max_run:
        return f"one word {run} times in a row"
    if len(words) >= _LEAST_FOR_VARIETY:
        pairs = list(pairwise(words))
        if len(set(words)) < rules.min_variety * len(words) or len(set(pairs)) < rules.min_pairs * len(pairs):
            return "the same words again and again"
    sentences = [sentence.words for sentence in measures.sentences(text)]
    if len(sentences) - len(set(sentences)) > rules.max_repeated * len(sentences):
        return "a sentence twice"
    if sum(map(_strange, words)) > rules.max_strange * len(words):
        return "words that are none"
    held = sum(word in FUNCTION_WORDS for word in words)
    if not rules.min_function * len(words) <= held <= rules.max_function * len(words):
        return "a heap of words"
    return ""


def longest_run(words: Sequence[str]) -> int:
    """How often one word stands in a row at most."""
    most = run = 1 if words else 0
    for here, after in pairwise(words):
        run = run + 1 if here == after else 1
        most = max(most, run)
    return most


def _signs(rules: Rules, answer: str, script: str) -> str:
    if (not answer.isascii() or not answer.isprintable()) and any(
        unicodedata.category(sign)[0] == "C" and sign not in _ALLOWED_CONTROLS for sign in answer
    ):
        return "signs that nobody sees"
    signs = [sign for sign in answer if not sign.isspace()]
    letters = [sign for sign in signs if sign.isalpha()]
    if not letters or len(letters) < rules.min_letters * len(signs):
        return "hardly a letter"
    if measures.strangers("".join(letters), script.upper()):
        return "letters of another script"
    return ""


def _strange(word: str) -> bool:
    if word.isdigit() or len(word) <= _SHORT:
        return False
    return not _VOWEL.search(word) or bool(_STRANGE.search(word))


def _copied(rules: Rules, words: Sequence[str], prompt: str) -> str:
    asked = measures.low_words(prompt)
    known = set(zip(asked, asked[1:], asked[2:], strict=False))
    found = [three in known for three in zip(words, words[1:], words[2:], strict=False)]
    run = longest = 0
    for copied in found:
        run = run + 1 if copied else 0
        longest = max(longest, run)
    if found and (sum(found) > rules.max_copied * len(found) or longest + _COPIED - 1 > rules.max_copied_run):
        return "copied from the prompt"
    return ""


def _relevance(words: Sequence[str], topic: Topic) -> str:
    # A noun's other forms begin as the noun does.
    heads = [noun for noun in topic.nouns if len(noun) >= _ABOUT]
    if any(word == noun or word.startswith(noun) for word in words for noun in (*heads, *topic.nouns)):
        return ""
    return f"nothing about the {topic.name}"
