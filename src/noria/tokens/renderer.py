"""Messages to tokens, append-only: what was sampled is never re-encoded, what was rendered stays.

A conversation is one growing token buffer. The prompt comes from the tokenizer's own chat template. Between
two assistant turns stands a piece that depends on the observation alone: the end of the assistant's turn, the
tool message and the next generation prompt. The renderer learns that piece from the template once, by probing
it, and refuses a template in which it isn't constant (one that rewrites history breaks the prefix property,
and a mask computed from it would be wrong).

Only the template writes special tokens. A task, a hint, a message or an observation that holds the text of one
is spelt out letter by letter where that text stands, so nobody's words can end a turn or begin another's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from noria.core.errors import UserError
from noria.core.types import Message, Task, TokenRole, Tool
from noria.tokens.ends import end_ids, read_end_ids
from noria.tokens.forms import canonical, form_named, written
from noria.tokens.reading import read_tokenizer
from noria.tokens.tools import PROBE, described, shown_well

#: What a template raises: its own faults, and those of the expressions that it evaluates.
_TEMPLATE_FAULTS = (TemplateError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
#: Turns of the probe. Templates that know reasoning as a part of its own write it in this form themselves.
_PROBE = tuple((f"<think>\nalpha{k}\n</think>\n\nbeta{k}", f"gamma{k}") for k in range(3))


@dataclass(frozen=True, slots=True)
class Piece:
    """Rendered tokens and what each of them is; equal lengths."""

    ids: tuple[int, ...]
    roles: tuple[TokenRole, ...]

    def __add__(self, other: Piece) -> Piece:
        return Piece(self.ids + other.ids, self.roles + other.roles)


class Renderer:
    """Turns tasks and observations into tokens for one tokenizer.

    `form` is how the model writes calls (`tokens.forms`); "auto" asks the template.
    `ends` are the tokens that end a sampled turn, the tokenizer's own alone where none are given. The one that the
    template closes a turn with comes first in `end_ids`, and is what `message` writes.

    Raises:
        UserError: the tokenizer has no chat template, no end-of-turn token, or its template rewrites history.
    """

    def __init__(self, tokenizer: Any, ends: Sequence[int] = (), form: str = "xml") -> None:
        if not tokenizer.chat_template:
            raise UserError("tokenizer must have a chat template: got none - add one to the model's folder")
        self.tokenizer = tokenizer
        self.vocab_size = len(tokenizer)
        self.end_ids = tuple(ends) or end_ids(tokenizer)
        special = _special(tokenizer)
        self._special_ids = frozenset(special.values())
        longest = sorted(special, key=lambda text: (-len(text), text))
        self._special_text = re.compile("|".join(map(re.escape, longest)) or "(?!)")
        closing, self._between, self._after = self._probe()
        self.end_ids = tuple(dict.fromkeys((closing, *self.end_ids)))
        shown = self._template([Message("system", "s"), Message("user", "u")], [PROBE], True)
        self.form = form_named(form, shown)
        self._closers = {"think": "</think>", "tool_args": self.form.closes}
        self._shows_tools = shown_well(shown, self.form)
        self.end_text = tokenizer.decode([self.end_ids[0]])
        self._cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def load(cls, folder: str | Path, form: str = "xml") -> Renderer:
        """Read the tokenizer of a checkpoint folder; nothing is downloaded."""
        tokenizer = read_tokenizer(Path(folder))
        return cls(tokenizer, read_end_ids(Path(folder), tokenizer), form)

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a text that someone wrote: it holds no special token, whatever it says.

        Ids are the tokenizer's own where the text names no special token.
        """
        if text not in self._cache:
            if len(self._cache) > 20_000:
                self._cache.clear()
            self._cache[text] = self._spelt(text)
        return self._cache[text]

    def native(self, text: str) -> tuple[int, ...]:
        """Token ids of a template's text, its special tokens as such; none is added."""
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _spelt(self, text: str) -> tuple[int, ...]:
        ids = self.native(text)
        if not self._holds_special(ids):
            return ids
        ids = tuple(self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))
        if len(text) < 2 or not self._holds_special(ids):
            return ids
        # This tokenizer knows no such switch, or has the text among its words: cut behind the first letter.
        cuts = [found.start() + 1 for found in self._special_text.finditer(text)] or [len(text) // 2]
        edges = zip([0, *cuts], [*cuts, len(text)], strict=True)
        return tuple(i for start, end in edges if start < end for i in self._spelt(text[start:end]))

    @cached_property
    def _pieces(self) -> list[str]:
        """The text of every token."""
        return [self.tokenizer.decode([i]) for i in range(self.vocab_size)]

    def _holds_special(self, ids: Sequence[int]) -> bool:
        return not self._special_ids.isdisjoint(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of sampled ids without a trailing end-of-turn token."""
        kept = list(ids)
        while kept and kept[-1] in self.end_ids:
            kept.pop()
        return str(self.tokenizer.decode(kept))

    def heard(self, text: str) -> str:
        """What a model wrote as worlds read it: calls in the house's own form."""
        return canonical(self.form, text)

    def written(self, text: str, tools: Sequence[Tool] = ()) -> str:
        """The reverse: a message in the house's form as the model writes it."""
        return written(self.form, text, tools)

    def prompt(self, task: Task, hint: str = "") -> Piece:
        """System and user message up to and with the generation prompt."""
        user = f"{task.prompt}\nHint: {hint}" if hint else task.prompt
        messages, tools = self.opening([Message("system", task.system), Message("user", user)], task.tools)
        ids = self._prompt_ids(messages, tools)
        return Piece(ids, _same("user", len(ids)))

    def opening(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[list[Message], Sequence[Tool]]:
        """Messages and tools as the template takes them: others than it shows well stand in the system message."""
        if self._shows_tools or not tools:
            return list(messages), tools
        rest = list(messages)
        system = rest.pop(0).content if rest and rest[0].role == "system" else ""
        return [Message("system", "\n\n".join(filter(None, (system, described(tools, self.form))))), *rest], ()

    def text(self, messages: Sequence[Message], tools: Sequence[Tool] = (), generate: bool = False) -> str:
        """What the template makes of a conversation; `generate` opens the next assistant turn."""
        return self._template(messages, tools, generate)

    def observation(self, text: str, ended: bool = True) -> Piece:
        """What follows an assistant turn: its end (if not sampled), the tool message, the next start."""
        between = self._between if ended else self.end_text + self._between
        glue, seen, after = self.native(between), self.encode(text), self.native(self._after)
        roles = _same("glue", len(glue)) + _same("observation", len(seen)) + _same("glue", len(after))
        return Piece(glue + seen + after, roles)

    def message(self, text: str, tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        """Ids of an assistant message that a teacher or an editor wrote, with its end-of-turn token."""
        return (*self.encode(self.written(text, tools)), self.end_ids[0])

    def roles(self, ids: Sequence[int]) -> tuple[TokenRole, ...]:
        """What each token of an assistant message is: think, tool_name, tool_args or answer."""
        out: list[TokenRole] = []
        text, opened = "", ""
        state: TokenRole = "answer"
        opens, named = self.form.opens, self.form.named
        for token in ids:
            piece = self._pieces[token] if token < self.vocab_size else ""
            text = (text + piece)[-64:]
            if "<think>" in piece or (state == "answer" and text.endswith("<think>")):
                state = "think"
            elif state == "answer" and (opens in piece or text.endswith(opens)):
                state, opened = "tool_name", ""
            out.append(state)
            if state == "tool_name":
                opened += piece
                if named.search(opened):
                    state = "tool_args"
            elif state != "answer" and text.endswith(self._closers[state]):
                state = "answer"
        return tuple(out)

    def _prompt_ids(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        """Token ids of the opening messages; a special token's text in them passes the template under another name."""
        texts = [m.content for m in messages] + [text for tool in tools for text in _texts(tool)]
        named = sorted({found for text in texts for found in self._special_text.findall(text)})
        if not named:
            return self.native(self._template(messages, tools, generate=True))
        alias = "qz"
        while any(alias in text for text in (*texts, self._template(messages, tools, generate=True))):
            alias += "z"
        names = {text: f"{alias}{k}q" for k, text in enumerate(named)}

        def hide(text: str) -> str:
            return self._special_text.sub(lambda found: names[found[0]], text)

        hidden = [Message(m.role, hide(m.content)) for m in messages]
        text = self._template(hidden, [_renamed(tool, hide) for tool in tools], generate=True)
        ids: list[int] = []
        rest = ""
        for part in re.split(f"({self._special_text.pattern})", text):
            if alias in part:
                shown = re.sub(rf"{alias}(\d+)q", lambda found: named[int(found[1])], part)
                ids += (*self.native(rest), *self.encode(shown))
                rest = ""
            else:
                rest += part
        return (*ids, *self.native(rest))

    def _template(self, messages: Sequence[Message], tools: Sequence[Tool], generate: bool) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                [{"role": m.role, "content": m.content} for m in messages if m.content or m.role != "system"],
                tools=[tool_schema(tool) for tool in tools] or None,
                add_generation_prompt=generate,
                tokenize=False,
            )
        )

    def _probe(self) -> tuple[int, str, str]:
        """The token that closes an assistant turn, the constant text up to an observation, and that after it."""
        try:
            found = self._pieces_between()
        except _TEMPLATE_FAULTS as fault:
            raise UserError(
                f"chat template must render a tool message, and the other roles: it says {str(fault)!r} - "
                "use a template with a form for every role"
            ) from fault
        if len(found) != 1:
            raise UserError("chat template must render a tool message the same way in every place: it does not")
        between, after = found.pop()
        texts = {token: str(self.tokenizer.decode([token])) for token in self.end_ids}
        for token, text in texts.items():
            if between.startswith(text):
                return token, between[len(text) :], after
        raise UserError(
            f"chat template must close an assistant turn with {' or '.join(map(repr, texts.values()))}: got "
            f"{between[:20]!r} - set eos_token to the template's end-of-turn token"
        )

    def _pieces_between(self) -> set[tuple[str, str]]:
        """What stands around the observation in each turn of a conversation that holds reasoning."""
        found = set()
        messages = [Message("system", "s"), Message("user", "u")]
        for said, seen in _PROBE:
            before = self._template(messages, (), generate=True) + said
            messages += [Message("assistant", said), Message("tool", seen)]
            text = self._template(messages, (), generate=True)
            if not text.startswith(before):
                raise UserError(
                    "chat template must keep the prompt and every assistant message as they were when a message is "
                    "added: it rewrites them - put a template (chat_template.jinja) into the model's folder that keeps "
                    "earlier reasoning and opens no thought itself"
                )
            between, shown, after = text[len(before) :].partition(seen)
            if not shown:
                raise UserError(
                    "chat template must render a tool message: it leaves it out - use a template with a form "
                    "for every role"
                )
            found.add((between, after))
        return found


def _same(role: TokenRole, n: int) -> tuple[TokenRole, ...]:
    return (role,) * n


def tool_schema(tool: Tool) -> dict[str, Any]:
    """A tool as the JSON-schema function that chat templates expect."""
    properties = {key: {"type": kind, "description": text} for key, (kind, text) in tool.parameters.items()}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _texts(tool: Tool) -> list[str]:
    """Every text of a tool that a template may show."""
    return [tool.name, tool.description, *(text for key, pair in tool.parameters.items() for text in (key, *pair))]


def _renamed(tool: Tool, hide: Callable[[str], str]) -> Tool:
    parameters = {hide(key): (hide(kind), hide(text)) for key, (kind, text) in tool.parameters.items()}
    return Tool(hide(tool.name), hide(tool.description), parameters)


def _special(tokenizer: Any) -> dict[str, int]:
    """Texts and ids of the special tokens that must not come of anybody's words.

    Tags of reasoning are the conversation's own syntax, whatever the tokenizer calls them, and the token for what has
    no other may come of any text.
    """
    texts = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    texts |= set(map(str, tokenizer.all_special_tokens))
    kept = {text for text in texts if len(text) > 1} - {"<think>", "</think>", str(tokenizer.unk_token)}
    return {text: int(tokenizer.convert_tokens_to_ids(text)) for text in sorted(kept)}
