"""A pen writes sentences into a draft and takes words out of it, within what the draft allows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from noria.envs.instructions.drafts import Draft, Role, Sentence, Word
from noria.envs.instructions.lexicon import (
    ADVERBS,
    DETERMINERS,
    KEY_ADVERBS,
    KEY_LOOKS,
    KEY_NOUNS,
    PLACES,
    PREPOSITIONS,
    PRONOUN,
    WATCHERS,
    Topic,
)

#: Where an adjective or an adverb is added no more.
_MAX_LOOKS, _MAX_ADVERBS = 2, 2
_TRIES = 12
#: No constraint needs more; an edit that asks for more sentences goes in circles.
_MAX_SENTENCES = 10


class StuckError(Exception):
    """No edit that the draft allows brings the property about."""


class Pen:
    """Edits of drafts; what it chooses depends on its random numbers alone."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def plain(self, topic: Topic) -> Draft:
        """What somebody writes about a topic who was asked for nothing else: two to four sentences."""
        draft = Draft(topic, [[]])
        for at in range(self.rng.choice((2, 3, 3, 4))):
            draft.blocks[0].append(self.sentence(draft, named=at == 0))
        return draft

    def sentence(self, draft: Draft, named: bool = False) -> Sentence:
        """A new sentence; a `named` one names the topic. StuckError where the draft's bans leave none."""
        makers: list[Callable[[Draft], list[Word] | None]] = [self._does, self._does, self._is, self._seen]
        if not named:
            makers += [self._it_does, self._it_is]
        for _ in range(_TRIES):
            words = self.rng.choice(makers)(draft)
            if words is None or (draft.fresh and len({word.text for word in words}) < len(words)):
                continue
            sentence = Sentence(words)
            if self.rng.random() < 0.3:
                self.clause(draft, sentence)
            elif self.rng.random() < 0.4:
                self.phrase(draft, sentence)
            while len(sentence.words) < draft.floor and self.grow_one(draft, sentence):
                pass
            if len(sentence.words) >= draft.floor and not (draft.cap and len(sentence.words) > draft.cap):
                return sentence
        raise StuckError("no sentence is left")

    def question(self, draft: Draft) -> Sentence:
        """A new question about the topic."""
        noun, look = self.pick(draft, draft.topic.nouns), self.pick(draft, draft.topic.looks)
        heads: list[list[tuple[str, Role]]] = [[("is", "link"), ("the", "det"), (noun, "noun"), (look, "look")],
                 [("where", "start"), ("is", "link"), ("the", "det"), (noun, "noun")],
                 [("who", "start"), ("likes", "verb"), ("the", "det"), (noun, "noun")]]  # fmt: skip
        self.rng.shuffle(heads)
        for head in heads:
            if all(draft.allows(text) for text, _ in head) and not (draft.cap and len(head) > draft.cap):
                sentence = Sentence([Word(text, role) for text, role in head], "?")
                while len(sentence.words) < draft.floor and self.grow_one(draft, sentence):
                    pass
                return sentence
        raise StuckError("no question is left")

    def pick(self, draft: Draft, pool: Iterable[str]) -> str:
        """A word of a pool that the draft allows. StuckError without one."""
        allowed = [text for text in pool if draft.allows(text)]
        if not allowed:
            raise StuckError("no word is left")
        return self.rng.choice(allowed)

    def add(self, draft: Draft, sentence: Sentence | None = None) -> None:
        """Add a sentence at the end of a shortest block, before a sentence that stays last."""
        if len(draft.sentences()) >= _MAX_SENTENCES:
            raise StuckError("the draft is long enough")
        block = min(draft.blocks, key=len)
        at = len(block) - 1 if block and block[-1].last else len(block)
        made = sentence or self.sentence(draft, named=not draft.sentences())
        made.mark = sentence.mark if sentence else self._mark(draft)
        block.insert(at, made)

    def drop(self, draft: Draft) -> bool:
        """Take out the last sentence that may go, if another one is left in its block."""
        for block in sorted(draft.blocks, key=len, reverse=True):
            if len(block) < 2:
                continue
            named = [sentence for sentence in draft.sentences() if self._names(draft, sentence)]
            for sentence in reversed(block):
                if sentence.free and named != [sentence]:
                    block[:] = [other for other in block if other is not sentence]
                    return True
        return False

    def replace(self, draft: Draft, sentence: Sentence) -> None:
        """Write another sentence in the place of one; words that had to stay are put in again."""
        made = self.sentence(draft, named=self._names(draft, sentence))
        sentence.words = [word for word in sentence.words if word.keep and word.role == "start"] + made.words
        if sentence.mark == "?":
            sentence.mark = self._mark(draft)

    def grow(self, draft: Draft) -> bool:
        """Add one word to a shortest sentence that can take one."""
        return any(self.grow_one(draft, sentence) for sentence in self._by_length(draft))

    def shrink(self, draft: Draft) -> bool:
        """Take one word that may go out of a longest sentence."""
        return any(self.shrink_one(draft, sentence) for sentence in reversed(self._by_length(draft)))

    def grow_one(self, draft: Draft, sentence: Sentence) -> bool:
        """Add an adjective or an adverb to a sentence; False where it can take none."""
        if sentence.fixed or (draft.cap and len(sentence.words) >= draft.cap):
            return False
        edits = [self._more_look, self._more_adverb]
        self.rng.shuffle(edits)
        return any(edit(draft, sentence) for edit in edits)

    def shrink_one(self, draft: Draft, sentence: Sentence) -> bool:
        """Take out an extra word, else the clause or the place at the end; False where none may go."""
        if sentence.fixed or len(sentence.words) <= max(draft.floor, 1):
            return False
        extras = [word for word in sentence.words if word.extra and not word.keep]
        if extras:
            gone = extras[-1]
            sentence.words = [word for word in sentence.words if word is not gone]
            if gone.comma and sentence.words:
                sentence.words[-1].comma = False
            return True
        for at, word in enumerate(sentence.words):
            tail = sentence.words[at:]
            if at and word.text in ("and", *PREPOSITIONS) and not any(w.keep for w in tail) and at >= draft.floor:
                sentence.words = sentence.words[:at]
                sentence.words[-1].comma = False
                return True
        return False

    def clause(self, draft: Draft, sentence: Sentence) -> bool:
        """Add `, and it sits` before what must stay at the end."""
        verbs = [text for text in draft.topic.verbs if draft.allows(text)]
        if not verbs or draft.fresh or not (draft.allows("and") and draft.allows(PRONOUN)):
            return False
        new = [Word("and", "link"), Word(PRONOUN, "noun"), Word(self.rng.choice(verbs), "verb")]
        return self.append(draft, sentence, new, comma=True)

    def phrase(self, draft: Draft, sentence: Sentence, noun: str = "") -> bool:
        """Add `by the sea`, or the same with a noun that must stay."""
        preps = [text for text in PREPOSITIONS if draft.allows(text)]
        dets = [text for text in DETERMINERS if draft.allows(text) and text != "a"]
        nouns = [noun] if noun else [text for text in PLACES if draft.allows(text) and text != draft.topic.name]
        if not (preps and dets and nouns):
            return False
        chosen = (self.rng.choice(preps), self.rng.choice(dets), self.rng.choice(nouns))
        keep = bool(noun)
        roles: tuple[Role, ...] = ("link", "det", "noun")
        new = [Word(text, role, keep=keep) for text, role in zip(chosen, roles, strict=True)]
        return self.append(draft, sentence, new)

    def insert(self, draft: Draft, text: str) -> None:
        """Put a word that must stay into a sentence that holds it least often. StuckError where none can take it."""
        if text in draft.banned_words or (draft.longest and len(text) > draft.longest):
            raise StuckError("the word is banned")
        ranked = sorted(
            (one for one in draft.sentences() if not one.fixed),
            key=lambda one: (sum(word.text == text for word in one.words), len(one.words)),
        )
        for sentence in ranked:
            if self.place(draft, sentence, text):
                return
        raise StuckError("no sentence takes the word")

    def place(self, draft: Draft, sentence: Sentence, text: str) -> bool:
        """Put a word that must stay into this sentence; False where it has no place for it."""
        if text in (*KEY_ADVERBS, *ADVERBS):
            return self.append(draft, sentence, [Word(text, "adverb", keep=True)])
        if text in (*KEY_NOUNS, *draft.topic.nouns):
            return self.phrase(draft, sentence, text)
        if draft.cap and len(sentence.words) >= draft.cap:
            return self._swap_look(sentence, text)
        for at, word in enumerate(sentence.words):
            before = sentence.words[at - 1].text if at else ""
            if word.role == "noun" and word.text != PRONOUN and before != text:
                sentence.words.insert(at, Word(text, "look", keep=True))
                return True
        for at, word in enumerate(sentence.words):
            if word.role == "look" and word.text != text:
                sentence.words.insert(at, Word(text, "look", keep=True))
                return True
        return False

    def start(self, draft: Draft, sentence: Sentence, text: str) -> None:
        """Make a word the first of a sentence."""
        if sentence.fixed or not draft.allows(text):
            raise StuckError("the sentence cannot begin so")
        if sentence.words[0].role == "start":
            sentence.words.pop(0)
        sentence.words.insert(0, Word(text, "start", keep=True))

    def finish(self, draft: Draft, sentence: Sentence, text: str) -> None:
        """Make a word the last of a sentence."""
        if sentence.fixed:
            raise StuckError("the sentence cannot end so")
        words = [word for word in sentence.words if word.role != "end"]
        while words[-1].role == "adverb" and (words[-1].text == text or not words[-1].keep):
            words.pop()
            words[-1].comma = False
        sentence.words = [*words, Word(text, "end", keep=True)]

    def weed(self, draft: Draft, bad: Callable[[str], bool]) -> None:
        """Write every sentence anew that holds a bad word, or take the word out where it is an extra one."""
        for sentence in draft.sentences():
            for word in [w for w in sentence.words if bad(w.text) and (w.extra or (w.role == "start" and not w.keep))]:
                sentence.words = [other for other in sentence.words if other is not word]
            if any(bad(text) for text in sentence.texts()):
                if sentence.fixed or any(bad(word.text) for word in sentence.words if word.keep):
                    raise StuckError("a word that must stay is bad")
                self.replace(draft, sentence)

    def regroup(self, draft: Draft, count: int) -> None:
        """Deal the sentences out into `count` blocks, in order."""
        flat = draft.sentences()
        while len(flat) < count:
            self.add(draft)
            flat = draft.sentences()
        size, more = divmod(len(flat), count)
        draft.blocks, at = [], 0
        for index in range(count):
            end = at + size + (index < more)
            draft.blocks.append(flat[at:end])
            at = end

    def _mark(self, draft: Draft) -> str:
        others = {sentence.mark for sentence in draft.sentences()} - {"?"}
        return "!" if others == {"!"} else "."

    def _names(self, draft: Draft, sentence: Sentence) -> bool:
        return any(word.text in draft.topic.nouns for word in sentence.words)

    def _by_length(self, draft: Draft) -> list[Sentence]:
        found = [sentence for sentence in draft.sentences() if not sentence.fixed]
        self.rng.shuffle(found)
        return sorted(found, key=lambda sentence: len(sentence.words))

    def append(self, draft: Draft, sentence: Sentence, new: Sequence[Word], comma: bool = False) -> bool:
        """Append words before a word that must stay last; False where the sentence has no room."""
        if sentence.fixed or sentence.mark == "?" or (draft.cap and len(sentence.words) + len(new) > draft.cap):
            return False
        at = len(sentence.words) - (sentence.words[-1].role == "end")
        if at and sentence.words[at - 1].text == new[0].text:
            return False
        if comma and at:
            sentence.words[at - 1].comma = True
        sentence.words[at:at] = new
        return True

    def _swap_look(self, sentence: Sentence, text: str) -> bool:
        for word in sentence.words:
            if word.role == "look" and not word.keep:
                word.text, word.keep, word.extra = text, True, False
                return True
        return False

    def _more_look(self, draft: Draft, sentence: Sentence) -> bool:
        here = {word.text for word in sentence.words}
        pool = [text for text in (*draft.topic.looks, *KEY_LOOKS) if draft.allows(text) and text not in here]
        for at, word in enumerate(sentence.words):
            run = 0
            while run < at and sentence.words[at - 1 - run].role == "look":
                run += 1
            if word.role == "noun" and word.text != PRONOUN and run < _MAX_LOOKS and pool and at:
                sentence.words.insert(at, Word(self.rng.choice(pool), "look", extra=True))
                return True
        return False

    def _more_adverb(self, draft: Draft, sentence: Sentence) -> bool:
        here = [word.text for word in sentence.words]
        if sum(word.role == "adverb" for word in sentence.words) >= _MAX_ADVERBS:
            return False
        pool = [text for text in ADVERBS if draft.allows(text) and text not in here]
        return bool(pool) and self.append(draft, sentence, [Word(self.rng.choice(pool), "adverb", extra=True)])

    def _subject(self, draft: Draft) -> list[Word] | None:
        dets = [text for text in DETERMINERS if draft.allows(text)]
        nouns = [text for text in draft.topic.nouns if draft.allows(text)]
        if not dets or not nouns:
            return None
        # Most writers name the topic itself and say "the".
        noun = nouns[0] if self.rng.random() < 0.6 else self.rng.choice(nouns)
        det = dets[0] if self.rng.random() < 0.6 else self.rng.choice(dets)
        return [Word(det, "det"), Word(noun, "noun")]

    def _does(self, draft: Draft) -> list[Word] | None:
        subject, verbs = self._subject(draft), [text for text in draft.topic.verbs if draft.allows(text)]
        return [*subject, Word(self.rng.choice(verbs), "verb")] if subject and verbs else None

    def _is(self, draft: Draft) -> list[Word] | None:
        subject, looks = self._subject(draft), [text for text in draft.topic.looks if draft.allows(text)]
        if not subject or not looks or not draft.allows("is"):
            return None
        return [*subject, Word("is", "link"), Word(self.rng.choice(looks), "look")]

    def _seen(self, draft: Draft) -> list[Word] | None:
        subject = self._subject(draft)
        pairs = [pair for pair in WATCHERS if all(map(draft.allows, pair))]
        if not subject or not pairs:
            return None
        who, verb = self.rng.choice(pairs)
        return [Word(who, "link"), Word(verb, "verb"), *subject]

    def _it_does(self, draft: Draft) -> list[Word] | None:
        verbs = [text for text in draft.topic.verbs if draft.allows(text)]
        if not verbs or not draft.allows(PRONOUN):
            return None
        return [Word(PRONOUN, "noun"), Word(self.rng.choice(verbs), "verb")]

    def _it_is(self, draft: Draft) -> list[Word] | None:
        looks = [text for text in draft.topic.looks if draft.allows(text)]
        if not looks or not (draft.allows("is") and draft.allows(PRONOUN)):
            return None
        return [Word(PRONOUN, "noun"), Word("is", "link"), Word(self.rng.choice(looks), "look")]
