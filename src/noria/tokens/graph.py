"""Calls of one rollout, joined where one goes on from another: a way from a first call to a last answer is a branch.

    call 0 ── answer ── call 1 ── answer ── call 3 ── answer          a branch
                            └──── answer ── call 2 ── answer          another: the client went back and changed a word

A call stores the tokens that its prompt has beyond the answer it follows, so what was sampled stands in every later
prompt as it was sampled. Where branches share answers, these are trained in the first branch alone and are a prompt in
the others: the rollout counts once, as it does where a rule of `contexts` changes its context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from noria.core.types import STUDENT, Branch, Outcome, Task, TokenRecord, TokenRole, Trajectory, Turn
from noria.tokens.record import RecordBuilder
from noria.tokens.renderer import Piece

#: Why a branch of a recorded rollout ended: the client asked for something that does not go on from it.
FORKED = "forked"


@dataclass(frozen=True, slots=True)
class Place:
    """An answer: the number of its call, and which of the call's choices it is."""

    call: int
    choice: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What was sampled for one choice. `ids`, `logp` (nats) and `versions` have one length.

    roles   what the tokens are, as runs
    text    what was said, calls in the house's own form
    stop    "stop" or "length"
    """

    ids: tuple[int, ...]
    logp: tuple[float, ...]
    versions: tuple[int, ...]
    roles: tuple[tuple[TokenRole, int], ...]
    text: str
    stop: str


@dataclass(frozen=True, slots=True)
class Call:
    """One request and what was answered.

    parent      the answer that its prompt begins with; None = it begins anew
    ids         tokens of the prompt after that
    seen        the words that these tokens tell the policy
    answers     one for each choice
    on_policy   whether tokens were drawn as the policy has it; if not, nothing of it is trained as sampled
    """

    parent: Place | None
    ids: tuple[int, ...]
    seen: str
    answers: tuple[Answer, ...]
    on_policy: bool = True


class Graph:
    """See the module. Answers in `dropped` were given to nobody and end no branch."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.dropped: set[Place] = set()
        self._followed: set[Place] = set()

    def add(self, call: Call) -> int:
        """Take in a call; its number. Raises ValueError where its parent is none of the answers so far."""
        if call.parent is not None:
            number, choice = call.parent.call, call.parent.choice
            if not (0 <= number < len(self.calls) and 0 <= choice < len(self.calls[number].answers)):
                raise ValueError(f"a call must go on from an answer that was given: got {call.parent}")
            self._followed.add(call.parent)
            self.dropped.discard(call.parent)
        self.calls.append(call)
        return len(self.calls) - 1

    def answer(self, place: Place) -> Answer:
        """What was sampled there."""
        return self.calls[place.call].answers[place.choice]

    def prompt(self, call: Call) -> tuple[int, ...]:
        """Every token before the call's answers."""
        return (*self.stream(call.parent), *call.ids)

    def stream(self, place: Place | None) -> tuple[int, ...]:
        """Every token up to and with an answer; () for None."""
        parts: list[tuple[int, ...]] = []
        while place is not None:
            call = self.calls[place.call]
            parts += [call.answers[place.choice].ids, call.ids]
            place = call.parent
        return tuple(token for part in reversed(parts) for token in part)

    def longest_prefix(self, ids: Sequence[int]) -> Place | None:
        """The answer with the longest stream that `ids` begin with and go beyond; of equals the newest."""
        given = tuple(ids)
        lengths: dict[Place | None, int] = {None: 0}
        best: Place | None = None
        for number, call in enumerate(self.calls):
            begun = lengths.get(call.parent)
            if begun is None or not _goes_on(given, begun, call.ids):
                continue
            asked = begun + len(call.ids)
            for choice, answer in enumerate(call.answers):
                length = asked + len(answer.ids)
                if length < len(given) and _goes_on(given, asked, answer.ids):
                    place = Place(number, choice)
                    lengths[place] = length
                    best = place if length >= lengths[best] else best
        return best

    def ends(self) -> list[Place]:
        """Answers that nothing followed, in the order of their calls."""
        every = [Place(n, k) for n, call in enumerate(self.calls) for k in range(len(call.answers))]
        return [place for place in every if place not in self._followed and place not in self.dropped]

    def way(self, end: Place) -> list[Place]:
        """The answers from the first call to this one."""
        found: list[Place] = []
        place: Place | None = end
        while place is not None:
            found.append(place)
            place = self.calls[place.call].parent
        return found[::-1]


def _goes_on(given: tuple[int, ...], at: int, ids: tuple[int, ...]) -> bool:
    return given[at : at + len(ids)] == ids


def runs(roles: Sequence[TokenRole]) -> tuple[tuple[TokenRole, int], ...]:
    """Roles of tokens as runs."""
    return tuple((role, sum(1 for _ in run)) for role, run in groupby(roles))


def trajectory(graph: Graph, id: str, task: Task, outcome: Outcome, stop: str, seed: int = 0) -> Trajectory:
    """All branches of a graph as one rollout; the one whose last call came last is its record.

    Turns are numbered branch by branch.

    Raises:
        ValueError: no call was answered.
    """
    ways = [graph.way(end) for end in graph.ends()]
    if not ways:
        raise ValueError("a trajectory needs an answer at least: none was recorded")
    owned: set[Place] = set()
    branches: list[Branch] = []
    turns: list[Turn] = []
    for way in ways:
        record, own = _branch(graph, way, owned, len(turns))
        branches.append(Branch(record, tuple(own), len(turns), FORKED))
        turns += own
    *before, last = branches
    spanless = [Turn(turn.message, turn.observation) for turn in turns[: last.first]]
    first = graph.calls[0].answers[0].versions
    return Trajectory(
        id=id, task=task, source=STUDENT, turns=(*spanless, *last.turns), record=last.record, outcome=outcome,
        stop=stop, seed=seed, version=first[0] if first else 0, branches=tuple(before),
    )  # fmt: skip


def _branch(graph: Graph, way: Sequence[Place], owned: set[Place], number: int) -> tuple[TokenRecord, list[Turn]]:
    """Tokens of one branch and the turns that are its own, numbered from `number`; these become `owned`."""
    fresh = next(i for i, place in enumerate(way) if place not in owned)
    builder, turns = RecordBuilder(), []
    for i, place in enumerate(way):
        call, answer = graph.calls[place.call], graph.answer(place)
        builder.rendered(_all(call.ids, "user" if i <= fresh else "observation"))
        if i < fresh:
            builder.rendered(_all(answer.ids, "user"))
            continue
        if i == fresh:
            builder.next_turn(number)
        said = [role for role, count in answer.roles for _ in range(count)]
        if call.on_policy:
            span = builder.sampled(answer.ids, said, answer.logp, answer.versions)
        else:
            span = builder.written(answer.ids, said, STUDENT)
        seen = graph.calls[way[i + 1].call].seen if i + 1 < len(way) else ""
        turns.append(Turn(answer.text, seen, *span))
        owned.add(place)
    return builder.freeze(), turns


def _all(ids: tuple[int, ...], role: TokenRole) -> Piece:
    return Piece(ids, (role,) * len(ids))
