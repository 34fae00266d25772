"""The served checkpoint: its tokenizer, how a conversation becomes tokens, and what limits it has."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from noria.core.errors import UserError
from noria.core.types import Task, TokenRole, Tool
from noria.engines.serving import Settings
from noria.server.calls import written
from noria.server.errors import ApiError, wrong
from noria.server.schema import ChatRequest, Sampling, ToolSpec
from noria.tokens.forms import AUTO, Form, canonical, form_named
from noria.tokens.forms import written as in_form
from noria.tokens.renderer import Renderer, tool_schema
from noria.tokens.tools import PROBE

SEEDS = 1 << 62
#: Tags that are the conversation's own syntax, whatever a tokenizer calls them.
KEPT = {"<think>", "</think>"}
#: Characters of the private use area around the number of a text that must not be read as a special token.
ALIAS = ("\uf8f0", "\uf8f1")
#: The same around the number of a message whose words are put in afterwards.
HOLDER = ("\uf8f2", "\uf8f3")
LAST = "messages must not end with the assistant: it is the one to speak"
#: Distance between the seeds of the choices of one request (2^62 divided by the golden ratio, odd).
STRIDE = 0x278DDE6E5FD29F05


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a request: `max_len` tokens with the answer, `max_logprobs` alternatives per token."""

    max_len: int
    max_logprobs: int = 20


class Served:
    """See the module. `name` is what clients ask for, `form` how the model writes calls (`tokens.forms`)."""

    def __init__(self, name: str, tokenizer: Any, end_ids: Sequence[int], limits: Limits, form: str = AUTO) -> None:
        self.name, self.tokenizer, self.limits = name, tokenizer, limits
        self.end_ids = frozenset(end_ids)
        special = {str(token) for token in tokenizer.all_special_tokens}
        special |= {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
        self._named = sorted(special - KEPT, key=lambda text: (-len(text), text))
        self._special = re.compile("|".join(map(re.escape, self._named)) or "(?!)")
        numbers = "|".join(str(k) for k in range(len(self._named))) or "(?!)"
        self._aliases = re.compile(f"{ALIAS[0]}({numbers}){ALIAS[1]}")
        self._renderer: Renderer | None = None
        try:
            self._renderer = Renderer(tokenizer, end_ids, form)
        except UserError:
            pass  # a template that rewrites history is no obstacle to a chat
        closing = sorted(end_ids) if self._renderer is None else self._renderer.end_ids
        self._ends = [self.decode([token]) for token in closing]
        #: how the model writes calls
        self.form = self._taught() if self._renderer is None else self._renderer.form

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens included."""
        return str(self.tokenizer.decode(list(ids)))

    def spoken(self, ids: Sequence[int]) -> str:
        """What the model said with these ids, without the end of its turn."""
        last = len(ids) - (1 if ids and ids[-1] in self.end_ids else 0)
        return self.decode(ids[:last])

    def _taught(self) -> Form:
        """The form of calls that the template teaches."""
        if not self.tokenizer.chat_template:
            return form_named(AUTO)
        try:
            return form_named(AUTO, self._text([("user", "u")], [tool_schema(PROBE)]))
        except ApiError:
            return form_named(AUTO)

    def heard(self, text: str) -> str:
        """What the model said, with calls in the house's own form."""
        return canonical(self.form, text)

    def roles(self, ids: Sequence[int]) -> Sequence[TokenRole]:
        """What the tokens of an answer are; where the template rewrites history they are not told apart."""
        return self._renderer.roles(ids) if self._renderer is not None else ["answer"] * len(ids)

    def prompt_ids(self, prompt: str | Sequence[int], special: bool) -> tuple[int, ...]:
        """Ids of a text or of ids that were given.

        Raises:
            ApiError: it is empty, or an id is none of the vocabulary.
        """
        if isinstance(prompt, str):
            ids = tuple(self.tokenizer.encode(prompt, add_special_tokens=special))
        else:
            ids, size = tuple(prompt), len(self.tokenizer)
            if bad := next((token for token in ids if not 0 <= token < size), None):
                raise wrong("prompt", f"prompt must hold token ids from 0 to {size - 1}: got {bad}")
        if not ids:
            raise wrong("prompt", "prompt must hold at least one token")
        return ids

    def said(self, request: ChatRequest) -> list[tuple[str, str]]:
        """Roles and texts of the messages, calls as the model writes them.

        Raises:
            ApiError: the arguments of a call are no JSON object.
        """
        tools = [tool for spec in request.offered if (tool := plain_tool(spec)) is not None]
        texts = [written(m, f"messages.{i}") for i, m in enumerate(request.messages)]
        return [
            (m.role.replace("developer", "system"), in_form(self.form, text, tools) if m.role == "assistant" else text)
            for m, text in zip(request.messages, texts, strict=True)
        ]

    def chat_ids(self, request: ChatRequest) -> tuple[int, ...]:
        """Ids of a conversation up to where the assistant speaks.

        System, user, and turns of assistant and tool are put together as rollouts put them, piece by piece; any other
        conversation is rendered by the template as a whole. Special tokens come of the template alone: where somebody's
        words hold the text of one, it is spelled out.

        Raises:
            ApiError: the model has no chat template, or its template refuses the messages.
        """
        said = self.said(request)
        if said[-1][0] == "assistant":
            raise wrong("messages", LAST)
        task, first = _opening(said, [plain_tool(tool) for tool in request.offered])
        turns = said[first:]
        alternating = [role for role, _ in turns] == ["assistant", "tool"] * (len(turns) // 2)
        if self._renderer is None or task is None or not alternating:
            return self._rendered(said, [tool.model_dump(exclude_none=True) for tool in request.offered])
        ids = self._renderer.prompt(task).ids
        for (_, message), (_, seen) in zip(turns[::2], turns[1::2], strict=True):
            ids += self._renderer.message(message) + self._renderer.observation(seen).ids
        return ids

    def suffix(self, request: ChatRequest, at: int, text: str, ended: bool) -> tuple[int, ...] | None:
        """Ids of all that the template puts behind message `at`, which the model said as `text`.

        `ended` tells whether it sampled the end of its turn itself. None where the template does not let stand what
        was said before, or does not put messages one behind the other: then the whole must be rendered anew.

        Raises:
            ApiError: as `chat_ids`.
        """
        said, tools = self.said(request), [tool.model_dump(exclude_none=True) for tool in request.offered]
        if said[-1][0] == "assistant":
            raise wrong("messages", LAST)
        said[at] = ("assistant", text)
        held = [(role, f"{HOLDER[0]}{k}{HOLDER[1]}") for k, (role, _) in enumerate(said[at:])]
        before = self._text(said[:at], tools)
        whole, frame = self._text(said, tools), self._text([*said[:at], *held], tools)
        parts = re.split(f"{HOLDER[0]}(\\d+){HOLDER[1]}", frame.removeprefix(before))
        if parts[1::2] != [str(k) for k in range(len(held))] or not frame.startswith(before) or parts[0]:
            return None
        words = [self._hidden(text) for _, text in said[at:]]
        built = before + "".join(word + glue for word, glue in zip(words, parts[2::2], strict=True))
        if "".join(built.split()) != "".join(whole.split()):
            return None
        closing = next((end for end in self._ends if parts[2].startswith(end)), None)
        if closing is None:
            return None
        ids = self._ids(parts[2].removeprefix(closing) if ended else parts[2])
        for (_, seen), glue in zip(said[at + 1 :], parts[4::2], strict=True):
            ids += [*self._spelt(seen), *self._ids(glue)]
        return tuple(ids)

    def _rendered(self, said: Sequence[tuple[str, str]], tools: list[dict[str, Any]]) -> tuple[int, ...]:
        return tuple(self._ids(self._text(said, tools)))

    def _text(self, said: Sequence[tuple[str, str]], tools: list[dict[str, Any]]) -> str:
        """What the template makes of messages up to where the assistant speaks, special texts in them hidden."""
        if not self.tokenizer.chat_template:
            raise ApiError(400, f"the model {self.name!r} has no chat template: use /v1/completions", "messages")
        messages = [{"role": role, "content": self._hidden(text)} for role, text in said]
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    messages, tools=tools or None, add_generation_prompt=True, tokenize=False
                )
            )
        except TemplateError as fault:
            raise wrong("messages", f"the model's chat template refuses the messages: {fault}") from fault

    def _hidden(self, text: str) -> str:
        return self._special.sub(lambda found: f"{ALIAS[0]}{self._named.index(found[0])}{ALIAS[1]}", text)

    def _ids(self, text: str) -> list[int]:
        """Ids of a template's text; what is hidden in it is spelled out."""
        ids: list[int] = []
        for k, part in enumerate(self._aliases.split(text)):
            ids += (
                self._spelt(self._named[int(part)]) if k % 2 else self.tokenizer.encode(part, add_special_tokens=False)
            )
        return ids

    def _spelt(self, text: str) -> Sequence[int]:
        """Ids of a text that reads like a special token and is none."""
        if self._renderer is not None:
            return self._renderer.encode(text)
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        return found

    def room(self, ids: Sequence[int], wanted: int | None, param: str) -> int:
        """Tokens that may follow the prompt: what is wanted, or all that fit.

        Raises:
            ApiError: prompt and answer together are too long.
        """
        room = self.limits.max_len - len(ids)
        if room < (1 if wanted is None else wanted):
            asked = "" if wanted is None else f" and {wanted} for the answer"
            raise wrong(
                param,
                f"the model takes {self.limits.max_len} tokens: got {len(ids)} in the prompt{asked} - shorten it, or "
                "lower max_tokens",
                "context_length_exceeded",
            )
        return room if wanted is None else wanted

    def settings(self, request: Sampling, choice: int, top: int | None, param: str = "logprobs") -> Settings:
        """How one choice is sampled, `top` alternatives reported. Without a seed the draws are fresh ones.

        Raises:
            ApiError: more alternatives are asked for than the server gives.
        """
        for name, value in ((param, top), ("prompt_logprobs", request.prompt_logprobs)):
            if value is not None and value > self.limits.max_logprobs:
                raise wrong(name, f"{name} must be at most {self.limits.max_logprobs}: got {value}")
        seed = secrets.randbits(62) if request.seed is None else request.seed + choice * STRIDE
        return Settings(
            seed=seed % SEEDS,
            temperature=1.0 if request.temperature is None else request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            top=top or 0,
        )


def _opening(said: Sequence[tuple[str, str]], tools: Sequence[Tool | None]) -> tuple[Task | None, int]:
    """System and user message as a task's and how many messages they are; None where they are not of that form."""
    first = int(said[0][0] == "system")
    if len(said) <= first or said[first][0] != "user" or None in tools:
        return None, 0
    system = said[0][1] if first else ""
    return Task("", "", system, said[first][1], tuple(tool for tool in tools if tool is not None)), first + 1


def plain_tool(spec: ToolSpec) -> Tool | None:
    """The tool as worlds describe theirs; None where its schema says more than that can hold."""
    given = spec.model_dump(exclude_none=True)
    function = given["function"]
    properties = function.get("parameters", {}).get("properties", {})
    parameters = {
        str(key): (str(value.get("type")), str(value.get("description", "")))
        for key, value in properties.items()
        if isinstance(value, dict)
    }
    tool = Tool(function["name"], function.get("description", ""), parameters)
    return tool if tool_schema(tool) == given else None
