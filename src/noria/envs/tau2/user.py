"""The user who is talked to: a scripted stand-in, or a model behind an HTTP server.

The stand-in tells what the task's scenario gives it to know, then how it wants things, each once; after that it agrees
to what it is asked, and is content when it is asked nothing more. It is the same every time, and much easier to serve
than a model: figures that are to be compared with published ones need a model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pydantic import ValidationError

from noria.core.errors import SandboxError
from noria.core.remote import ServerConfig, connect, read_key
from noria.core.types import Message

#: What ends a conversation from the user's side.
STOP = "###STOP###"
_ENDS = (STOP, "###TRANSFER###", "###OUT-OF-SCOPE###")
AGREES = "Yes, please."
#: Times that the stand-in agrees; who asks more often gets nowhere.
MOST_AGREES = 8
_MOST_CHARS = 2000
_FIRST_PERSON = (
    (r"\bYou are\b", "I am"), (r"\byou are\b", "I am"), (r"\bYou're\b", "I'm"), (r"\byou're\b", "I'm"),
    (r"\bYour\b", "My"), (r"\byour\b", "my"), (r"\byourself\b", "myself"), (r"\bYou\b", "I"),
    (r"\b(to|for|with|gives?|tells?|shows?|lets?) you\b", r"\1 me"), (r"\byou\b", "I"),
)  # fmt: skip


class User(Protocol):
    """Opens the conversation and answers in it; what it says may hold `STOP`. Raises SandboxError: nobody answers."""

    def first(self, scenario: Mapping[str, Any]) -> str: ...
    def answer(self, scenario: Mapping[str, Any], said: Sequence[Message]) -> str: ...


class ModelConfig(ServerConfig):
    """A chat model that plays the user."""

    max_retries: int = 3


class ScriptedUser:
    """The stand-in."""

    def first(self, scenario: Mapping[str, Any]) -> str:
        """Why it called."""
        return first_person(str(scenario.get("reason_for_call") or "I need help."))

    def answer(self, scenario: Mapping[str, Any], said: Sequence[Message]) -> str:
        """What it says next, from the conversation alone."""
        told = sum(message.role == "user" for message in said) - 1
        known = [first_person(str(scenario[k])) for k in ("known_info", "task_instructions") if scenario.get(k)]
        if told < len(known):
            return known[told]
        asked = said[-1].content if said else ""
        return AGREES if "?" in asked and told < len(known) + MOST_AGREES else STOP


class ModelUser:
    """A chat model behind an OpenAI-compatible server."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._client = connect(config, read_key(config), config.max_retries)

    def first(self, scenario: Mapping[str, Any]) -> str:
        """Why it called; the scenario's own words, so that a task has one prompt."""
        return ScriptedUser().first(scenario)

    def answer(self, scenario: Mapping[str, Any], said: Sequence[Message]) -> str:
        """What the model says.

        Raises:
            SandboxError: no answer within the retries.
        """
        import openai

        facts = "\n".join(f"{key}: {value}" for key, value in scenario.items() if value)
        system = (
            "You are a customer who talks to a service agent, one short message at a time. Say only what the scenario "
            f"tells you, when it is asked for, and invent nothing. Write {STOP} when all that you want is done, or "
            f"cannot be done.\n\n{facts}"
        )
        turned = [{"role": "user" if m.role == "assistant" else "assistant", "content": m.content} for m in said]
        messages: Any = [{"role": "system", "content": system}, *turned]
        try:
            given = self._client.chat.completions.create(
                model=self._config.model, messages=messages, temperature=0.0, max_tokens=300
            )
            text = given.choices[0].message.content or ""
        except (openai.OpenAIError, ValidationError, IndexError) as fault:
            raise SandboxError(f"the simulated user did not answer: {type(fault).__name__}") from fault
        return text.strip()[:_MOST_CHARS] or STOP


def is_end(text: str) -> bool:
    """Whether the user ends the conversation by it."""
    return any(mark in text for mark in _ENDS)


def first_person(text: str) -> str:
    """What somebody is told about themselves, as they would say it; by rules, so not always well."""
    for pattern, instead in _FIRST_PERSON:
        text = re.sub(pattern, instead, text)
    return " ".join(text.split())
