"""The acting part of an episode whose tools are typed: a base for worlds, with the four states of `core.turns`."""

from __future__ import annotations

import copy
from typing import Self

from noria.core.turns import Progress, State
from noria.core.types import Observation
from noria.tokens.calls import hear
from noria.tokens.toolbox import Toolbox, told


class ToolEpisode:
    """Hears messages and does their calls; a message without calls is the final answer.

    A world derives its episode from this and writes `grade`. `answer` is "" until one was given. `ended` may be set by
    a tool that ends the episode. Tools are methods of the episode, since `fork` copies all that it holds, and `close`
    does nothing: a world whose episodes hold what cannot be copied, or must be freed, writes its own.
    """

    def __init__(self, box: Toolbox) -> None:
        self.box, self.progress, self.answer, self.ended = box, Progress(), "", False

    def act(self, message: str) -> Observation:
        """Do what a message asks for.

        Raises:
            IllegalTransition: the episode is over.
        """
        if self.progress.state is State.PENDING:
            self.progress.to(State.GENERATING)
        heard = hear(message)
        if not heard.calls:
            self.progress.to(State.TERMINATED)
            self.answer = heard.answer
            return Observation("", done=True)
        self.progress.to(State.PROCESSING_TOOLS)
        seen = told(self.box.run(heard.calls))
        self.progress.to(State.TERMINATED if self.ended else State.GENERATING)
        return Observation(seen, done=self.ended)

    def fork(self) -> Self:
        """An independent episode in the same state, whose tools act on itself."""
        return copy.deepcopy(self)

    def close(self) -> None:
        """Nothing is held."""
