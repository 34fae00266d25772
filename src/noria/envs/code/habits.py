"""Scripted ways of writing a function: right ones, and those that hand in a typical error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from noria.core.syntax import literal
from noria.core.types import Message, Task
from noria.envs.code.forgeries import by_heart
from noria.graders._shown import show
from noria.tokens.calls import Call, parts, render_call

Tries = Literal["none", "one", "all"]


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of working.

    weight   share of the weak model's transcripts
    first    what it writes at first: the solution, one with an error, or the examples by heart
    tries    which of the examples it runs before it submits
    mends    whether it writes the solution after it saw an example fail, or after it thought again
    advice   kind of advice that it obeys, None for a wrong habit
    """

    weight: float
    first: Literal["right", "error", "heart", "empty"]
    tries: Tries = "none"
    mends: Literal["never", "seen", "always"] = "never"
    advice: str | None = None


HABITS: Mapping[str, Habit] = {
    "careful": Habit(0.10, "right", "all", advice="run"),
    "direct": Habit(0.10, "right", advice="write"),
    "reviewer": Habit(0.08, "error", "all", "always", advice="run"),
    "trusting": Habit(0.24, "error"),
    "tester": Habit(0.18, "error", "all", "seen"),
    "hasty": Habit(0.14, "error", "one", "seen"),
    "heart": Habit(0.10, "heart", "all"),
    "empty": Habit(0.06, "empty"),
}
EXPERTS = ("careful", "direct")


def say(task: Task, heard: Sequence[Message], habit: Habit, key: str) -> str:
    """The next message. It plays the conversation again, and so can take over in the middle."""
    data = task.data
    first = _first(task, habit, Random(key))
    written = [call.args.get("code", "") for call in _calls(heard) if call.name == "write"]
    if not written:
        return render_call("write", code=first)
    shown = data["shown"][: {"none": 0, "one": 1, "all": len(data["shown"])}[habit.tries]]
    ran = any(call.name == "run" for call in _calls(heard))
    if shown and not ran:
        return "".join(render_call("run", call=call) for call, _ in shown)
    if written[-1].strip() != data["gold"].strip() and len(written) == 1 and habit.mends != "never":
        wrong = ran and not _as_wanted(heard[-1].content, shown)
        if wrong or habit.mends == "always":
            return "<think>an edge fails</think>" + render_call("write", code=data["gold"])
    return render_call("submit")


def _first(task: Task, habit: Habit, rng: Random) -> str:
    data = task.data
    if habit.first == "right":
        return str(data["gold"])
    if habit.first == "error":
        return str(data["errors"][rng.choice(sorted(data["errors"]))])
    if habit.first == "empty":
        return f"def {data['function']}(*given):\n    return None\n"
    return by_heart(task)


def _calls(heard: Sequence[Message]) -> list[Call]:
    said = [message.content for message in heard if message.role == "assistant"]
    return [part for text in said for part in parts(text) if isinstance(part, Call)]


def _as_wanted(seen: str, shown: Sequence[Sequence[str]]) -> bool:
    """Whether every run shown gave what its example says."""
    lines = [line.partition("] ")[2] if line.startswith("[") and len(shown) > 1 else line for line in seen.split("\n")]
    wanted = [plainly(show(literal(value))) for _, value in shown]
    return lines == wanted


def plainly(text: str) -> str:
    """A value as `show` writes it, with its blanks."""
    return text.replace("\\x20", " ")
