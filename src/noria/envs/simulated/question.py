"""What a simulator is asked, and who may answer."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from noria.envs.simulated.card import Action, Args, Domain
from noria.envs.simulated.checking import lacking, placed, settled
from noria.envs.simulated.paths import NEW, State

#: Call and observation, as they were told.
Exchange = tuple[str, str]


class Fault(NamedTuple):
    """An answer to the same question that could not count, and why."""

    answer: str
    why: str


@dataclass(frozen=True, slots=True)
class Question:
    """A call on a state; `talk` is what was called and answered before, as much of it as a simulator may see."""

    domain: Domain
    state: State
    action: Action
    args: Args
    talk: tuple[Exchange, ...] = ()

    def data(self) -> dict[str, Any]:
        """It as plain JSON, with what the card settles already worked out."""
        why = lacking(self.state, self.action, self.args)
        may = [
            f"{effect.op} {placed(effect, self.args)}" for effect in self.action.effects
            if effect.free or NEW in placed(effect, self.args)
        ]  # fmt: skip
        return {
            "state": self.state,
            "call": {"tool": self.action.name, "arguments": dict(self.args)},
            "before": [list(exchange) for exchange in self.talk],
            "must_be_refused_because": why,
            "must_change": [] if why else [change.data() for change in settled(self.state, self.action, self.args)],
            "may_change": [] if why else may,
        }

    def key(self, identity: str) -> str:
        """A digest of all that an answer depends on, the simulator's identity included."""
        told = [identity, self.domain.name, self.state, self.action.name, dict(self.args), list(self.talk)]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


class Simulator(Protocol):
    """Whoever makes up the answers; `identity` names it in what is recorded."""

    identity: str

    def ask(self, question: Question, faults: tuple[Fault, ...], seed: int) -> str:
        """The text of an answer. Raises SandboxError: nobody answers."""
        ...

    def close(self) -> None: ...
