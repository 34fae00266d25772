"""One mechanism being played: tools over its state, and the account of what decisions gave away."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from noria.bases.turn import carried_out
from noria.core.errors import PolicyError
from noria.core.types import Observation, Outcome, Task
from noria.envs.mechanisms.model import Solved, State
from noria.envs.mechanisms.tasks import LOOK, STOP, solved_of
from noria.tokens.calls import Call

Zero = Literal["random", "worst"]

_SHOWN_CHARS = 12
_NUMBER = re.compile(r"[0-9]{1,3}")
#: Luck is drawn as a whole number below this, so that it compares exactly with fractions.
_LUCK = 2**32


class Play:
    """One task being worked on. Transitions and score come from the same solved mechanism."""

    def __init__(self, task: Task, zero: Zero = "random") -> None:
        self.task, self.zero = task, zero
        self.solved: Solved = solved_of(task)
        self.state: State = self.solved.mechanism.start
        self.gaps: tuple[Fraction, ...] = ()
        self.asked: frozenset[tuple[str, int]] = frozenset()
        self.calls = self.refused = 0
        self.stopped = False

    @property
    def over(self) -> bool:
        """Whether nothing is left to decide."""
        return self.stopped or not self.solved.mechanism.actions(self.state)

    def act(self, message: str) -> Observation:
        """Run the calls of a message in order; the last decision, or `stop`, ends the episode."""
        if self.over:
            return Observation("", done=True)
        lines = carried_out(message, self._call, lambda: self.over, f"no call; call {self.solved.mechanism.act.name}")
        return Observation("" if self.over else "\n".join(lines), self.over)

    def grade(self) -> Outcome:
        """1 less what was given away, as a share of what play at random (or the worst play) gives away.

        Each decision counts by its gap, best(s) - Q(s, a). In expectation the gaps add up to the regret (the
        performance-difference lemma, Kakade & Langford 2002), and luck has no part in them. What was not played counts
        as the worst play. Below 0 is 0.
        """
        solved, start = self.solved, self.solved.mechanism.start
        regret = sum(self.gaps, solved.best(self.state) - solved.worst(self.state))
        least = solved.random(start) if self.zero == "random" else solved.worst(start)
        score = max(Fraction(0), 1 - regret / (solved.best(start) - least))
        wrong = sum(gap > 0 for gap in self.gaps)
        parts = {
            "optimal": 1 - wrong / len(self.gaps) if self.gaps else 0.0,
            "finished": float(not self.solved.mechanism.actions(self.state)),
            "legal": 1 - self.refused / self.calls if self.calls else 1.0,
            "asked": float(bool(self.asked)),
        }
        reason = f"gave away {float(regret):.3g} of {float(solved.best(start) - least):.3g}" if regret else "optimal"
        return Outcome(float(score) if regret else 1.0, parts, reason)

    def fork(self) -> Play:
        """An independent episode in the same state."""
        other = Play(self.task, self.zero)
        other.state, other.gaps, other.asked = self.state, self.gaps, self.asked
        other.calls, other.refused, other.stopped = self.calls, self.refused, self.stopped
        return other

    def close(self) -> None:
        """Nothing is held."""

    def _call(self, call: Call) -> str:
        self.calls += 1
        try:
            return self._run(call)
        except PolicyError:
            self.refused += 1
            raise

    def _run(self, call: Call) -> str:
        mechanism = self.solved.mechanism
        tools = {tool.name: tool for tool in (*mechanism.probes, LOOK, mechanism.act, STOP)}
        if call.name not in tools:
            raise PolicyError(f"no tool {_shown(call.name)}; use one of {', '.join(tools)}")
        wanted = tools[call.name].parameters
        if set(call.args) != set(wanted):
            raise PolicyError(f"{call.name} takes {', '.join(wanted) or 'no argument'}")
        if call.name == STOP.name:
            self.stopped = True
            return ""
        if call.name == LOOK.name:
            return mechanism.look(self.state)
        number = _number(call.args)
        if call.name == mechanism.act.name:
            return self._decide(number)
        line = mechanism.probe(call.name, number)
        if line.startswith("error: "):
            raise PolicyError(line.removeprefix("error: "))
        self.asked |= {(call.name, number)}
        return line

    def _decide(self, action: int) -> str:
        mechanism = self.solved.mechanism
        possible = mechanism.actions(self.state)
        if action not in possible:
            raise PolicyError(f"n must be {', '.join(map(str, possible))}, got {action}")
        self.gaps += (self.solved.gap(self.state, action),)
        luck = Fraction(random.Random(f"{self.task.id}:{len(self.gaps)}").randrange(_LUCK), _LUCK)
        for chance, reward, after in mechanism.results(self.state, action):
            luck -= chance
            if luck < 0:
                self.state = after
                return f"earned {reward}; {mechanism.look(after)}" if mechanism.actions(after) else ""
        raise AssertionError("probabilities must add up to 1")


def _number(args: Mapping[str, str]) -> int:
    if "n" not in args:
        return 0
    text = args["n"].strip()
    if not _NUMBER.fullmatch(text):
        raise PolicyError(f"n must be a whole number, got {_shown(text)}")
    return int(text)


def _shown(text: str) -> str:
    """A model's own text in a message: ASCII, quoted, short."""
    return ascii(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "...")
