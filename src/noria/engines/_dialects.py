"""Ways of their own that servers have: how new weights are given to them, and how they are told to sample plainly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from noria.core.errors import UserError
from noria.core.remote import Missing
from noria.core.seeds import derive
from noria.engines._asking import Fault, Line


class Dialect(Protocol):
    """One kind of server. `give` and `holds` raise what `Line.post` raises."""

    def options(self, seed: int, held: int) -> dict[str, Any]:
        """What a completion after `held` tokens is asked with besides the common fields."""

    def check(self, choice: Mapping[str, Any]) -> None:
        """Raises Fault where an answer was sampled from other weights than those that were given last."""

    async def give(self, line: Line, folder: Path, sha256: str, timeout_s: float) -> None:
        """Make the server take the weights of a checkpoint folder and forget what it kept of the old ones."""

    async def holds(self, line: Line, sha256: str) -> bool:
        """Whether the server has these weights; False where it cannot tell."""


class Noria:
    """`noria serve --updates`: it reads the folder, tells the hash of what it took, and the version of each token."""

    def __init__(self) -> None:
        self._version = 0

    def options(self, seed: int, held: int) -> dict[str, Any]:
        # The server draws by seed and position, as the embedded engine does: one seed serves all turns.
        return {"seed": seed}

    def check(self, choice: Mapping[str, Any]) -> None:
        versions = choice.get("versions")
        if not isinstance(versions, list) or set(versions) != {self._version}:
            raise Fault(f"tokens were sampled under versions {versions}, expected {self._version}", breaks=True)

    async def give(self, line: Line, folder: Path, sha256: str, timeout_s: float) -> None:
        try:
            found = await line.post("weights", {"folder": folder.name, "sha256": sha256}, timeout_s)
        except Missing as fault:
            raise UserError(
                'student.engine.server = "noria" must be a server that takes weights: it does not - start it as '
                f"`noria serve MODEL --updates {folder.parent}`"
            ) from fault
        if found.get("sha256") != sha256 or type(found.get("version")) is not int:
            raise Fault(f"the server took other weights: {found}, expected {sha256}")
        self._version = found["version"]

    async def holds(self, line: Line, sha256: str) -> bool:
        found = await line.get("weights")
        return found.get("sha256") == sha256 and found.get("version") == self._version


class Vllm:
    """vLLM in development mode: its workers read the folder anew, and the prefix cache is emptied after it."""

    def __init__(self, end_ids: Sequence[int]) -> None:
        self._end_ids = list(end_ids)

    def options(self, seed: int, held: int) -> dict[str, Any]:
        # A seed begins a stream of its own for every request: the same one would give each turn the same chances.
        return {
            "seed": derive(seed, held), "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0,
            "stop_token_ids": self._end_ids, "skip_special_tokens": False, "spaces_between_special_tokens": False,
        }  # fmt: skip

    def check(self, choice: Mapping[str, Any]) -> None:
        """Its answers do not tell: the proof after each update does."""

    async def give(self, line: Line, folder: Path, sha256: str, timeout_s: float) -> None:
        call = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        try:
            await line.post("collective_rpc", call, timeout_s, root=True)
            emptied = await line.post("reset_prefix_cache", {}, timeout_s, root=True)
        except Missing as fault:
            raise UserError(
                'student.engine.server = "vllm" must be a server that takes weights: it has no /collective_rpc - start '
                "it with VLLM_SERVER_DEV_MODE=1 in its environment, where nobody else can reach it"
            ) from fault
        if emptied.get("success") is False:
            raise Fault("the prefix cache was not emptied: something else is at work on the server", passes=True)

    async def holds(self, line: Line, sha256: str) -> bool:
        return False


def dialect(server: str, end_ids: Sequence[int]) -> Dialect:
    """The dialect of a kind of server."""
    return Noria() if server == "noria" else Vllm(end_ids)
