"""Loader of a corpus of one's own: a folder of text, Markdown and JSONL files, or one JSONL file; and its questions.

A JSONL line is `{"id": …, "text": …, "title"?: …, "kind"?: …, "links"?: [ids]}`. A text or Markdown file is a page;
its id is its path without the ending, its title its first heading or its name. `[words](other.md)` and `[[other]]`
lead to pages; what leads elsewhere stays as words.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from noria.core.errors import UserError
from noria.envs.deepsearch.pages import Page

TEXTS = (".txt", ".md", ".markdown")
LINES = ".jsonl"
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_MARKDOWN = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^()\s]+)\)")
_WIKI = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]]+))?\]\]")
_QUESTION_KEYS = frozenset(("id", "question", "answer", "aliases", "evidence", "split"))
_PAGE_KEYS = frozenset(("id", "text", "title", "kind", "links"))


def load_pages(path: Path) -> list[Page]:
    """All pages below `path`, ordered by id.

    Raises:
        UserError: nothing there, a file that cannot be read, a page twice, a listed link that leads nowhere.
    """
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in (*TEXTS, LINES) and file.is_file()]
        root = path
    else:
        files, root = ([path] if path.is_file() and path.suffix == LINES else []), path.parent
    drafts: dict[str, tuple[Page, str]] = {}
    for file in files:
        for page in _lines(file) if file.suffix.lower() == LINES else [_text(file, root)]:
            if page.id in drafts:
                raise UserError(
                    f"corpus must have each page once: got {page.id!r} in {drafts[page.id][1]} and {file.name} - "
                    "rename one"
                )
            drafts[page.id] = (page, file.name)
    if not drafts:
        raise UserError(
            f"corpus must be a folder of {', '.join(TEXTS)} and {LINES} files, or a {LINES} file: found no page in "
            f"'{path}' - check the path"
        )
    pages = {id_: page for id_, (page, _) in drafts.items()}
    titles: dict[str, str] = {}
    for page in pages.values():
        titles.setdefault(page.title.casefold(), page.id)
    return [_linked(pages[id_], pages, titles) for id_ in sorted(pages)]


def load_questions(path: Path, pages: Mapping[str, Page]) -> list[dict[str, Any]]:
    """Rows `{"question", "answer", "aliases"?, "evidence"?: [ids], "split"?}` of a JSONL file, checked.

    Raises:
        UserError: names the line and what is wrong with it.
    """
    rows: list[dict[str, Any]] = []
    for where, row in _objects(path, "questions"):
        unknown = sorted(set(row) - _QUESTION_KEYS)
        if unknown:
            raise UserError(f"questions must have keys of {sorted(_QUESTION_KEYS)}: got {unknown[0]!r} in {where}")
        for key in ("question", "answer"):
            _string(row, key, where, "questions")
        for key in ("aliases", "evidence"):
            _strings(row, key, where, "questions")
        lost = [id_ for id_ in row.get("evidence", ()) if id_ not in pages]
        if lost:
            raise UserError(f"evidence must be ids of pages: got {lost[0]!r} in {where} - name a page of the corpus")
        if row.get("split", "train") not in ("train", "heldout", "unseen"):
            raise UserError(
                f"split must be train, heldout or unseen: got {row['split']!r} in {where} - mend or omit it"
            )
        rows.append(row)
    if not rows:
        raise UserError(f"questions must be a {LINES} file with at least one line: got none in '{path}'")
    return rows


def _lines(file: Path) -> Iterator[Page]:
    for where, row in _objects(file, "corpus"):
        unknown = sorted(set(row) - _PAGE_KEYS)
        if unknown:
            raise UserError(f"corpus must have keys of {sorted(_PAGE_KEYS)}: got {unknown[0]!r} in {where}")
        id_, text = _string(row, "id", where, "corpus"), _string(row, "text", where, "corpus")
        title = _string(row, "title", where, "corpus") if "title" in row else id_
        kind = _string(row, "kind", where, "corpus") if "kind" in row else ""
        yield Page(id_, title, kind, text, tuple(_strings(row, "links", where, "corpus")))


def _text(file: Path, root: Path) -> Page:
    text = _read(file, "corpus")
    if not text.strip():
        raise UserError(f"corpus must have no empty page: got '{file.name}' - fill or remove it")
    heading = _HEADING.search(text) if file.suffix.lower() != ".txt" else None
    id_ = file.relative_to(root).with_suffix("").as_posix()
    return Page(id_, heading[1] if heading else file.stem.replace("_", " "), "", text.strip())


def _linked(page: Page, pages: Mapping[str, Page], titles: Mapping[str, str]) -> Page:
    """The page with its links resolved, each shown as `words [id]`."""
    for link in page.links:
        if link not in pages:
            raise UserError(
                f"links must be ids of pages: got {link!r} on page {page.id!r} - add the page or drop the link"
            )
    found = list(page.links)

    def markdown(match: re.Match[str]) -> str:
        raw = match[2].partition("#")[0]
        near = posixpath.normpath(posixpath.join(posixpath.dirname(page.id), raw))
        return show(match[1], [raw, near, *(one.removesuffix(end) for one in (raw, near) for end in TEXTS)])

    def wiki(match: re.Match[str]) -> str:
        name = match[1].partition("#")[0].strip()
        return show(match[2] or name, [name, titles.get(name.casefold(), "")])

    def show(words: str, targets: list[str]) -> str:
        target = next((one for one in targets if one in pages), None)
        if target is None:
            return words
        found.append(target)
        return f"{words} [{target}]"

    text = _WIKI.sub(wiki, _MARKDOWN.sub(markdown, page.text))
    listed = [link for link in page.links if f"[{link}]" not in text]
    if listed:
        text += "\nSee also: " + ", ".join(f"{pages[link].title} [{link}]" for link in listed) + "."
    return Page(page.id, page.title, page.kind, text, tuple(dict.fromkeys(found)))


def _objects(path: Path, field: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSONL file with where they stand; blank lines are passed over."""
    for number, line in enumerate(_read(path, field).splitlines(), 1):
        if line.strip():
            where = f"{path.name} line {number}"
            try:
                row = json.loads(line)
            except json.JSONDecodeError as fault:
                raise UserError(f"{field} must be JSON in each line: got {fault.msg} in {where} - mend it") from fault
            if not isinstance(row, dict):
                raise UserError(
                    f"{field} must be an object in each line: got {type(row).__name__} in {where} - mend it"
                )
            yield where, row


def _read(path: Path, field: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as fault:
        raise UserError(f"{field} must be readable UTF-8: got '{path}', {fault} - check the path") from fault


def _string(row: Mapping[str, Any], key: str, where: str, field: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{field} must have a text {key!r} in each line: got {value!r} in {where} - add it")
    return value


def _strings(row: Mapping[str, Any], key: str, where: str, field: str) -> list[str]:
    value = row.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UserError(f'{field} must have a list of texts as {key!r}: got {value!r} in {where} - write ["…"]')
    return value
