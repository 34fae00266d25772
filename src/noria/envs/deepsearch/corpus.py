"""The two tools over a corpus: `search` lists pages, `browse` shows one, both in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from noria.core.errors import PolicyError
from noria.core.types import Tool
from noria.envs.deepsearch.bm25 import Index, words
from noria.envs.deepsearch.pages import Page

SEARCH, BROWSE, ANSWER = "search", "browse", "answer"
TOOLS: tuple[Tool, ...] = (
    Tool(SEARCH, "find pages by words", {"query": ("string", "words"), "part": ("integer", "of the list, from 1")}),
    Tool(BROWSE, "read a page", {"page": ("string", "id or title"), "part": ("integer", "of the page, from 1")}),
    Tool(ANSWER, "give the answer and end", {"text": ("string", "only the answer")}),
)
#: What may be left out of a call.
OPTIONAL = "part"
NOTHING = "nothing found"
_MAX_QUOTED = 40


@dataclass(frozen=True, slots=True)
class Sizes:
    """Hits in one part of a list, words in one part of a page, hits of a search altogether."""

    hits: int
    page_words: int
    most_hits: int


class Corpus:
    """Pages, an index over them, and the tools. What a model wrote wrongly is a `PolicyError` that says what to do."""

    def __init__(self, pages: Sequence[Page], index: Callable[[Sequence[str]], Index], sizes: Sizes) -> None:
        self.pages: Mapping[str, Page] = {page.id: page for page in pages}
        self._ordered = tuple(pages)
        self._titles: dict[str, str] = {}
        for page in pages:
            self._titles.setdefault(_plain(page.title), page.id)
        self._index = index([f"{page.title} {page.text}" for page in pages])
        self._sizes = sizes

    def rank(self, query: str, most: int) -> list[str]:
        """Ids of the best pages, best first."""
        return [self._ordered[at].id for at in self._index.rank(query, most)]

    def call(self, name: str, args: Mapping[str, str]) -> str:
        """The answer to a call of `search` or `browse`. PolicyError: arguments that cannot be used."""
        check_arguments(name, args)
        part = _part(args.get(OPTIONAL, "1"))
        return self.search(args["query"], part) if name == SEARCH else self.browse(args["page"], part)

    def search(self, query: str, part: int = 1) -> str:
        """`p3 Velmar, town; p9 Ada Brinn, person; more: part 2`: one line."""
        if not words(query):
            raise PolicyError("query must have words: got none - say what to look for")
        found, size = self.rank(query, self._sizes.most_hits), self._sizes.hits
        if not found:
            return NOTHING
        shown = found[(part - 1) * size : part * size]
        if not shown:
            raise PolicyError(f"part must be at most {-(-len(found) // size)}: got {part}")
        lines = [_entry(self.pages[id_]) for id_ in shown]
        if len(found) > part * size:
            lines.append(f"more: part {part + 1}")
        return "; ".join(lines)

    def browse(self, name: str, part: int = 1) -> str:
        """The text of a page, or of a part of it: a long page ends with `(more: part 2)`."""
        page = self.pages[self.find(name)]
        pieces = _pieces(page.text, self._sizes.page_words)
        if part > len(pieces):
            raise PolicyError(f"part must be at most {len(pieces)}: got {part}")
        more = f" (more: part {part + 1})" if part < len(pieces) else ""
        return pieces[part - 1] + more

    def find(self, name: str) -> str:
        """The id of a page named by id, by title, or by a link as a page shows it. PolicyError: there is none."""
        inner = name.strip().removesuffix("]").rpartition("[")[2].strip()
        for id_ in (name.strip(), inner, self._titles.get(_plain(name), "")):
            if id_ in self.pages:
                return id_
        raise PolicyError(f"page must be an id or a title: got {name[:_MAX_QUOTED]!r} - search for it first")


def check_arguments(name: str, args: Mapping[str, str]) -> None:
    """PolicyError: an unknown tool, an argument that it does not have, or one that is missing."""
    tools = {tool.name: tool for tool in TOOLS}
    if name not in tools:
        raise PolicyError(f"unknown tool {name[:_MAX_QUOTED]!r}: use {', '.join(tools)}")
    wanted = tools[name].parameters
    for key in args:
        if key not in wanted:
            raise PolicyError(f"{name} has no argument {key[:_MAX_QUOTED]!r}: it takes {', '.join(wanted)}")
    for key in wanted:
        if key != OPTIONAL and not args.get(key, "").strip():
            raise PolicyError(f"{name} needs {key}")


def _part(text: str) -> int:
    clean = text.strip()
    if not (clean.isascii() and clean.isdecimal() and len(clean) <= 6 and int(clean) > 0):
        raise PolicyError(f"part must be a number from 1: got {text[:_MAX_QUOTED]!r}")
    return int(clean)


def _entry(page: Page) -> str:
    return f"{page.id} {page.title}, {page.kind}" if page.kind else f"{page.id} {page.title}"


def _plain(title: str) -> str:
    return " ".join(words(title))


def _pieces(text: str, most: int) -> list[str]:
    """The text cut at blanks into parts of at most `most` words, sentences whole where they fit."""
    pieces: list[str] = []
    piece: list[str] = []
    for sentence in _sentences(text):
        tokens = sentence.split(" ")
        if piece and len(piece) + len(tokens) > most:
            pieces.append(" ".join(piece))
            piece = []
        piece += tokens
        while len(piece) > most:
            pieces.append(" ".join(piece[:most]))
            piece = piece[most:]
    return pieces + ([" ".join(piece)] if piece or not pieces else [])


def _sentences(text: str) -> list[str]:
    """The text after each full stop, blanks and line ends kept as they are."""
    out: list[str] = []
    start = 0
    while (stop := text.find(". ", start)) >= 0:
        out.append(text[start : stop + 1])
        start = stop + 2
    return [*out, text[start:]]
