"""The tokenizer of a checkpoint folder; the one place where one is read from a folder that is used as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noria.core.errors import UserError


def read_tokenizer(folder: Path) -> Any:
    """The tokenizer that lies in a checkpoint folder; nothing is downloaded.

    Raises:
        UserError: one of its files, or config.json, is damaged.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as fault:
        said = str(fault).strip().partition("\n")[0]
        raise UserError(
            f"model must have a tokenizer that transformers can read: that of {str(folder)!r} is not "
            f"({type(fault).__name__}: {said}) - copy tokenizer.json, tokenizer_config.json, chat_template.jinja and "
            "config.json again"
        ) from fault
