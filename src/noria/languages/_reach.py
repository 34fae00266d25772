"""Words of a change that reach for what runs the tests, in languages whose sources are read as text."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"(?m)^[ \t]*//[^\n\"'`$]*$")


def reached(words: re.Pattern[str], before: str, after: str) -> set[str]:
    """What is found in a changed source and was not in the one before.

    Lines that are comments and nothing else are passed over, but for those with a quote: a text of several lines, or
    one with code in it, could end there.
    """
    new = set(words.findall(_COMMENT.sub("", after))) - set(words.findall(before))
    return {"".join(each) for each in new}  # an expression with several groups finds tuples
