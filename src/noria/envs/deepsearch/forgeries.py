"""Attempts that look like an answer and are none: each must score less than 1."""

from __future__ import annotations

from collections import Counter

from noria.core.types import Task
from noria.envs.deepsearch.clues import NAME_ASKED, decode
from noria.envs.deepsearch.corpus import ANSWER, SEARCH
from noria.envs.deepsearch.country import Country
from noria.envs.deepsearch.grading import matches
from noria.tokens.calls import render_call

#: Answers listed at once.
_LISTED = 40


def forged(country: Country, task: Task) -> list[list[str]]:
    """The answer not given but thought or said, given among others, guessed, mended, or given after the end."""
    gold, asked = str(task.data["answers"][0]), decode(task.data["query"]).asked
    graph = country.graph
    kind = graph.entities[task.data["target"]].kind
    members = [graph.entities[id_] for id_ in graph.by_kind[kind]]
    values = [one.name if asked == NAME_ASKED else str(one.values[asked]) for one in members]
    common = Counter(value for value in values if not matches(value, task.data["answers"])).most_common(1)
    empty = render_call(ANSWER, text="-")
    attempts = [
        [f"The answer is {gold}.", empty],
        [f"<think>{gold}</think>{empty}"],
        [render_call(SEARCH, query=gold), empty],
        [render_call(ANSWER, text=task.prompt)],
        [render_call(ANSWER, text=f"{gold} or {common[0][0]}" if common else f"{gold} or not")],
        [render_call(ANSWER, text=" ".join(dict.fromkeys([*values, "none"]))[: _LISTED * 12])],
        [render_call(ANSWER, text=f"{gold}9")],
        [render_call(ANSWER, text=".*")],
        [empty, render_call(ANSWER, text=gold)],
        [empty + render_call(ANSWER, text=gold)],
        [render_call(ANSWER, text=gold).replace("<call", "<tool"), empty],
    ]
    return attempts + ([[render_call(ANSWER, text=common[0][0])]] if common else [])
