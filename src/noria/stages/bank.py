"""The bank of teachers that score tokens: loaded on demand, in teacher order inside a batch, one resident at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from noria.trainers.local import LocalTrainer
from noria.trainers.rows import Row


class ModelBank:
    """Teachers by route index. `loads` counts how often each was loaded; only one set of weights is held.

    Args:
        scorer: a model of the teachers' shape, whose weights are replaced.
        folders: the checkpoint of each route.
        temperature: teachers are scored at temperature 1 unless configured.
    """

    def __init__(self, scorer: LocalTrainer, folders: Sequence[Path], temperature: float = 1.0) -> None:
        self.scorer, self.folders, self.temperature = scorer, list(folders), temperature
        self.loads: Counter[int] = Counter()
        self._resident: int | None = None

    def score(self, rows: Sequence[Row]) -> None:
        """Fill `logp_teacher` of every row from its own route's teacher."""
        for route in sorted({row.route for row in rows}):
            mine = [row for row in rows if row.route == route]
            self._load(route)
            for row, logp in zip(mine, self.scorer.score(mine, self.temperature), strict=True):
                row.logp_teacher = logp

    def _load(self, route: int) -> None:
        if self._resident == route:
            return
        self.scorer.load_weights((self.folders[route] / "model.safetensors").read_bytes())
        self._resident = route
        self.loads[route] += 1
