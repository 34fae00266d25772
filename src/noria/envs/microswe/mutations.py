"""Kinds of small bugs, as rewrites of one fragment of one template line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from noria.envs.microswe.families import Family

Replacement = str | Callable[[re.Match[str]], str]


@dataclass(frozen=True)
class Mutant:
    """A template in which one line was rewritten. `line` counts from 1 and includes the `def`."""

    kind: str
    line: int
    lines: tuple[str, ...]


def _up(found: re.Match[str]) -> str:
    return str(int(found.group()) + 1)


def _down(found: re.Match[str]) -> str:
    return str(int(found.group()) - 1)


_WHOLE = r"(?<![\w.\[:])[2-9]\d*(?![\w:])"

#: kind -> rewrites; every match of every pattern is one site.
RULES: dict[str, tuple[tuple[str, Replacement], ...]] = {
    "lt_le": ((r"(?<= )<(?= )", "<="),),
    "le_lt": ((r"(?<= )<=(?= )", "<"),),
    "gt_ge": ((r"(?<= )>(?= )", ">="),),
    "ge_gt": ((r"(?<= )>=(?= )", ">"),),
    "lt_gt": ((r"(?<= )<(?= )", ">"), (r"(?<= )<=(?= )", ">=")),
    "gt_lt": ((r"(?<= )>(?= )", "<"), (r"(?<= )>=(?= )", "<=")),
    "eq_ne": ((r"==", "!="),),
    "ne_eq": ((r"!=", "=="),),
    "eq_cmp": ((r"==", ">"),),
    "plus_minus": ((r"(?<= )\+(?= )", "-"),),
    "minus_plus": ((r"(?<= )-(?= )", "+"),),
    "times_plus": ((r"(?<= )\*(?= )", "+"),),
    "plus_times": ((r"(?<= )\+(?= )", "*"),),
    "floor_div": ((r"//", "/"),),
    "floor_mod": ((r"//", "%"),),
    "mod_floor": ((r"%", "//"),),
    "const_up": ((r"\b([KJ])\b", r"\1p"), (_WHOLE, _up)),
    "const_down": ((r"\b([KJ])\b", r"\1m"), (_WHOLE, _down)),
    "const_swap": ((r"\bK\b", "J"), (r"\bJ\b", "K")),
    "range_short": (
        (r"range\(N\)", "range(N - 1)"), (r"range\(len\((\w)\)\)", r"range(len(\1) - 1)"),
        (r"range\(1, N \+ 1\)", "range(1, N)"), (r"range\(2, N\)", "range(2, N - 1)"),
    ),
    "range_long": (
        (r"range\(N\)", "range(N + 1)"), (r"range\(len\((\w)\) - 1\)", r"range(len(\1))"),
        (r"range\(2, N\)", "range(2, N + 1)"),
    ),
    "range_late": (
        (r"range\((N|len\(\w\)|len\(\w\) - 1)\)", r"range(1, \1)"), (r"range\(1,", "range(2,"),
        (r"range\(2,", "range(3,"),
    ),
    "range_early": ((r"range\(1,", "range(0,"), (r"range\(2,", "range(1,")),
    "first_second": ((r"\[0\]", "[1]"),),
    "first_last": ((r"\[0\]", "[-1]"),),
    "last_first": ((r"\[-1\]", "[0]"), (r"\[-2\]", "[1]")),
    "last_shift": ((r"\[-1\]", "[-2]"), (r"\[-2\]", "[-1]")),
    "index_next": ((r"\[I\]", "[I + 1]"),),
    "index_same": ((r"\[I \+ 1\]", "[I]"), (r":I \+ 1\]", ":I]")),
    "slice_front": ((r"\[1:\]", "[:-1]"), (r"\[K:\]", "[:K]"), (r"\[-K:\]", "[:K]")),
    "slice_back": ((r"\[:-1\]", "[1:]"), (r"\[:K\]", "[K:]"), (r"\[1:-1\]", "[1:]")),
    "slice_minus": ((r"\[-([K1]):\]", r"[\1:]"), (r"\[:([K1])\]", r"[:-\1]")),
    "and_or": ((r"\band\b", "or"),),
    "or_and": ((r"\bor\b", "and"),),
    "drop_not": ((r"\bnot ", ""),),
    "add_not": ((r"(?<!not )\bin (?=[OB\"])", "not in "), (r"\bif (?=[A-Z] |len)", "if not ")),
    "min_max": ((r"\bmin\(", "max("),),
    "max_min": ((r"\bmax\(", "min("),),
    "drop_abs": ((r"\babs\(([^()\[\]]*)\)", r"\1"),),
    "drop_sorted": ((r"\bsorted\((\w)\)", r"\1"),),
    "len_sum": ((r"\blen\(A\)(?= <|\n|$)", "sum(A)"),),
    "sum_max": ((r"\bsum\(A\)", "max(A)"), (r"\bmax\(A\)", "sum(A)"), (r"\bmin\(A\)", "sum(A)")),
    "true_false": ((r"\bTrue\b", "False"),),
    "false_true": ((r"\bFalse\b", "True"),),
    "aug_set": ((r"\+=", "="), (r"\*=", "=")),
    "aug_minus": ((r"\+=", "-="),),
    "aug_plus": ((r"\*=", "+="),),
    "init_one": ((r"= 0$", "= 1"), (r"= 0, 1$", "= 1, 1")),
    "init_zero": ((r"(?<!-)= 1$", "= 0"), (r"= -1$", "= 0"), (r"= 0, 1$", "= 0, 0")),
    "step_two": ((r"\+= 1$", "+= 2"),),
    "result_up": ((r"return 0$", "return 1"), (r"return 1$", "return 2"), (r"return -1$", "return 0")),
    "result_down": (
        (r"return 0$", "return -1"), (r"return 1$", "return 0"), (r"return \"\w+\"$", 'return ""'),
    ),
    "swap_operands": (
        (r"\b([A-Z]) (-|%|//|\+) ([A-Z])\b(?! \*)", r"\3 \2 \1"),
        (r"\b([A-Z]) ([<>]=?) ([A-Z])\b", r"\3 \2 \1"),
    ),
}  # fmt: skip
#: Kinds that take another variable in scope: where they strike.
_SCOPED = {
    "wrong_return": re.compile(r"(?<=return )([A-Z])$"),
    "wrong_append": re.compile(r"(?<=append\()([A-Z])(?=[ ),])"),
    "wrong_compare": re.compile(r"(?<=[<>=] )([A-Z])\b(?=:| and| or|$)"),
    "wrong_add": re.compile(r"(?<=\+= )([A-Z])\b"),
}
KINDS: tuple[str, ...] = (*RULES, *_SCOPED)
_NAME = re.compile(r"\b([A-Z])\b")


def mutate(lines: tuple[str, ...], consts: frozenset[str]) -> Iterator[Mutant]:
    """Every mutant of a template, without repeats: the first kind that makes a text owns it."""
    seen = {lines}
    for kind in KINDS:
        for index in range(2, len(lines)):
            for text in _rewrites(kind, lines, index, consts):
                changed = (*lines[:index], text, *lines[index + 1 :])
                if changed not in seen:
                    seen.add(changed)
                    yield Mutant(kind, index + 1, changed)


def _rewrites(kind: str, lines: tuple[str, ...], index: int, consts: frozenset[str]) -> Iterator[str]:
    line = lines[index]
    if kind in _SCOPED:
        for found in _SCOPED[kind].finditer(line):
            for name in (one for one in _scope(lines, index, consts) if one != found.group(1)):
                yield line[: found.start()] + name + line[found.end() :]
        return
    for pattern, new in _compiled(kind):
        for found in pattern.finditer(line):
            swap = new(found) if callable(new) else found.expand(new)
            if "J" not in consts and re.search(r"\bJ\b", swap):
                continue
            yield line[: found.start()] + swap + line[found.end() :]


@cache
def _compiled(kind: str) -> tuple[tuple[re.Pattern[str], Replacement], ...]:
    return tuple((re.compile(pattern), new) for pattern, new in RULES[kind])


def _scope(lines: tuple[str, ...], index: int, consts: frozenset[str]) -> list[str]:
    """Letters of variables known at the line, in order of appearance."""
    text = "\n".join((lines[0], *lines[2:index]))
    return list(dict.fromkeys(name for name in _NAME.findall(text) if name != "F" and name not in consts))


@cache
def mutants(key: str) -> tuple[Mutant, ...]:
    """All mutants of a family's template (some may behave like the original: `suites` sorts those out)."""
    from noria.envs.microswe.families import registry

    family: Family = registry()[key]
    return tuple(mutate(family.lines, frozenset(family.consts)))
