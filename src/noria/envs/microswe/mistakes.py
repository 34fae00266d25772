"""Which messages of an episode were wrong, told by the file as it should be: labels for rules that guess it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from noria.bases.turn import heard_calls
from noria.core.errors import PolicyError
from noria.core.types import Task
from noria.envs.microswe.edits import follow, read
from noria.envs.microswe.tasks import RESET, TOOLS
from noria.tokens.calls import Call

WRONG_CALL, WRONG_EDIT, UNMENDED = "wrong_call", "wrong_edit", "unmended"
_TOOLS = {tool.name: set(tool.parameters) for tool in (*TOOLS, RESET)}


def mistakes(task: Task, passes: Callable[[str], bool], messages: Sequence[str]) -> list[str]:
    """What is wrong with each message, "" where nothing is. `passes` says whether a file passes all tests.

    An edit is wrong where the file does not pass after it and is no nearer to the one without the bug, but for one that
    takes an earlier edit back; a submission, where the file does not pass.
    """
    gold, text = str(task.data["gold"]), str(task.data["app"])
    seen = [text]
    out = []
    for message in messages:
        label = ""
        calls = heard_calls(message)
        if not calls:
            label = WRONG_CALL
        for call in calls:
            if not isinstance(call, Call) or _TOOLS.get(call.name) != set(call.args):
                label = label or WRONG_CALL
            elif call.name == RESET.name:
                text = str(task.data["app"])
            elif call.name == "submit" and not (text == gold or passes(text)):
                label = label or UNMENDED
            elif call.name == "edit":
                try:
                    made = follow(text, read(call.args))
                except PolicyError:
                    label = label or WRONG_CALL
                    continue
                if _apart(made, gold) >= _apart(text, gold) and made not in seen and not passes(made):
                    label = label or WRONG_EDIT
                text = made
                seen.append(text)
        out.append(label)
    return out


def _apart(text: str, gold: str) -> int:
    """Lines that differ."""
    return sum(have != want for have, want in zip(text.split("\n"), gold.split("\n"), strict=True))
