"""A server's parts for one checkpoint folder, put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from noria.engines.embedded import Config
from noria.engines.recited import RecitedEngine
from noria.engines.serving import load_engine
from noria.server.app import Api
from noria.server.loop import DecodingLoop
from noria.server.model import Limits, Served
from noria.server.record import Terms
from noria.server.run import log
from noria.server.sessions import Sessions
from noria.server.weights import Weights
from noria.tokens.ends import read_end_ids
from noria.tokens.reading import read_tokenizer


def build(
    name: str,
    folder: Path,
    key: str,
    config: Config,
    queue: int,
    max_logprobs: int,
    record: Path | None = None,
    terms: Terms | None = None,
    script: Sequence[str] = (),
    updates: Path | None = None,
) -> Api:
    """Load the checkpoint; `queue` sequences may wait for one of the engine's slots.

    Calls of sessions are recorded where `terms` say how they are sampled: into the folder `record`, or in memory alone.
    With a `script` its messages are said in turn and nothing is sampled. Clients may name checkpoints in the folder
    `updates`, whose weights are then served; None = they may not.

    Raises:
        UserError: the folder is no causal LM, or names no end-of-turn token.
    """
    tokenizer = read_tokenizer(folder)
    end_ids = read_end_ids(folder, tokenizer)
    engine = load_engine(config, folder, end_ids)
    served = Served(name, tokenizer, end_ids, Limits(config.max_tokens, max_logprobs))
    sessions = None if terms is None else Sessions(served, record, terms)
    said = [(*tokenizer.encode(text, add_special_tokens=False), end_ids[0]) for text in script]
    speaker = RecitedEngine(engine, said, end_ids[0]) if said else engine
    loop = DecodingLoop(speaker, config.slots, queue, log)
    taken = None if updates is None else Weights(updates, engine, loop)
    return Api(served, loop, key, sessions=sessions, weights=taken)
