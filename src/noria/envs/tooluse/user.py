"""The user of a task who is asked for what the prompt leaves open: scripted, or a model behind an HTTP server.

A scripted user answers a question about a topic that it knows, in one of a few forms that the task's id settles, and
tells nothing else. A model is told the topics and answers as instructions; what it says goes through the same gate: an
answer that holds a detail which was not asked for is not passed on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from noria.core.errors import SandboxError
from noria.core.remote import ServerConfig, connect, read_key

NOTHING = "I have nothing to say about that."
_FORMS = ("{0}", "It is {0}.", "{0}, please.", "Take {0}.")
_WORD = re.compile(r"[a-z0-9]+")
_MOST_CHARS = 80


class User(Protocol):
    """Answers questions about a task. Raises SandboxError where nobody answers."""

    def answer(self, task_id: str, details: Mapping[str, str], question: str) -> str: ...


class ModelConfig(ServerConfig):
    """A chat model that plays the user."""

    max_retries: int = 3


class ScriptedUser:
    """Answers what it is asked about, the same words for the same task and question."""

    def answer(self, task_id: str, details: Mapping[str, str], question: str) -> str:
        """The details whose topics the question names; a refusal where it names none."""
        return scripted(task_id, details, question)


class ModelUser:
    """A chat model behind an OpenAI-compatible server."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._client = connect(config, read_key(config), config.max_retries)

    def answer(self, task_id: str, details: Mapping[str, str], question: str) -> str:
        """What the model says, one short line; the scripted answer where it gives away more than was asked.

        Raises:
            SandboxError: no answer within the retries.
        """
        import openai

        known = "; ".join(f"{topic}: {detail}" for topic, detail in details.items())
        system = (
            f"You are the customer of a service desk. You know: {known}. Answer the clerk's question in one short "
            f"sentence with exactly the value that was asked for. If you are asked for something else, say: {NOTHING}"
        )
        messages: Any = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        try:
            said = self._client.chat.completions.create(
                model=self._config.model,
                messages=messages,
                temperature=0.0,
                max_tokens=60,
            )
            text = said.choices[0].message.content or ""
        except (openai.OpenAIError, ValidationError, IndexError) as fault:
            raise SandboxError(f"the simulated user did not answer: {type(fault).__name__}") from fault
        line = " ".join(text.split())[:_MOST_CHARS]
        asked = asked_for(details, question)
        told = set(_WORD.findall(line.lower()))
        if any(detail.lower() in told for topic, detail in details.items() if topic not in asked):
            return scripted(task_id, details, question)
        if any(details[topic].lower() not in told for topic in asked):
            return scripted(task_id, details, question)  # an invented value would make the task impossible
        return line if line.isascii() and line else NOTHING


def scripted(task_id: str, details: Mapping[str, str], question: str) -> str:
    """The answer of the scripted user."""
    asked = asked_for(details, question)
    if not asked:
        return NOTHING
    form = _FORMS[hashlib.sha256(f"{task_id}:{','.join(asked)}".encode()).digest()[0] % len(_FORMS)]
    return " ".join(form.format(details[topic]) for topic in asked)


def asked_for(details: Mapping[str, str], question: str) -> list[str]:
    """Topics that a question names: every word of its field, or the id of its row."""
    words = set(_WORD.findall(question.lower()))
    found = []
    for topic in details:
        name, _, row = topic.lower().partition(" of ")
        if set(_WORD.findall(name)) <= words or (re.fullmatch(r"[a-z]\d+", row) and row in words):
            found.append(topic)
    return found
