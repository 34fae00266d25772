"""One task being worked on: typed calls are read here, and only well-made ones reach whoever plays the other side."""

from __future__ import annotations

from functools import partial
from typing import Any

from noria.bases.turn import heard_calls
from noria.core.errors import PolicyError, SandboxError
from noria.core.turns import State as Turn
from noria.core.types import Observation, Outcome, Task
from noria.envs.simulated.card import Action, Domain
from noria.envs.simulated.checking import REFUSED
from noria.envs.simulated.goals import judged
from noria.envs.simulated.question import Exchange, Question
from noria.envs.simulated.transition import Transitions
from noria.tokens.calls import Call
from noria.tokens.tool_episode import ToolEpisode
from noria.tokens.toolbox import Toolbox, Typed

#: Calls of one message at most.
MOST_CALLS = 12


class SimulatedEpisode(ToolEpisode):
    """See the module. `state` is replaced and never changed, so forks share what is old.

    `talk` is what was called and answered, `fault` why nobody knows what became of the last call, "" as a rule.
    """

    def __init__(
        self, domain: Domain, task: Task, transitions: Transitions, most_calls: int, history: int, is_strict: bool
    ) -> None:
        self.domain, self.task, self.state = domain, task, dict(task.data["state"])
        self.talk: tuple[Exchange, ...] = ()
        self.fault = ""
        self.calls = self.well = 0
        self._transitions, self._limits, self._is_strict = transitions, (most_calls, history), is_strict
        super().__init__(Toolbox([self._typed(action) for action in domain.actions]))

    def act(self, message: str) -> Observation:
        """Do what a message asks for; one without calls is the answer and ends the episode.

        Raises:
            IllegalTransition: the episode is over.
            SandboxError: nobody knows what a call would have done.
        """
        if self.fault:
            raise SandboxError(self.fault)
        heard = len(heard_calls(message))
        if self.progress.state is not Turn.TERMINATED:
            self.calls += heard
            if heard > MOST_CALLS:
                return Observation(f"error: at most {MOST_CALLS} calls in one message")
        return super().act(message)

    def grade(self) -> Outcome:
        """By the state and the answer; unknown after a fault."""
        if self.fault:
            return Outcome.unknown(self.fault)
        return judged(self.task, self.state, self.answer, self.calls, self.well, self._is_strict)

    def fork(self) -> SimulatedEpisode:
        """An independent episode in the same state, with the same conversation behind it."""
        other = SimulatedEpisode(self.domain, self.task, self._transitions, *self._limits, self._is_strict)
        other.state, other.talk, other.fault = self.state, self.talk, self.fault
        other.calls, other.well = self.calls, self.well
        other.answer, other.ended = self.answer, self.ended
        other.progress.state = self.progress.state
        return other

    def _typed(self, action: Action) -> Typed:
        return Typed(action.tool, partial(self._run, action), frozenset(action.params))

    def _run(self, action: Action, **args: Any) -> str:
        for name, kind in action.params.items():
            if fault := kind.fault(args[name], self.state):
                raise PolicyError(f"{name} {fault}")
        self.well += 1
        most, history = self._limits
        if len(self.talk) >= most:
            raise PolicyError("no more calls: say the answer")
        shown = self.talk[-history:] if history else ()
        try:
            step = self._transitions.step(Question(self.domain, self.state, action, args, shown))
        except SandboxError as fault:
            self.fault = str(fault)
            raise
        self.state = step.state
        self.talk += ((_said(Call(action.name, {key: str(each) for key, each in args.items()})), step.observation),)
        if step.observation.startswith(REFUSED):
            raise PolicyError(step.observation.removeprefix(REFUSED))
        return step.observation


def _said(call: Call) -> str:
    return f"{call.name}({', '.join(f'{key}={each}' for key, each in call.args.items())})"
