"""A task as other harnesses know it: files, an instruction, a script that grades and one that solves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from noria.core.types import Task


@dataclass(frozen=True, slots=True)
class Package:
    """One task without Noria.

    files     path below the working folder -> text: what the policy starts with
    tests     path -> text; `test.sh` among them writes a number from 0 to 1 to /logs/verifier/reward.txt
    solution  path -> text; `solve.sh` among them
    facts     plain values about the task, for whoever lists it
    """

    instruction: str
    files: Mapping[str, str]
    tests: Mapping[str, str]
    solution: Mapping[str, str]
    facts: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    timeout_s: float = 60.0


class Packer(Protocol):
    """What a world's module binds to `package` where its tasks can be worked on with a shell alone."""

    def __call__(self, task: Task) -> Package: ...
