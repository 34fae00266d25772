"""The only writer of per-token streams: a rollout's record grows piece by piece and is frozen at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from noria.core.types import EDITED, STUDENT, TokenRecord, TokenRole
from noria.tokens.renderer import Piece


class RecordBuilder:
    """Appends prompt, sampled, written and observed tokens; all streams grow by the same length each time."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._roles: list[TokenRole] = []
        self._turns: list[int] = []
        self._sources: list[str] = []
        self._mask: list[int] = []
        self._logp: list[float] = []
        self._versions: list[int] = []
        self._turn = -1

    def __len__(self) -> int:
        return len(self.ids)

    def rendered(self, piece: Piece) -> None:
        """Tokens that a template or a world put there: no gradient, ever."""
        self._extend(piece.ids, piece.roles, STUDENT, 0, [0.0] * len(piece.ids), [-1] * len(piece.ids))

    def sampled(
        self,
        ids: Sequence[int],
        roles: Sequence[TokenRole],
        logp: Sequence[float],
        versions: Sequence[int],
        same_turn: bool = False,
    ) -> tuple[int, int]:
        """A turn that the student sampled. Returns its token span.

        `same_turn` continues a turn whose beginning was written for the student (a thought it was given).
        """
        self._turn += not same_turn
        return self._extend(ids, roles, STUDENT, 1, logp, versions)

    def written(
        self, ids: Sequence[int], roles: Sequence[TokenRole], source: str, same_turn: bool = False
    ) -> tuple[int, int]:
        """A turn, or the beginning of one, that a teacher or an editor wrote."""
        self._turn += not same_turn
        return self._extend(ids, roles, source, 0, [0.0] * len(ids), [-1] * len(ids))

    def prefix(self, record: TokenRecord, length: int) -> None:
        """Start in the middle of another rollout: its first `length` tokens, without gradient."""
        head = slice(0, length)
        self.ids.extend(record.ids[head])
        self._roles.extend(record.roles[head])
        self._turns.extend(record.turns[head])
        self._sources.extend("expert" if m else s for m, s in zip(record.mask[head], record.sources[head], strict=True))
        self._mask.extend([0] * length)
        self._logp.extend([0.0] * length)
        self._versions.extend([-1] * length)
        self._turn = max(record.turns[head], default=-1)

    def next_turn(self, turn: int) -> None:
        """Number of the turn that comes next, where a context begins with earlier ones in its prompt."""
        self._turn = turn - 1

    def freeze(self) -> TokenRecord:
        """The finished record."""
        return TokenRecord(
            tuple(self.ids), tuple(self._roles), tuple(self._turns), tuple(self._sources),
            tuple(self._mask), tuple(self._logp), tuple(self._versions),
        )  # fmt: skip

    def _extend(
        self,
        ids: Sequence[int],
        roles: Sequence[TokenRole],
        source: str,
        mask: int,
        logp: Sequence[float],
        versions: Sequence[int],
    ) -> tuple[int, int]:
        n = len(ids)
        if not n == len(roles) == len(logp) == len(versions):
            raise ValueError(f"a piece must have equal streams: {n}, {len(roles)}, {len(logp)}, {len(versions)}")
        start = len(self.ids)
        self.ids.extend(ids)
        self._roles.extend(roles)
        self._turns.extend([self._turn] * n)
        self._sources.extend([source] * n)
        self._mask.extend([mask] * n)
        self._logp.extend(logp)
        self._versions.extend(versions)
        return start, start + n


def edited(record: TokenRecord) -> TokenRecord:
    """The record of a rewritten rollout: nothing in it was sampled in this context, probabilities are gone.

    The assistant's turns count as the editor's, whoever said them first.
    """
    n = len(record)
    sources = tuple(EDITED if a else s for a, s in zip(authored(record), record.sources, strict=True))
    return replace(record, sources=sources, mask=(0,) * n, logp_mu=(0.0,) * n, versions=(-1,) * n)


def authored(record: TokenRecord) -> tuple[int, ...]:
    """1 for every token of an assistant turn, whoever wrote it (the loss mask of supervised fine-tuning)."""
    said = ("think", "tool_name", "tool_args", "answer")
    return tuple(int(role in said) for role in record.roles)
