"""The embedded engine: many sequences at once in one process, token ids in, ids and log-probabilities out.

Each sequence owns a row of one static key/value cache, kept across its turns. Rows that generate are kept at
the front, so a decoding step reads a slice and copies nothing. A sequence whose backlog is longer than one token
(a prompt, an observation, everything after a change of weights) is prefilled together with its peers; one with a
backlog of exactly one token decodes. There is no other state.

Attention layers keep keys and values, linear-attention layers their recurrent state; what an architecture has besides
these is for `engines.transformers`, which is slower and takes any.

Sampling is by inverse CDF with a counter-based uniform from (seed, position), so a sequence draws the same
numbers whatever stands beside it in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from transformers.cache_utils import Cache

from noria.core.config import Checked
from noria.core.errors import EngineError, UserError
from noria.core.protocols import Completion
from noria.engines._dense import dense
from noria.engines._numbered import Numbered
from noria.engines._slots import SlotLayer, StateLayer
from noria.models import weights
from noria.models.load import Dtype, backbone, load_model
from noria.models.traits import ATTENTION, layers_of, probe

#: Kinds of layers that carry a recurrent state.
LINEAR = {"linear_attention"}


#: The default; read from the source, so that a recipe is held to it before anything is loaded.
MAX_TOKENS = 448


class Config(Checked):
    """Embedded engine: decodes in this process with torch and transformers."""

    type: Literal["embedded"] = "embedded"
    slots: int = Field(96, ge=1, description="sequences decoded at once in one process")
    max_tokens: int = Field(MAX_TOKENS, ge=16, description="longest sequence, prompt included, in tokens")
    prefill_rows: int = Field(24, ge=1, description="sequences of one prefill, and how many must wait for one")
    prefill_steps: int = Field(4, ge=0, description="decoding steps that the first of them waits for company")
    threads: int = Field(1, ge=1, le=1024, description="torch threads of the process")
    device: str = Field("cpu", description="torch device of the model: cpu, cuda or cuda:N")
    dtype: Dtype = Field("float32", description="of weights and activations; log-probabilities are float32")


@dataclass(slots=True)
class _Sequence:
    row: int
    seed: int
    ids: list[int] = field(default_factory=list)
    cached: int = 0
    generating: bool = False
    start: int = 0
    limit: int = 0
    logp: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)


class EmbeddedEngine(Numbered[Config, _Sequence]):
    """See the module. One instance belongs to one thread.

    Raises:
        EngineError: no free slot, or a sequence that would not fit into `max_tokens`.
    """

    def __init__(self, model: Any, end_ids: Sequence[int], config: Config, temperature: float = 1.0) -> None:
        super().__init__(config)
        self.model, self.temperature = model.eval(), temperature
        self.version = 0
        #: sequences that must wait before a prefill interrupts decoding
        self.patience = config.prefill_rows
        self._waited = 0
        self._end = torch.tensor(list(end_ids))
        # A prefill pads to its longest member, so the columns reach past the longest sequence.
        self._length = config.max_tokens + 1
        self._head, self._scale = model.get_output_embeddings(), 1.0
        self._layers = self._open()
        # A recurrent state has no place for padding: rows that are prefilled together must be equally long.
        self._stateful = any(isinstance(layer, StateLayer) for layer in self._layers)
        self._cache = Cache(layers=list(self._layers))
        self._dense = dense(model, self._length) if self._layers and not self._stateful else None
        self._rows: list[int | None] = [None] * config.slots

    def _open(self) -> list[SlotLayer | StateLayer]:
        """The cache's layers, as the architecture needs them."""
        traits, kinds, slots = probe(self.model), layers_of(self.model), self.config.slots
        _check(self.config, set(kinds), traits.window)
        self._scale = traits.scale
        return [SlotLayer(slots, self._length) if kind in ATTENTION else StateLayer(slots) for kind in kinds]

    def add(self, seq: int, ids: Sequence[int], max_new: int, seed: int) -> None:
        """Append `ids` to a sequence (a new number opens one) and generate up to `max_new` tokens after them."""
        state, room = self._extended(seq, ids, seed)
        state.start, state.limit = len(state.ids), len(state.ids) + min(max_new, room)
        state.logp, state.versions, state.generating = [], [], True

    def _begin(self, seq: int, seed: int) -> _Sequence:
        state = _Sequence(row=self._rows.index(None), seed=seed)
        self._rows[state.row] = seq
        return state

    def drop(self, seq: int) -> None:
        """Forget a sequence and free its slot; an unknown number is ignored."""
        state = self._sequences.pop(seq, None)
        if state is not None:
            self._rows[state.row] = None

    @torch.inference_mode()
    def load(self, checkpoint: Path | Mapping[str, torch.Tensor], version: int) -> None:
        """Take new weights. Every cached key and value is stale after it, so all of them are recomputed."""
        from safetensors.torch import load

        tensors = load(weights.read(checkpoint)) if isinstance(checkpoint, Path) else checkpoint
        try:
            weights.load_into(self.model, tensors)
        except ValueError as fault:
            raise EngineError(f"weights don't fit the model: {fault}") from fault
        self.version = version
        for state in self._sequences.values():
            state.cached = 0

    def close(self) -> None:
        """Nothing of it outlives its process."""

    @torch.inference_mode()
    def step(self) -> list[Completion]:
        """One forward pass; returns the completions that it finished."""
        live = [s for s in self._sequences.values() if s.generating]
        decoding = [s for s in live if len(s.ids) - s.cached == 1]
        waiting = [s for s in live if len(s.ids) - s.cached > 1]
        if not live:
            return []
        self._waited = self._waited + 1 if waiting else 0
        if waiting and (not decoding or len(waiting) >= self.patience or self._waited > self.config.prefill_steps):
            batch, followers = self._admitted(waiting)
            self._waited = 0
            self._arrange(decoding, 0)
            self._arrange(batch, len(decoding))
            batch.sort(key=lambda s: s.row)
            return self._forward(batch, len(decoding), followers)
        self._arrange(decoding, 0)
        decoding.sort(key=lambda s: s.row)
        return self._forward(decoding, 0, {})

    def _admitted(self, waiting: list[_Sequence]) -> tuple[list[_Sequence], dict[int, list[_Sequence]]]:
        """The sequences to prefill together, and by their rows those that begin with the very same tokens."""
        waiting.sort(key=lambda s: (len(s.ids) - s.cached, s.row))
        if self._stateful:
            least = len(waiting[0].ids) - waiting[0].cached
            waiting = [s for s in waiting if len(s.ids) - s.cached == least]
        leaders: dict[tuple[int, ...], _Sequence] = {}
        members: dict[int, list[_Sequence]] = {}
        batch: list[_Sequence] = []
        for state in waiting:
            leader = leaders.setdefault(tuple(state.ids), state) if state.cached == 0 else state
            if leader is not state:
                members.setdefault(id(leader), []).append(state)
            elif len(batch) < self.config.prefill_rows:
                batch.append(state)
        return batch, members

    def _arrange(self, batch: list[_Sequence], first: int) -> None:
        """Move the batch's rows to `first … first+len(batch)`; rows already inside stay."""
        wanted = range(first, first + len(batch))
        held = {s.row for s in batch}
        free = [row for row in wanted if row not in held]
        for state, target in zip([s for s in batch if s.row not in wanted], free, strict=True):
            number = self._rows[target]
            other = None if number is None else self._sequences[number]
            width = max(state.cached, other.cached if other else 0)
            for layer in self._layers:
                layer.swap(state.row, target, width)
            self._rows[state.row], self._rows[target] = number, self._rows[state.row]
            if other is not None:
                other.row = state.row
            state.row = target

    def _forward(
        self, batch: list[_Sequence], first: int, followers: Mapping[int, list[_Sequence]]
    ) -> list[Completion]:
        """One pass over `batch`, which lies in rows from `first` on; `followers` share the pass of their leader."""
        backlog = [len(s.ids) - s.cached for s in batch]
        new = max(backlog)
        ids = torch.zeros(len(batch), new, dtype=torch.long)
        starts = torch.tensor([s.cached for s in batch])
        for i, s in enumerate(batch):
            ids[i, : backlog[i]] = torch.tensor(s.ids[s.cached :])
        positions = starts[:, None] + torch.arange(new)[None]
        positions.clamp_(max=self._length - 1)
        width = int(starts.add(torch.tensor(backlog)).max())
        width = max(width, int(positions.max()) + 1)
        columns = torch.arange(width)
        mask = columns[None, None, None, :] <= positions[:, None, :, None]
        device = self.config.device
        ids, positions, mask = ids.to(device), positions.to(device), mask.to(device)
        fresh = [s.row for s in batch if s.cached == 0] if self._stateful else []
        for layer in self._layers:
            layer.clear(fresh)
            layer.aim(first, first + len(batch), positions, width)
        if self._dense is not None:
            hidden = self._dense(ids, positions, mask, self._layers)
        else:
            hidden = backbone(self.model)(
                input_ids=ids, attention_mask=mask, position_ids=positions, cache=self._cache, use_cache=True
            ).last_hidden_state
        last = hidden[torch.arange(len(batch)), torch.tensor(backlog) - 1]
        logits = self._logits(last)
        if followers:
            of = [i for i, s in enumerate(batch) for _ in range(1 + len(followers.get(id(s), ())))]
            for leader in batch:
                rows = [s.row for s in followers.get(id(leader), ())]
                for layer in self._layers if rows else ():
                    layer.copy(leader.row, rows, len(leader.ids))
            batch = [s for leader in batch for s in (leader, *followers.get(id(leader), ()))]
            logits = logits[of]
        return self._sample(batch, logits)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states [N, D] after the final norm -> logits [N, V] in float32."""
        logits: torch.Tensor = self._head(hidden).float().cpu()
        return logits if self._scale == 1.0 else logits * self._scale

    def _choose(self, batch: list[_Sequence], logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [B, V] -> the batch's next tokens [B] and their log-probabilities [B]."""
        # Temperature 0 is greedy; its tokens are reported with their log-probability at temperature 1.
        logp = torch.log_softmax(logits / (self.temperature or 1.0), dim=-1)
        chosen = logp.argmax(-1) if self.temperature == 0 else draw(logp, *self._counters(batch))
        return chosen, logp.gather(1, chosen[:, None])[:, 0]

    @staticmethod
    def _counters(batch: list[_Sequence]) -> tuple[np.ndarray, np.ndarray]:
        """Seeds and positions of the tokens to be drawn."""
        return np.array([s.seed for s in batch]), np.array([len(s.ids) for s in batch])

    def _sample(self, batch: list[_Sequence], logits: torch.Tensor) -> list[Completion]:
        chosen, logp = self._choose(batch, logits)
        ended = torch.isin(chosen, self._end).tolist()
        done: list[Completion] = []
        for state, token, value, end in zip(batch, chosen.tolist(), logp.tolist(), ended, strict=True):
            state.cached = len(state.ids)
            state.ids.append(token)
            state.logp.append(value)
            state.versions.append(self.version)
            if end or len(state.ids) >= state.limit:
                state.generating = False
                seq = self._rows[state.row]
                assert seq is not None
                ids, stop = tuple(state.ids[state.start :]), "end" if end else "length"
                done.append(Completion(seq, ids, tuple(state.logp), tuple(state.versions), stop))
        return done


def draw(logp: torch.Tensor, seeds: np.ndarray, counters: np.ndarray) -> torch.Tensor:
    """One token per row [B] of log-probabilities [B, V], by inverse CDF; rows need not sum to 1."""
    cdf = logp.double().exp().cumsum(-1)
    targets = torch.from_numpy(uniforms(seeds, counters))[:, None] * cdf[:, -1:]
    return torch.searchsorted(cdf, targets, right=True).clamp_(max=logp.shape[-1] - 1)[:, 0]


def uniforms(seeds: np.ndarray, counters: np.ndarray) -> np.ndarray:
    """Counter-based uniforms in [0, 1): one per (seed, counter), by the splitmix64 finaliser (Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        z = seeds.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += (counters.astype(np.uint64) + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03)
        for _ in range(2):
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) / float(1 << 53)


def _check(config: Config, kinds: set[str], window: int | None) -> None:
    if kinds - ATTENTION - LINEAR:
        raise UserError(
            f'student.engine.type = "embedded" holds {sorted(ATTENTION | LINEAR)} layers: the model has '
            f'{sorted(kinds)} - set student.engine = {{ type = "transformers" }}'
        )
    if window is not None and config.max_tokens > window:
        raise UserError(
            f"student.engine.max_tokens must not exceed the model's sliding window of {window} tokens: got "
            f"{config.max_tokens} - lower it"
        )


def build(config: Config, model_folder: Path, end_ids: Sequence[int], temperature: float = 1.0) -> EmbeddedEngine:
    """Load a checkpoint folder into an engine; nothing is downloaded.

    Raises:
        UserError: the folder is no causal LM, or one that this engine cannot hold.
    """
    torch.set_num_threads(config.threads)
    return EmbeddedEngine(load_model(model_folder, config.dtype, config.device), end_ids, config, temperature)
