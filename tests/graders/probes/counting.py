"""A grader for tests of the router: it does what the spec says, and counts."""

from __future__ import annotations

import asyncio
from collections import Counter

from noria.core.config import Checked
from noria.core.errors import SandboxError
from noria.core.types import Outcome
from noria.graders.base import Case, Given, spec_of

NEEDS: tuple[str, ...] = ()
#: What was seen; the tests empty it.
SEEN: Counter[str] = Counter()


class Config(Checked):
    """None."""


class Spec(Checked):
    """What to do."""

    sleep_s: float = 0.0
    fails: int = 0
    bug: bool = False
    reward: float = 1.0


class Probe:
    """See the module."""

    def __init__(self) -> None:
        self._now = 0

    async def grade(self, case: Case) -> Outcome:
        spec = spec_of(Spec, case)
        self._now += 1
        SEEN["most"] = max(SEEN["most"], self._now)
        try:
            SEEN[f"tries {case.answer}"] += 1
            await asyncio.sleep(spec.sleep_s)
            if SEEN[f"tries {case.answer}"] <= spec.fails:
                raise SandboxError("not yet")
            if spec.bug:
                raise ZeroDivisionError("a bug")
            return Outcome(spec.reward, {}, "done")
        finally:
            self._now -= 1

    async def close(self) -> None:
        SEEN["closed"] += 1


def build(config: Config, given: Given) -> Probe:
    return Probe()
