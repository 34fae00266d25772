"""Families over text."""

from __future__ import annotations

from noria.envs.microswe.families import Family, family

_LETTERS = 'O = ""\nfor C in S:\n'

FAMILIES: tuple[Family, ...] = (
    family(
        "vowels",
        "vowels num_vowels sing",
        "S",
        "w",
        "count of vowels in S",
        'T = 0\nfor C in S:\n if C in "aeiou":\n  T += 1\nreturn T',
    ),
    family(
        "drop_char",
        "drop_char remove erase",
        "S, P",
        "w c",
        "S without P",
        _LETTERS + " if C != P:\n  O += C\nreturn O",
    ),
    family(
        "only_char",
        "only_char keep_char pick",
        "S, P",
        "w c",
        "every P in S",
        _LETTERS + " if C == P:\n  O += C\nreturn O",
    ),
    family(
        "long_words",
        "long_words num_long wordy",
        "S",
        "t",
        "count of words of S above K letters",
        "T = 0\nfor W in S.split():\n if len(W) > K:\n  T += 1\nreturn T",
        K=(1, 3),
    ),
    family(
        "cut",
        "cut shorten crop",
        "S",
        "w",
        "S cut to K letters",
        "if len(S) > K:\n return S[:K]\nreturn S",
        K=(2, 4),
    ),
    family(
        "pad",
        "pad fill extend",
        "S",
        "w",
        "S filled with dots to K letters",
        'if len(S) < K:\n return S + "." * (K - len(S))\nreturn S',
        K=(3, 5),
    ),
    family(
        "same_ends",
        "same_ends closed loops",
        "S",
        "w",
        "whether S starts as it ends, False if short",
        "if len(S) < 2:\n return False\nreturn S[0] == S[-1]",
    ),
    family(
        "doubles",
        "doubles twins pairs_in",
        "S",
        "w",
        "count of equal neighbours in S",
        "T = 0\nfor I in range(len(S) - 1):\n if S[I] == S[I + 1]:\n  T += 1\nreturn T",
    ),
)
