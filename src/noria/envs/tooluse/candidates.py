"""Where the factory's candidates come from: the seed alone, or whoever else proposes specifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from noria.envs.tooluse.sample import draw_domain
from noria.envs.tooluse.spec import Domain


class Refused(Exception):
    """Why a candidate is dropped: a class of reasons, and the case."""

    def __init__(self, reason: str, case: str) -> None:
        super().__init__(case)
        self.reason, self.case = reason, case


class Source(Protocol):
    """Candidates by number. `settings` is what a folder is held to beside its seed; `label` names a candidate.

    Of a `foreign` source a specification may be odd in ways that nobody has thought of.
    """

    settings: Mapping[str, Any]
    foreign: bool

    def label(self, seed: int, number: int) -> str: ...

    def domain(self, seed: int, number: int) -> Domain:
        """The candidate of a number. Raises Refused where there is none."""
        ...


class Drawn:
    """Domains drawn from the seed."""

    settings: Mapping[str, Any] = {}
    foreign = False

    def label(self, seed: int, number: int) -> str:
        """The domain's own name."""
        return draw_domain(seed, number).name

    def domain(self, seed: int, number: int) -> Domain:
        """See `sample.draw_domain`."""
        return draw_domain(seed, number)
