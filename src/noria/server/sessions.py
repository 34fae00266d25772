"""Sessions: the calls of one rollout by a harness of somebody else's, recorded with the tokens that were sampled.

A call whose messages begin with those of an earlier call and its answer goes on from that answer: its prompt is that
stream of ids and what the template puts behind it. Every other call begins a branch (`tokens.graph`).
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noria.core.codec import append_jsonl, read_json_lines
from noria.core.types import Outcome, Task, Trajectory
from noria.server import keys
from noria.server.answers import Choice
from noria.server.errors import ApiError, wrong
from noria.server.model import SEEDS, Served
from noria.server.record import FOLDER, TRAJECTORIES, Recorded, Terms, Way
from noria.server.schema import ChatRequest, CompletionRequest, Kind, Sampling
from noria.tokens.graph import Answer, Call, Place, runs

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
#: Sessions that are held in memory; what has a file and is not used gives way.
MOST = 4096


@dataclass(frozen=True, slots=True)
class Asked:
    """A call before it is answered: its prompt, and what it goes on from."""

    parent: Place | None
    ids: tuple[int, ...]
    tail: tuple[int, ...]
    seen: str
    key: str
    on_policy: bool
    is_retry: bool = False


class Session:
    """One rollout of a foreign harness. `path` is its file; None = it lives in memory alone."""

    def __init__(self, recorded: Recorded, served: Served, path: Path | None) -> None:
        self.recorded, self.served, self.path = recorded, served, path
        self.terms, self.graph = recorded.terms, recorded.graph
        self.used = 0.0
        #: whether it was put away: its file may be in the hands of another object
        self.is_away = False
        self._begun = 0
        if path is not None:
            self._open_file(path)

    @property
    def id(self) -> str:
        """Its name."""
        return self.recorded.id

    def shaped(self, request: Kind) -> Kind:
        """The request as the session lets it be sampled.

        Raises:
            ApiError: the session ended, or has had all its calls.
        """
        self.check_open()
        if self.terms.max_calls and self._begun >= self.terms.max_calls:
            self.recorded.stop = "turn_limit"
            raise ApiError(403, f"the session has had all its {self.terms.max_calls} calls", code="turn_limit")
        number, self._begun = self._begun, self._begun + 1
        changed: dict[str, Any] = {}
        if self.terms.is_forced:
            changed = {"temperature": self.terms.temperature, "top_p": 1.0}
        if self.terms.seed is not None:
            changed["seed"] = _seed(self.terms.seed, number)
        return request.model_copy(update=changed)

    def check_open(self) -> None:
        """Raises ApiError where the session ended."""
        if self.recorded.outcome is not None:
            raise ApiError(409, f"the session {self.id!r} is finished: begin another one", code="session_finished")

    def chat(self, request: ChatRequest, is_retry: bool) -> Asked:
        """Where a conversation stands in the session, and its prompt.

        Raises:
            ApiError: the request cannot be served.
        """
        key, at, parent = keys.opening(request.offered), -1, None
        for k, message in enumerate(request.messages):
            key = keys.then(key, message)
            found = self.recorded.places.get(key) if message.role == "assistant" else None
            if found and k + 1 < len(request.messages):
                names = tuple(call.id for call in message.tool_calls)
                at, parent = k, next((p for p in found if names and self.recorded.called.get(p) == names), found[-1])
        on_policy = self._on_policy(request)
        if parent is not None:
            answer = self.graph.answer(parent)
            ended = bool(answer.ids) and answer.ids[-1] in self.served.end_ids
            tail = self.served.suffix(request, at, self.served.spoken(answer.ids), ended)
            if tail is not None:
                ids = (*self.graph.stream(parent), *tail)
                seen = "\n\n".join(message.text for message in request.messages[at + 1 :])
                return Asked(parent, ids, tail, seen, key, on_policy, is_retry)
        return self._joined(self.served.chat_ids(request), key, on_policy, is_retry)

    def completion(self, request: CompletionRequest, ids: tuple[int, ...], is_retry: bool) -> Asked:
        """Where a prompt of ids stands in the session."""
        return self._joined(ids, "", self._on_policy(request), is_retry)

    def room(self, asked: Asked, most: int, param: str) -> int:
        """Tokens that an answer may have, of `most` that are wanted or fit into the model.

        Raises:
            ApiError: the prompt leaves no room.
        """
        terms = self.terms
        said = sum(len(answer.ids) for call in self.graph.calls for answer in call.answers)
        bounds = (
            (terms.max_tokens, terms.max_tokens - len(asked.ids), f"{len(asked.ids)} in the prompt"),
            (terms.max_new_tokens, terms.max_new_tokens, ""),
            (terms.max_response, terms.max_response - said, f"{said} in answers before"),
        )
        for bound, left, used in bounds:
            most = min(most, left) if bound else most
            if most < 1:
                self.recorded.stop = "token_limit"
                raise wrong(param, f"the session takes {bound} tokens: got {used}", "context_length_exceeded")
        return most

    def record(self, asked: Asked, choices: Sequence[Choice], told: Sequence[tuple[str, list[dict[str, Any]]]]) -> None:
        """Keep an answered call; `told` has content and calls of each choice, as the client gets them.

        Raises:
            ApiError: the session ended or was put away meanwhile, or the call cannot be written.
        """
        self.check_open()
        if self.is_away:
            raise ApiError(503, f"the session {self.id!r} was idle for too long: ask again", code="session_away")
        answers = tuple(self._answer(choice) for choice in choices)
        call = Call(asked.parent, asked.tail, asked.seen, answers, asked.on_policy)
        ways = [
            Way(
                keys.then_said(asked.key, content, [call["function"] for call in calls]) if asked.key else "",
                tuple(call["id"] for call in calls),
            )
            for content, calls in told
        ]
        self._write({"call": call, "prompt": asked.key, "ways": ways, "retry": asked.is_retry})
        self.recorded.take(call, asked.key, ways, asked.is_retry)

    def _answer(self, choice: Choice) -> Answer:
        tokens = choice.tokens
        ids = tuple(token.id for token in tokens)
        return Answer(
            ids=ids,
            logp=tuple(token.logp for token in tokens),
            versions=tuple(token.version for token in tokens),
            roles=runs(self.served.roles(ids)),
            text=self.served.heard(self.served.spoken(ids)),
            stop=choice.reason,
        )

    def finish(self, outcome: Outcome, stop: str) -> Trajectory | None:
        """End the session; its trajectory, None where nothing was sampled.

        Raises:
            ApiError: it has ended already, or the end cannot be written.
        """
        self.check_open()
        self._write({"finish": outcome, "stop": stop})
        self.recorded.outcome, self.recorded.stop = outcome, stop
        return self.recorded.trajectory()

    def _open_file(self, path: Path) -> None:
        """Begin the file, or take in what an earlier server wrote there."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = read_json_lines(path)
            for line in lines:
                self.recorded.read(line)
            model = lines[0]["model"] if lines else self.served.name
        except (OSError, ValueError, KeyError, TypeError) as fault:
            raise ApiError(500, f"the session's record cannot be read: {fault}", code="record_failed") from fault
        if not lines:
            head = {"session": self.id, "model": self.served.name, "terms": self.terms, "task": self.recorded.task}
            self._write({**head, "began": int(time.time())})
        if model != self.served.name:
            raise ApiError(
                409, f"the session {self.id!r} is of the model {model!r}: name a new one", code="session_model"
            )
        self.terms, self._begun = self.recorded.terms, len(self.graph.calls)

    def _joined(self, ids: tuple[int, ...], key: str, on_policy: bool, is_retry: bool) -> Asked:
        parent = self.graph.longest_prefix(ids)
        tail = ids[len(self.graph.stream(parent)) :]
        seen = "" if parent is None else self.served.decode(tail)  # nobody reads what a beginning tells
        return Asked(parent, ids, tail, seen, key, on_policy, is_retry)

    def _on_policy(self, request: Sampling) -> bool:
        heat = 1.0 if request.temperature is None else request.temperature
        return heat == self.terms.temperature and (request.top_p is None or request.top_p == 1)

    def _write(self, line: dict[str, Any]) -> None:
        if self.path is None:
            return
        try:
            append_jsonl(self.path, [line])
        except OSError as fault:
            raise ApiError(500, f"the record cannot be written: {fault.strerror}", code="record_failed") from fault


class Sessions:
    """All sessions of a server. Belongs to the thread that answers requests.

    `folder` takes the files; None = sessions live in memory alone. New sessions have these `terms`. `takes_new` tells
    whether a client begins a session by naming it.
    """

    def __init__(self, served: Served, folder: Path | None, terms: Terms, takes_new: bool = True) -> None:
        self.served, self.folder, self.terms, self.takes_new = served, folder, terms, takes_new
        self._open: dict[str, Session] = {}

    def get(self, id: str, make: bool = True) -> Session:
        """The session of this name; where there is none, one is begun if the server takes new ones and `make` is on.

        Raises:
            ApiError: 404 where there is none, and as `begin`.
        """
        found = self._open.get(id)
        if found is None:
            written = self.folder is not None and NAME.fullmatch(id) and self._file(id, self.folder).is_file()
            if not written and not (make and self.takes_new):
                raise ApiError(404, f"there is no session {id[:40]!r}", code="session_not_found")
            return self.begin(id, Task(id, "recorded", "", ""), self.terms)
        found.used = time.monotonic()
        return found

    def begin(self, id: str, task: Task, terms: Terms) -> Session:
        """Begin a session, or go on with what its file holds.

        Raises:
            ApiError: 404 where it is no name, 409 where it is held already or of another model, 429 where there are too
                many, 500 where its file is damaged or cannot be written.
        """
        if not NAME.fullmatch(id):
            raise ApiError(404, f"a session must be named by up to 128 letters, digits, _, - and .: got {id[:40]!r}")
        if id in self._open:
            raise ApiError(409, f"there is a session {id!r} already: name another", code="session_exists")
        self._make_room()
        path = None if self.folder is None else self._file(id, self.folder)
        found = Session(Recorded(id, terms, task), self.served, path)
        found.used = time.monotonic()
        self._open[id] = found
        return found

    def _file(self, id: str, folder: Path) -> Path:
        return folder / FOLDER / f"{id}.jsonl"

    def take(self, id: str) -> Session | None:
        """Let go of a session: nothing is recorded in it any more. None where there is none."""
        found = self._open.pop(id, None)
        if found is not None:
            found.is_away = True
        return found

    def finish(self, id: str, outcome: Outcome, stop: str) -> dict[str, Any]:
        """End a session; how much was recorded.

        Raises:
            ApiError: 404 where there is none, 409 where it has ended, 500 where it cannot be written.
        """
        session = self.get(id, make=False)
        found = session.finish(outcome, stop)
        if found is not None and self.folder is not None:
            try:
                append_jsonl(self.folder / TRAJECTORIES, [found])
            except OSError as fault:
                raise ApiError(500, f"the record cannot be written: {fault.strerror}", code="record_failed") from fault
        return facts(session)

    def _make_room(self) -> None:
        if len(self._open) < MOST:
            return
        ended = [s for s in self._open.values() if s.recorded.outcome is not None]
        idle = sorted((s for s in ended or self._open.values() if s.path is not None), key=lambda s: s.used)
        if not idle:
            raise ApiError(429, f"{MOST} sessions are open: finish some", code="too_many_sessions", retry_s=5)
        self.take(idle[0].id)


def facts(session: Session) -> dict[str, Any]:
    """What a client is told of a session."""
    recorded = session.recorded
    found = recorded.trajectory()
    return {
        "id": session.id,
        "calls": len(session.graph.calls),
        "branches": 0 if found is None else 1 + len(found.branches),
        "sampled_tokens": sum(len(answer.ids) for call in session.graph.calls for answer in call.answers),
        "trained_tokens": 0 if found is None else found.action_tokens,
        "finished": recorded.outcome is not None,
        "reward": None if recorded.outcome is None else recorded.outcome.reward,
    }


def _seed(seed: int, number: int) -> int:
    text = json.dumps([seed, number])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % SEEDS
