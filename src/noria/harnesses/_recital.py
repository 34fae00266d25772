"""Scripts instead of a policy, in front of a harness of somebody else's: no model is loaded and nothing is sampled.

The messages are served as a model's would be. What is recorded of them is written, not sampled: it carries no loss of
reinforcement, as nothing of a scripted policy does.
"""

from __future__ import annotations

import secrets
import threading
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from noria.core.protocols import Completion
from noria.core.types import TokenRecord, Trajectory
from noria.engines.serving import Given, Settings, Token
from noria.harnesses import command
from noria.harnesses._rollouts import NAME, served_inside
from noria.server.model import Limits as ServedLimits
from noria.server.model import Served
from noria.server.record import Terms
from noria.server.sessions import Sessions
from noria.stages.jobs import Job, Limits
from noria.tokens.renderer import Renderer


class Reciter:
    """What the decoding loop needs of an engine. It says the first message of `script` that the prompt lacks."""

    def __init__(self, end_id: int) -> None:
        self.script: Sequence[Sequence[int]] = ()
        self._end, self._said = end_id, dict[int, deque[int]]()

    @property
    def free(self) -> int:
        """Sequences that may be opened."""
        return 1 - len(self._said)

    def open(self, seq: int, ids: Sequence[int], max_new: int, settings: Settings) -> None:
        """Choose what is said after this prompt."""
        self._said[seq] = deque(next_said(ids, self.script, (self._end,))[:max_new])

    def drop(self, seq: int) -> None:
        """Forget a sequence."""
        self._said.pop(seq, None)

    def clear(self) -> None:
        """Forget every sequence."""
        self._said.clear()

    def advance(self) -> tuple[list[tuple[int, Token]], list[Completion]]:
        """All that is left of every sequence, at once."""
        made, done = [], []
        for seq, left in self._said.items():
            ids = tuple(left)
            left.clear()
            if ids:
                made += [(seq, Token(id_, 0.0, 1)) for id_ in ids]
                stop = "end" if ids[-1] == self._end else "length"
                done.append(Completion(seq, ids, (0.0,) * len(ids), (0,) * len(ids), stop))
        return made, done

    def score(self, batch: Sequence[Given]) -> list[tuple[list[Token], Token]]:
        """Nobody's: every token is certain."""
        return [([Token(id_, 0.0, 1) for id_ in given.ids[1:]], Token(self._end, 0.0, 1)) for given in batch]


def next_said(prompt: Sequence[int], script: Sequence[Sequence[int]], end: tuple[int, ...]) -> tuple[int, ...]:
    """The first message that does not stand in the prompt behind those before it; `end` after the last."""
    text, width = array("q", prompt).tobytes(), array("q").itemsize
    at = 0
    for message in script:
        wanted = array("q", message).tobytes()
        found = text.find(wanted, at)
        while found >= 0 and found % width:
            found = text.find(wanted, found + 1)
        if found < 0:
            return tuple(message)
        at = found + len(wanted)
    return end


class Recital:
    """Plays scripts through a player's harness, one at a time. Looks like a `_rollouts.Policy` to the player."""

    def __init__(self, renderer: Renderer, max_tokens: int) -> None:
        self.engine, self.name, self._renderer = Reciter(renderer.end_ids[0]), NAME, renderer
        served = Served(NAME, renderer.tokenizer, renderer.end_ids, ServedLimits(max_tokens), renderer.form.name)
        self.sessions = Sessions(served, None, Terms(), takes_new=False)
        self.inside = served_inside(served, self.sessions, self.engine, 1)

    def play(self, player: command.Player, job: Job, script: Sequence[str], limits: Limits) -> Trajectory:
        """One rollout in which these messages are said."""
        self.engine.script = [self._renderer.message(text) for text in script]
        found = player.play(job, f"s-{secrets.token_hex(8)}", limits, 1.0, threading.Event())
        return replace(
            found, record=_written(found.record, job.source),
            branches=tuple(replace(each, record=_written(each.record, job.source)) for each in found.branches),
        )  # fmt: skip

    def close(self) -> None:
        """Stop serving."""
        self.inside.close()


def _written(record: TokenRecord, source: str) -> TokenRecord:
    """The record of what somebody else said: nothing was sampled, and the author is named."""
    n = len(record)
    sources = tuple(source if sampled else each for each, sampled in zip(record.sources, record.mask, strict=True))
    return replace(record, sources=sources, mask=(0,) * n, logp_mu=(0.0,) * n, versions=(-1,) * n)
