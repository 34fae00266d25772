"""Values as one line of text without blanks; also put into the sandbox, so it needs nothing but Python itself."""

import hashlib

LONGEST = 90


def show(value: object) -> str:
    """A text that equal values share and others do not; long ones as their SHA-256. Dicts and sets have no order."""
    text = _shown(value, 0)
    return text if len(text) <= LONGEST else "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _shown(value: object, depth: int) -> str:
    if depth > 50:
        return "..."
    if value is None or type(value) in (bool, int):
        return repr(value)
    if type(value) is float:
        return (
            repr(int(value)) if value == value and abs(value) < 1e15 and value == int(value) else format(value, ".9g")
        )
    if type(value) is str:
        return ascii(value).replace(" ", "\\x20")
    if type(value) in (list, tuple):
        ends = "[]" if type(value) is list else "()"
        return ends[0] + ",".join(_shown(each, depth + 1) for each in value) + ends[1]  # type: ignore[attr-defined]
    if type(value) in (set, frozenset):
        return "set(" + ",".join(sorted(_shown(each, depth + 1) for each in value)) + ")"  # type: ignore[attr-defined]
    if type(value) is dict:
        items = [_shown(key, depth + 1) + ":" + _shown(each, depth + 1) for key, each in value.items()]
        return "{" + ",".join(sorted(items)) + "}"
    return "<" + type(value).__name__[:40].replace(" ", "_") + ">"
