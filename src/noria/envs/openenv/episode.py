"""An episode on a server: a session that begins with the first action, and the rewards that came back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from noria.core.errors import PolicyError, SandboxError
from noria.core.turns import Progress, State
from noria.core.types import Observation, Outcome
from noria.envs.openenv.actions import Actions, shown
from noria.envs.openenv.wire import Seen, Session
from noria.tokens.calls import hear
from noria.tokens.toolbox import Toolbox, told


@dataclass(frozen=True, slots=True)
class Scale:
    """How a server's rewards become one in [0, 1]: the last one or their sum, where `low` is 0 and `high` is 1."""

    of: Literal["last", "sum"]
    low: float
    high: float

    def reward(self, rewards: list[float]) -> float:
        """A reward in [0, 1]; what lies outside is cut."""
        raw = rewards[-1] if self.of == "last" else sum(rewards)
        return min(1.0, max(0.0, (raw - self.low) / (self.high - self.low)))


class ServedEpisode:
    """Acts on a session of its own.

    `begin` opens one and resets it. Its first observation must be `first`, the one in the task's prompt: else the
    server does not keep to its seed, and what follows would be another task. `say` is the argument of the only tool
    that takes a message without a call; "" = such a message ends the episode.
    """

    def __init__(
        self, begin: Callable[[], tuple[Session, Seen]], first: str, actions: Actions, scale: Scale, say: str
    ) -> None:
        self._begin, self._first, self._actions, self._scale, self._say = begin, first, actions, scale, say
        self._box = Toolbox(actions.typed(self._step))
        self._progress = Progress()
        self._session: Session | None = None
        self._taken: list[Mapping[str, Any]] = []
        self._answers: list[str] = []
        self._rewards: list[float] = []
        self._ended, self._fault = False, ""

    def act(self, message: str) -> Observation:
        """Do what a message asks for.

        Raises:
            IllegalTransition: the episode is over.
            SandboxError: the server failed; the episode is of no use any more.
        """
        if self._progress.state is State.PENDING:
            self._progress.to(State.GENERATING)
        heard = hear(message)
        says = bool(self._say and heard.answer)
        if not heard.calls and not says:
            self._progress.to(State.TERMINATED)
            return Observation("", done=True)
        self._progress.to(State.PROCESSING_TOOLS)
        try:
            self._ready()
            seen = told(self._box.run(heard.calls)) if heard.calls else self._said(heard.answer)
        except SandboxError as fault:
            self._fault = str(fault)
            raise
        self._progress.to(State.TERMINATED if self._ended else State.GENERATING)
        return Observation(seen, done=self._ended)

    def grade(self) -> Outcome:
        """The server's reward in [0, 1]; unknown where it failed, or ended the episode and gave none."""
        if self._fault:
            return Outcome.unknown(self._fault)
        if not self._rewards:
            if self._ended:
                return Outcome.unknown("the server ended the episode and gave no reward")
            return Outcome(0.0, {"steps": float(len(self._taken))}, "no step was rewarded")
        reward = self._scale.reward(self._rewards)
        parts = {"steps": float(len(self._taken)), "return": sum(self._rewards), "last": self._rewards[-1]}
        return Outcome(reward, parts, "" if reward >= 1.0 else f"the server gave {self._rewards[-1]:g} at last")

    def fork(self) -> ServedEpisode:
        """A session of its own in which the same was done.

        Raises:
            SandboxError: the server answered otherwise than before.
        """
        other = ServedEpisode(self._begin, self._first, self._actions, self._scale, self._say)
        if self._session is None:
            return other
        sound = False
        try:
            other._ready()
            for action, answer in zip(self._taken, self._answers, strict=True):
                if other._step(action) != answer:
                    raise SandboxError("the server answered otherwise when the same was done again")
            sound = True
        finally:
            if not sound:
                other.close()
        other._progress, other._fault = Progress(self._progress.state), self._fault
        return other

    def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _ready(self) -> None:
        if self._session is None:
            self._session, seen = self._begin()
            if shown(seen.observation) != self._first:
                raise SandboxError("the server's first observation is not that of the task: it does not keep to seeds")

    def _said(self, text: str) -> str:
        try:
            return self._step({self._say: text})
        except PolicyError as refusal:
            return f"error: {refusal}"

    def _step(self, action: Mapping[str, Any]) -> str:
        if self._ended:
            raise PolicyError("the episode is over")
        assert self._session is not None
        seen = self._session.step(action)
        self._taken.append(action)
        if seen.reward is not None:
            self._rewards.append(seen.reward)
        self._ended = seen.done
        text = shown(seen.observation)
        self._answers.append(text)
        return text
