"""Procedures: what is counted in, or taken out of, an answer. Pure functions of the text; none raises.

A word is a run of letters, digits and `_`; accents do not count. A sentence ends at `.`, `!` or `?` before a blank or
the end of its line; a line end ends it too. Titles (`<<…>>`), lines that end with `:`, and lines without a word are no
sentences.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

_WORD = re.compile(r"\w+")
_END = re.compile(r"([.!?]+)(?=[\s\"')\]}*]|$)")
_TITLE = re.compile(r"<<([^<>\n]*)>>")
_LABEL = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
_BULLET = re.compile(r"\s*[-*]\s+\S")
_ITEM = re.compile(r"\s*\d+\.\s+\S")
_RULE = re.compile(r"\s*\*{3,}\s*")
_POSTSCRIPT = re.compile(r"P\.(?:P\.)?S\.")
_STARRED = re.compile(r"\*[^\s*][^*\n]*\*")
_BOXED = re.compile(r"\[([^\[\]\n]*)\]")
_LATIN = re.compile(r"LATIN (?:SMALL|CAPITAL) (?:LETTER|LIGATURE) (?:[A-Z]|AE|OE|ETH|THORN|SHARP S)(?: WITH .*)?")
_PAIR = re.compile(r"\w+: .*\w.*")
#: What may stand around an answer's first or last word.
_EDGE = " \t\n\"'*[](){}<>.,;:!?-"


class Sentence(NamedTuple):
    """Lower-case words of a sentence, and the mark that ends it, "" where a line's end does."""

    words: tuple[str, ...]
    mark: str


def folded(text: str) -> str:
    """The text without accents, so that `é` counts as an `e`."""
    if text.isascii():
        return text
    return "".join(sign for sign in unicodedata.normalize("NFD", text) if unicodedata.category(sign) != "Mn")


def words(text: str) -> list[str]:
    """Words in order, without accents."""
    return _WORD.findall(folded(text))


def low_words(text: str) -> list[str]:
    """Words in lower case, without accents."""
    return _WORD.findall(folded(text).lower())


def lines(text: str) -> list[str]:
    """Lines that are not blank."""
    return [line for line in text.split("\n") if line.strip()]


def sentences(text: str) -> list[Sentence]:
    """Sentences in order."""
    found: list[Sentence] = []
    for line in lines(text):
        bare = line.strip()
        if bare.endswith(":") or _is_title(bare):
            continue
        label = _LABEL.match(line)
        rest = _POSTSCRIPT.sub(" ", line[label.end() :] if label else line)
        pieces = _END.split(rest)
        for said, mark in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
            held = tuple(low_words(said))
            if held:
                found.append(Sentence(held, mark[-1:]))
    return found


def lengths(text: str) -> list[int]:
    """Words of each sentence."""
    return [len(sentence.words) for sentence in sentences(text)]


def paragraphs(text: str) -> int:
    """Blocks between blank lines that hold a word."""
    return sum(bool(_WORD.search(block)) for block in re.split(r"\n\s*\n", text))


def parts(text: str) -> int:
    """Different texts between lines of three stars or more; 0 where one of them is empty or repeated."""
    blocks: list[list[str]] = [[]]
    for line in text.split("\n"):
        if _RULE.fullmatch(line):
            blocks.append([])
        else:
            blocks[-1].append(line)
    said = [" ".join(low_words("\n".join(block))) for block in blocks]
    return len(said) if all(said) and len(set(said)) == len(said) else 0


def bullets(text: str) -> int:
    """Lines that begin with `- ` or `* `."""
    return sum(bool(_BULLET.match(line)) for line in lines(text))


def items(text: str) -> int:
    """Lines that begin with a number and a full stop."""
    return sum(bool(_ITEM.match(line)) for line in lines(text))


def sections(text: str, label: str) -> int:
    """Lines `label 1:`, `label 2:`, … up to the first number that is missing."""
    heads = {line.strip() for line in lines(text)}
    count = 0
    while f"{label} {count + 1}:" in heads:
        count += 1
    return count


def unpaired(text: str) -> int:
    """Lines that are not of the form `word: text`; an answer without a line has one."""
    found = lines(text)
    return sum(not _PAIR.fullmatch(line.strip()) for line in found) if found else 1


def occurrences(text: str, word: str) -> int:
    """How often a word stands in the text, whatever its case."""
    return sum(found == word for found in low_words(text))


def letter(text: str, one: str) -> int:
    """How often a letter stands in the text, whatever its case."""
    return folded(text).lower().count(one)


def initials(text: str, one: str) -> int:
    """Words that begin with a letter."""
    return sum(found.startswith(one) for found in low_words(text))


def commonest(text: str) -> int:
    """How often the most used word stands in the text."""
    return max(Counter(low_words(text)).values(), default=0)


def longest(text: str) -> int:
    """Letters of the longest word."""
    return max(map(len, words(text)), default=0)


def of_length(text: str, least: int) -> int:
    """Words of `least` letters or more."""
    return sum(len(found) >= least for found in words(text))


def numbers(text: str) -> int:
    """Words that are digits alone."""
    return sum(found.isdigit() for found in words(text))


def first_word(text: str) -> str:
    """The first word in lower case, "" without one."""
    return next(iter(low_words(text)), "")


def last_word(text: str) -> str:
    """The last word in lower case, "" without one."""
    found = low_words(text)
    return found[-1] if found else ""


def last_words(text: str) -> list[str]:
    """The last word of each sentence."""
    return [sentence.words[-1] for sentence in sentences(text)]


def first_words(text: str) -> list[str]:
    """The first word of each sentence."""
    return [sentence.words[0] for sentence in sentences(text)]


def rhymes(text: str) -> int:
    """Sentences whose last word ends with the same two letters as that of an earlier one."""
    ends = [word[-2:] for word in last_words(text)]
    return len(ends) - len(set(ends))


def disorder(text: str) -> int:
    """Sentences whose first word stands before that of the sentence before them in the alphabet."""
    firsts = first_words(text)
    return sum(one > two for one, two in pairwise(firsts))


def ending(text: str) -> str:
    """The text without what surrounds its last sentence, for a comparison of how it ends."""
    return text.rstrip(" \t\n\"'*]})")


def opening(text: str) -> str:
    """The first letter in lower case, "" without one."""
    return next((sign.lower() for sign in folded(text).strip(_EDGE) if sign.isalpha()), "")


def upper(text: str) -> int:
    """Capital letters."""
    return sum(map(str.isupper, text))


def lower(text: str) -> int:
    """Small letters."""
    return sum(map(str.islower, text))


def upper_share(text: str) -> int:
    """Capital letters in percent of the letters that have a case, rounded down; 0 without letters."""
    high, low = upper(text), lower(text)
    return 100 * high // (high + low) if high + low else 0


def loud(text: str) -> int:
    """Words of two letters or more in capitals."""
    return sum(len(found) > 1 and found.isupper() for found in words(text))


def small_initials(text: str) -> int:
    """Words whose first sign is a small letter."""
    return sum(found[0].islower() for found in words(text))


def unbanged(text: str) -> int:
    """Sentences that do not end with `!`; an answer without a sentence has one."""
    found = sentences(text)
    return sum(sentence.mark != "!" for sentence in found) if found else 1


def titles(text: str) -> int:
    """Lines `<<…>>`."""
    return sum(_is_title(line.strip()) for line in lines(text))


def postscripts(text: str) -> int:
    """Lines that begin with `P.S.` and go on."""
    return sum(line.strip().startswith("P.S.") and len(words(line)) > 2 for line in lines(text))


def quoted(text: str) -> int:
    """1 where double quotes stand around the whole text, else 0."""
    bare = text.strip()
    return int(len(bare) > 2 and bare[0] == bare[-1] == '"')


def starred(text: str) -> int:
    """Pieces `*…*`."""
    return len(_STARRED.findall(text))


def boxed(text: str) -> int:
    """Pieces `[…]`."""
    return sum(bool(_WORD.search(inside)) for inside in _BOXED.findall(text))


def json_key(text: str, key: str) -> int:
    """1 where the text is a JSON object with a text under `key` and no other key, else 0."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return 0
    return int(isinstance(found, dict) and list(found) == [key] and isinstance(found[key], str) and bool(found[key]))


def strangers(text: str, script: str) -> int:
    """Letters that are not of a script ("LATIN", "GREEK", "CYRILLIC"); 1 where there is no letter at all.

    Of Latin ones only those of an alphabet count, with or without accents: others are there to look like them.
    """
    found = [sign for sign in text if sign.isalpha()]
    if found and script == "LATIN" and text.isascii():
        return 0
    names = [unicodedata.name(sign, "") for sign in found]
    own = [bool(_LATIN.fullmatch(name)) if script == "LATIN" else name.startswith(script) for name in names]
    return own.count(False) if found else 1


def _is_title(line: str) -> bool:
    found = _TITLE.fullmatch(line)
    return bool(found and _WORD.search(found[1]))
