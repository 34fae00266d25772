"""One process that owns a model and its optimiser: scores rows and takes optimiser steps on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator

from noria.core.config import Checked
from noria.core.errors import UserError
from noria.losses.base import Batch, Loss, merge_metrics
from noria.losses.logprobs import chunked_logprobs
from noria.losses.objective import objective
from noria.losses.states import Head
from noria.models import lora, weights
from noria.models.attention import read_by_rows
from noria.models.checkpointing import Mode, recompute
from noria.models.load import Dtype, backbone, head_weight, load_model
from noria.models.traits import probe
from noria.trainers.blame import BadStep as BadStep
from noria.trainers.blame import bad_step, is_bad, unusual
from noria.trainers.channels import Views
from noria.trainers.forward import Forward, Kept, of_rows
from noria.trainers.generate import continued
from noria.trainers.packing import Micro, joined_batches, micro_batches
from noria.trainers.precision import Masters, Moments, adamw
from noria.trainers.rows import Row, batch_of, denominators, trained_positions, with_states

#: Folder inside a checkpoint that holds the adapter which was merged into it.
ADAPTER = "adapter"


class Config(Checked):
    """A model and its optimiser in this process."""

    type: Literal["local"] = "local"
    threads: int = Field(1, ge=1, le=1024, description="torch threads while rollouts run beside the training")
    alone_threads: int = Field(
        2, ge=1, le=1024, description="torch threads while nothing else runs (supervised phases)"
    )
    line_tokens: int = Field(
        192,
        ge=16,
        description="length that rollouts are packed into where they are read through a mask, in tokens",
    )
    chunk_tokens: int = Field(4096, ge=1, description="tokens whose logits are held at once")
    device: str = Field("cpu", description="torch device of the model and its optimiser: cpu, cuda or cuda:N")
    dtype: Dtype = Field(
        "float32", description="of weights and activations; bfloat16 is trained through float32 copies"
    )
    moments: Moments = Field("float32", description="dtype of AdamW's two moments; bfloat16 halves their memory")
    checkpointing: Mode = Field(
        "none", description="activations computed again in the backward pass: none, cheap (norms and the like), all"
    )
    lora_rank: int = Field(0, ge=0, description="rank of a low-rank adapter; 0 = all weights are trained")
    lora_alpha: float = Field(32.0, gt=0, description="the adapter is scaled by lora_alpha / lora_rank")
    lora_targets: tuple[str, ...] = Field(
        (), description="ends of names of adapted layers; [] = all linear but the head"
    )
    lora_seed: int = Field(0, ge=0, le=2**63 - 1, description="of the adapter's first values")

    @model_validator(mode="after")
    def _adapter_is_meant(self) -> Config:
        if self.lora_targets and not self.lora_rank:
            raise ValueError(
                "lora_targets must be set with lora_rank > 0 only: got lora_rank = 0 - set lora_rank, as 16, or "
                "leave lora_targets out"
            )
        return self


@dataclass(frozen=True, slots=True)
class Gradients:
    """What a pass over a global batch found: its metrics, rows of micro-batches that are ill, the gradient norm."""

    metrics: dict[str, float]
    suspects: list[int]
    norm: torch.Tensor


class LocalTrainer:
    """See the module.

    Raises (from `step`):
        BadStep: loss or gradient norm is NaN or infinite; nothing was changed.
    """

    def __init__(self, config: Config, model: Any) -> None:
        self.config, self.model = config, model
        self.optimiser: torch.optim.Optimizer | None = None
        self.grad_norm_bound = 1.0
        self.traits = probe(model)
        self._masters = Masters(p for p in model.parameters() if p.requires_grad)
        # Where a layer carries state along the line, each row has a line of its own.
        self._line_tokens = config.line_tokens if self.traits.packs else 0
        self._joins = self.traits.packs and read_by_rows(model)
        self._kept: Kept | None = None

    def use_threads(self, n: int) -> None:
        """Let torch work with so many threads from here on."""
        torch.set_num_threads(n)

    def configure(self, lr: float, betas: tuple[float, float], weight_decay: float, grad_norm: float) -> None:
        """Start a fresh AdamW; `grad_norm` 0 leaves gradients unclipped."""
        self._kept = None
        self.optimiser = adamw(self._masters.trained, lr, betas, weight_decay, self.config.moments)
        self.grad_norm_bound = grad_norm

    def set_lr(self, lr: float) -> None:
        assert self.optimiser is not None
        for group in self.optimiser.param_groups:
            group["lr"] = lr

    def score(
        self, rows: Sequence[Row], temperature: float = 1.0, tokens: int = 8192, keep: int = 0
    ) -> list[NDArray[np.float64]]:
        """log pi of each row's tokens [T] in nats where its mask is on, 0 elsewhere. No gradient.

        With `keep` a step over these rows comes next, in micro-batches of `keep` tokens: if one holds them all, the
        forward pass is kept for it.
        """
        self._kept = None
        micros = self._cut(rows, keep or tokens)
        if keep and len(micros) == 1 and self.config.checkpointing == "none":
            forward = self._forward(rows, micros[0], temperature)
            self._kept = Kept.of(rows, temperature, forward)
            return of_rows(rows, [(micros[0], forward.logp.detach())])
        with torch.inference_mode():
            passes = ((micro, self._forward(rows, micro, temperature).logp) for micro in micros)
            return of_rows(rows, passes)

    def states(self, rows: Sequence[Row], tokens: int = 8192) -> list[torch.Tensor]:
        """The hidden states [n, D] that predict each row's n masked tokens (but a first one). No gradient."""
        return self.score_states(rows, None, tokens)[1]

    def score_states(
        self, rows: Sequence[Row], temperature: float | None, tokens: int = 8192
    ) -> tuple[list[NDArray[np.float64]], list[torch.Tensor]]:
        """`score` and `states` of one forward pass; without a temperature the states alone."""
        found: list[torch.Tensor] = [torch.empty(0)] * len(rows)
        passes: list[tuple[Micro, torch.Tensor]] = []
        with torch.no_grad():
            for micro in self._cut(rows, tokens):
                hidden = self._states(micro)
                if temperature is not None:
                    passes.append((micro, self._read(rows, micro, hidden, temperature)[0]))
                hidden = micro.predicting(hidden)
                for place in micro.places:
                    found[place.row] = hidden[torch.from_numpy(place.at(trained_positions(rows[place.row])))]
        return of_rows(rows, passes), found

    def head(self, name: str = "student", temperature: float = 1.0) -> Head:
        """How this model's hidden states become logits."""
        return Head(
            name, lambda: head_weight(self.model), temperature, self.traits.scale,
            chunk_tokens=self.config.chunk_tokens,
        )  # fmt: skip

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
        kept, self._kept = self._kept, None
        if kept is not None and kept.serves(rows, temperature):
            rows, passes = kept.rows, iter([kept.forward])
        else:
            micros = self._cut(rows, tokens)
            passes = (self._forward(rows, micro, temperature) for micro in micros)
        del kept  # its pass may go as soon as it is used
        found = self._gradients(rows, terms, coefficients, temperature, annotate, passes)
        if is_bad(found.metrics) or not torch.isfinite(found.norm):
            fault = self._fault(found, rows, terms, coefficients, temperature, annotate)
            self.optimiser.zero_grad(set_to_none=True)
            raise fault
        found.metrics["grad_norm"] = self._apply(found.norm)
        return found.metrics

    def _gradients(
        self, rows: Sequence[Row], terms: Mapping[str, Loss], coefficients: Mapping[str, float], temperature: float,
        annotate: Callable[[Batch], Batch] | None, passes: Iterable[Forward], until_bad: bool = False,
    ) -> Gradients:  # fmt: skip
        """Gradients of a global batch, left in the parameters; with `until_bad` no further than the first bad ones."""
        assert self.optimiser is not None
        segments = range(len(rows))
        counts = denominators(rows)
        views = Views(rows, terms, counts)
        deep = any("hidden" in terms[name].needs for name in terms if coefficients[name])
        parts: list[dict[str, torch.Tensor]] = []
        members: list[list[int]] = []
        self.optimiser.zero_grad(set_to_none=True)
        for forward in passes:
            micro, entropy = forward.micro, forward.entropy
            batch = batch_of(rows, micro, forward.logp, entropy, segments)
            if deep:
                hidden = micro.predicting(forward.hidden)
                batch = with_states(batch, rows, micro, hidden, self.head(temperature=temperature))
                batch = self.joined(batch, micro, temperature)
            if annotate is not None:
                batch = annotate(batch)
            value, metrics = objective(terms, coefficients, views.batches(micro, batch))
            if value is not None and value.requires_grad:
                value.backward()  # type: ignore[no-untyped-call]
            mean_entropy = (entropy.detach() * batch.mask).sum() / counts.action_tokens.clamp(min=1)
            parts.append(metrics | {"entropy": mean_entropy})
            members.append([place.row for place in micro.places])
            if until_bad and not torch.isfinite(self._gradient_norm()):
                return Gradients(merge_metrics(parts), members[-1], self._gradient_norm())
        suspects = sorted(i for part, rs in zip(parts, members, strict=True) if is_bad(part) for i in rs)
        return Gradients(merge_metrics(parts), suspects, self._gradient_norm())

    def _gradient_norm(self) -> torch.Tensor:
        return torch.nn.utils.get_total_norm([p.grad for p in self._masters.trained if p.grad is not None])

    def _fault(
        self, found: Gradients, rows: Sequence[Row], terms: Mapping[str, Loss], coefficients: Mapping[str, float],
        temperature: float, annotate: Callable[[Batch], Batch] | None,
    ) -> BadStep:  # fmt: skip
        """Where a step that is not finite came from. Gradients alone are sought again, term by term, line by line."""
        assert self.optimiser is not None
        names = [name for name, p in self.model.named_parameters() if p.requires_grad]
        kept = [(name, p, p.grad) for name, p in zip(names, self._masters.trained, strict=True)]
        alone: dict[str, list[int]] = {}
        if not is_bad(found.metrics) and all(bool(torch.isfinite(p).all()) for _, p, _ in kept):
            for name in (name for name in terms if coefficients[name]):
                micros = micro_batches(rows, self._line_tokens, 1)
                passes = (self._forward(rows, micro, temperature) for micro in micros)
                one = {other: coefficients[other] if other == name else 0.0 for other in terms}
                again = self._gradients(rows, terms, one, temperature, annotate, passes, until_bad=True)
                if not torch.isfinite(again.norm):
                    alone[name] = again.suspects
        odd = unusual(
            self.optimiser.param_groups[0]["lr"], temperature, coefficients,
            (self.config.lora_alpha, self.config.lora_rank),
        )  # fmt: skip
        return bad_step(found.metrics, kept, rows, found.suspects, lambda: self.score(rows, temperature), alone, odd)

    def joined(self, batch: Batch, micro: Micro, temperature: float) -> Batch:
        """The batch with what trains beside this model, see `trainers.auxiliary`."""
        return batch

    def _apply(self, total: torch.Tensor) -> float:
        """Clip the gradients, whose norm is `total`, and take the step; returns the norm."""
        assert self.optimiser is not None
        bound = self.grad_norm_bound if self.grad_norm_bound > 0 else float("inf")
        torch.nn.utils.clip_grads_with_norm_(self._masters.trained, bound, total)
        self.optimiser.step()
        self._masters.publish()
        return float(total)

    def _forward(self, rows: Sequence[Row], micro: Micro, temperature: float) -> Forward:
        hidden = self._states(micro)
        return Forward(micro, hidden, *self._read(rows, micro, hidden, temperature))

    def _cut(self, rows: Sequence[Row], tokens: int) -> list[Micro]:
        """Rows as micro-batches, all of one in a line where the model can read them there row by row."""
        if self._joins and self._line_tokens:
            return joined_batches(rows, tokens)
        return micro_batches(rows, self._line_tokens, tokens)

    def _states(self, micro: Micro) -> torch.Tensor:
        """Hidden states [R·T, D] after the final norm."""
        longest, device = max(place.skip + place.n for place in micro.places), self.config.device
        if self.traits.window is not None and longest > self.traits.window:
            raise UserError(
                f"rollout.max_tokens must not exceed the model's sliding window of {self.traits.window} tokens: got a "
                f"row of {longest} - lower max_tokens"
            )
        seen = {} if micro.reads is None else {"reads": micro.reads.to(device)}
        mask = None if micro.attention is None else micro.attention.to(device)
        hidden: torch.Tensor = backbone(self.model)(
            input_ids=micro.ids.to(device), attention_mask=mask, position_ids=micro.positions.to(device),
            use_cache=False, **seen,
        ).last_hidden_state  # fmt: skip
        return hidden.reshape(-1, hidden.shape[-1])

    def _read(
        self, rows: Sequence[Row], micro: Micro, hidden: torch.Tensor, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        wanted = np.zeros(micro.segment.numel(), dtype=np.bool_)
        for place in micro.places:
            wanted[place.flat] = rows[place.row].mask[place.own]
        device = self.config.device
        logp, entropy = chunked_logprobs(
            hidden, head_weight(self.model), micro.ids.reshape(-1).to(device), micro.segment.to(device),
            temperature / self.traits.scale, torch.from_numpy(wanted).to(device), self.config.chunk_tokens,
            micro.source.to(device),
        )  # fmt: skip
        return logp.cpu(), entropy.cpu()

    def continued(
        self, ids: Sequence[int], max_new: int, end_ids: Sequence[int], temperature: float, seed: int
    ) -> list[int]:
        """What the model says after `ids`, see `trainers.generate`."""
        return continued(self.model, ids, max_new, end_ids, temperature, seed)

    def weights(self) -> bytes:
        """The model's tensors as safetensors bytes, tied ones once, an adapter merged in."""
        return weights.to_bytes(self.model)

    def load_weights(self, data: bytes) -> None:
        """Take the tensors that `weights` gave; an adapter starts anew.

        Raises:
            ValueError: they belong to a model of another shape.
        """
        from safetensors.torch import load

        self._kept = None
        weights.load_into(self.model, load(data))
        self._masters.adopt()

    def state(self) -> dict[str, Any]:
        """Everything that a bit-identical continuation needs: what is trained, and the optimiser."""
        assert self.optimiser is not None
        trained = lora.adapter_state(self.model) if self.config.lora_rank else None
        return {
            "weights": None if trained else self.weights(), "adapter": trained,
            "masters": self._masters.state(), "optimiser": self.optimiser.state_dict(),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` gave; `configure` must have been called alike.

        Raises:
            ValueError: the state is of another model, or of one with another adapter.
        """
        assert self.optimiser is not None
        self._kept = None
        if state["weights"] is not None:
            self.load_weights(state["weights"])
        else:
            lora.load_adapter(self.model, state["adapter"])
        self._masters.restore(state["masters"])
        self.optimiser.load_state_dict(state["optimiser"])

    def save(self, folder: Path, like: Path) -> None:
        """Write a checkpoint that transformers loads as it is: weights from here, everything else from `like`.

        An adapter is merged into the weights and kept beside them too.
        """
        weights.write(self.model, folder, like)
        if self.config.lora_rank:
            lora.save_adapter(self.model, folder / ADAPTER)


def build(config: Config, folder: Path) -> LocalTrainer:
    """A trainer that starts from a checkpoint folder."""
    return LocalTrainer(config, prepared(config, folder))


def build_scorer(config: Config, folder: Path) -> LocalTrainer:
    """One that never trains: neither adapter nor gradients, and no copies of the weights for an optimiser."""
    model = load_model(folder, config.dtype, config.device)
    model.requires_grad_(False)
    return LocalTrainer(config, model)


def prepared(config: Config, folder: Path) -> Any:
    """The model of a checkpoint folder, with the adapter and the recomputation that the config asks for."""
    model = load_model(folder, config.dtype, config.device)
    if config.lora_rank:
        lora.add_adapter(model, config.lora_rank, config.lora_alpha, config.lora_targets, config.lora_seed)
    recompute(model, config.checkpointing)
    return model


def with_current_reference(batch: Batch) -> Batch:
    """The distillation advantage against the policy of this very mini-batch: log pi_T - sg[log pi]."""
    assert batch.logp_teacher is not None
    return replace(batch, advantage=batch.logp_teacher - batch.logp.detach())
