"""A checkpoint's tokenizer read without transformers: enough to try its chat template before anything heavy is loaded.

It answers as transformers' tokenizer of the same folder does where `Renderer` asks while it is built. It encodes
nothing: how some families split text is decided by classes of transformers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from noria.core.errors import UserError, boundary

#: Classes that know no special token but what their files name; others have some of their own.
PLAIN = ("PreTrainedTokenizerFast", "TokenizersBackend")


class Generation(Extension):
    """The block tag `generation`, by which templates mark what an assistant said: its body stands as it is."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it so

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class LightTokenizer:
    """See the module.

    Raises:
        UserError: a file is missing or damaged; names it.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        # The package has no class of its own for its faults.
        self._inner: Any = boundary(lambda: Tokenizer.from_file(str(path)), lambda fault: _raise(_damaged(path, fault)))
        self._config = read_object(folder / "tokenizer_config.json")
        self._special = {**read_object(folder / "special_tokens_map.json"), **self._config}
        self.chat_template = self._template_text(folder)

    @property
    def is_told(self) -> bool:
        """Whether the files alone say what the special tokens are that end a turn and that templates write."""
        return self._config.get("tokenizer_class") in PLAIN or {"bos_token", "eos_token"} <= self._special.keys()

    def __len__(self) -> int:
        return int(self._inner.get_vocab_size(with_added_tokens=True))

    def vocabulary(self) -> dict[str, int]:
        """Tokens and their ids."""
        return dict(self._inner.get_vocab(with_added_tokens=True))

    @property
    def added_tokens_decoder(self) -> dict[int, Any]:
        """Added tokens by id."""
        return dict(self._inner.get_added_tokens_decoder())

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """Special tokens by name, as templates may read them."""
        names = [name for name in self._special if name.endswith("_token")]
        return {name: text for name in names if (text := self._token(name)) is not None}

    @property
    def all_special_tokens(self) -> list[str]:
        """Texts of the special tokens that the tokenizer knows."""
        return [text for text in self.special_tokens_map.values() if self._inner.token_to_id(text) is not None]

    @property
    def unk_token(self) -> str | None:
        """The token for what has no other."""
        return self._token("unk_token")

    @property
    def eos_token_id(self) -> int | None:
        """The end of sequence."""
        return None if (text := self._token("eos_token")) is None else self.convert_tokens_to_ids(text)

    def convert_tokens_to_ids(self, text: str) -> int | None:
        """The id of a token."""
        found: int | None = self._inner.token_to_id(text)
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, special ones included."""
        return str(self._inner.decode(list(ids), skip_special_tokens=False))

    def apply_chat_template(
        self, messages: Sequence[Any], tools: Any, add_generation_prompt: bool, tokenize: bool
    ) -> str:
        """The text that the template makes of a conversation. Raises what the template raises."""
        assert not tokenize
        return self._template.render(
            messages=messages, tools=tools, documents=None, add_generation_prompt=add_generation_prompt,
            **self.special_tokens_map,
        )  # fmt: skip

    @cached_property
    def _template(self) -> Template:
        made = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
        )
        made.filters["tojson"] = _to_json
        made.globals |= {"raise_exception": _refuse, "strftime_now": lambda form: datetime.now().strftime(form)}
        return made.from_string(self.chat_template)

    def _token(self, name: str) -> str | None:
        value = self._special.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        return text if isinstance(text, str) else None

    def _template_text(self, folder: Path) -> str:
        path = folder / "chat_template.jinja"
        if path.is_file():
            try:
                return path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as fault:
                raise _damaged(path, fault) from fault
        found = self._config.get("chat_template")
        if isinstance(found, list):  # several by name
            named = {str(each.get("name")): each.get("template") for each in found if isinstance(each, dict)}
            found = named.get("default")
        return found if isinstance(found, str) else ""


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file, {} where there is none. Raises UserError where it is damaged."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as fault:
        raise _damaged(path, fault) from fault
    if not isinstance(found, dict):
        raise _damaged(path, f"it holds no object but {type(found).__name__}")
    return found


def _damaged(path: Path, fault: object) -> UserError:
    return UserError(f"model must be whole: {str(path)!r} cannot be read ({fault}) - copy it again")


def _raise(fault: UserError) -> None:
    raise fault


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **more)
