"""Lists of tasks that a run must not draw: `noria tasks validate --out` writes them, `env.<name>.admitted` names them.

A task is known by its content (`key_of`), whatever its id and the seed that drew it. A list also holds a digest of all
tasks that were looked at, by which it is told from that of other options or of another generator.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from noria.core.codec import to_json
from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.protocols import World
from noria.core.store import write_atomically
from noria.core.types import Split, Task

VERSION = 1
#: Draws of more tasks in the place of those that are refused.
_DRAWS = 16


class Struck(Checked):
    """A task that is refused or flaky; `key` is "" where the fault is not one task's."""

    id: str
    key: str
    reason: str


class Looked(Checked):
    """What was found in one split of a world: `tasks` of them under `seed`, with the `digest` of them all."""

    world: str
    split: Split
    seed: int = Field(ge=0)
    tasks: int = Field(ge=0, le=10**6)
    digest: str
    refused: tuple[Struck, ...] = ()
    flaky: tuple[Struck, ...] = ()


class Admission(Checked):
    """The file."""

    admission: int = Field(default=VERSION, ge=VERSION, le=VERSION)
    worlds: tuple[Looked, ...]


def key_of(task: Task) -> str:
    """SHA-256 over what a task is: its prompt and its data."""
    content = json.dumps([task.prompt, to_json(task.data)], sort_keys=True)
    return hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest()


def digest_of(tasks: Sequence[Task]) -> str:
    """SHA-256 over the keys of tasks in their order."""
    return hashlib.sha256("\n".join(map(key_of, tasks)).encode()).hexdigest()


def write(path: Path, looked: Sequence[Looked]) -> None:
    """Write a list. Raises UserError: the folder cannot be written."""
    try:
        write_atomically(path, Admission(worlds=tuple(looked)).model_dump_json(indent=1) + "\n")
    except OSError as fault:
        raise UserError(f"--out must be a file that can be written: got {str(path)!r}, {fault.strerror}") from fault


def read(path: Path, field: str) -> Admission:
    """A list. Raises UserError: there is none, or it is something else; `field` is named."""
    make = "write it by `noria tasks validate --out FILE`"
    try:
        return Admission.model_validate_json(path.read_bytes())
    except ValidationError as fault:
        first = fault.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{field} must be a list of admission: got {str(path)!r}, {where} {first['msg']} - {make}"
        ) from None
    except (OSError, ValueError) as fault:  # a path may hold what no path can
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise UserError(f"{field} must be a file: got {str(path)!r}, {why} - {make}") from None


def refused_of(path: Path, field: str, type: str, world: World) -> frozenset[str]:
    """Keys of the tasks that a list strikes from a world, after a look whether it is this world's.

    Raises:
        UserError: the list is of another world, of other options, or of another version of its generator; or it refuses
            the world as a whole.
    """
    found = [looked for looked in read(path, field).worlds if looked.world == type]
    if not found:
        held = ", ".join(sorted({looked.world for looked in read(path, field).worlds})) or "none"
        raise UserError(
            f"{field} must be a list of the world {type!r}: got {str(path)!r}, which is of {held} - write it by "
            f"`noria tasks validate --env {type} --out FILE`"
        )
    struck: set[str] = set()
    for looked in found:
        whole = next((each.reason for each in looked.refused if not each.id), "")
        if whole:
            raise UserError(f"{field} must be of a world that can be used: {str(path)!r} refuses {type!r}: {whole}")
        if digest_of(_drawn(world, looked, field)) != looked.digest:
            raise UserError(
                f"{field} must be a list of this world's tasks: {str(path)!r} is of others, split {looked.split}, seed "
                f"{looked.seed} - the world's options or its generator have changed: write the list again by "
                f"`noria tasks validate --env {type} --out FILE`, with --set for every option of the recipe"
            )
        struck |= {each.key for each in (*looked.refused, *looked.flaky) if each.key}
    return frozenset(struck)


def _drawn(world: World, looked: Looked, field: str) -> list[Task]:
    try:
        return world.tasks(looked.split, looked.tasks, looked.seed)
    except UserError as fault:
        raise UserError(f"{field} must be a list of this world's tasks, which cannot be drawn: {fault}") from fault


def draw(world: World, split: Split, n: int, seed: int, struck: frozenset[str], name: str = "") -> list[Task]:
    """`n` tasks of a split, none of which is struck; further ones of the same seed take their places.

    A world whose tasks come from a file gives those that it has, at most `n`.

    Raises:
        UserError: there are not so many, or none is left.
    """
    if not struck:
        return world.tasks(split, n, seed)
    wanted, left = n, list[Task]()
    for _ in range(_DRAWS):
        try:
            drawn = world.tasks(split, wanted, seed)
        except UserError as fault:
            if wanted == n:
                raise
            raise UserError(
                f"env.{name}.tasks must leave room for the tasks that admitted strikes: {len(left)} of {n} are left in "
                f"the split {split}, and {fault}"
            ) from fault
        left = [task for task in drawn if key_of(task) not in struck]
        if len(left) >= n or (left and len(drawn) < wanted):  # a world of a file has no more
            return left[:n]
        wanted += n - len(left)
    raise UserError(f"env.{name}.admitted must leave tasks: of {wanted} of the split {split} only {len(left)} are left")


def looked_at(
    world: str, split: Split, seed: int, tasks: Sequence[Task], refused: Sequence[Mapping[str, str]],
    flaky: Sequence[Mapping[str, str]],
) -> Looked:  # fmt: skip
    """What was found in a split; of the tasks that are struck, `id` and `reason` are given."""
    keys = {task.id: key_of(task) for task in tasks}

    def struck(found: Sequence[Mapping[str, str]]) -> tuple[Struck, ...]:
        return tuple(Struck(id=one["id"], key=keys.get(one["id"], ""), reason=one["reason"]) for one in found)

    return Looked(
        world=world, split=split, seed=seed, tasks=len(tasks), digest=digest_of(tasks), refused=struck(refused),
        flaky=struck(flaky),
    )  # fmt: skip
