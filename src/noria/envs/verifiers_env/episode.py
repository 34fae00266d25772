"""An episode: messages of the policy become the answers of the environment's model, and its trace tells the reward."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from noria.bases.turn import error_line
from noria.core.errors import SandboxError
from noria.core.turns import Progress, State
from noria.core.types import Observation, Outcome, Tool
from noria.envs.verifiers_env.rollout import Rollout
from noria.tokens.calls import Call, Heard, Malformed, hear

T = TypeVar("T")
#: Messages without a word that end a rollout which is graded before it ended.
_MOST_SILENT = 8


@dataclass(frozen=True, slots=True)
class Range:
    """The environment's rewards that are 0 and 1 here; what lies outside is cut."""

    low: float
    high: float


class Driven:
    """Begins with the first message. Where several calls of a message hold one that cannot be read, none is done.

    A rollout serves once: to grade an episode that is not over ends it, in silence. Whoever speaks after that, or in a
    fork, has a rollout anew in which all is said again; `replay_s` limits that.
    """

    def __init__(
        self, start: Callable[[], Rollout], tools: Sequence[Tool], scale: Range, replay_s: float = 600.0
    ) -> None:
        self._start, self._tools, self._scale = start, {tool.name: tool for tool in tools}, scale
        self._replay_s = replay_s
        self._progress = Progress()
        self._rollout: Rollout | None = None
        self._said: list[Mapping[str, Any]] = []
        self._seen: list[str] = []
        self._asked: Sequence[Mapping[str, Any]] = ()
        self._ended: Any = None
        self._graded: Outcome | None = None
        self._fault = ""

    def act(self, message: str) -> Observation:
        """Let the environment hear a message.

        Raises:
            IllegalTransition: the episode is over.
            SandboxError: the environment failed, or answered otherwise when the same was said again; the episode is of
                no use any more.
        """
        if self._progress.state is State.PENDING:
            self._progress.to(State.GENERATING)
        self._progress.to(State.PROCESSING_TOOLS)
        heard = hear(message)
        wrong = next((call for call in heard.calls if isinstance(call, Malformed)), None)
        if wrong is not None:
            self._progress.to(State.GENERATING)
            return Observation(error_line(wrong.why))
        seen = self._guarded(lambda: self._told(self._wire(heard)))
        self._progress.to(State.TERMINATED if seen.done else State.GENERATING)
        return seen

    def grade(self) -> Outcome:
        """The trace's reward; of an episode that is not over, that of one in which the model falls silent now."""
        if self._fault:
            return Outcome.unknown(self._fault)
        if not self._said:
            return Outcome(0.0, reason="nothing was said")
        if self._graded is None:
            if self._ended is None:
                try:
                    self._ended = self._guarded(self._silenced)
                except SandboxError as fault:
                    return Outcome.unknown(str(fault))
            self._graded = self._judged(self._ended)
        return self._graded

    def fork(self) -> Driven:
        """An episode in which the same was said; it has a rollout of its own as soon as it needs one."""
        other = Driven(self._start, list(self._tools.values()), self._scale, self._replay_s)
        other._said, other._seen, other._fault = list(self._said), list(self._seen), self._fault
        other._progress = Progress(self._progress.state)
        other._ended, other._graded = self._ended, self._graded
        return other

    def close(self) -> None:
        """End the rollout with its servers."""
        rollout, self._rollout = self._rollout, None
        if rollout is not None:
            rollout.close()

    def _guarded(self, do: Callable[[], T]) -> T:
        """What it gives; its failure is remembered, and nothing is done after one."""
        if self._fault:
            raise SandboxError(self._fault)
        try:
            return do()
        except SandboxError as fault:
            self._fault = str(fault)
            self.close()
            raise

    def _told(self, said: Mapping[str, Any]) -> Observation:
        live = self._live()
        live.say(said)
        self._graded = self._ended = None
        seen = self._heard(live.next())
        self._said.append(said)
        self._seen.append(seen.text)
        return seen

    def _silenced(self) -> Any:
        """The rollout's own end when nothing more is said. Raises SandboxError: it does not end by that."""
        live = self._live()
        for _ in range(_MOST_SILENT):
            live.say({"role": "assistant", "content": ""})
            kind, found = live.next()
            if kind == "ended":
                self.close()
                return found
        raise SandboxError(f"the environment did not end after {_MOST_SILENT} messages without a word")

    def _live(self) -> Rollout:
        """The rollout as far as the episode is, begun anew where there is none."""
        if self._rollout is not None:
            return self._rollout
        until = time.monotonic() + self._replay_s
        live = self._rollout = self._start()
        self._asked = ()
        if self._heard(live.next(self._replay_s)).done:
            raise SandboxError(f"the environment ended before its model was asked: {fault_of(self._ended)}")
        for said, seen in zip(self._said, self._seen, strict=True):
            live.say(said)
            again = self._heard(live.next(max(0.0, until - time.monotonic())))
            if again.text != seen or again.done:
                raise SandboxError("the environment answered otherwise when the same was said again")
        return live

    def _heard(self, event: tuple[str, Any]) -> Observation:
        """What the environment says before its model speaks again."""
        kind, found = event
        if kind == "ended":
            self._ended = found
            self.close()
            return Observation("", done=True)
        self._asked, before = found["messages"], len(self._asked)
        fresh = [m for m in self._asked[before:] if m.get("role") != "assistant"]
        texts = [text_of(m.get("content")) for m in fresh]
        if len(texts) == 1:
            return Observation(texts[0])
        return Observation("\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1)))

    def _wire(self, heard: Heard) -> Mapping[str, Any]:
        """A message as a chat API has it."""
        made = [
            {
                "id": f"call_{len(self._said)}_{number}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(self._values(call))},
            }
            for number, call in enumerate(heard.calls)
            if isinstance(call, Call)
        ]
        return {"role": "assistant", "content": heard.answer} | ({"tool_calls": made} if made else {})

    def _values(self, call: Call) -> dict[str, Any]:
        parameters = self._tools[call.name].parameters if call.name in self._tools else {}
        return {key: _value(text, parameters.get(key, ("string", ""))[0]) for key, text in call.args.items()}

    def _judged(self, episode: Any) -> Outcome:
        fault = fault_of(episode)
        if fault:
            return Outcome.unknown(f"the environment failed: {fault}")
        trace = episode.traces[-1]
        raw = float(trace.reward)
        if raw - raw != 0.0:
            return Outcome.unknown(f"the environment's reward is {raw}")
        reward = min(1.0, max(0.0, (raw - self._scale.low) / (self._scale.high - self._scale.low)))
        parts = {"raw": raw, **{name: float(each.value) for name, each in trace.rewards.items()}}
        return Outcome(reward, parts, "" if reward >= 1.0 else f"the environment gave {raw:g}")


def fault_of(episode: Any) -> str:
    """What went wrong in an episode of the package, "" where nothing did."""
    errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
    if errors:
        said = f"{errors[0].type}: {errors[0].message}"
        return said if len(said) <= 600 else f"{said[:200]} … {said[-400:]}"  # a traceback says at its end what it is
    return "" if episode.traces else "it left no trace"


def text_of(content: Any) -> str:
    """The text of a message's content: itself, or its parts of text."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or () if isinstance(part, dict))


def _value(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
