"""What servers answer when they score a prompt, read strictly: what is missing or no log-probability is a fault."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noria.core.errors import NoriaError

#: Key of a token whose id the answer does not tell.
ECHOED = ""
#: How far above 0 rounding may lift a log-probability.
SLACK = 1e-3


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Of T tokens: `logp` [T] in nats, 0 for the first, which nothing predicts; `top` [T] of (id, log-probability)."""

    logp: tuple[float, ...]
    top: tuple[tuple[tuple[int, float], ...], ...]


class Fault(NoriaError):
    """A fault that may pass; `after_s` is what the server wishes, None where it is silent."""

    def __init__(self, text: str, after_s: float | None = None) -> None:
        super().__init__(text)
        self.after_s = after_s


class Partial(Fault):
    """An answer without all of what was asked for."""


def read_scores(answer: Mapping[str, Any], ids: Sequence[int], ask: str, least: int = 0) -> TokenScores:
    """The scores of `ids` in an answer, with at least `least` alternatives each.

    Raises:
        Partial: there is none for some token, or they are fewer, or more than all of the probability.
    """
    rows = _echoed(answer) if ask == "echo" else _listed(answer)
    if len(rows) < len(ids):
        raise Partial(f"it has log-probabilities for {len(rows)} of {len(ids)} tokens of the prompt")
    logp: list[float] = [0.0]
    top: list[tuple[tuple[int, float], ...]] = [()]
    for at, token in enumerate(ids[1:], start=1):
        row = {key: _number(value, at) for key, value in rows[at].items()}
        own = row.get(ECHOED if ask == "echo" else str(token))
        if own is None:
            raise Partial(f"it has no log-probability for token {at} of the prompt")
        logp.append(own)
        named = [(_id(key, at), value) for key, value in row.items() if key != ECHOED]
        if len(named) < least:
            raise Partial(f"it has {len(named)} of {least} alternatives for token {at} of the prompt")
        if (total := sum(math.exp(value) for _, value in named)) > 1 + SLACK:
            raise Partial(f"the alternatives for token {at} of the prompt have a probability of {total:.3f} together")
        top.append(tuple(sorted(named, key=lambda pair: -pair[1])))
    return TokenScores(tuple(logp), tuple(top))


def _choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = answer.get("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        raise Partial("it has no choices")
    return choices[0]


def _listed(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each token of the prompt its ids and log-probabilities; servers put the list beside or into the choice."""
    rows = _choice(answer).get("prompt_logprobs") or answer.get("prompt_logprobs")
    if not isinstance(rows, list):
        raise Partial("it has no prompt_logprobs")
    return [
        {str(key): entry.get("logprob") if isinstance(entry, dict) else entry for key, entry in row.items()}
        if isinstance(row, dict)
        else {}
        for row in rows
    ]


def _echoed(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same of an echo, which names no ids."""
    table = _choice(answer).get("logprobs")
    values = table.get("token_logprobs") if isinstance(table, dict) else None
    if not isinstance(values, list):
        raise Partial("it has no logprobs.token_logprobs of an echo of the prompt")
    return [{} if value is None else {ECHOED: value} for value in values]


def _id(key: str, at: int) -> int:
    if not key.isdecimal():
        raise Partial(f"token {at} of the prompt has an alternative {key!r}, which is no token id")
    return int(key)


def _number(value: object, at: int) -> float:
    """A log-probability. Raises Partial where it cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value > SLACK:
        raise Partial(f"token {at} of the prompt has {value!r} as a log-probability")
    return min(float(value), 0.0)


def read_ids(answer: Mapping[str, Any]) -> list[int | None]:
    """Token ids of a prompt that was sent as text; None for one that the answer does not tell."""
    choice = _choice(answer)
    ids = choice.get("prompt_token_ids") or answer.get("prompt_token_ids")
    if isinstance(ids, list):
        return ids
    rows = _listed(answer)
    return [None, *(int(next(iter(row))) if len(row) == 1 else None for row in rows[1:])]


def read_words(answer: Mapping[str, Any]) -> list[str]:
    """The texts of an echo's tokens."""
    table = _choice(answer).get("logprobs")
    words = table.get("tokens") if isinstance(table, dict) else None
    if not isinstance(words, list):
        raise Partial("it has no logprobs.tokens of an echo of the prompt")
    return [str(word) for word in words]
