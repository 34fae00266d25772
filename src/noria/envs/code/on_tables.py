"""Functions of dicts, pairs and tables."""

from __future__ import annotations

from random import Random
from typing import Any

from noria.envs.code.family import Family, ints, word


def _pairs(rng: Random, most: int = 6) -> list[list[Any]]:
    return [[word(rng, "ab", 1, 2), rng.randint(-3, 9)] for _ in range(rng.randint(0, most))]


def _grid(rng: Random) -> list[list[int]]:
    width = rng.randint(1, 4)
    return [[rng.randint(0, 9) for _ in range(width)] for _ in range(rng.randint(1, 3))]


def _spans(rng: Random) -> list[list[int]]:
    return [[a := rng.randint(0, 12), a + rng.randint(0, 4)] for _ in range(rng.randint(0, 5))]


FAMILIES: dict[str, Family] = {
    "totals": Family(
        ("totals", "sums_by_name"),
        "pairs",
        "a dict from each name to the sum of its numbers; pairs is a list of [name, number]",
        "out = {}\nfor name, n in pairs:\n    out[name] = out.get(name, 0) + n\nreturn out",
        {
            "last": ("out.get(name, 0) + n", "n"),
            "part": ("+ n", "+ abs(n)"),
            "off": ("out.get(name, 0)", "out.get(name, 1)"),
        },
        lambda rng, k: (_pairs(rng),),
        (([],), ([["a", 2], ["a", -1]],)),
    ),
    "group_by_length": Family(
        ("by_length", "group"),
        "words",
        "a dict from each length to the words of that length, in their order",
        "out = {}\nfor w in words:\n    out.setdefault(len(w), []).append(w)\nreturn out",
        {
            "last": ("out.setdefault(len(w), []).append(w)", "out[len(w)] = [w]"),
            "order": (".append(w)", ".insert(0, w)"),
            "part": ("for w in words:", "for w in words:\n    if not w:\n        continue"),
        },
        lambda rng, k: ([word(rng, "ab", 0, 3) for _ in range(rng.randint(0, 5))],),
        (([],), (["", "a", "b"],)),
    ),
    "transpose": Family(
        ("transpose", "flip"),
        "rows",
        "the columns of the table rows as lists",
        "return [list(column) for column in zip(*rows)]",
        {
            "type": ("list(column)", "column"),
            "order": ("zip(*rows)", "zip(*rows[::-1])"),
            "part": ("zip(*rows)", "zip(*rows[:2])"),
        },
        lambda rng, k: (_grid(rng),),
        (([[1, 2, 3]],), ([[1], [2], [3]],)),
    ),
    "merge_spans": Family(
        ("merge_spans", "join_spans"),
        "spans",
        "the spans [first, last] joined where they overlap or touch at an end, sorted",
        "out = []\nfor a, b in sorted(spans):\n    if out and a <= out[-1][1]:\n"
        "        out[-1][1] = max(out[-1][1], b)\n"
        "    else:\n        out.append([a, b])\nreturn out",
        {
            "edge": ("a <= out[-1][1]", "a < out[-1][1]"),
            "part": ("max(out[-1][1], b)", "b"),
            "order": ("sorted(spans)", "spans"),
        },
        lambda rng, k: (_spans(rng),),
        (([],), ([[1, 3], [3, 5]],), ([[1, 9], [2, 3]],), ([[5, 6], [1, 2]],)),
    ),
    "invert": Family(
        ("invert", "turn_round"),
        "table",
        "a dict from each value of the dict table to the sorted list of its keys",
        "out = {}\nfor key in sorted(table):\n    out.setdefault(table[key], []).append(key)\nreturn out",
        {
            "last": ("out.setdefault(table[key], []).append(key)", "out[table[key]] = [key]"),
            "order": ("sorted(table)", "sorted(table)[::-1]"),
            "type": ("out.setdefault(table[key], []).append(key)", "out[table[key]] = key"),
        },
        lambda rng, k: ({word(rng, "abc", 1, 2): rng.randint(0, 2) for _ in range(rng.randint(0, 5))},),
        (({},), ({"b": 1, "a": 1},)),
    ),
    "flatten": Family(
        ("flatten", "level"),
        "items",
        "all numbers of items, a list that may hold lists in lists, from left to right",
        "out = []\nfor item in items:\n    if isinstance(item, list):\n        out += {f}(item)\n    else:\n"
        "        out.append(item)\nreturn out",
        {
            "deep": ("out += {f}(item)", "out += item"),
            "part": ("out += {f}(item)", "out += {f}(item[:1])"),
            "order": ("out += {f}(item)", "out = {f}(item) + out"),
        },
        lambda rng, k: (
            [
                rng.choice([rng.randint(0, 9), ints(rng, 0, 9, 0, 2), [rng.randint(0, 9), [rng.randint(0, 9)]]])
                for _ in range(rng.randint(0, 4))
            ],
        ),
        (([],), ([1, [2, [3, [4]]]],), ([[], 1],)),
    ),
    "top": Family(
        ("top", "best_names"),
        "pairs",
        "the {k} names with the highest numbers, highest first, equal ones by name; pairs is a list of [name, number]",
        "return [name for name, n in sorted(pairs, key=lambda p: (-p[1], p[0]))[:{k}]]",
        {"tie": ("(-p[1], p[0])", "-p[1]"), "sign": ("-p[1], p[0]", "p[1], p[0]"), "off": ("[:{k}]", "[:{k} - 1]")},
        lambda rng, k: ([[w, rng.randint(0, 3)] for w in rng.sample(["ab", "b", "c", "a", "d"], rng.randint(0, 5))],),
        (([],), ([["b", 1], ["a", 1], ["c", 2]],)),
        {"k": (2, 3)},
    ),
    "diagonal": Family(
        ("diagonal_sum", "cross_sum"),
        "rows",
        "the sum of both diagonals of the square table rows, the middle counted once",
        "n = len(rows)\nreturn sum(rows[i][i] for i in range(n)) + sum(rows[i][n - 1 - i] for i in range(n) "
        "if i != n - 1 - i)",
        {
            "twice": (" if i != n - 1 - i", ""),
            "part": (" + sum(rows[i][n - 1 - i] for i in range(n) if i != n - 1 - i)", ""),
            "off": ("rows[i][n - 1 - i]", "rows[i][n - 2 - i]"),
        },
        lambda rng, k: ([[rng.randint(0, 9) for _ in range(m)] for _ in range(m)] if (m := rng.randint(1, 3)) else [],),
        (([[5]],), ([[1, 2], [3, 4]],), ([[1, 2, 3], [4, 5, 6], [7, 8, 9]],)),
        unseen=True,
    ),
}
