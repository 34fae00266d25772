"""The user who is talked to: a scripted stand-in, or a model behind an HTTP server.

The stand-in tells what the task's scenario gives it to know, then how it wants things, each once; after that it agrees
to what it is asked, and is content when it is asked nothing more. Where it has tools of its own, a phone for one, it
does what it is asked to do by name, and tells what came of it. It is the same every time, and much easier to serve than
a model: figures that are to be compared with published ones need a model.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError

from noria.core.errors import PolicyError, SandboxError
from noria.core.remote import ServerConfig, connect, read_key
from noria.core.syntax import parse
from noria.core.types import Message, Tool

#: What ends a conversation from the user's side.
STOP = "###STOP###"
_ENDS = (STOP, "###TRANSFER###", "###OUT-OF-SCOPE###")
AGREES = "Yes, please."
#: Times that the stand-in agrees; who asks more often gets nowhere.
MOST_AGREES = 8
#: How an answer begins that tells what the user did.
DID = "I did that."
#: Things that the user does in one go.
MOST_DONE = 20
_MOST_CHARS = 2000
#: Closing brackets that are tried as the end of what is asked for.
_MOST_TRIES = 40
_FIRST_PERSON = (
    (r"\bYou are\b", "I am"), (r"\byou are\b", "I am"), (r"\bYou're\b", "I'm"), (r"\byou're\b", "I'm"),
    (r"\bYour\b", "My"), (r"\byour\b", "my"), (r"\byourself\b", "myself"), (r"\bYou\b", "I"),
    (r"\b(to|for|with|gives?|tells?|shows?|lets?) you\b", r"\1 me"), (r"\byou\b", "I"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hands:
    """What a user can do besides talking. `do` gives what came of it; PolicyError: it cannot be done."""

    tools: Sequence[Tool] = ()
    do: Callable[[str, Mapping[str, Any]], str] = lambda name, arguments: ""


class User(Protocol):
    """Opens the conversation and answers in it; what it says may hold `STOP`. Raises SandboxError: nobody answers."""

    def first(self, scenario: Mapping[str, Any]) -> str: ...
    def answer(self, scenario: Mapping[str, Any], said: Sequence[Message], hands: Hands) -> str: ...


class ModelConfig(ServerConfig):
    """A chat model that plays the user."""

    max_retries: int = 3


class ScriptedUser:
    """The stand-in."""

    def first(self, scenario: Mapping[str, Any]) -> str:
        """Why it called."""
        return first_person(str(scenario.get("reason_for_call") or "I need help."))

    def answer(self, scenario: Mapping[str, Any], said: Sequence[Message], hands: Hands) -> str:
        """What came of what it was asked to do, else what it says next, from the conversation alone."""
        asked = said[-1].content if said else ""
        done = [_done(hands, name, arguments) for name, arguments in requests_in(asked, hands.tools)]
        if done:
            return "\n".join([DID, *done])
        told = sum(message.role == "user" and not message.content.startswith(DID) for message in said) - 1
        known = [first_person(str(scenario[k])) for k in ("known_info", "task_instructions") if scenario.get(k)]
        if told < len(known):
            return known[told]
        return AGREES if "?" in asked and told < len(known) + MOST_AGREES else STOP


class ModelUser:
    """A chat model behind an OpenAI-compatible server."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._client = connect(config, read_key(config), config.max_retries)

    def first(self, scenario: Mapping[str, Any]) -> str:
        """Why it called; the scenario's own words, so that a task has one prompt."""
        return ScriptedUser().first(scenario)

    def answer(self, scenario: Mapping[str, Any], said: Sequence[Message], hands: Hands) -> str:
        """What the model says once it has done what it wants to do.

        Raises:
            SandboxError: no answer within the retries, or none but calls.
        """
        facts = "\n".join(f"{key}: {value}" for key, value in scenario.items() if value)
        can = " You can do things yourself by calling tools; tell only what came of them." if hands.tools else ""
        system = (
            "You are a customer who talks to a service agent, one short message at a time. Say only what the scenario "
            f"tells you, when it is asked for, and invent nothing.{can} Write {STOP} when all that you want is done, "
            f"or cannot be done.\n\n{facts}"
        )
        turned = [{"role": "user" if m.role == "assistant" else "assistant", "content": m.content} for m in said]
        messages: list[Any] = [{"role": "system", "content": system}, *turned]
        for _ in range(MOST_DONE + 1):
            given = self._asked(messages, hands.tools)
            calls = given.tool_calls or ()
            if not calls:
                return (given.content or "").strip()[:_MOST_CHARS] or STOP
            messages.append(given.model_dump(exclude_none=True))
            for call in calls:
                text = _called(hands, call.function.name, call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
        raise SandboxError(f"the simulated user did {MOST_DONE} things and said nothing")

    def _asked(self, messages: Sequence[Any], tools: Sequence[Tool]) -> Any:
        """The message of the model."""
        import openai

        more: dict[str, Any] = {"tools": [_schema(tool) for tool in tools]} if tools else {}
        try:
            given = self._client.chat.completions.create(
                model=self._config.model, messages=list(messages), temperature=0.0, max_tokens=300, **more
            )
            return given.choices[0].message
        except (openai.OpenAIError, ValidationError, IndexError) as fault:
            raise SandboxError(f"the simulated user did not answer: {type(fault).__name__}") from fault


def requests_in(text: str, tools: Sequence[Tool]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What a message asks for by name, in order: `toggle_data` alone, or `grant(app="x")` with values as literals."""
    known = {tool.name: tool for tool in tools}
    if not known:
        return
    names = re.compile(rf"(?<![\w.])({'|'.join(sorted(map(re.escape, known), key=len, reverse=True))})(?![\w])")
    at, left = 0, MOST_DONE
    while left and (found := names.search(text, at)):
        arguments, at = _written_arguments(text, found.end())
        yield found[1], arguments
        left -= 1


def _written_arguments(text: str, start: int) -> tuple[Mapping[str, Any], int]:
    """The named literals in brackets that begin at `start`, and where they end; none where there are no such."""
    if not text.startswith("(", start):
        return {}, start
    end = start
    for _ in range(_MOST_TRIES):
        end = text.find(")", end + 1, start + _MOST_CHARS)
        if end < 0:
            break
        try:
            call = parse(f"f{text[start : end + 1]}", "eval").body
            assert isinstance(call, ast.Call)
            return {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}, end + 1
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
    return {}, start


def _done(hands: Hands, name: str, arguments: Mapping[str, Any]) -> str:
    try:
        return f"{name}: {hands.do(name, arguments)}"
    except PolicyError as refusal:
        return f"{name} cannot be done: {refusal}"


def _called(hands: Hands, name: str, text: str) -> str:
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return "error: the arguments are no JSON"
    if name not in {tool.name for tool in hands.tools} or not isinstance(arguments, dict):
        return f"error: no tool {name!r} with such arguments"
    return _done(hands, name, arguments)


def _schema(tool: Tool) -> dict[str, Any]:
    """A tool as a chat API describes it; what is not said to be optional is required."""
    properties = {key: {"type": kind, "description": meaning} for key, (kind, meaning) in tool.parameters.items()}
    required = [key for key, (_, meaning) in tool.parameters.items() if not meaning.endswith("optional")]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def is_end(text: str) -> bool:
    """Whether the user ends the conversation by it."""
    return any(mark in text for mark in _ENDS)


def first_person(text: str) -> str:
    """What somebody is told about themselves, as they would say it; by rules, so not always well.

    Marks that end a conversation are told to be used, and not meant by it.
    """
    for mark in _ENDS:
        text = text.replace(mark, "")
    for pattern, instead in _FIRST_PERSON:
        text = re.sub(pattern, instead, text)
    return " ".join(text.split())
