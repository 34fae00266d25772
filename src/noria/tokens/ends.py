"""The tokens that end a turn: a checkpoint may name several, and sampling stops at each of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from noria.core.errors import UserError


def end_ids(tokenizer: Any, more: Iterable[int] = ()) -> tuple[int, ...]:
    """The tokenizer's end of sequence, if it has one, and then `more`, each once.

    Raises:
        UserError: there is none.
    """
    found = (tokenizer.eos_token_id, *more)
    ids = tuple(dict.fromkeys(int(token) for token in found if token is not None))
    if not ids:
        raise UserError("tokenizer must name an eos_token: got none - set it to the end-of-turn token")
    return ids


def read_end_ids(folder: Path, tokenizer: Any) -> tuple[int, ...]:
    """Those of a checkpoint folder: its tokenizer's, then what its `generation_config.json` names.

    Raises:
        UserError: there is none, or the file is damaged or names one that is no token of the tokenizer.
    """
    path = folder / "generation_config.json"
    try:
        named = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id") if path.is_file() else None
    except (ValueError, AttributeError) as fault:
        raise UserError(f"model must be whole: {str(path)!r} holds no JSON object ({fault}) - copy it again") from fault
    more = named if isinstance(named, list) else [] if named is None else [named]
    size = len(tokenizer)
    for token in more:
        if not isinstance(token, int) or not 0 <= token < size:
            raise UserError(
                f"eos_token_id of {str(path)!r} must hold token ids from 0 to {size - 1}: got {token!r} - correct it"
            )
    return end_ids(tokenizer, more)
