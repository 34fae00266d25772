"""A draft: an answer that is still in pieces, so that an edit can mend one property and leave the others."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Literal

from noria.envs.instructions.lexicon import Topic, to_script

Role = Literal["start", "det", "look", "noun", "verb", "link", "adverb", "end"]
Shape = Literal["prose", "lines", "bullets", "items", "sections", "answers", "pairs", "json"]
Case = Literal["plain", "lower", "upper", "title"]


@dataclass(slots=True)
class Word:
    """One word. `extra` words may go without harm to the sentence, `keep` words must stay."""

    text: str
    role: Role
    extra: bool = False
    keep: bool = False
    comma: bool = False
    loud: bool = False
    star: bool = False
    box: bool = False


@dataclass(slots=True)
class Sentence:
    """Words and the mark that ends them; `fixed` sentences are neither changed nor dropped, `last` ones stay last."""

    words: list[Word]
    mark: str = "."
    fixed: bool = False
    last: bool = False

    @property
    def free(self) -> bool:
        """Whether the sentence may be dropped."""
        return not self.fixed and not any(word.keep for word in self.words)

    def texts(self) -> list[str]:
        """The words as they are written, with `an` before a vowel."""
        said = [word.text for word in self.words]
        for at, text in enumerate(said[:-1]):
            if text == "a" and said[at + 1][0] in "aeiou":
                said[at] = "an"
        return said


@dataclass(slots=True)
class Draft:
    """Sentences in blocks, how they are laid out, and what later edits must respect.

    banned_letters, banned_words   what no new word may hold or be
    longest                        most letters of a word, 0 = any
    cap, floor                     most (0 = any) and fewest words of a sentence
    counted                        the number of sentences is asked for: length is changed within sentences
    fresh                          no word may come twice
    """

    topic: Topic
    blocks: list[list[Sentence]]
    shape: Shape = "prose"
    label: str = "Part"
    case: Case = "plain"
    title: str = ""
    postscript: Sentence | None = None
    quoted: bool = False
    script: str = ""
    banned_letters: set[str] = field(default_factory=set)
    banned_words: set[str] = field(default_factory=set)
    longest: int = 0
    cap: int = 0
    floor: int = 0
    counted: bool = False
    fresh: bool = False

    def sentences(self) -> list[Sentence]:
        """Every sentence in order, without the postscript."""
        return [sentence for block in self.blocks for sentence in block]

    def words(self) -> list[Word]:
        """Every word in order, without the postscript's."""
        return [word for sentence in self.sentences() for word in sentence.words]

    def copy(self) -> Draft:
        """An independent draft."""
        return copy.deepcopy(self)

    def allows(self, text: str) -> bool:
        """Whether a new word may be `text`."""
        if text in self.banned_words or (self.longest and len(text) > self.longest):
            return False
        if self.banned_letters and not self.banned_letters.isdisjoint(text):
            return False
        return not self.fresh or all(word.text != text for word in self.words())

    def render(self) -> str:
        """The answer as text."""
        text = self._laid_out()
        if self.title:
            text = f"<<{self.title}>>\n{text}"
        if self.postscript:
            text = f"{text}\n\nP.S. {self._sentence(self.postscript)}"
        if self.shape == "json":
            text = json.dumps({self.label: text})
        if self.quoted:
            text = f'"{text}"'
        if self.case == "lower":
            text = text.lower()
        elif self.case == "upper":
            text = text.upper()
        return to_script(text, self.script) if self.script else text

    def _laid_out(self) -> str:
        said = [[self._sentence(sentence) for sentence in block] for block in self.blocks]
        flat = [sentence for block in said for sentence in block]
        prose = [" ".join(block) for block in said]
        if self.shape == "prose":
            return "\n\n".join(prose)
        if self.shape == "sections":
            return "\n".join(f"{self.label} {at}:\n{block}" for at, block in enumerate(prose, 1))
        if self.shape == "answers":
            return "\n***\n".join(prose)
        if self.shape == "json":
            return " ".join(prose)
        heads = {"lines": "", "bullets": "- ", "pairs": f"{self.topic.name}: "}
        return "\n".join(
            f"{at}. {sentence}" if self.shape == "items" else heads[self.shape] + sentence
            for at, sentence in enumerate(flat, 1)
        )

    def _sentence(self, sentence: Sentence) -> str:
        said = []
        for at, (word, text) in enumerate(zip(sentence.words, sentence.texts(), strict=True)):
            shown = text[:1].upper() + text[1:] if at == 0 or self.case == "title" else text
            if word.loud:
                shown = text.upper()
            if word.star:
                shown = f"*{shown}*"
            if word.box:
                shown = f"[{shown}]"
            said.append(shown + ("," if word.comma else ""))
        return " ".join(said) + sentence.mark
