"""One call carried out: what was recorded, or what a simulator says, checked; bad answers are asked for again."""

from __future__ import annotations

import random
from typing import NamedTuple

from noria.core.errors import SandboxError
from noria.envs.simulated.checking import Invalid, checked, read
from noria.envs.simulated.paths import State
from noria.envs.simulated.question import Fault, Question, Simulator
from noria.envs.simulated.recorded import Record

_REASON_CHARS = 300


class Step(NamedTuple):
    """What a call led to."""

    observation: str
    state: State


class Transitions:
    """Carries calls out for all episodes of a world. May be used from several threads at once.

    `tries` answers to one question may be bad before nobody knows what the call would have done.
    """

    def __init__(self, simulator: Simulator, record: Record | None, tries: int, replay: bool = False) -> None:
        self.simulator = simulator
        self._record, self._tries, self._replay = record, tries, replay

    def step(self, question: Question) -> Step:
        """The checked transition.

        Raises:
            SandboxError: nobody answered, or no answer was valid, or none was recorded where only those count.
        """
        if self._record is None:
            return self._asked(question, "")[0]
        key = question.key(self.simulator.identity)
        kept = self._record.get(key)
        if kept is None:
            if self._replay:
                raise SandboxError(f"no answer to {question.action.name} is recorded for this state")
            kept = self._record.put(key, self._asked(question, key)[1])
        try:
            return _step(question, kept)
        except Invalid as fault:
            raise SandboxError(f"a recorded answer is not valid: {fault}"[:_REASON_CHARS]) from fault

    def _asked(self, question: Question, key: str) -> tuple[Step, str]:
        """The first valid answer, and its text."""
        faults: tuple[Fault, ...] = ()
        for number in range(self._tries):
            text = self.simulator.ask(question, faults, random.Random(f"{key}:{number}").randrange(2**31))
            try:
                return _step(question, text), text
            except Invalid as fault:
                faults += (Fault(text, str(fault)),)
        raise SandboxError(
            f"the simulator gave no valid answer to {question.action.name} in {self._tries} tries: {faults[-1].why}"[
                :_REASON_CHARS
            ]
        )


def _step(question: Question, text: str) -> Step:
    answer = read(text)
    return Step(answer.observation, checked(question.domain, question.state, question.action, question.args, answer))
