"""A frozen model that scores tokens: the folder of a Hugging Face checkpoint with the student's vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from noria.core.config import Checked
from noria.teachers._scoring import Student

#: It has probabilities, so it can be the route of a distillation.
SCORES_TOKENS = True
#: It is in this process, so it has hidden states for losses over the whole vocabulary.
GIVES_STATES = True


class Config(Checked):
    """Where it is."""

    type: Literal["frozen"] = "frozen"
    path: str = Field(description="folder of the checkpoint")


class Frozen:
    """Its weights are read from the folder each time it is loaded, and kept nowhere else."""

    gold = False

    def __init__(self, folder: Path) -> None:
        self.folder: Path | None = folder

    def tick(self, step: int, student: Student) -> None:
        """It does not move."""

    def data(self) -> bytes:
        """The weights as safetensors, as a trainer takes them."""
        from noria.models.weights import read

        assert self.folder is not None
        return read(self.folder)

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """There is nothing to restore."""


def build(config: Config) -> Frozen:
    """The teacher of a recipe's table."""
    return Frozen(Path(config.path))
