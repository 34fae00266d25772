"""The judge stage's embedded rules: whether an answer is language about the topic at all, or only keeps the letter.

A constraint can be kept by rubbish: one word again and again, the prompt copied, letters of another script in the place
of forbidden ones. Such an answer scores 0 whatever it keeps. The rules know small English alone and are lenient: they
stop what is degenerate and do not rank what is not. A model may judge after them (`model_judge`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pydantic import Field

from noria.envs.instructions import measures
from noria.envs.instructions.lexicon import FUNCTION_WORDS, Topic, to_latin
from noria.graders.prose import English, Fluency, language, signs

#: The small vocabulary of this world, in which a word that is no word is told sooner.
_ENGLISH = English(FUNCTION_WORDS, consonants=5, short=2, variety_from=6)
_COPIED = 3
_ABOUT = 3


class Rules(Fluency):
    """What makes an answer degenerate. Shares are of the answer's words unless something else is said."""

    min_words: int = Field(default=2, ge=1, le=1000, description="fewest words of an answer")
    min_pairs: float = Field(default=0.5, ge=0, le=1, description="least share of different pairs of neighbours")
    max_repeated: float = Field(default=0.25, ge=0, le=1, description="largest share of sentences said before")
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
    held = [sentence.words for sentence in measures.sentences(text)]
    return language(rules, words, held, _ENGLISH, rules.max_repeated)


def _signs(rules: Rules, answer: str, script: str) -> str:
    found = signs(rules, answer)
    if not found and measures.strangers("".join(filter(str.isalpha, answer)), script.upper()):
        return "letters of another script"
    return found


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
