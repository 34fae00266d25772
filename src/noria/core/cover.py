"""Few short tests that tell a program from its mutants: a greedy weighted cover (Chvátal, 1979)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

_PER_CHARACTER = 0.02


def cover(kills: Sequence[Collection[int]], sizes: Sequence[int], least: int, most: int) -> list[int]:
    """Indices of chosen tests, short ones first. `kills[i]` are the mutants that test `i` tells, `sizes[i]` characters.

    A test is worth 1 for each mutant that no chosen one kills yet, a quarter for each that one does, and so on, less a
    little for each character. At least `least` are taken where there are so many, and more only until all are killed.
    """
    chosen: list[int] = []
    times = dict.fromkeys(sorted(set().union(*kills)), 0)
    while len(chosen) < most and (len(chosen) < least or 0 in times.values()):
        rest = [i for i in range(len(kills)) if i not in chosen]
        if not rest:
            break
        worth = {i: sum(0.25 ** times[kill] for kill in kills[i]) - _PER_CHARACTER * sizes[i] for i in rest}
        best = max(rest, key=lambda i: (worth[i], -i))
        chosen.append(best)
        for kill in kills[best]:
            times[kill] += 1
    return sorted(chosen, key=lambda i: sizes[i])
