"""What teachers that score tokens share: where their weights are from, and what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

#: Gives the student's tensors by name, as they stand.
Student = Callable[[], Mapping[str, Any]]


class Moving:
    """A teacher made from the student itself: a copy of its tensors that `tick` may change.

    `folder` is None: its weights are nowhere but here. `gold` says whether it reads the solution before it scores.
    """

    folder: Path | None = None
    gold: bool = False

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}

    def tick(self, step: int, student: Student) -> None:
        """Called once before each step that scores; the first call takes a copy."""
        if not self.tensors:
            self.copy(student)
        else:
            self.follow(step, student)

    def follow(self, step: int, student: Student) -> None:
        """Move after the student; `step` counts from 1 here."""

    def copy(self, student: Student) -> None:
        """Become the student as it stands."""
        self.tensors = {name: tensor.clone() for name, tensor in student().items()}

    def data(self) -> bytes:
        """The weights as safetensors."""
        from safetensors.torch import save

        return save(self.tensors)

    def state(self) -> dict[str, Any]:
        return {"tensors": self.tensors}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.tensors = dict(state["tensors"])
