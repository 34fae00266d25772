"""What a rollout is to do and how far it may go: plain data that travels to workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from noria.core.types import Hint, Task, TaskLimits, TokenRecord, Trajectory, Turn

if TYPE_CHECKING:
    from noria.core.recipe_tables import Eval, Rollout


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one episode. A rollout that hits one stops with a reason; it is graded as it stands.

    `max_tokens` bounds each branch of a rollout. `max_observation_tokens` = 0 and the seconds None are no bound.
    """

    max_turns: int = 12
    max_new_tokens: int = 160
    max_tokens: int = 448
    max_observation_tokens: int = 0
    max_command_s: float | None = None
    max_episode_s: float | None = None

    @classmethod
    def of(cls, rollout: Rollout, evaluation: Eval | None = None) -> Limits:
        """Those of a recipe. Evaluation counts turns and tokens by its own table; all else is as in training."""
        counts = evaluation or rollout
        return cls(
            counts.max_turns, counts.max_new_tokens, counts.max_tokens,
            rollout.max_observation_tokens, rollout.max_command_s, rollout.max_episode_s,
        )  # fmt: skip

    def within(self, task: TaskLimits) -> Limits:
        """The tighter of these and a task's own, each by itself."""
        if task == _NO_LIMITS:
            return self
        observation = min(filter(None, (self.max_observation_tokens, task.max_observation_tokens)), default=0)
        return replace(
            self, max_turns=min(self.max_turns, task.max_turns or self.max_turns), max_observation_tokens=observation,
            max_command_s=_least(self.max_command_s, task.max_command_s),
            max_episode_s=_least(self.max_episode_s, task.max_episode_s),
        )  # fmt: skip


_NO_LIMITS = TaskLimits()


def _least(one: float | None, other: float | None) -> float | None:
    return min((bound for bound in (one, other) if bound is not None), default=None)


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


def with_attempt(job: Job, attempt: int) -> Job:
    """The same job once more, under a seed of its own."""
    return replace(job, seed=job.seed + 1_000_003 * attempt)


@dataclass(frozen=True, slots=True)
class Said:
    """Where the turns of a trajectory were said: the record of the branch, and the turn with its span in it."""

    record: TokenRecord
    turn: Turn
    branch: int


def said(t: Trajectory) -> list[Said]:
    """Every turn of a trajectory with the branch that it was said in."""
    found = [Said(t.record, turn, len(t.branches)) for turn in t.turns]
    for number, branch in enumerate(t.branches):
        for k, turn in enumerate(branch.turns if branch.first >= 0 else ()):
            found[branch.first + k] = Said(branch.record, turn, number)
    return found


def parts(t: Trajectory) -> list[Trajectory]:
    """A trajectory branch by branch, each with the rollout's turns; those that were said elsewhere have no span.

    What a branch is trained on are the tokens after its prompt, so every token of the rollout counts once.
    """
    if not t.branches:
        return [t]
    empty = tuple(replace(turn, token_start=0, token_end=0) for turn in t.turns)
    out = []
    for branch in t.branches:
        turns = list(empty)
        if branch.first >= 0:
            turns[branch.first : branch.first + len(branch.turns)] = branch.turns
        out.append(replace(t, record=branch.record, turns=tuple(turns), branches=()))
    return [*out, replace(t, branches=())]
