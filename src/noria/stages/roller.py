"""Rollouts: policies play tasks, the verifier speaks, and every token is recorded.

    submit(jobs) ─► admission (a free slot) ─► engine.add ─► engine.step ─► world.act ─┬► grade ─► Trajectory
                                                    ▲                                  │
                                                    └────────── the observation ───────┘

The loop is one thread in lockstep with its engine: worlds answer between two decoding steps. Worlds whose tools keep
one waiting answer in threads while the engine decodes the others (`stages.errands`). Nothing depends on timing, unless
errands are told so, and the same jobs give the same trajectories. The same code serves training, evaluation and replay.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from noria.contexts.base import Fresh, Rule
from noria.core.errors import EngineError, SandboxError, boundary
from noria.core.protocols import Completion, Engine, Episode, Policy, World
from noria.core.strategies import strategy_of
from noria.core.turns import State
from noria.core.types import EDITED, Message, Observation, Outcome, Trajectory, Turn
from noria.stages.errands import Errands, Overdue, Then
from noria.stages.harness import Harness, Live, replay
from noria.stages.jobs import Job as Job
from noria.stages.jobs import Limits as Limits
from noria.stages.jobs import said
from noria.stages.jobs import with_attempt as with_attempt
from noria.tokens.record import RecordBuilder
from noria.tokens.renderer import Renderer


class Roller:
    """Drives many episodes through one engine; see the module for the flow.

    `blocking` names worlds whose episodes act and are graded in threads, several at once, each one thing at a time.
    `rule` changes the context of rollouts on their way (`contexts`); `clock` gives seconds.
    """

    def __init__(
        self,
        worlds: Mapping[str, World],
        renderer: Renderer,
        engine: Engine | None,
        limits: Limits,
        slots: int,
        blocking: Collection[str] = (),
        rule: Rule | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.worlds, self.renderer, self.engine = worlds, renderer, engine
        self.harness = Harness(renderer, limits, rule, clock)
        self.errands = Errands()
        self.limits = limits
        self._slots, self._blocking = slots, frozenset(blocking)
        self._queue: deque[Job] = deque()
        self._live: dict[int, Live] = {}
        self._next = 0
        self._base: tuple[str, int, Episode] | None = None

    @property
    def limits(self) -> Limits:
        """Bounds of every episode, from the next message on."""
        return self.harness.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self.harness.limits = limits

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
        live = Live(job, episode, RecordBuilder(), [], 0)
        trajectory = self._guarded(live, lambda: self._recite(live))
        assert trajectory is not None
        return trajectory

    def _recite(self, live: Live) -> Trajectory:
        job, harness = live.job, self.harness
        world = self.worlds[job.task.world]
        strategy = strategy_of(world, job.strategy) or job.strategy
        policy = _recited(job.script) if job.script else world.policy(job.task, strategy, job.seed)
        harness.begin(live)
        live.record.rendered(harness.prompt(live))
        stop = ""
        while not stop:
            live.progress.to(State.GENERATING)
            messages = [m for turn in live.turns for m in turn_messages(turn)]
            message = policy(messages)
            span = self._write(live, message)
            if harness.ask_first(live, message, span):
                fresh = self._answer_scripted(live)
                assert fresh is None or not fresh.redo, "a script passes its own check"
            live.progress.to(State.PROCESSING_TOOLS)
            stop = harness.hear(live, message, span, live.episode.act(message))
            if live.question and (fresh := self._answer_scripted(live)):
                stop = harness.renew(live, fresh)
        return self._finish(live, stop, live.episode.grade)

    def _write(self, live: Live, message: str, same_turn: bool = False) -> tuple[int, int]:
        """What a script says; the span of its tokens."""
        ids = self.renderer.message(message, live.job.task.tools)
        source = EDITED if live.job.script else live.job.source
        return live.record.written(ids, self.renderer.roles(ids), source, same_turn)

    def _answer_scripted(self, live: Live) -> Fresh | None:
        rule = self.harness.rule
        assert rule is not None
        answer = rule.scripted(self.harness.view(live, 0))
        self._write(live, answer, same_turn=True)
        return self.harness.answered(live, answer)

    def _start(self, job: Job) -> Trajectory | None:
        world = self.worlds[job.task.world]
        episode = world.open(job.task) if job.start is None else self._fork(world, job)
        live = Live(job, episode, RecordBuilder(), [], getattr(self.engine, "version", 0))
        return self._guarded(live, lambda: self._begin(live))

    def _guarded(self, live: Live, run: Callable[[], Trajectory | None]) -> Trajectory | None:
        """Run a part of a rollout; where it raises, what was opened is closed, whatever it raises."""
        over = True
        try:
            found = boundary(run, lambda fault: self._finish_unknown(live, fault))
            over = False
        finally:
            if over:
                _close(live.episode)
        return found

    def _begin(self, live: Live) -> Trajectory | None:
        """Give a live rollout what stands before its first sampled token, and the engine its prompt."""
        assert self.engine is not None
        job, record = live.job, live.record
        self.harness.begin(live)
        if job.start is not None:
            self.harness.take_over(live)
        else:
            record.rendered(self.harness.prompt(live))
        if job.start is not None and job.start_token is not None:
            begun = said(job.start)[job.start_turn].turn.token_start
            live.thought = self.renderer.decode(record.ids[begun : job.start_token])
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
            self.engine.add(seq, record.ids, self.harness.room(live), job.seed)
            added = True
        finally:
            if not added:
                self.engine.drop(seq)
        self._live[seq] = live
        live.progress.to(State.GENERATING)
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
                replay(episode, turn, start.id)
            self._base = (start.id, k, episode)
        return self._base[2].fork()

    def _forget_base(self) -> None:
        if self._base is not None:
            _close(self._base[2])
        self._base = None

    def _advance(self, completion: Completion) -> Trajectory | None:
        live = self._live[completion.seq]
        if completion.fault:
            raise EngineError(completion.fault)
        text = self.renderer.heard(live.thought + self.renderer.decode(completion.ids))
        continued = live.thought_start is not None or bool(live.question)
        span = live.record.sampled(
            completion.ids, self._roles(live, completion), completion.logp, completion.versions, same_turn=continued
        )
        live.response += len(completion.ids)
        if live.question:
            return self._answered(completion.seq, text, completion.stop == "length")
        if live.thought_start is not None:
            span = (live.thought_start, span[1])
        live.thought, live.thought_start = "", None
        if completion.stop == "length":
            live.turns.append(Turn(text, "", *span))
            return self._end(completion.seq, "token_limit")
        if self.harness.ask_first(live, text, span):
            return self._go_on(completion.seq, span[1])
        return self._act(completion.seq, text, span)

    def _answered(self, seq: int, answer: str, is_cut: bool) -> Trajectory | None:
        """Go on after the answer to a question of the context rule; one that was cut off counts as far as it goes."""
        live = self._live[seq]
        was_held = live.question == "ending"
        before = len(live.record)
        fresh = self.harness.answered(live, answer)
        if fresh is not None:
            if fresh.redo:
                self._start_anew(live)
            stop = self.harness.renew(live, fresh)
            return self._end(seq, stop) if stop else self._go_on(seq, 0)
        if was_held:
            message, span = live.held
            live.held = ("", (0, 0))
            return self._act(seq, message, span)
        if is_cut:
            return self._end(seq, "token_limit")
        live.record.rendered(self.renderer.observation(""))
        return self._go_on(seq, before)

    def _start_anew(self, live: Live) -> None:
        """The world as it was at first; what was open is closed whatever happens."""
        again = self.worlds[live.job.task.world].open(live.job.task)
        old, live.episode = live.episode, again
        _close(old)

    def _act(self, seq: int, message: str, span: tuple[int, int]) -> Trajectory | None:
        """Let the world hear a message."""
        live = self._live[seq]
        live.progress.to(State.PROCESSING_TOOLS)
        acted = partial(live.episode.act, message)
        return self._errand(seq, acted, lambda answer: self._resume(seq, message, span, answer()))

    def _errand(self, seq: int, call: Callable[[], Any], then: Then) -> Trajectory | None:
        """Have the world do something and go on with it: now, or where that keeps one waiting, later."""
        if self._live[seq].job.task.world not in self._blocking:
            return then(call)
        self.errands.send(seq, call, then, self.harness.bounds(self._live[seq]).max_command_s)
        return None

    def _resume(self, seq: int, message: str, span: tuple[int, int], seen: Observation) -> Trajectory | None:
        """Let the engine go on after an answer of the world, unless the episode is over."""
        live = self._live[seq]
        before = len(live.record)
        stop = self.harness.hear(live, message, span, seen)
        if stop:
            return self._end(seq, stop)
        live.progress.to(State.GENERATING)
        return self._go_on(seq, before)

    def _go_on(self, seq: int, before: int) -> Trajectory | None:
        """Give the engine what joined the context after its first `before` tokens, or all of a new context."""
        live = self._live[seq]
        assert self.engine is not None
        room = self.harness.room(live)
        if room < 1:
            return self._end(seq, "token_limit")
        if live.renewed:
            self.engine.drop(seq)
            live.renewed, before = False, 0
        # With the chances of the branch before, a new one would begin as that did.
        self.engine.add(seq, live.record.ids[before:], room, live.job.seed + 7_919 * len(live.branches))
        return None

    def _end(self, seq: int, stop: str) -> Trajectory | None:
        live = self._live[seq]
        return self._errand(seq, live.episode.grade, lambda answer: self._finish(live, stop, answer))

    def _roles(self, live: Live, completion: Completion) -> tuple[Any, ...]:
        if not live.thought:
            return self.renderer.roles(completion.ids)
        head = self.renderer.encode(live.thought)
        return self.renderer.roles((*head, *completion.ids))[len(head) :]

    def _finish(self, live: Live, stop: str, grade: Callable[[], Outcome]) -> Trajectory:
        outcome = boundary(grade, lambda fault: Outcome.unknown(f"{type(fault).__name__}: {fault}"))
        _close(live.episode)
        return self._trajectory(live, stop, outcome)

    def _finish_unknown(self, live: Live, fault: BaseException) -> Trajectory:
        if isinstance(fault, Overdue):  # its tool is still at work, and may need what a close takes away
            fault.answer.add_done_callback(lambda _: _close(live.episode))
        else:
            _close(live.episode)
        return self._trajectory(live, _stop_of(fault), Outcome.unknown(f"{type(fault).__name__}: {fault}"))

    def _lost(self, job: Job, fault: BaseException) -> Trajectory:
        record = RecordBuilder()
        record.rendered(self.renderer.prompt(job.task))
        outcome = Outcome.unknown(f"{type(fault).__name__}: {fault}")
        return Trajectory(job.id, job.task, job.source, (), record.freeze(), outcome, _stop_of(fault), seed=job.seed)

    def _trajectory(self, live: Live, stop: str, outcome: Outcome) -> Trajectory:
        job = live.job
        live.progress.to(State.TERMINATED)
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
            branches=tuple(live.branches),
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
    if isinstance(fault, Overdue):
        return "command_limit"
    return "sandbox" if isinstance(fault, SandboxError) else "engine"
