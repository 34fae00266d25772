"""The verdict: conditions on the final state, what may differ from the start, and the answer that the state gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noria.core.types import Outcome, Task
from noria.envs.simulated.card import Args, Ask
from noria.envs.simulated.checking import NOBODY
from noria.envs.simulated.paths import State, differing, matches
from noria.envs.simulated.terms import holds, value


def expanded(template: str, params: Args) -> list[str]:
    """A template with parameters in its braces; one text for each value of a list in it."""
    for key, each in params.items():
        if isinstance(each, list) and f"{{{key}}}" in template:
            return [text for one in each for text in expanded(template, {**params, key: one})]
    return [template.format(**params)]


def goal_of(asked: Sequence[tuple[Ask, Args]], question: int, which: int) -> dict[str, Any]:
    """The goal of several things asked for, as plain JSON; the question is number `which` of ask `question`."""
    ask, params = asked[question]
    sentence, term = ask.answers[which]
    return {
        "wants": [want for ask, params in asked for each in ask.wants for want in expanded(each, params)],
        "free": [path for ask, params in asked for each in ask.free for path in expanded(each, params)],
        "question": sentence.format(**params),
        "answer": term.format(**params),
    }


def unmet(goal: Mapping[str, Any], start: State, state: State) -> list[str]:
    """The conditions of a goal that do not hold; a row that is gone meets none."""
    return [want for want in goal["wants"] if not _met(want, {**state, "was": start})]


def beside(goal: Mapping[str, Any], start: State, state: State) -> list[str]:
    """Paths that differ from the start and may not."""
    return [
        path
        for path in differing(start, state)
        if not any(matches(pattern, path, start) is not None for pattern in goal["free"])
    ]


def right_answer(goal: Mapping[str, Any], start: State, state: State) -> str:
    """What the final message must say, by the state; "" where the state has no answer."""
    names = {**state, "was": start}
    try:
        return str(value(goal["answer"], names)) or NOBODY
    except ValueError:
        return ""


def judged(task: Task, state: State, answer: str, calls: int, well: int, is_strict: bool) -> Outcome:
    """The outcome of an episode that nobody's fault has ended.

    Args:
        calls: how many calls were made.
        well: how many of them could be read, named a tool and had arguments of its types.
        is_strict: whether a call that was not well made costs all.
    """
    goal, start = task.data["goal"], task.data["state"]
    missing, changed = unmet(goal, start, state), beside(goal, start, state)
    truth = right_answer(goal, start, state)
    agrees = bool(truth) and plain(answer) == plain(truth)
    protocol = well / calls if calls else 1.0
    faults = [
        f"not so: {missing[0]}" if missing else "",
        f"changed beside what was asked: {changed[0]}" if changed else "",
        "" if agrees else f"the answer does not agree with the state: got {answer[:40]!a}",
        "a call was not well made" if is_strict and protocol < 1 else "",
    ]
    reason = "; ".join(fault for fault in faults if fault)
    parts = {
        "goal": 1 - len(missing) / len(goal["wants"]), "kept": float(not changed), "answer": float(agrees),
        "protocol": protocol,
    }  # fmt: skip
    return Outcome(0.0 if reason else 1.0, parts, reason)


def plain(text: str) -> str:
    """An answer without what does not matter: case, spaces, a full stop."""
    return " ".join(text.split()).strip(" .").casefold()


def _met(want: str, names: Mapping[str, Any]) -> bool:
    try:
        return holds(want, names)
    except ValueError:
        return False
