"""The emitted backend, loaded into this process.

What runs here is this package's own emission from a specification, never text from a file or of a model: a folder's
specification is emitted anew, and the text passes the allow list of `static` first. While domains are made, the same
text also runs in the sandbox, against the reference of `rules`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from noria.core.errors import UserError
from noria.envs.tooluse.emit import source_of
from noria.envs.tooluse.spec import Domain, State
from noria.envs.tooluse.static import BUILTINS, faults_in_source


@dataclass(frozen=True, slots=True)
class Backend:
    """`tools` run on typed arguments and raise `refused`; `call` runs on texts and answers with one line."""

    tools: Mapping[str, Callable[..., str]]
    call: Callable[[State, str, dict[str, str]], str]
    validate: Callable[[State], list[str]]
    refused: type[Exception]


@lru_cache(maxsize=512)
def backend_of(domain: Domain) -> Backend:
    """The backend of a domain.

    Raises:
        UserError: its specification emits what may not run.
    """
    text = source_of(domain)
    faults = faults_in_source(text, [operation.name for operation in domain.operations])
    if faults:
        raise UserError(f"domain {domain.name} must emit allowed code: {faults[0]} - leave it out")
    space: dict[str, Any] = {"__builtins__": _builtins(), "__name__": f"tooluse_{domain.name}"}
    exec(compile(text, f"{domain.name}.py", "exec"), space)  # noqa: S102 - our own emission, held to an allow list
    return Backend(space["TOOLS"], space["call"], space["validate"], space["Refused"])


def _builtins() -> dict[str, Any]:
    """What an emitted module may use; `__build_class__` and `__import__` serve its own head alone."""
    there = vars(builtins)
    return {name: there[name] for name in (*BUILTINS, "__build_class__", "__import__")}
