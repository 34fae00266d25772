"""An episode: messages of the policy become the answers of the environment's model, and its trace tells the reward."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noria.bases.turn import error_line
from noria.core.errors import SandboxError
from noria.core.turns import Progress, State
from noria.core.types import Observation, Outcome, Tool
from noria.envs.verifiers_env.rollout import Rollout
from noria.tokens.calls import Call, Heard, Malformed, hear

#: Messages without a word that end a rollout which is graded before it ended.
_MOST_SILENT = 8


@dataclass(frozen=True, slots=True)
class Range:
    """The environment's rewards that are 0 and 1 here; what lies outside is cut."""

    low: float
    high: float


class Driven:
    """Begins with the first message. Where several calls of a message hold one that cannot be read, none is done."""

    def __init__(self, start: Callable[[], Rollout], tools: Sequence[Tool], scale: Range) -> None:
        self._start, self._tools, self._scale = start, {tool.name: tool for tool in tools}, scale
        self._progress = Progress()
        self._rollout: Rollout | None = None
        self._said: list[Mapping[str, Any]] = []
        self._seen: list[str] = []
        self._asked: Sequence[Mapping[str, Any]] = ()
        self._episode: Any = None
        self._fault = ""

    def act(self, message: str) -> Observation:
        """Let the environment hear a message.

        Raises:
            IllegalTransition: the episode is over.
            SandboxError: the environment failed; the episode is of no use any more.
        """
        if self._progress.state is State.PENDING:
            self._progress.to(State.GENERATING)
        self._progress.to(State.PROCESSING_TOOLS)
        heard = hear(message)
        wrong = next((call for call in heard.calls if isinstance(call, Malformed)), None)
        if wrong is not None:
            self._progress.to(State.GENERATING)
            return Observation(error_line(wrong.why))
        seen = self._told(self._wire(heard))
        self._progress.to(State.TERMINATED if seen.done else State.GENERATING)
        return seen

    def grade(self) -> Outcome:
        """The trace's reward; of an episode that is not over, that of a copy in which the model falls silent."""
        if self._fault:
            return Outcome.unknown(self._fault)
        if self._episode is not None:
            return self._judged(self._episode)
        if not self._said:
            return Outcome(0.0, reason="nothing was said")
        try:
            other = self.fork()
        except SandboxError as fault:
            return Outcome.unknown(str(fault))
        try:
            for _ in range(_MOST_SILENT):
                if other._told({"role": "assistant", "content": ""}).done:
                    return other.grade()
            return Outcome.unknown("the environment did not end")
        except SandboxError as fault:
            return Outcome.unknown(str(fault))
        finally:
            other.close()

    def fork(self) -> Driven:
        """A rollout of its own in which the same was said.

        Raises:
            SandboxError: the environment answered otherwise than before.
        """
        other = Driven(self._start, list(self._tools.values()), self._scale)
        sound = False
        try:
            for said, seen in zip(self._said, self._seen, strict=True):
                if other._told(said).text != seen:
                    raise SandboxError("the environment answered otherwise when the same was said again")
            sound = True
        finally:
            if not sound:
                other.close()
        other._progress, other._fault = Progress(self._progress.state), self._fault
        return other

    def close(self) -> None:
        """End the rollout with its servers."""
        rollout, self._rollout = self._rollout, None
        if rollout is not None:
            rollout.close()

    def _told(self, said: Mapping[str, Any]) -> Observation:
        try:
            if self._rollout is None:
                self._rollout = self._start()
                self._heard()
            self._rollout.say(said)
            self._said.append(said)
            seen = self._heard()
        except SandboxError as fault:
            self._fault = str(fault)
            raise
        self._seen.append(seen.text)
        return seen

    def _heard(self) -> Observation:
        """What the environment says before its model speaks again."""
        assert self._rollout is not None
        kind, found = self._rollout.next()
        if kind == "ended":
            self._episode = found
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
        errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        if errors or not episode.traces:
            why = f"{errors[0].type}: {errors[0].message}"[:400] if errors else "it left no trace"
            return Outcome.unknown(f"the environment failed: {why}")
        trace = episode.traces[-1]
        raw = float(trace.reward)
        if raw - raw != 0.0:
            return Outcome.unknown(f"the environment's reward is {raw}")
        reward = min(1.0, max(0.0, (raw - self._scale.low) / (self._scale.high - self._scale.low)))
        parts = {"raw": raw, **{name: float(each.value) for name, each in trace.rewards.items()}}
        return Outcome(reward, parts, "" if reward >= 1.0 else f"the environment gave {raw:g}")


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
