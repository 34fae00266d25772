"""Rollouts: policies play tasks, the verifier speaks, and every token is recorded.

    submit(jobs) ─► admission (a free slot) ─► engine.add ─► engine.step ─► world.act ─┬► grade ─► Trajectory
                                                    ▲                                  │
                                                    └────────── the observation ───────┘

The loop is one thread in lockstep with its engine: worlds answer between two decoding steps. Worlds whose tools keep
one waiting answer in threads while the engine decodes the others (`stages.errands`). Nothing depends on timing, unless
errands are told so, and the same jobs give the same trajectories. The same code serves training, evaluation and replay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from noria.core.errors import SandboxError, boundary
from noria.core.protocols import Completion, Engine, Episode, Policy, World
from noria.core.types import (
    EDITED,
    Hint,
    Message,
    Observation,
    Outcome,
    Task,
    Trajectory,
    Turn,
)
from noria.stages.errands import Errands, Then
from noria.tokens.record import RecordBuilder
from noria.tokens.renderer import Renderer


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one episode. A rollout that hits one stops with a reason; it is graded as it stands."""

    max_turns: int = 12
    max_new_tokens: int = 160
    max_tokens: int = 448


@dataclass(frozen=True, slots=True)
class Job:
    """One rollout to do.

    `id` becomes the trajectory's. With `strategy` a scripted policy plays, with `script` these messages are said
    one after the other; else the engine samples, under `hint` if given. `start` continues another trajectory from
    just before its turn `start_turn`, or from `start_token` of its record, which lies inside that turn. `max_turns`
    bounds its turns more tightly than the limits do (0 = it does not), `max_response` all tokens that it samples.
    """

    id: str
    task: Task
    seed: int
    strategy: str = ""
    script: tuple[str, ...] = ()
    source: str = "student"
    hint: Hint | None = None
    start: Trajectory | None = None
    start_turn: int = 0
    start_token: int | None = None
    max_turns: int = 0
    max_response: int = 0


@dataclass(slots=True)
class _Live:
    job: Job
    episode: Episode
    record: RecordBuilder
    turns: list[Turn]
    version: int
    thought: str = ""
    thought_start: int | None = None
    #: tokens sampled so far
    response: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


class Roller:
    """Drives many episodes through one engine; see the module for the flow.

    `blocking` names worlds whose episodes act and are graded in threads, several at once, each one thing at a time.
    """

    def __init__(
        self,
        worlds: Mapping[str, World],
        renderer: Renderer,
        engine: Engine | None,
        limits: Limits,
        slots: int,
        blocking: Collection[str] = (),
    ) -> None:
        self.worlds, self.renderer, self.engine, self.limits = worlds, renderer, engine, limits
        self.errands = Errands()
        self._slots, self._blocking = slots, frozenset(blocking)
        self._queue: deque[Job] = deque()
        self._live: dict[int, _Live] = {}
        self._next = 0
        self._base: tuple[str, int, Episode] | None = None

    @property
    def pending(self) -> int:
        """Rollouts submitted and not yet returned."""
        return len(self._queue) + len(self._live)

    def submit(self, jobs: Iterable[Job]) -> None:
        self._queue.extend(jobs)

    def step(self) -> list[Trajectory]:
        """Admit what fits, advance the engine once, and return the rollouts that ended."""
        done: list[Trajectory] = []
        while self._queue and len(self._live) < self._slots:
            job = self._queue.popleft()
            if job.strategy or job.script:
                done.append(self.play(job))
                if len(done) >= 32:
                    return done
                continue
            ended = boundary(lambda job=job: self._start(job), lambda fault, job=job: self._lost(job, fault))  # type: ignore[misc]
            if ended is not None:
                done.append(ended)
        if self._live:
            assert self.engine is not None
            for errand in self.errands.back(idle=len(self.errands) == len(self._live)):
                self._settle(errand.key, errand.settle, done)
            for completion in self.engine.step():
                self._settle(completion.seq, partial(self._advance, completion), done)
        if not self.pending:
            self._forget_base()
        return done

    def _settle(self, seq: int, run: Callable[[], Trajectory | None], done: list[Trajectory]) -> None:
        """Go on with a rollout; if it ends, it goes to `done`, and the engine forgets it."""
        live = self._live[seq]
        ended = boundary(run, lambda fault: self._finish_unknown(live, fault))
        if ended is not None:
            assert self.engine is not None
            self.engine.drop(seq)
            del self._live[seq]
            done.append(ended)

    def play(self, job: Job) -> Trajectory:
        """A scripted policy plays the whole episode."""
        return boundary(lambda: self._play(job), lambda fault: self._lost(job, fault))

    def clear(self) -> None:
        """Forget every rollout that is queued or in flight, after what its tools are at."""
        self.errands.clear()
        for seq, live in self._live.items():
            _close(live.episode)
            if self.engine is not None:
                self.engine.drop(seq)
        self._live.clear()
        self._queue.clear()
        self._forget_base()

    def _play(self, job: Job) -> Trajectory:
        episode = self.worlds[job.task.world].open(job.task)
        live = _Live(job, episode, RecordBuilder(), [], 0)
        trajectory = self._guarded(live, lambda: self._recite(live))
        assert trajectory is not None
        return trajectory

    def _recite(self, live: _Live) -> Trajectory:
        job, record = live.job, live.record
        world = self.worlds[job.task.world]
        policy = _recited(job.script) if job.script else world.policy(job.task, job.strategy, job.seed)
        record.rendered(self.renderer.prompt(job.task))
        stop = ""
        while not stop:
            messages = [m for turn in live.turns for m in turn_messages(turn)]
            message = policy(messages)
            ids = self.renderer.message(message)
            span = record.written(ids, self.renderer.roles(ids), EDITED if job.script else job.source)
            stop = self._hear(live, message, span, live.episode.act(message))
        return self._finish(live, stop, live.episode.grade)

    def _start(self, job: Job) -> Trajectory | None:
        world = self.worlds[job.task.world]
        episode = world.open(job.task) if job.start is None else self._fork(world, job)
        live = _Live(job, episode, RecordBuilder(), [], getattr(self.engine, "version", 0))
        return self._guarded(live, lambda: self._begin(live))

    def _guarded(self, live: _Live, run: Callable[[], Trajectory | None]) -> Trajectory | None:
        """Run a part of a rollout; where it raises, what was opened is closed, whatever it raises."""
        over = True
        try:
            found = boundary(run, lambda fault: self._finish_unknown(live, fault))
            over = False
        finally:
            if over:
                _close(live.episode)
        return found

    def _begin(self, live: _Live) -> Trajectory | None:
        """Give a live rollout what stands before its first sampled token, and the engine its prompt."""
        assert self.engine is not None
        job, record = live.job, live.record
        if job.start is not None:
            live.turns += job.start.turns[: job.start_turn]
            cut = len(job.start.record)
            if job.start_turn < len(job.start.turns):
                cut = job.start.turns[job.start_turn].token_start
            record.prefix(job.start.record, cut if job.start_token is None else job.start_token)
        else:
            record.rendered(self.renderer.prompt(job.task, job.hint.text if job.hint else ""))
        if job.start is not None and job.start_token is not None:
            begun = job.start.turns[job.start_turn].token_start
            live.thought = self.renderer.decode(job.start.record.ids[begun : job.start_token])
            live.thought_start = begun
        elif job.hint and job.hint.thought:
            live.thought = f"<think>{job.hint.thought}"
            ids = self.renderer.encode(live.thought)
            live.thought_start = record.written(ids, self.renderer.roles(ids), EDITED)[0]
        if len(record) + 2 >= self.limits.max_tokens:
            return self._finish(live, "token_limit", live.episode.grade)
        seq, self._next = self._next, self._next + 1
        added = False
        try:
            self.engine.add(seq, record.ids, self._room(live), job.seed)
            added = True
        finally:
            if not added:
                self.engine.drop(seq)
        self._live[seq] = live
        return None

    def _fork(self, world: World, job: Job) -> Episode:
        """A copy of the episode as it stood before turn `start_turn`; the replay itself is done once per point."""
        start, k = job.start, job.start_turn
        assert start is not None
        if self._base is None or self._base[:2] != (start.id, k):
            self._forget_base()
            episode = world.open(job.task)
            self._base = ("", k, episode)  # owned from here on, but no one's until it stands where it should
            for turn in start.turns[:k]:
                seen = episode.act(turn.message)
                if ("" if seen.done else seen.text) != turn.observation:
                    raise SandboxError(f"replay of {start.id} diverged: got {seen.text!r}")
            self._base = (start.id, k, episode)
        return self._base[2].fork()

    def _forget_base(self) -> None:
        if self._base is not None:
            _close(self._base[2])
        self._base = None

    def _advance(self, completion: Completion) -> Trajectory | None:
        live = self._live[completion.seq]
        text = live.thought + self.renderer.decode(completion.ids)
        continued = live.thought_start is not None
        span = live.record.sampled(
            completion.ids, self._roles(live, completion), completion.logp, completion.versions, same_turn=continued
        )
        live.response += len(completion.ids)
        if live.thought_start is not None:
            span = (live.thought_start, span[1])
        live.thought, live.thought_start = "", None
        if completion.stop == "length":
            live.turns.append(Turn(text, "", *span))
            return self._end(completion.seq, "token_limit")
        acted = partial(live.episode.act, text)
        return self._errand(completion.seq, acted, lambda answer: self._resume(completion.seq, text, span, answer()))

    def _errand(self, seq: int, call: Callable[[], Any], then: Then) -> Trajectory | None:
        """Have the world do something and go on with it: now, or where that keeps one waiting, later."""
        if self._live[seq].job.task.world not in self._blocking:
            return then(call)
        self.errands.send(seq, call, then)
        return None

    def _resume(self, seq: int, message: str, span: tuple[int, int], seen: Observation) -> Trajectory | None:
        """Let the engine go on after an answer of the world, unless the episode is over."""
        live = self._live[seq]
        before = len(live.record)
        stop = self._hear(live, message, span, seen)
        if stop:
            return self._end(seq, stop)
        assert self.engine is not None
        self.engine.add(seq, live.record.ids[before:], self._room(live), live.job.seed)
        return None

    def _end(self, seq: int, stop: str) -> Trajectory | None:
        live = self._live[seq]
        return self._errand(seq, live.episode.grade, lambda answer: self._finish(live, stop, answer))

    def _room(self, live: _Live) -> int:
        """Tokens that the next message may have."""
        room = min(self.limits.max_new_tokens, self.limits.max_tokens - len(live.record))
        return min(room, live.job.max_response - live.response) if live.job.max_response else room

    def _roles(self, live: _Live, completion: Completion) -> tuple[Any, ...]:
        if not live.thought:
            return self.renderer.roles(completion.ids)
        head = self.renderer.encode(live.thought)
        return self.renderer.roles((*head, *completion.ids))[len(head) :]

    def _hear(self, live: _Live, message: str, span: tuple[int, int], seen: Observation) -> str:
        """Take in what the world answered to a turn; the reason why the episode is over, "" while it goes on."""
        live.turns.append(Turn(message, "" if seen.done else seen.text, *span))
        if seen.done:
            return "done"
        if len(live.turns) >= (live.job.max_turns or self.limits.max_turns):
            return "turn_limit"
        if live.job.max_response and live.response >= live.job.max_response:
            return "token_limit"
        piece = self.renderer.observation(seen.text)
        if len(live.record) + len(piece.ids) + 2 >= self.limits.max_tokens:
            return "token_limit"
        live.record.rendered(piece)
        return ""

    def _finish(self, live: _Live, stop: str, grade: Callable[[], Outcome]) -> Trajectory:
        outcome = boundary(grade, lambda fault: Outcome.unknown(f"{type(fault).__name__}: {fault}"))
        _close(live.episode)
        return self._trajectory(live, stop, outcome)

    def _finish_unknown(self, live: _Live, fault: BaseException) -> Trajectory:
        _close(live.episode)
        return self._trajectory(live, _stop_of(fault), Outcome.unknown(f"{type(fault).__name__}: {fault}"))

    def _lost(self, job: Job, fault: BaseException) -> Trajectory:
        record = RecordBuilder()
        record.rendered(self.renderer.prompt(job.task))
        outcome = Outcome.unknown(f"{type(fault).__name__}: {fault}")
        return Trajectory(job.id, job.task, job.source, (), record.freeze(), outcome, _stop_of(fault), seed=job.seed)

    def _trajectory(self, live: _Live, stop: str, outcome: Outcome) -> Trajectory:
        job = live.job
        return Trajectory(
            id=job.id,
            task=job.task,
            source=job.source,
            turns=tuple(live.turns),
            record=live.record.freeze(),
            outcome=outcome,
            stop=stop,
            hint=job.hint.text if job.hint else "",
            seed=job.seed,
            version=live.version,
        )


def turn_messages(turn: Turn) -> list[Message]:
    """The messages of one turn."""
    said = [Message("assistant", turn.message)]
    return [*said, Message("tool", turn.observation)] if turn.observation else said


def _recited(script: Sequence[str]) -> Policy:
    """A policy that says these messages in order; after the last it has nothing more to say."""

    def say(messages: Sequence[Message]) -> str:
        said = sum(message.role == "assistant" for message in messages)
        return script[said] if said < len(script) else ""

    return say


def _close(episode: Episode) -> None:
    """Close an episode that nobody needs any more; a machine too ill to do so changes nothing about its outcome."""
    boundary(episode.close, lambda fault: None)


def _stop_of(fault: BaseException) -> str:
    return "sandbox" if isinstance(fault, SandboxError) else "engine"


def with_attempt(job: Job, attempt: int) -> Job:
    """The same job once more, under a seed of its own."""
    return replace(job, seed=job.seed + 1_000_003 * attempt)
