"""Functions of texts."""

from __future__ import annotations

from noria.envs.code.family import Args, Family, word, words


def _texts(*edges: str) -> tuple[Args, ...]:
    return tuple((edge,) for edge in edges)


FAMILIES: dict[str, Family] = {
    "palindrome": Family(
        ("is_palindrome", "mirrors"),
        "text",
        "whether text reads the same backwards, blanks and case apart",
        "plain = text.replace(' ', '').lower()\nreturn plain == plain[::-1]",
        {
            "case": (".lower()", ""),
            "blank": (".replace(' ', '')", ""),
            "part": ("plain == plain[::-1]", "plain[:1] == plain[-1:]"),
        },
        lambda rng, k: (
            rng.choice([w := word(rng, "abA", 0, 4), w + " " + w[::-1], w + w[::-1].upper(), w + "b" + w[::-1]]),
        ),
        _texts("", "Ab a", "abca", "Aba"),
    ),
    "count_words": Family(
        ("count_words", "word_count"),
        "text",
        "a dict from each word of text, in small letters, to how often it is there",
        "out = {}\nfor w in text.lower().split():\n    out[w] = out.get(w, 0) + 1\nreturn out",
        {
            "case": (".lower()", ""),
            "off": ("out.get(w, 0) + 1", "out.get(w, 1) + 1"),
            "blank": (".split()", ".split(' ')"),
        },
        lambda rng, k: (rng.choice([text := words(rng), text.title()]) + rng.choice(["", " ", "  a"]),),
        _texts("", "a A b", "a  b"),
    ),
    "caesar": Family(
        ("shift", "encode"),
        "text",
        "text with each small letter moved on by {k} in the alphabet, z followed by a",
        "return ''.join(chr((ord(c) - 97 + {k}) % 26 + 97) if 'a' <= c <= 'z' else c for c in text)",
        {"large": (" % 26", ""), "sign": ("+ {k})", "- {k})"), "part": (" if 'a' <= c <= 'z' else c", "")},
        lambda rng, k: (word(rng, "abcxyz .B", 0, 7),),
        _texts("", "xyz", "a b", "Z"),
        {"k": (1, 12)},
    ),
    "compress": Family(
        ("compress", "run_length"),
        "text",
        "text with each run of a letter as the letter and its length, as a3b1",
        "out, i = '', 0\nwhile i < len(text):\n    j = i\n    while j < len(text) and text[j] == text[i]:\n"
        "        j += 1\n"
        "    out += text[i] + str(j - i)\n    i = j\nreturn out",
        {
            "one": ("str(j - i)", "(str(j - i) if j - i > 1 else '')"),
            "off": ("str(j - i)", "str(j - i + 1)"),
            "digit": ("str(j - i)", "str(min(j - i, 3))"),
        },
        lambda rng, k: ("".join(c * rng.randint(1, 5) for c in word(rng, "ab", 0, 4)),),
        _texts("", "a", "aaaab"),
    ),
    "brackets": Family(
        ("balanced", "closes"),
        "text",
        "whether every bracket ( and [ in text is closed by its own kind in the right order",
        "open_ = []\nfor c in text:\n    if c in '([':\n        open_.append(c)\n    elif c in ')]':\n"
        "        if not open_ or open_.pop() + c not in ('()', '[]'):\n            return False\nreturn not open_",
        {
            "left": ("return not open_", "return True"),
            "kind": ("open_.pop() + c not in ('()', '[]')", "not open_.pop()"),
            "edge": ("not open_ or ", "len(open_) > 9 or "),
        },
        lambda rng, k: (word(rng, "()[]a", 0, 6),),
        _texts("", "(", "([)]", "([a])", "()[]"),
    ),
    "vowels": Family(
        ("vowels", "count_vowels"),
        "text",
        "how many of a, e, i, o, u are in text, small or capital",
        "return sum(c in 'aeiou' for c in text.lower())",
        {
            "case": (".lower()", ""),
            "part": ("'aeiou'", "'aeio'"),
            "off": ("sum(c in 'aeiou' for c in text.lower())", "len({c for c in text.lower() if c in 'aeiou'})"),
        },
        lambda rng, k: (word(rng, "aeuxAEUbi", 0, 8),),
        _texts("", "AEIOU", "aab"),
    ),
    "initials": Family(
        ("initials", "short_name"),
        "name",
        "the first letter of each word of name as a capital followed by a point",
        "return ''.join(w[0].upper() + '.' for w in name.split())",
        {"case": (".upper()", ""), "blank": (".split()", ".split(' ')[:2]"), "off": ("+ '.'", "")},
        lambda rng, k: (words(rng, 0, 4),),
        _texts("", "ada b lovelace", "x"),
    ),
    "longest_word": Family(
        ("longest_word", "biggest"),
        "text",
        "the longest word of text, the first of several, '' for none",
        "best = ''\nfor w in text.split():\n    if len(w) > len(best):\n        best = w\nreturn best",
        {
            "tie": ("len(w) > len(best)", "len(w) >= len(best)"),
            "order": ("len(w) > len(best)", "w > best"),
            "edge": ("best = ''", "best = ' '"),
        },
        lambda rng, k: (words(rng, 0, 5),),
        _texts("", "aa bb", "a bbb cc"),
    ),
    "anagrams": Family(
        ("anagrams", "same_letters"),
        "a, b",
        "whether a and b have the same letters equally often, blanks apart",
        "return sorted(a.replace(' ', '')) == sorted(b.replace(' ', ''))",
        {
            "repeat": ("sorted(a.replace(' ', '')) == sorted(b.replace(' ', ''))", "set(a) - {' '} == set(b) - {' '}"),
            "blank": ("a.replace(' ', '')", "a"),
            "part": ("sorted(a.replace(' ', ''))", "sorted(a.replace(' ', ''))[:len(b)]"),
        },
        lambda rng, k: (a := word(rng, "ab ", 0, 5), "".join(rng.sample(a, len(a))) + rng.choice(["", "", " ", "a"])),
        (("", ""), ("aab", "abb"), ("a b", "ba"), ("abc", "ab")),
    ),
    "snake": Family(
        ("snake", "to_snake"),
        "name",
        "name with a _ before each capital letter but the first letter, all in small letters",
        "return ''.join('_' * (i > 0 and c.isupper()) + c.lower() for i, c in enumerate(name))",
        {"edge": ("i > 0 and ", ""), "case": (".lower()", ""), "part": ("c.isupper()", "c.isupper() and i < 5")},
        lambda rng, k: (word(rng, "abXY", 0, 8),),
        _texts("", "Ab", "aBcDeFgH"),
        unseen=True,
    ),
    "every_other": Family(
        ("every", "skip"),
        "text",
        "every letter of text whose place, counted from 1, can be divided by {k}",
        "return text[{k} - 1::{k}]",
        {
            "off": ("[{k} - 1::{k}]", "[::{k}]"),
            "slip": ("[{k} - 1::{k}]", "[{k}::{k}]"),
            "sign": ("[{k} - 1::{k}]", "[{k} - 1:]"),
        },
        lambda rng, k: (word(rng, "abcdefg", 0, 12),),
        _texts("", "abcdefgh"),
        {"k": (2, 5)},
    ),
}
