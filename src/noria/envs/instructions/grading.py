"""Grading: every constraint to the letter and loosely, then the judge stage.

Loosely means after what chat models add and nobody minds: the first line, the last line, and stars may go. A
constraint holds loosely where it holds in one of the eight variants, as in IFEval (Zhou et al. 2023, arXiv 2311.07911).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noria.envs.instructions import judge
from noria.envs.instructions.grammar import Constraint
from noria.envs.instructions.lexicon import TOPICS


@dataclass(frozen=True, slots=True)
class Report:
    """What was found: per constraint strictly and loosely, and why the answer is degenerate ("" = it is not)."""

    strict: tuple[bool, ...]
    loose: tuple[bool, ...]
    fault: str

    @property
    def share(self) -> float:
        """Share of the constraints that hold strictly."""
        return sum(self.strict) / len(self.strict)


def variants(answer: str) -> list[str]:
    """The answer, and what is left without its first or last line or both, each with and without stars."""
    rows = answer.split("\n")
    cuts = [answer, *("\n".join(part).strip() for part in (rows[1:], rows[:-1], rows[1:-1]))]
    return list(dict.fromkeys([*cuts, *(cut.replace("*", "") for cut in cuts)]))


def script_of(constraints: Sequence[Constraint]) -> str:
    """The script that the letters of an answer must be of."""
    asked = [str(one.values["w"]) for one in constraints if one.kind.name == "script"]
    return asked[0] if asked else "Latin"


def report(
    constraints: Sequence[Constraint], answer: str, prompt: str, topic: str, rules: judge.Rules
) -> Report:  # fmt: skip
    """Check an answer. Nothing that a model writes raises."""
    strict = tuple(bool(answer.strip()) and one.holds(answer) for one in constraints)
    cuts = [cut for cut in variants(answer) if cut.strip()]
    loose = tuple(hard or any(map(one.holds, cuts)) for hard, one in zip(strict, constraints, strict=True))
    return Report(strict, loose, judge.fault(rules, answer, prompt, TOPICS[topic], script_of(constraints)))
