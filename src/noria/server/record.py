"""What is written of a session: calls and answers as tokens, crash-safe, readable without a model.

    DIR/sessions/<id>.jsonl      what it is, then a line for each call, at last how it ended
    DIR/trajectories.jsonl       a line for each session that ended

The files of sessions are the truth; the other is made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noria.core.codec import from_json, read_json_lines
from noria.core.errors import UserError
from noria.core.types import Outcome, Task, Trajectory
from noria.tokens.graph import Call, Graph, Place, trajectory

FOLDER, TRAJECTORIES = "sessions", "trajectories.jsonl"
OPEN = "the session was not finished"


@dataclass(frozen=True, slots=True)
class Terms:
    """How the calls of a session are sampled and how far they may go.

    temperature     of the policy; what is sampled at another, or with top_p below 1, is not trained as sampled
    is_forced       whether every call is sampled as the policy has it, whatever it asks for
    seed            what the draws of calls depend on, with the call's number; None = calls have the seeds they ask for
    max_calls       calls that are answered; 0 = no limit
    max_tokens      tokens of prompt and answer; 0 = the server's
    max_new_tokens  tokens of one answer; 0 = no limit
    max_response    tokens of all answers; 0 = no limit
    """

    temperature: float = 1.0
    is_forced: bool = False
    seed: int | None = None
    max_calls: int = 0
    max_tokens: int = 0
    max_new_tokens: int = 0
    max_response: int = 0


@dataclass(frozen=True, slots=True)
class Way:
    """Key of the conversation after an answer (`server.keys`), "" for none, and the ids of the answer's tool calls."""

    key: str
    calls: tuple[str, ...]


@dataclass(slots=True)
class Recorded:
    """What is known of a session. `outcome` is None while it goes on; `stop` names a limit that it met."""

    id: str
    terms: Terms
    task: Task
    graph: Graph = field(default_factory=Graph)
    outcome: Outcome | None = None
    stop: str = ""
    places: dict[str, list[Place]] = field(default_factory=dict)
    called: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    prompts: dict[str, list[int]] = field(default_factory=dict)

    def take(self, call: Call, key: str, ways: Sequence[Way], is_retry: bool) -> None:
        """Keep a call: `key` of its conversation, "" for none, and where each of its answers leads."""
        if is_retry and key:
            self._drop_lost(key, call.parent)
        number = self.graph.add(call)
        self.prompts.setdefault(key, []).append(number)
        for choice, way in enumerate(ways):
            if way.key:
                place = Place(number, choice)
                self.places.setdefault(way.key, []).append(place)
                self.called[place] = way.calls

    def _drop_lost(self, key: str, parent: Place | None) -> None:
        """The client says that it asks again: the newest answer to the same request has reached nobody."""
        ends = set(self.graph.ends())
        for number in reversed(self.prompts.get(key, ())):
            call = self.graph.calls[number]
            places = [Place(number, choice) for choice in range(len(call.answers))]
            if call.parent == parent and all(place in ends for place in places):
                self.graph.dropped.update(places)
                return

    def read(self, line: Any) -> None:
        """Take in a line of the file. Raises ValueError, KeyError or TypeError where it is none."""
        if "session" in line:
            self.terms, self.task = from_json(Terms, line["terms"]), from_json(Task, line["task"])
        elif "finish" in line:
            self.outcome, self.stop = from_json(Outcome, line["finish"]), line["stop"]
        else:
            ways = [from_json(Way, way) for way in line["ways"]]
            self.take(from_json(Call, line["call"]), line["prompt"], ways, line["retry"])

    def trajectory(self) -> Trajectory | None:
        """The rollout so far, None where nothing was sampled. Without an end its outcome is unknown."""
        if not self.graph.ends():
            return None
        outcome = self.outcome or Outcome.unknown(OPEN)
        return trajectory(self.graph, self.id, self.task, outcome, self.stop or "done", self.terms.seed or 0)


def collected(folder: Path) -> list[Trajectory]:
    """The trajectories of all sessions in a folder; those that did not end have an unknown outcome.

    Raises:
        UserError: there is no such folder, or a file is damaged.
    """
    if not (folder / FOLDER).is_dir():
        raise UserError(f"DIR must be a folder that `noria serve --record` wrote: {str(folder)!r} holds no sessions")
    out = []
    for path in sorted((folder / FOLDER).glob("*.jsonl")):
        session = Recorded(path.stem, Terms(), Task(path.stem, "recorded", "", ""))
        try:
            for line in read_json_lines(path):
                session.read(line)
            found = session.trajectory()
        except (ValueError, KeyError, TypeError) as fault:
            raise UserError(f"DIR must hold whole sessions: {str(path)!r} is damaged ({fault}) - remove it") from fault
        if found is not None:
            out.append(found)
    return out
