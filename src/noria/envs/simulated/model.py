"""A chat model as the simulator, behind any server that speaks `/v1/chat/completions`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import Field

from noria.core.errors import EngineError, SandboxError, UserError
from noria.core.types import Message
from noria.envs.simulated.card import Action, Domain
from noria.envs.simulated.checking import NOBODY, REFUSED
from noria.envs.simulated.question import Fault, Question
from noria.graders._chat import ChatJudge, JudgeConfig, connected

_ROLE = "simulator"
#: Characters of an answer that could not be used which are shown again.
_SHOWN_CHARS = 2_000
_SYSTEM = f"""You play the other side of a set of tools: you answer each call as the service behind it would.

Answer with one JSON object and nothing else, no fence and no comment:
{{"observation": "what the caller is told", "state_patch": [{{"op": "set", "path": "table/row/field", "value": 1}}]}}
op is set or append, each with a value, or delete without one. A path is keys with slashes between.

- Where must_be_refused_because is not empty, the observation is "{REFUSED}" and that reason, and state_patch is [].
- Otherwise the call goes through. state_patch holds every change of must_change as it stands, and of may_change what
  you choose: * is any key, ? is one new key. Change nothing else.
- After it the schema, the ensures of the tool and the invariants hold.
- The observation is short and true. It names every value that the tool's shows point to, the rows apart by "; ",
  each beside its key, an empty reference as {NOBODY}.
"""


class SimulatorConfig(JudgeConfig):
    """Which server plays the other side, and how."""

    max_output_tokens: int = Field(default=1024, ge=16, description="length of an answer")
    tries: int = Field(default=3, ge=1, le=10, description="answers to one call, the first included, that may be bad")
    history: int = Field(
        default=0, ge=0, le=64, description="calls and answers before that are shown again; 0: the state says it all"
    )


class ModelSimulator:
    """See the module. May be used from several threads at once."""

    def __init__(self, config: SimulatorConfig, client: ChatJudge) -> None:
        self._config, self._client = config, client
        self.identity = f"{config.model}:{config.temperature:g}"

    def ask(self, question: Question, faults: tuple[Fault, ...], seed: int) -> str:
        """What the model says; after bad answers it is shown each with its fault.

        Raises:
            SandboxError: no answer within the retries, or the server knows neither key nor model.
        """
        messages = [Message("system", told(question.domain)), Message("user", json.dumps(question.data()))]
        for fault in faults:
            messages.append(Message("assistant", fault.answer[:_SHOWN_CHARS] or "(nothing)"))
            messages.append(Message("user", f"That cannot be used: {fault.why}. Answer with the JSON object alone."))
        try:
            return self._client.answer(messages, seed)
        except (EngineError, UserError) as fault:
            raise SandboxError(f"the simulator did not answer: {fault}") from fault

    def close(self) -> None:
        """Close the connections."""
        asyncio.run(self._client.close())


def told(domain: Domain) -> str:
    """The system message of a domain: the form of answers, then the card as JSON."""
    return _told(domain.name, _Same(domain))


class _Same:
    """A domain that is the same wherever its name is: a key for the cache."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def __hash__(self) -> int:
        return hash(self.domain.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.domain is self.domain


@lru_cache(maxsize=64)
def _told(name: str, same: _Same) -> str:
    domain = same.domain
    card = {
        "service": name,
        "about": domain.about,
        "schema": domain.schema.described(),
        "invariants": [rule.test for rule in domain.invariants],
        "tools": [_described(action) for action in domain.actions],
    }
    return _SYSTEM + json.dumps(card)


def _described(action: Action) -> Mapping[str, Any]:
    effects = [
        {"op": e.op, "path": e.path, "free": e.free} | ({} if e.free or not e.value else {"value": e.value})
        | ({} if e.when == "True" else {"when": e.when})
        for e in action.effects
    ]  # fmt: skip
    return {
        "name": action.name, "does": action.doc,
        "parameters": {name: kind.described() for name, kind in action.params.items()},
        "needs": [rule.test for rule in action.needs], "effects": effects,
        "ensures": [rule.test for rule in action.ensures], "shows": list(action.shows),
    }  # fmt: skip


def build(config: SimulatorConfig) -> ModelSimulator:
    """A simulator; sends nothing yet.

    Raises:
        UserError: the package `openai` or the key is missing.
    """
    return ModelSimulator(config, connected(config, _ROLE))
