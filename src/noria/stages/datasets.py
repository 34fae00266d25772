"""Supervised data from local files as rows: loss on what the assistant said (`stages.lines` has the forms).

What cannot be rendered, or carries no loss after cutting to length, is dropped and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from noria.core.errors import UserError
from noria.core.types import Trajectory
from noria.stages import rows as rows_of
from noria.stages.lines import Line, read_file
from noria.stages.masking import DEFAULT
from noria.tokens.conversation import Unrenderable, spoken
from noria.tokens.renderer import Renderer
from noria.trainers.rows import Row


def load_rows(
    files: Sequence[str], renderer: Renderer, max_tokens: int, mask_errors: bool, rules: Sequence[str] = DEFAULT
) -> tuple[list[Row], dict[str, int]]:
    """Rows of all files in order, and what was dropped by reason. Rows are cut to `max_tokens`.

    Raises:
        UserError: a file is missing, a line is none of the forms, or nothing is left to train on.
    """
    rows: list[Row] = []
    dropped: Counter[str] = Counter()
    for name in files:
        for _, line in read_file(Path(name)):
            try:
                made = _made(line, renderer, rules if mask_errors else ())
            except Unrenderable:
                dropped["unrenderable"] += 1
                continue
            for row in (_cut(row, max_tokens) for row in made):
                if row.mask[1:].any():
                    rows.append(row)
                else:
                    dropped["without_loss"] += 1
    if files and not rows:
        raise UserError(f"data must leave rows to train on: all of {', '.join(files)} were dropped ({dict(dropped)})")
    return rows, dict(dropped)


def _made(line: Line, renderer: Renderer, rules: Sequence[str]) -> list[Row]:
    if isinstance(line, Trajectory):
        return rows_of.by_branch(line, lambda part: rows_of.supervised(part, bool(rules), rules))
    made = spoken(renderer, line.messages, line.tools, line.trained)
    return [Row.plain(made.ids, made.mask)]


def _cut(row: Row, max_tokens: int) -> Row:
    return row if len(row) <= max_tokens else Row.plain(row.ids[:max_tokens].tolist(), row.mask[:max_tokens].tolist())
