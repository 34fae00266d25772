"""What a verifier says of every state of a rollout: the rollout is replayed, and a copy is graded after each turn."""

from __future__ import annotations

from noria.core.errors import boundary
from noria.core.protocols import Episode, World
from noria.core.types import Outcome, Trajectory
from noria.stages.harness import replay


def states_of(world: World, t: Trajectory) -> tuple[Outcome, ...]:
    """Outcomes before each of the n messages and at the end, n + 1 in all; none where one of them is unknown.

    The last is the rollout's own. A replay that shows another observation measures nothing.
    """
    return boundary(lambda: _replayed(world, t), lambda fault: ())


def _replayed(world: World, t: Trajectory) -> tuple[Outcome, ...]:
    if not t.outcome.known or not t.turns:
        return ()
    found: list[Outcome] = []
    episode = world.open(t.task)
    try:
        found.append(_graded(episode))
        for turn in t.turns[:-1]:
            replay(episode, turn, t.id)
            found.append(_graded(episode))
    finally:
        episode.close()
    return (*found, t.outcome) if all(outcome.known for outcome in found) else ()


def _graded(episode: Episode) -> Outcome:
    copy = episode.fork()
    try:
        return copy.grade()
    finally:
        copy.close()
