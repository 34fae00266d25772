"""One question being worked on."""

from __future__ import annotations

from noria.bases.turn import carried_out, error_line
from noria.core.errors import PolicyError
from noria.core.types import Observation, Outcome, Task
from noria.envs.deepsearch.corpus import ANSWER, Corpus, check_arguments
from noria.envs.deepsearch.grading import matches
from noria.tokens.calls import Call

_MAX_CALLS = 8
_NO_CALL = "no call; search and browse, end with answer"
_MAX_ERROR_CHARS = 120


class SearchEpisode:
    """One question being worked on."""

    def __init__(
        self, task: Task, corpus: Corpus, grounded: bool, visited: tuple[str, ...] = (), answer: str | None = None
    ) -> None:
        self._task, self._corpus, self._grounded = task, corpus, grounded
        self.visited, self.answer = visited, answer

    def act(self, message: str) -> Observation:
        """Run the calls of a message in order, one answer each; `answer` ends the episode, later calls are not run."""
        if self.answer is not None:
            return Observation("", done=True)
        lines = carried_out(message, self._call, lambda: self.answer is not None, _NO_CALL, _MAX_CALLS)
        done = self.answer is not None
        return Observation("" if done else "\n".join(lines), done)

    def grade(self) -> Outcome:
        """Parts: `right`, and `evidence`, the share of the pages that were read among those that hold the evidence."""
        data = self._task.data
        wanted = data["evidence"]
        seen = sum(id_ in self.visited for id_ in wanted) / len(wanted) if wanted else 1.0
        right = self.answer is not None and matches(self.answer, data["answers"], data["unit"])
        parts = {"right": float(right), "evidence": seen}
        if self.answer is None:
            return Outcome(0.0, parts, "no answer")
        if not right:
            return Outcome(
                0.0, parts, f"answered {ascii(self.answer)[:_MAX_ERROR_CHARS]}, right is {data['answers'][0]}"
            )
        if self._grounded and seen < 1:
            return Outcome(0.0, parts, "right, but without having read the evidence")
        return Outcome(1.0, parts, "right")

    def fork(self) -> SearchEpisode:
        """An independent episode in the same state."""
        return SearchEpisode(self._task, self._corpus, self._grounded, self.visited, self.answer)

    def close(self) -> None:
        """Nothing is held."""

    def _call(self, call: Call) -> str:
        try:
            check_arguments(call.name, call.args)
            if call.name == ANSWER:
                self.answer = call.args["text"]
                return ""
            line = self._corpus.call(call.name, call.args)
            if "page" in call.args:
                self.visited = tuple(dict.fromkeys([*self.visited, self._corpus.find(call.args["page"])]))
        except PolicyError as fault:
            return error_line(str(fault), _MAX_ERROR_CHARS)
        return line
