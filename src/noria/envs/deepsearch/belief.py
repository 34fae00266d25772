"""What a conversation has shown: lists of hits and pages, read off the calls and the lines that answer them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from noria.bases.turn import answered, heard_calls
from noria.core.types import Message
from noria.envs.deepsearch.corpus import BROWSE, NOTHING, OPTIONAL, SEARCH
from noria.envs.deepsearch.pages import Facts, read
from noria.tokens.calls import Call, render_call

T = TypeVar("T")
R = TypeVar("R")

_HIT = re.compile(r"(\S+) (.+), ([a-z]+)")
_MORE = re.compile(r"more: part ([0-9]+)")
_MORE_PAGE = re.compile(r" \(more: part ([0-9]+)\)$")
#: Where a list or a page went wrong, it ends here.
_BROKEN = "error:"


@dataclass(frozen=True, slots=True)
class Hit:
    """One line of a list."""

    id: str
    title: str
    kind: str


class MissingError(Exception):
    """Something is not known yet; `calls` would tell it."""

    def __init__(self, calls: Sequence[str]) -> None:
        super().__init__("not known yet")
        self.calls = tuple(calls)


@dataclass(slots=True)
class Belief:
    """`lists` and `texts` hold the lines by (query or page, part), `order` the pages in the order they were read."""

    lists: dict[tuple[str, int], str] = field(default_factory=dict)
    texts: dict[tuple[str, int], str] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    first_hits: list[Hit] = field(default_factory=list)

    def note(self, call: Call, line: str) -> None:
        """Take in one call and its answer."""
        part = call.args.get(OPTIONAL, "1").strip()
        number = int(part) if part.isascii() and part.isdecimal() else 1
        if call.name == SEARCH:
            self.lists[call.args.get("query", ""), number] = line
            self.first_hits += _hits(line)[:1]
        elif call.name == BROWSE:
            page = call.args.get("page", "")
            self.texts[page, number] = line
            if page not in self.order and not line.startswith(_BROKEN):
                self.order.append(page)

    def hits(self, query: str) -> list[Hit]:
        """The whole list of a search. MissingError: a part of it was not seen."""
        found: list[Hit] = []
        part: int | None = 1
        while part is not None:
            line = self.lists.get((query, part))
            if line is None:
                raise MissingError([_call(SEARCH, part, query=query)])
            found += _hits(line)
            part = _next(_MORE, line, part)
        return found

    def pages(self, ids: Sequence[str]) -> list[Facts]:
        """What several pages say. MissingError: names all that are still to be read."""
        return gather(self.page, ids)

    def page(self, id_: str) -> Facts:
        """What a page says. MissingError: a part of it was not read."""
        text: list[str] = []
        part: int | None = 1
        while part is not None:
            line = self.texts.get((id_, part))
            if line is None:
                raise MissingError([_call(BROWSE, part, page=id_)])
            text.append(_MORE_PAGE.sub("", line))
            part = _next(_MORE_PAGE, line, part)
        return _facts(" ".join(text))


def gather(tell: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """What is told of each item. MissingError: names all that is missing, so that it is looked up at once."""
    found: list[R] = []
    missing: list[str] = []
    for item in items:
        try:
            found.append(tell(item))
        except MissingError as fault:
            missing += fault.calls
    if missing:
        raise MissingError(list(dict.fromkeys(missing)))
    return found


def believe(messages: Sequence[Message]) -> Belief:
    """Read a conversation after the prompt: assistant messages and the tool messages that answer them."""
    belief = Belief()
    for said, heard in zip(messages[::2], messages[1::2], strict=False):
        calls, lines = heard_calls(said.content), heard.content.split("\n")
        if len(calls) == len(lines):
            for call, line in answered(said.content, heard.content):
                belief.note(call, line)
    return belief


def _call(tool: str, part: int, **args: object) -> str:
    return render_call(tool, **args, **({OPTIONAL: part} if part > 1 else {}))


def _next(pattern: re.Pattern[str], line: str, part: int) -> int | None:
    """The part that a line announces, None at the end. Only the very next one counts, so that reading ends."""
    found = pattern.search(line)
    return part + 1 if found and int(found[1]) == part + 1 else None


# A policy reads the whole conversation again at each turn, and lines repeat across episodes.
@lru_cache(maxsize=4096)
def _facts(text: str) -> Facts:
    return read(text)


@lru_cache(maxsize=4096)
def _hits(line: str) -> list[Hit]:
    if line == NOTHING or line.startswith(_BROKEN):
        return []
    found = (_HIT.fullmatch(item) for item in line.split("; "))
    return [Hit(*match.groups()) for match in found if match]
