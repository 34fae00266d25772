"""The four states of an episode, and which may follow which.

    pending ─► generating ─► processing_tools ─► generating … ─► terminated

An episode may end in every state but the last; nothing follows that.
"""

from __future__ import annotations

from enum import Enum

from noria.core.errors import NoriaError


class State(Enum):
    """Where an episode stands."""

    PENDING = "pending"
    GENERATING = "generating"
    PROCESSING_TOOLS = "processing_tools"
    TERMINATED = "terminated"


FOLLOWS: dict[State, frozenset[State]] = {
    State.PENDING: frozenset({State.GENERATING, State.TERMINATED}),
    State.GENERATING: frozenset({State.PROCESSING_TOOLS, State.TERMINATED}),
    State.PROCESSING_TOOLS: frozenset({State.GENERATING, State.TERMINATED}),
    State.TERMINATED: frozenset(),
}


class IllegalTransition(NoriaError):
    """A state was to follow another that it cannot follow; the caller has a bug."""


class Progress:
    """The state of one episode."""

    def __init__(self, state: State = State.PENDING) -> None:
        self.state = state

    def to(self, state: State) -> None:
        """Go on to `state`. Raises IllegalTransition where it cannot follow; the state stays as it was."""
        if state not in FOLLOWS[self.state]:
            raise IllegalTransition(f"{state.value} cannot follow {self.state.value}")
        self.state = state
