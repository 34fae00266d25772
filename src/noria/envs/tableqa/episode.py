"""One question being worked on; a message without calls is the answer."""

from __future__ import annotations

from noria.core.turns import Progress
from noria.core.types import Observation, Outcome, Task
from noria.envs.tableqa.desk import Desk
from noria.envs.tableqa.facts import parts_of, right_answer
from noria.envs.tableqa.store import Store
from noria.tokens.tool_episode import ToolEpisode

_MAX_CALLS = 16
_SHOWN_CHARS = 40


class TableEpisode(ToolEpisode):
    """The tables of a task, what was established so far, and the answer once it is given."""

    def __init__(self, task: Task, desk: Desk | None = None) -> None:
        self.desk = desk or Desk(Store(task.data["tables"]))
        super().__init__(self.desk.box())
        self._task = task

    def act(self, message: str) -> Observation:
        """Do what a message asks for.

        Raises:
            IllegalTransition: the episode is over.
        """
        if message.count("<call") > _MAX_CALLS:
            return Observation(f"error: at most {_MAX_CALLS} calls in one message")
        return super().act(message)

    def grade(self) -> Outcome:
        """1 for the right answer, else 0; the parts tell how far the way was right, see `facts.parts_of`."""
        data = self._task.data
        right = bool(self.answer) and right_answer(self.answer, data)
        said = ascii(self.answer)[:_SHOWN_CHARS] if self.answer else "nothing"
        reason = "" if right else f"answered {said}, right is {', '.join(data['answer'])}"
        return Outcome(float(right), parts_of(data["facts"], self.desk.log, right), reason)

    def fork(self) -> TableEpisode:
        """An independent episode in the same state."""
        other = TableEpisode(self._task, Desk(Store(self._task.data["tables"]), self.desk.log))
        other.progress, other.answer, other.ended = Progress(self.progress.state), self.answer, self.ended
        return other

    def close(self) -> None:
        """Give the tables back."""
        self.desk.store.close()
