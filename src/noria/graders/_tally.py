"""What a router counts for each task type."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from noria.core.types import Outcome

#: Times of so many of the latest cases are kept for the quantiles.
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts, and times in seconds; quantiles and waits are over the latest 1024 cases.

    reward        mean over the cases that are known
    blamed        cases that got 0 because they defeated their grading
    most_waiting  that ever waited for a place at once
    """

    graded: int
    unknown: int
    reward: float
    retries: int
    timeouts: int
    blamed: int
    mean_s: float
    p50_s: float
    p95_s: float
    waited_s: float
    most_waiting: int

    @property
    def unknown_share(self) -> float:
        """Share of cases without a verdict."""
        return self.unknown / self.graded if self.graded else 0.0


class Tally:
    """Counts of one type; belongs to one event loop."""

    def __init__(self) -> None:
        self.retries = self.timeouts = self.blamed = 0
        self.waiting = self._graded = self._unknown = self._most = 0
        self._rewards = self._seconds = 0.0
        self._times: deque[float] = deque(maxlen=_KEPT)
        self._waits: deque[float] = deque(maxlen=_KEPT)

    def add(self, outcome: Outcome, seconds: float, began: float) -> Outcome:
        """Count an outcome that took so many seconds after its wait; gives it back."""
        self._graded += 1
        if outcome.reward is None:
            self._unknown += 1
        else:
            self._rewards += outcome.reward
        self._seconds += seconds
        self._times.append(seconds)
        self._waits.append(max(0.0, time.monotonic() - began - seconds))
        return outcome

    @contextmanager
    def waits(self) -> Iterator[None]:
        """A case waits for its place."""
        self.waiting += 1
        self._most = max(self._most, self.waiting)
        try:
            yield
        finally:
            self.waiting -= 1

    def stats(self) -> Stats:
        """What was counted so far."""
        times = sorted(self._times) or [0.0]
        known = self._graded - self._unknown
        return Stats(
            graded=self._graded,
            unknown=self._unknown,
            reward=self._rewards / known if known else 0.0,
            retries=self.retries,
            timeouts=self.timeouts,
            blamed=self.blamed,
            mean_s=self._seconds / self._graded if self._graded else 0.0,
            p50_s=times[len(times) // 2],
            p95_s=times[min(len(times) - 1, len(times) * 95 // 100)],
            waited_s=sum(self._waits) / len(self._waits) if self._waits else 0.0,
            most_waiting=self._most,
        )
