"""`task.toml` of Harbor's task folders, schema 1.4: tables, defaults, and what became of old keys.

Keys that the schema does not know are kept and listed, as Harbor itself passes over them; values of a wrong kind are
errors. Seconds and MiB as the names say.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from noria.core.errors import UserError

SCHEMA = "1.4"
#: Versions that are read; each is a part of the newest.
VERSIONS = ("1.0", "1.1", "1.2", "1.3", SCHEMA)
Network = Literal["public", "no-network", "allowlist"]
_UNITS = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}


class Table(BaseModel):
    """Any table: unknown keys are kept in `model_extra`."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class Healthcheck(Table):
    """A command that must succeed before work begins."""

    command: str
    interval_sec: float = Field(default=5.0, ge=0)
    timeout_sec: float = Field(default=30.0, gt=0)
    start_period_sec: float = Field(default=0.0, ge=0)
    start_interval_sec: float = Field(default=5.0, ge=0)
    retries: int = Field(default=3, ge=1)


class Artifact(Table):
    """A file or folder that is kept of a trial."""

    source: str
    destination: str | None = None
    exclude: list[str] = []
    service: str | None = None

    @field_validator("source")
    @classmethod
    def _stays_inside(cls, value: str) -> str:
        if ".." in value.split("/"):
            raise ValueError(f"source must have no '..': got {value!r}")
        return value


class Environment(Table):
    """Where a task is worked on."""

    build_timeout_sec: float = Field(default=600.0, gt=0)
    docker_image: str | None = None
    os: str = "linux"
    cpus: float | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, gt=0)
    storage_mb: int | None = Field(default=None, gt=0)
    gpus: int | None = Field(default=None, ge=0)
    gpu_types: list[str] | None = None
    tpu: dict[str, Any] | None = None
    mcp_servers: list[dict[str, Any]] = []
    env: dict[str, str] = {}
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    workdir: str | None = None
    network_mode: Network = "public"
    allowed_hosts: list[str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _renames(cls, data: Any) -> Any:
        """`memory`, `storage` and `allow_internet` became other keys."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if old in data:
                size = _mib(str(data.pop(old)), old)
                if data.setdefault(new, size) != size:
                    raise ValueError(f"{new} must agree with {old}: got {data[new]} and {size} MiB - drop {old}")
        if "allow_internet" in data:
            allowed = data.pop("allow_internet")
            data.setdefault("network_mode", "public" if allowed else "no-network")
        return data


class Agent(Table):
    """Limits of whoever works on the task."""

    timeout_sec: float | None = Field(default=None, gt=0)
    user: str | int | None = None
    network_mode: Network | None = None
    allowed_hosts: list[str] | None = None


class Collect(Table):
    """A command that is run when the work is over, before artefacts are kept."""

    command: str
    service: str = "main"
    timeout_sec: float = Field(default=60.0, gt=0)
    user: str | int | None = None


class Verifier(Table):
    """How the work is graded."""

    timeout_sec: float = Field(default=600.0, gt=0)
    env: dict[str, str] = {}
    user: str | int | None = None
    network_mode: Network | None = None
    allowed_hosts: list[str] | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: Environment | None = None
    collect: list[Collect] = []

    @property
    def separate(self) -> bool:
        """Whether grading starts from a fresh environment that gets the artefacts alone."""
        return self.environment_mode == "separate" or (self.environment_mode is None and self.environment is not None)

    @model_validator(mode="after")
    def _agrees(self) -> Verifier:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError("environment_mode must be 'separate' beside [verifier.environment] - drop one of them")
        return self


class Solution(Table):
    """What the reference solution gets."""

    env: dict[str, str] = {}


class Step(Table):
    """One of several instructions that are worked on in a row."""

    name: str
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    min_reward: float | dict[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: list[str | Artifact] = []

    @field_validator("name")
    @classmethod
    def _is_one_folder(cls, value: str) -> str:
        odd = any(sign in value for sign in '<>:"/\\|?*') or any(ord(sign) < 32 for sign in value)
        if not value.strip() or value in (".", "..") or value.endswith((".", " ")) or odd or len(value.encode()) > 255:
            raise ValueError(f"name of a step must be that of one folder: got {value!r}")
        return value


class Author(Table):
    """Who wrote the task."""

    name: str
    email: str | None = None


class Naming(Table):
    """What the task is called."""

    name: str = Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*$")
    version: str | None = None
    description: str = ""
    authors: list[Author] = []
    keywords: list[str] = []


class Sheet(Table):
    """The whole file."""

    schema_version: str = SCHEMA
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    artifacts: list[str | Artifact] = []
    task: Naming | None = None
    metadata: dict[str, Any] = {}
    environment: Environment = Environment()
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    solution: Solution = Solution()
    steps: list[Step] | None = None

    @model_validator(mode="before")
    @classmethod
    def _renames(cls, data: Any) -> Any:
        if isinstance(data, dict) and "version" in data:
            data = dict(data)
            data.setdefault("schema_version", data.pop("version"))
        return data

    @field_validator("schema_version")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in VERSIONS:
            raise ValueError(f"schema_version must be one of {', '.join(VERSIONS)}: got {value!r}")
        return value

    @field_validator("steps")
    @classmethod
    def _once(cls, value: list[Step] | None) -> list[Step] | None:
        names = [step.name.casefold() for step in value or []]
        if len(set(names)) != len(names):
            raise ValueError("steps must have names that differ, in more than case")
        return value


def read_sheet(text: str, where: str) -> Sheet:
    """A `task.toml`. Raises UserError: no TOML, or a value of a wrong kind; `where` names the file."""
    try:
        return Sheet.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as fault:
        raise UserError(f"{where} must be TOML: {fault}") from fault
    except ValidationError as fault:
        first = fault.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{where}: {place + ' ' if place else ''}is refused: {first['msg']}") from fault


def unknown_keys(table: BaseModel, above: str = "") -> Iterator[str]:
    """Dotted names of the keys that the schema does not know."""
    for key in table.model_extra or {}:
        yield above + key
    for name in type(table).model_fields:
        value = vars(table)[name]
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, BaseModel):
                yield from unknown_keys(each, f"{above}{name}.")


def _mib(text: str, key: str) -> int:
    number, unit = text[:-1].strip(), text[-1:].upper()
    try:
        size = float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        raise ValueError(f"{key} must be a size as '512M' or '2G': got {text!r}") from None
    if not math.isfinite(size) or size <= 0:
        raise ValueError(f"{key} must be a size above 0: got {text!r}")
    return int(size)
