"""The world `bfcl`: BFCL v4 as an evaluation set."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from noria.bases.outside import OutsideWorld, taken
from noria.bases.package import Package
from noria.bases.world import check_split
from noria.core.config import Checked
from noria.core.protocols import Episode, Sandbox
from noria.core.types import Split, Task
from noria.envs.bfcl.data import CATEGORIES, FORMATS, TURNS, Data, Entry, said_in, why_left_out
from noria.envs.bfcl.episodes import Fault, OneMessage, Turns
from noria.envs.bfcl.formats import system_of
from noria.envs.bfcl.matching import fault_of
from noria.envs.bfcl.packaged import converter, own_checker
from noria.envs.bfcl.reference import solution
from noria.envs.bfcl.services import Services

NAME = "bfcl"
PROJECT = "bfcl-eval==2026.3.23"
_SYSTEM = "Answer by calling functions. If none fits, or something that one needs is not known, say so and call none."


class Config(Checked):
    """Where the package is, and which of its categories are asked."""

    type: Literal["bfcl"] = "bfcl"
    tasks: int = Field(default=256, ge=1, le=10**6, description="tasks that `noria tasks` takes unless told otherwise")
    path: str = Field(default="", description='wheel of bfcl-eval, or folder that holds bfcl_eval; "" = installed')
    categories: tuple[str, ...] = Field(
        default=tuple(name for name in CATEGORIES if name not in FORMATS), min_length=1,
        description="categories, as BFCL names them; all but format_sensitivity, which counts in no score",
    )  # fmt: skip
    checker: Literal["own", "package"] = Field(
        default="own",
        description="own = the published rules; package = bfcl-eval, installed with all it needs",
    )

    @field_validator("categories", mode="before")
    @classmethod
    def _is_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("categories")
    @classmethod
    def _is_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in value if name not in CATEGORIES]
        if unknown:
            why = why_left_out(unknown[0])
            raise ValueError(
                f"categories must be of {', '.join(CATEGORIES)}: got {unknown[0]!r}" + (f" - {why}" if why else "")
            )
        return value


class BfclWorld(OutsideWorld):
    """Held-out tasks alone: what one measures on is not trained on."""

    name, splits = NAME, ("heldout",)

    def __init__(self, config: Config) -> None:
        super().__init__(solved=True)
        self.config = config
        self._package = Package("bfcl_eval", PROJECT, config.path)
        self._data = Data(self._package)
        self._own: Fault | None = own_checker(self._package) if config.checker == "package" else None

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` tasks of the categories, in an order of the seed. UserError: another split, or more than there are."""
        check_split(split, self.splits)
        entries = [entry for name in self.config.categories for entry in self._data.entries(name).values()]
        random.Random(f"{NAME}:{seed}").shuffle(entries)
        return [self._task(entry) for entry in taken(entries, n, NAME)]

    def open(self, task: Task) -> Episode:
        """A fresh episode."""
        entry = self._entry(task)
        if entry.category in TURNS:
            return Turns(entry, lambda: self._services(entry))
        return OneMessage(entry, self._fault)

    def reference(self, task: Task) -> list[str]:
        """The ground truth as messages."""
        entry = self._entry(task)

        def solves(message: str) -> bool:
            episode = OneMessage(entry, self._fault)
            episode.act(message)
            return episode.grade().solved

        return solution(entry, solves, lambda: self._services(entry))

    def close(self) -> None:
        """Let the package go."""
        self._package.close()

    def _fault(self, entry: Entry, calls: Any) -> str:
        if self._own is not None:
            return self._own(entry, calls)
        return fault_of(entry, calls, converter(self._package, entry.language))

    def _services(self, entry: Entry) -> Services:
        return Services(self._package, entry)

    def _entry(self, task: Task) -> Entry:
        return self._data.entries(task.data["category"])[task.data["id"]]

    def _task(self, entry: Entry) -> Task:
        system, prompt = said_in(entry.row["question"][0])
        data: Mapping[str, Any] = {"category": entry.listed, "id": entry.id}
        ours = _SYSTEM if entry.form is None else system_of(entry.form, entry.functions, self._package)
        text = f"{system}\n{ours}" if system else ours
        return Task(f"{NAME}-{entry.id}", NAME, text, prompt, entry.tools(), data, "heldout")


def build(config: Config, sandbox: Sandbox | None) -> BfclWorld:
    """The world of a config. Raises UserError: the package is not there."""
    return BfclWorld(config)
