"""The small English that prompts and scripted answers are written in: topics, pools of words, and two other scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """What an answer is about.

    name    the noun that the prompt names
    kin     nouns that stand for it; an answer that names one of them, or `name`, is about the topic
    verbs   what it does, third person
    looks   adjectives that fit it
    """

    name: str
    kin: tuple[str, ...]
    verbs: tuple[str, ...]
    looks: tuple[str, ...]

    @property
    def nouns(self) -> tuple[str, ...]:
        """The name and its kin."""
        return (self.name, *self.kin)


def _topic(name: str, kin: str, verbs: str, looks: str) -> Topic:
    return Topic(name, tuple(kin.split()), tuple(verbs.split()), tuple(looks.split()))


TOPICS: Mapping[str, Topic] = {
    topic.name: topic
    for topic in (
        _topic("dog", "pet puppy tail", "runs eats barks sits plays", "big old good wet small"),
        _topic("cat", "pet kitten paw", "sits eats naps hides runs", "small old calm black fat"),
        _topic("bird", "wing nest beak", "sings flies sits eats calls", "small free red quick blue"),
        _topic("fish", "fin pond tank", "swims eats turns hides jumps", "small cold wet quick red"),
        _topic("horse", "foal mane farm", "runs eats stands jumps rests", "big old calm quick brown"),
        _topic("cow", "calf milk farm", "eats stands rests walks sits", "big calm old brown fat"),
        _topic("sun", "light sky ray", "shines sets warms moves burns", "warm big red old bright"),
        _topic("moon", "night sky star", "shines moves hides sets waits", "cold old big white dim"),
        _topic("rain", "drop cloud water", "falls stops comes sings cools", "cold wet soft warm long"),
        _topic("snow", "ice flake winter", "falls melts comes stops shines", "cold white soft wet dry"),
        _topic("sea", "wave water shore", "moves rests shines calls sings", "big blue cold calm old"),
        _topic("tree", "leaf root trunk", "grows stands moves sleeps waits", "big old green tall calm"),
        _topic("river", "water bank stream", "runs turns sings falls shines", "long cold wet old calm"),
        _topic("hill", "top path rock", "stands waits sleeps shines rests", "big old green tall calm"),
        _topic("bread", "loaf crust oven", "cools waits smells helps sells", "warm good soft old brown"),
        _topic("soup", "bowl pot spoon", "cools waits boils smells helps", "warm good hot red thick"),
        _topic("car", "wheel motor seat", "runs stops turns waits shines", "red old new small quick"),
        _topic("bus", "driver seat stop", "runs stops turns waits comes", "big old full red slow"),
        _topic("ship", "sail deck boat", "sails turns waits sinks comes", "big old slow white long"),
        _topic("house", "roof wall door", "stands waits shines sleeps rests", "big old warm small new"),
        _topic("school", "class desk lesson", "opens waits helps stops grows", "big old good new small"),
        _topic("garden", "flower plant lawn", "grows waits sleeps shines rests", "green big old calm wet"),
        _topic("shop", "shelf till sale", "opens sells waits helps grows", "small old new full good"),
        _topic("road", "path street lane", "turns waits runs stops climbs", "long old dry new slow"),
    )
}

DETERMINERS = ("the", "a", "my", "our", "this")
PRONOUN = "it"
WATCHERS = (("we", "like"), ("we", "see"), ("you", "know"), ("all", "want"), ("they", "love"))
ADVERBS = ("now", "here", "again", "today", "too", "often", "fast", "there", "well", "still", "soon")
PLACES = ("field", "town", "yard", "park", "wood")
PREPOSITIONS = ("in", "by", "near", "at")
STARTERS = ("now", "today", "here", "once", "then", "often", "so", "again", "still", "but", "there", "yet")

#: Words that a prompt may ask for or forbid, by the place they take in a sentence.
KEY_LOOKS = ("red", "big", "old", "small", "good", "new", "warm", "kind")
KEY_ADVERBS = ("now", "here", "again", "today", "soon")
KEY_NOUNS = ("man", "girl", "friend", "box", "song", "king", "stone", "book")
LONG_LOOKS = ("little", "simple", "yellow", "gentle", "strong", "bright", "famous", "silver")
#: Adjectives by their first letter, for answers that need several words of one letter.
LOOKS_BY_LETTER: Mapping[str, tuple[str, ...]] = {
    "b": ("big", "blue", "brown", "bold", "bright"),
    "s": ("small", "soft", "slow", "sweet", "safe"),
    "w": ("warm", "wet", "wild", "wide", "wise"),
    "c": ("cold", "calm", "clean", "cool", "clear"),
}
CLOSINGS = ("That is all.", "The end.", "So it goes.", "This is true.")
LABELS = ("Part", "Day", "Section")
JSON_KEYS = ("text", "answer", "note")

#: Words that hold sentences together: an answer without any of them is a heap of words.
FUNCTION_WORDS = frozenset({
    "a", "an", "the", "my", "our", "this", "that", "these", "it", "its", "he", "she", "they", "we", "you", "i",
    "all", "some", "no", "is", "are", "was", "were", "be", "am", "do", "does", "did", "has", "have", "had", "can",
    "will", "may", "and", "or", "but", "so", "if", "as", "to", "of", "in", "on", "by", "at", "near", "with", "for",
    "from", "up", "not", "very", "where", "who", "what", "when", "how", "there", "here", "then",
})  # fmt: skip

_LATIN = "abcdefghijklmnopqrstuvwxyz"
#: Letter for letter, so that an answer can be read back.
SCRIPTS: Mapping[str, str] = {
    "Cyrillic": "абцдефгхийклмнопярстувшжыз",
    "Greek": "αβχδεφγηιξκλμνοπθρστυωψϊϋζ",
}


def to_script(text: str, script: str) -> str:
    """`text` with its Latin letters written in a script of `SCRIPTS`."""
    there = SCRIPTS[script]
    return text.translate(str.maketrans(_LATIN + _LATIN.upper(), there + there.upper()))


def to_latin(text: str) -> str:
    """The inverse of `to_script`, for any script of `SCRIPTS`; other letters stay."""
    back: dict[int, str] = {}
    for letters in SCRIPTS.values():
        back.update(zip(map(ord, letters + letters.upper()), _LATIN + _LATIN.upper(), strict=True))
    return text.translate(back)
