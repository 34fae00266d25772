"""The embedded engine for many clients: every sequence has its own settings, and given tokens can be scored.

Log-probabilities are those of the whole policy at the sequence's temperature (at 1 where it is greedy): top-p changes
which token is drawn and not what is reported. Those of given tokens are at temperature 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from noria.core.protocols import Completion
from noria.engines.embedded import Config, EmbeddedEngine, draw
from noria.models.load import backbone, load_model

#: Logits that scoring holds at once.
CHUNK = 1 << 24


@dataclass(frozen=True, slots=True)
class Settings:
    """How one sequence is sampled: `temperature` 0 is greedy, `top` counts the alternatives that are reported."""

    seed: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top: int = 0


@dataclass(frozen=True, slots=True)
class Token:
    """A token with its log-probability in nats, its rank from 1, and the most probable (id, log-probability).

    `version` is that of the policy that sampled it.
    """

    id: int
    logp: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()
    version: int = 0


@dataclass(frozen=True, slots=True)
class Given:
    """Tokens to be scored with `top` alternatives each, and how the one after them would be drawn."""

    ids: tuple[int, ...]
    top: int
    settings: Settings


class ServingEngine(EmbeddedEngine):
    """See the module. `made` hands out tokens as they come, so that they can be streamed."""

    def __init__(self, model: Any, end_ids: Sequence[int], config: Config) -> None:
        super().__init__(model, end_ids, config)
        self.patience = 1  # nobody who has just come waits for the others to end
        self._settings: dict[int, Settings] = {}
        self._made: list[tuple[int, Token]] = []

    def open(self, seq: int, ids: Sequence[int], max_new: int, settings: Settings) -> None:
        """Begin a new sequence; see `add`."""
        self.add(seq, ids, max_new, settings.seed)
        self._settings[seq] = settings

    def drop(self, seq: int) -> None:
        super().drop(seq)
        self._settings.pop(seq, None)

    def clear(self) -> None:
        """Forget every sequence."""
        for seq in list(self._sequences):
            self.drop(seq)
        self._made = []

    def advance(self) -> tuple[list[tuple[int, Token]], list[Completion]]:
        """One step: tokens by sequence, and what is finished."""
        done = self.step()
        made, self._made = self._made, []
        return made, done

    @torch.inference_mode()
    def score(self, batch: Sequence[Given]) -> list[tuple[list[Token], Token]]:
        """Each row's tokens but the first, given those before, and the token that would follow. One padded pass."""
        longest = max(len(given.ids) for given in batch)
        ids = torch.zeros(len(batch), longest, dtype=torch.long)
        for i, given in enumerate(batch):
            ids[i, : len(given.ids)] = torch.tensor(given.ids)
        hidden = backbone(self.model)(input_ids=ids.to(self.config.device), use_cache=False).last_hidden_state
        last = torch.stack([row[len(given.ids) - 1] for row, given in zip(hidden, batch, strict=True)])
        counters = np.array([len(given.ids) for given in batch])
        after = _choose(self._logits(last), [given.settings for given in batch], counters, self.version)[1]
        return [
            (self._known(row[: len(given.ids) - 1], ids[i, 1 : len(given.ids)], given.top), after[i])
            for i, (row, given) in enumerate(zip(hidden, batch, strict=True))
        ]

    def _known(self, hidden: torch.Tensor, ids: torch.Tensor, top: int) -> list[Token]:
        """Predicting states [N, D] and the tokens [N] that came, as tokens with facts."""
        out: list[Token] = []
        rows = max(1, CHUNK // int(self.model.config.get_text_config().vocab_size))
        for start in range(0, len(ids), rows):
            logits = self._logits(hidden[start : start + rows])
            logits -= logits.logsumexp(-1, keepdim=True)
            out += _facts(logits, ids[start : start + rows], [top] * len(logits))
        return out

    def _choose(self, batch: list[Any], logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        numbers = [self._rows[state.row] for state in batch]
        settings = [self._settings[seq] for seq in numbers if seq is not None]
        chosen, tokens = _choose(logits, settings, self._counters(batch)[1], self.version)
        self._made += [(seq, token) for seq, token in zip(numbers, tokens, strict=True) if seq is not None]
        return chosen, torch.tensor([token.logp for token in tokens])


def _choose(
    logits: torch.Tensor, settings: Sequence[Settings], counters: np.ndarray, version: int
) -> tuple[torch.Tensor, list[Token]]:
    """Logits [B, V] -> the next tokens [B], and the same with facts."""
    heat = torch.tensor([s.temperature or 1.0 for s in settings])
    logp = torch.log_softmax(logits / heat[:, None], dim=-1)
    chosen = logp.argmax(-1)
    drawn = [i for i, s in enumerate(settings) if s.temperature]
    if drawn:
        kept = nucleus(logp[drawn], torch.tensor([settings[i].top_p for i in drawn]))
        chosen[drawn] = draw(kept, np.array([settings[i].seed for i in drawn]), counters[drawn])
    return chosen, _facts(logp, chosen, [s.top for s in settings], version)


def nucleus(logp: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Log-probabilities [B, V] without the tail: the fewest tokens that hold `top_p` [B] of the mass stay."""
    if bool((top_p >= 1).all()):
        return logp
    ordered, index = logp.sort(dim=-1, descending=True, stable=True)
    mass = ordered.double().exp()
    before = mass.cumsum(-1) - mass
    tail = (before >= top_p[:, None]) & (top_p < 1)[:, None]
    return torch.empty_like(logp).scatter_(-1, index, ordered.masked_fill(tail, float("-inf")))


def _facts(logp: torch.Tensor, ids: torch.Tensor, tops: Sequence[int], version: int = 0) -> list[Token]:
    """Log-probabilities [N, V] and the tokens [N] as `Token`s with as many alternatives as `tops` says."""
    values = logp.gather(1, ids[:, None])
    ranks = ((logp > values).sum(-1) + 1).tolist()
    best = logp.topk(min(max(tops, default=0), logp.shape[-1]), dim=-1)
    tables = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [
        Token(token, value, rank, tuple(zip(names[:top], numbers[:top], strict=True)), version)
        for token, value, rank, (names, numbers), top in zip(
            ids.tolist(), values[:, 0].tolist(), ranks, tables, tops, strict=True
        )
    ]


def load_engine(config: Config, folder: Path, end_ids: Sequence[int]) -> ServingEngine:
    """An engine for a checkpoint folder; nothing is downloaded."""
    torch.set_num_threads(config.threads)
    return ServingEngine(load_model(folder, config.dtype, config.device), end_ids, config)
