"""New weights for the served model: checkpoint folders that clients name, taken between two tokens.

The version counts what was taken, from 0 for what the server began with. Sampled tokens carry the version that they
were sampled under (`versions` beside `token_ids`), so a request that is at work meanwhile is told where it changed.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any, Protocol

from noria.core.errors import NoriaError
from noria.models import weights
from noria.server.errors import ApiError, wrong
from noria.server.loop import DecodingLoop
from noria.server.schema import WeightsRequest


class Engine(Protocol):
    """What takes them; see `engines.embedded`."""

    def load(self, checkpoint: Any, version: int) -> None: ...


class Weights:
    """See the module. Folders lie in `root`; belongs to the thread that answers requests."""

    def __init__(self, root: Path, engine: Engine, loop: DecodingLoop) -> None:
        self._root, self._engine, self._loop = root, engine, loop
        self._turn = asyncio.Lock()
        self.version = 0
        #: of the file that was taken last, "" for what the server began with
        self.sha256 = ""

    def facts(self) -> dict[str, Any]:
        """What a client is told."""
        return {"version": self.version, "sha256": self.sha256}

    async def take(self, asked: WeightsRequest) -> dict[str, Any]:
        """Take the weights of a folder; the old ones stay where that fails.

        Raises:
            ApiError: there is no such checkpoint, it is not what `sha256` promises, or it is of another model.
        """
        async with self._turn:
            tensors, found = await asyncio.to_thread(self._read, asked)
            version = self.version + 1
            done = self._loop.between(lambda: self._engine.load(tensors, version))
            try:
                await asyncio.wrap_future(done)
            except asyncio.CancelledError:
                if not done.cancelled():
                    raise
                raise ApiError(503, "the server is stopping", code="stopping") from None
            except NoriaError as fault:
                raise wrong("folder", f"folder must hold the model that is served: {fault}", "other_model") from fault
            self.version, self.sha256 = version, found
        return self.facts()

    def _read(self, asked: WeightsRequest) -> tuple[Any, str]:
        from safetensors.torch import load

        try:
            folder = (self._root / asked.folder).resolve()
            there = folder.parent == self._root.resolve() and (folder / weights.WEIGHTS).is_file()
        except (OSError, ValueError):
            there = False
        if not there:
            raise wrong(
                "folder",
                f"folder must be the name of a checkpoint in the folder of --updates, with {weights.WEIGHTS}: got "
                f"{asked.folder[:80]!r}",
            )
        try:
            found = hashlib.sha256((folder / weights.WEIGHTS).read_bytes()).hexdigest()
            if asked.sha256 not in (None, found):
                raise wrong("sha256", f"sha256 must be that of {weights.WEIGHTS}: it has {found}", "damaged")
            return load(weights.read(folder)), found
        except (NoriaError, OSError, ValueError) as fault:
            if isinstance(fault, ApiError):
                raise
            raise wrong("folder", f"folder must be a checkpoint that can be read: {fault}") from fault
