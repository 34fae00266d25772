"""A text has a typo, or a separator is another one."""

from __future__ import annotations

from collections.abc import Iterator

from noria.mutations._code import Change, Code
from noria.mutations._edits import replace

LANGUAGES = ("python", "javascript", "typescript", "go", "rust", "java", "c", "cpp")
SMITH = "StringLiteral, ReplaceStringTypo"

_SEPARATORS = {
    ",": ";",
    ";": ",",
    ".": ",",
    ":": ";",
    "-": "_",
    "_": "-",
    " ": "",
    "/": "\\\\",
    "=": ":",
    "\\n": " ",
    ", ": ",",
}


def changes(code: Code) -> Iterator[Change]:
    """Two letters change places, in texts that may be compared: messages of exceptions and logs are left alone."""
    for node in code.of(code.syntax.contents):
        text = code.text(node)
        if len(text) > 40 or "\n" in text or code.in_message(node):
            continue
        other = _SEPARATORS.get(text) or _typo(text)
        if other is not None and other != text:
            yield Change(node, (replace(node, other),))


def _typo(text: str) -> str | None:
    """The text with two different letters exchanged, as near to its middle as may be; not within an escape."""
    if "\\" in text or "%" in text or "{" in text:
        return None
    middle = len(text) // 2
    for at in sorted(range(len(text) - 1), key=lambda i: (abs(i + 1 - middle), i)):
        one, two = text[at], text[at + 1]
        if one.isascii() and two.isascii() and one.isalpha() and two.isalpha() and one != two:
            return text[:at] + two + one + text[at + 2 :]
    return None
