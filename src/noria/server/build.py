"""A server's parts for one checkpoint folder, put together."""

from __future__ import annotations

from pathlib import Path

from noria.engines.embedded import Config
from noria.engines.serving import load_engine
from noria.server.app import Api
from noria.server.loop import DecodingLoop
from noria.server.model import Limits, Served
from noria.server.run import log
from noria.tokens.ends import read_end_ids
from noria.tokens.reading import read_tokenizer


def build(name: str, folder: Path, key: str, config: Config, queue: int, max_logprobs: int) -> Api:
    """Load the checkpoint; `queue` sequences may wait for one of the engine's slots.

    Raises:
        UserError: the folder is no causal LM, or names no end-of-turn token.
    """
    tokenizer = read_tokenizer(folder)
    end_ids = read_end_ids(folder, tokenizer)
    engine = load_engine(config, folder, end_ids)
    served = Served(name, tokenizer, end_ids, Limits(config.max_tokens, max_logprobs))
    return Api(served, DecodingLoop(engine, config.slots, queue, log), key)
