"""One decoding loop for all clients, in a thread of its own.

    requests ──submit──► waiting ──a free slot──► decoded together, one token per step and sequence ──► events

Nothing here knows HTTP. Events go to `post` in bundles, one bundle per step. A cancelled job leaves its slot before
the next step.
"""

from __future__ import annotations

import itertools
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from noria.core.errors import UserError, boundary
from noria.core.protocols import Completion
from noria.engines.serving import Given, Settings, Token
from noria.server.errors import ApiError, stopping

#: Tokens of one pass that scores prompts, padding included (a longer prompt has a pass of its own).
SCORED_TOKENS = 2048
#: How long a worker may wait before it looks at what is going on again, in s.
TICK_S = 0.5


class Engine(Protocol):
    """What the loop needs of `engines.serving.ServingEngine`."""

    @property
    def free(self) -> int: ...
    def open(self, seq: int, ids: Sequence[int], max_new: int, settings: Settings) -> None: ...
    def drop(self, seq: int) -> None: ...
    def clear(self) -> None: ...
    def advance(self) -> tuple[list[tuple[int, Token]], list[Completion]]: ...
    def score(self, batch: Sequence[Given]) -> list[tuple[list[Token], Token]]: ...


@dataclass(frozen=True, slots=True)
class Scores:
    """The prompt's tokens but the first, with facts."""

    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a job: "stop" (the model ended its turn) or "length"; of a scored prompt the last token tells."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine failed; nothing more comes."""

    message: str


Event = Token | Scores | Done | Failed


@dataclass(eq=False, slots=True)
class Job:
    """One sequence: its prompt is scored where `score` says how many alternatives to report, then it goes on.

    `events` belongs to the request and is shared by its jobs, which `index` tells apart.
    """

    index: int
    ids: tuple[int, ...]
    max_new: int
    settings: Settings
    events: Any
    score: int | None = None
    cancelled: bool = field(default=False, init=False)


Post = Callable[[list[tuple[Job, Event]]], None]


class DecodingLoop:
    """See the module.

    Args:
        slots: sequences decoded at once, as the engine has.
        queue: jobs that may wait besides.
        post: takes events; called from the loop's thread.
        log: takes the trace of a fault that no client caused.
    """

    def __init__(self, engine: Engine, slots: int, queue: int, log: Callable[[str], None]) -> None:
        self._engine, self.capacity, self._log = engine, slots + queue, log
        self._post: Post = lambda bundle: None
        self._lock = threading.Condition()
        self._scoring: deque[Job] = deque()
        self._waiting: deque[Job] = deque()
        self._active: dict[int, Job] = {}
        self._scored: list[Job] = []
        self._bundle: list[tuple[Job, Event]] = []
        self._numbers = itertools.count()
        self._busy = 0
        #: tokens decoded since the start
        self.tokens = 0
        self._stopping = self._closed = False
        self._errands: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._thread = threading.Thread(target=self._run, name="decoding", daemon=True)

    def start(self, post: Post) -> None:
        """Begin to work."""
        self._post = post
        self._thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Take all of these jobs or none.

        Raises:
            ApiError: 429 where the queue is full, 503 while the server stops.
        """
        with self._lock:
            if self._stopping:
                raise stopping()
            if self._busy + len(jobs) > self.capacity:
                raise ApiError(
                    429, f"{self._busy} of {self.capacity} places are taken, {len(jobs)} are needed: come again",
                    code="queue_full", retry_s=1,
                )  # fmt: skip
            self._busy += len(jobs)
            for job in jobs:
                (self._waiting if job.score is None else self._scoring).append(job)
            self._lock.notify()

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Nobody waits for these any more; those that ended are left alone."""
        with self._lock:
            for job in jobs:
                job.cancelled = True
            self._lock.notify()

    def between(self, run: Callable[[], None]) -> Future[None]:
        """Do something between two steps, in the loop's thread: give the engine other weights, for instance."""
        answer: Future[None] = Future()
        with self._lock:
            if self._closed:
                answer.cancel()
                return answer
            self._errands.append((run, answer))
            self._lock.notify()
        return answer

    def stop(self) -> None:
        """Take nothing new; what was taken is finished."""
        with self._lock:
            self._stopping = True

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    @property
    def busy(self) -> int:
        """Jobs that were taken and have not ended."""
        return self._busy

    def close(self) -> None:
        """End the thread; what is unfinished is dropped."""
        with self._lock:
            self._stopping = self._closed = True
            self._lock.notify()
        if self._thread.is_alive():
            self._thread.join()
        for _, answer in self._errands:
            answer.cancel()

    def _run(self) -> None:
        while not self._closed:
            with self._lock:
                self._sweep()
                errands, self._errands = self._errands, deque()
                if not (self._busy or self._closed or errands):
                    self._lock.wait(TICK_S)
                    continue
            for run, answer in errands:
                _settle(run, answer)
            boundary(self._turn, self._fault)
            bundle, self._bundle = self._bundle, []
            ended = sum(isinstance(event, Done | Failed) for _, event in bundle)
            with self._lock:
                self._busy -= ended
            if bundle:
                self._post(bundle)

    def _sweep(self) -> None:
        """Forget cancelled jobs. Called with the lock held."""
        for queue in (self._scoring, self._waiting):
            gone = [job for job in queue if job.cancelled]
            for job in gone:
                queue.remove(job)
            self._busy -= len(gone)
        for seq in [seq for seq, job in self._active.items() if job.cancelled]:
            self._engine.drop(seq)
            del self._active[seq]
            self._busy -= 1

    def _turn(self) -> None:
        """Score one batch of prompts if any wait, fill free slots, decode one step."""
        self._score()
        with self._lock:
            while self._waiting and self._engine.free:
                job, seq = self._waiting.popleft(), next(self._numbers)
                self._active[seq] = job
                self._engine.open(seq, job.ids, job.max_new, job.settings)
        made, done = self._engine.advance() if self._active else ([], [])
        self.tokens += len(made)
        self._bundle += [(self._active[seq], token) for seq, token in made]
        for completion in done:
            self._engine.drop(completion.seq)
            reason = "stop" if completion.stop == "end" else "length"
            self._bundle.append((self._active.pop(completion.seq), Done(reason)))

    def _score(self) -> None:
        with self._lock:
            batch = self._scored = _fitting(self._scoring)
        if not batch:
            return
        found = self._engine.score([Given(job.ids, job.score or 0, job.settings) for job in batch])
        self._scored = []
        for job, (tokens, after) in zip(batch, found, strict=True):
            self._bundle.append((job, Scores(tuple(tokens))))
            if job.max_new > 1:
                with self._lock:
                    self._waiting.append(job)
                continue
            # The pass that scored the prompt has the next token too; decoding it again would double the work.
            if job.max_new == 1:
                self._bundle.append((job, after))
            self._bundle.append((job, Done("length")))

    def _fault(self, fault: BaseException) -> None:
        """Everything that was taken fails; the loop goes on with an empty engine."""
        self._log("".join(traceback.format_exception(fault)))
        with self._lock:
            lost = [*self._scored, *self._active.values(), *self._scoring, *self._waiting]
            self._scored = []
            self._active.clear()
            self._scoring.clear()
            self._waiting.clear()
        self._engine.clear()
        self._bundle += [(job, Failed(f"the engine failed: {type(fault).__name__}")) for job in lost]


def _settle(run: Callable[[], None], answer: Future[None]) -> None:
    """Do an errand; whatever it raises is for whoever waits for it."""

    def done() -> None:
        run()
        answer.set_result(None)

    if not answer.set_running_or_notify_cancel():
        return
    try:
        boundary(done, answer.set_exception)
    except UserError as fault:
        answer.set_exception(fault)


def _fitting(queue: deque[Job]) -> list[Job]:
    """Take jobs from the front whose prompts fit into one pass; always at least one."""
    batch: list[Job] = []
    longest = 0
    while queue:
        longest = max(longest, len(queue[0].ids))
        if batch and longest * (len(batch) + 1) > SCORED_TOKENS:
            break
        batch.append(queue.popleft())
    return batch
