"""The transformers engine: any causal LM, each sequence with the cache that its architecture makes for itself.

Nothing about layers is assumed, so it decodes what `engines.embedded` cannot hold (sliding windows that are shorter
than an episode, state-space and convolutional layers, bent logits). The price is one forward pass per sequence and
token: sequences are not batched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from transformers import DynamicCache

from noria.core.config import Checked
from noria.core.protocols import Completion
from noria.engines.embedded import Config as EmbeddedConfig
from noria.engines.embedded import EmbeddedEngine
from noria.models.load import Dtype, load_model

#: The default; read from the source, so that a recipe is held to it before anything is loaded.
MAX_TOKENS = 448


class Config(Checked):
    """Transformers engine: decodes any causal LM in this process with the model's own cache."""

    type: Literal["transformers"] = "transformers"
    slots: int = Field(16, ge=1, description="sequences in flight at once in one process")
    max_tokens: int = Field(MAX_TOKENS, ge=16, description="longest sequence, prompt included, in tokens")
    threads: int = Field(1, ge=1, le=1024, description="torch threads of the process")
    device: str = Field("cpu", description="torch device of the model: cpu, cuda or cuda:N")
    dtype: Dtype = Field("float32", description="of weights and activations; log-probabilities are float32")


class TransformersEngine(EmbeddedEngine):
    """See the module. Books sequences, draws tokens and takes weights as the embedded engine does."""

    def __init__(self, model: Any, end_ids: Sequence[int], config: Config, temperature: float = 1.0) -> None:
        super().__init__(model, end_ids, EmbeddedConfig(**config.model_dump(exclude={"type"})), temperature)
        self._caches: dict[int, Any] = {}

    def _open(self) -> list[Any]:
        return []

    def drop(self, seq: int) -> None:
        """Forget a sequence and free its slot; an unknown number is ignored."""
        self._caches.pop(seq, None)
        super().drop(seq)

    @torch.inference_mode()
    def step(self) -> list[Completion]:
        """One forward pass of each sequence that generates; returns the completions that it finished."""
        batch, logits = [], []
        for seq, state in self._sequences.items():
            if not state.generating:
                continue
            if state.cached == 0:
                self._caches[seq] = DynamicCache(config=self.model.config)
            ids = torch.tensor([state.ids[state.cached :]], device=self.config.device)
            out = self.model(input_ids=ids, cache=self._caches[seq], use_cache=True, logits_to_keep=1)
            batch.append(state)
            logits.append(out.logits[0, -1].float().cpu())
        return self._sample(batch, torch.stack(logits)) if batch else []


def build(config: Config, model_folder: Path, end_ids: Sequence[int], temperature: float = 1.0) -> TransformersEngine:
    """Load a checkpoint folder into an engine; nothing is downloaded.

    Raises:
        UserError: the folder is no causal LM that the installed transformers knows.
    """
    torch.set_num_threads(config.threads)
    return TransformersEngine(load_model(model_folder, config.dtype, config.device), end_ids, config, temperature)
