"""The proof of a sample: its messages, said to the world as they are shown, give what it shows, and its outcome."""

from __future__ import annotations

from typing import Any

from noria.bases.renamed import RenamedEpisode
from noria.core.errors import SandboxError, boundary
from noria.core.protocols import Episode, Spills
from noria.core.types import Outcome
from noria.stages.enrichment.samples import Draft

DIFFERS, OUTCOME, UNKNOWN, FAILED = "observation_differs", "outcome_differs", "replay_unknown", "replay_failed"


def fault(world: Any, draft: Draft) -> str:
    """Why a draft is not proved, "" if it is."""
    return boundary(lambda: _fault(world, draft), _named)


def _named(raised: BaseException) -> str:
    """A sandbox that failed says nothing about the sample; anything else is a finding."""
    return UNKNOWN if isinstance(raised, SandboxError) else FAILED


def _fault(world: Any, draft: Draft) -> str:
    trajectory = draft.trajectory
    episode: Episode = world.open(trajectory.task)
    try:
        shown = episode if draft.renaming is None else RenamedEpisode(episode, draft.renaming)
        last = len(draft.messages) - 1
        for at, (said, whole, turn) in enumerate(zip(draft.messages, draft.wholes, trajectory.turns, strict=True)):
            seen = shown.act(said)
            if seen.done != (at == last and trajectory.stop == "done") or ("" if seen.done else seen.text) != whole:
                return DIFFERS
            if turn.whole and isinstance(episode, Spills):
                episode.spill(turn.whole)  # a later call may read it
        return _compared(shown.grade(), trajectory.outcome)
    finally:
        episode.close()


def _compared(found: Outcome, wanted: Outcome) -> str:
    if not found.known:
        return UNKNOWN
    return "" if (found.reward, dict(found.parts)) == (wanted.reward, dict(wanted.parts)) else OUTCOME
