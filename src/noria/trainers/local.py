"""One process that owns a model and its optimiser: scores rows and takes optimiser steps on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from noria.core.errors import NoriaError
from noria.losses.base import Batch, Denominators, Loss, merge_metrics
from noria.losses.logprobs import chunked_logprobs
from noria.losses.objective import objective
from noria.trainers.rows import Micro, Row, batch_of, micro_batches


class Config(BaseModel):
    """A model and its optimiser in this process."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    type: Literal["local"] = "local"
    threads: int = Field(1, ge=1, description="torch threads while rollouts run beside the training")
    alone_threads: int = Field(2, ge=1, description="torch threads while nothing else runs (supervised phases)")
    line_tokens: int = Field(192, ge=16, description="length that rollouts are packed into, in tokens")
    chunk_tokens: int = Field(4096, ge=1, description="tokens whose logits are held at once")


class BadStep(NoriaError):
    """A loss or gradient that is not finite; the weights are as before the step."""


class LocalTrainer:
    """See the module.

    Raises (from `step`):
        BadStep: loss or gradient norm is NaN or infinite; nothing was changed.
    """

    def __init__(self, config: Config, model: Any) -> None:
        self.config, self.model = config, model
        self.optimiser: torch.optim.Optimizer | None = None
        self.grad_norm_bound = 1.0

    def configure(self, lr: float, betas: tuple[float, float], weight_decay: float, grad_norm: float) -> None:
        """Start a fresh AdamW; `grad_norm` 0 leaves gradients unclipped."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(parameters, lr=lr, betas=betas, weight_decay=weight_decay)
        self.grad_norm_bound = grad_norm

    def set_lr(self, lr: float) -> None:
        assert self.optimiser is not None
        for group in self.optimiser.param_groups:
            group["lr"] = lr

    def score(self, rows: Sequence[Row], temperature: float = 1.0, tokens: int = 8192) -> list[NDArray[np.float64]]:
        """log pi of each row's tokens [T] in nats where its mask is on, 0 elsewhere. No gradient."""
        out: list[NDArray[np.float64]] = [np.zeros(len(row)) for row in rows]
        with torch.inference_mode():
            for micro in micro_batches(rows, self.config.line_tokens, tokens):
                logp, _ = self._forward(rows, micro, temperature)
                values = logp.double().numpy()
                for i, start, n in micro.places:
                    out[i] = values[start : start + n].copy()
        return out

    def step(
        self,
        rows: Sequence[Row],
        terms: Mapping[str, Loss],
        coefficients: Mapping[str, float],
        temperature: float = 1.0,
        tokens: int = 4096,
        annotate: Callable[[Batch], Batch] | None = None,
    ) -> dict[str, float]:
        """One optimiser step on one global batch; gradients don't depend on how it is cut.

        `annotate` may rewrite a micro-batch once its log-probabilities are known (an advantage against the
        current policy). Returns metrics over the batch.
        """
        assert self.optimiser is not None
        segments = range(len(rows))
        counts = denominators(rows)
        parts: list[dict[str, torch.Tensor]] = []
        self.optimiser.zero_grad(set_to_none=True)
        for micro in micro_batches(rows, self.config.line_tokens, tokens):
            logp, entropy = self._forward(rows, micro, temperature)
            batch = batch_of(rows, micro, logp, entropy, segments)
            if annotate is not None:
                batch = annotate(batch)
            value, metrics = objective(terms, coefficients, dict.fromkeys(terms, (batch, counts)))
            if value is not None:
                value.backward()  # type: ignore[no-untyped-call]
            mean_entropy = (entropy.detach() * batch.mask).sum() / counts.action_tokens.clamp(min=1)
            parts.append(metrics | {"entropy": mean_entropy})
        merged = merge_metrics(parts)
        merged["grad_norm"] = self._apply(merged)
        return merged

    def _apply(self, metrics: Mapping[str, float]) -> float:
        assert self.optimiser is not None
        bound = self.grad_norm_bound if self.grad_norm_bound > 0 else float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), bound))
        bad = [name for name, value in metrics.items() if not np.isfinite(value)]
        if bad or not np.isfinite(norm):
            self.optimiser.zero_grad(set_to_none=True)
            what = ", ".join(bad) or "the gradient norm"
            raise BadStep(f"a step must be finite: {what} is not - lower lr, or lower grad_norm")
        self.optimiser.step()
        return norm

    def _forward(self, rows: Sequence[Row], micro: Micro, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.model.model(
            input_ids=micro.ids, attention_mask=micro.attention, position_ids=micro.positions, use_cache=False
        ).last_hidden_state
        wanted = np.zeros(micro.segment.numel(), dtype=np.bool_)
        for i, start, n in micro.places:
            wanted[start : start + n] = rows[i].mask
        return chunked_logprobs(
            hidden.reshape(-1, hidden.shape[-1]), self.model.lm_head.weight, micro.ids.reshape(-1), micro.segment,
            temperature, torch.from_numpy(wanted), self.config.chunk_tokens,
        )  # fmt: skip

    def weights(self) -> bytes:
        """The model's tensors as safetensors bytes, tied ones once."""
        from safetensors.torch import save

        tied = self.model.config.tie_word_embeddings
        state = {k: v.detach().contiguous() for k, v in self.model.state_dict().items()}
        return save({k: v for k, v in state.items() if not (tied and k == "lm_head.weight")})

    def load_weights(self, data: bytes) -> None:
        """Take the tensors that `weights` gave.

        Raises:
            ValueError: they belong to a model of another shape.
        """
        from safetensors.torch import load

        missing, unexpected = self.model.load_state_dict(load(data), strict=False)
        tied = {"lm_head.weight"} if self.model.config.tie_word_embeddings else set()
        if set(missing) - tied or unexpected:
            raise ValueError(f"weights must fit the model: missing {missing}, unexpected {unexpected}")

    def state(self) -> dict[str, Any]:
        """Everything that a bit-identical continuation needs: weights and optimiser."""
        assert self.optimiser is not None
        return {"weights": self.weights(), "optimiser": self.optimiser.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` gave; `configure` must have been called alike."""
        assert self.optimiser is not None
        self.load_weights(state["weights"])
        self.optimiser.load_state_dict(state["optimiser"])

    def save(self, folder: Path, like: Path) -> None:
        """Write a checkpoint that transformers loads as it is: weights from here, everything else from `like`."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in like.iterdir():
            if path.is_file() and path.name != "model.safetensors" and path.suffix in (".json", ".jinja", ".txt"):
                (folder / path.name).write_bytes(path.read_bytes())
        (folder / "model.safetensors").write_bytes(_with_format(self.weights()))


def denominators(rows: Sequence[Row]) -> Denominators:
    """Counts over a global batch of rows."""
    lengths = [len(row) for row in rows]
    mask = torch.from_numpy(np.concatenate([_trained(row) for row in rows]))
    of_row = (range(len(rows)), [row.group for row in rows], [row.route for row in rows])
    segment, group, route = (torch.from_numpy(np.repeat(numbers, lengths)) for numbers in of_row)
    return Denominators.of(mask, segment, group, route)


def _trained(row: Row) -> NDArray[np.bool_]:
    """The first token of a row has no prediction, so it never counts."""
    return np.concatenate([[False], row.mask[1:]]).astype(np.bool_)


def _with_format(data: bytes) -> bytes:
    """The same safetensors with the metadata that transformers asks for."""
    from safetensors.torch import load, save

    return save(load(data), metadata={"format": "pt"})


def load_model(folder: Path) -> Any:
    """A causal LM from a checkpoint folder, fp32, nothing downloaded."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(
        str(folder), local_files_only=True, dtype=torch.float32, attn_implementation="sdpa"
    )


def build(config: Config, folder: Path) -> LocalTrainer:
    """A trainer that starts from a checkpoint folder."""
    return LocalTrainer(config, load_model(folder))


def with_current_reference(batch: Batch) -> Batch:
    """The distillation advantage against the policy of this very mini-batch: log pi_T - sg[log pi]."""
    assert batch.logp_teacher is not None
    return replace(batch, advantage=batch.logp_teacher - batch.logp.detach())


def describe(folder: Path) -> dict[str, Any]:
    """Shape and size of a checkpoint, read from its config."""
    data: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return data
