"""One question being worked on, and a policy playing it to its end."""

from __future__ import annotations

from noria.core.errors import PolicyError
from noria.core.protocols import Policy
from noria.core.types import Message, Observation, Outcome, Task
from noria.envs.deepsearch.corpus import ANSWER, Corpus, check_arguments
from noria.envs.deepsearch.grading import matches
from noria.tokens.calls import parse

_MAX_CALLS = 8
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
        try:
            calls = parse(message).calls
        except PolicyError as fault:
            return Observation(_error(fault))
        if not calls:
            return Observation("error: no call; search and browse, end with answer")
        if len(calls) > _MAX_CALLS:
            return Observation(f"error: at most {_MAX_CALLS} calls in one message")
        lines: list[str] = []
        for call in calls:
            try:
                check_arguments(call.name, call.args)
                if call.name == ANSWER:
                    self.answer = call.args["text"]
                    return Observation("", done=True)
                lines.append(self._corpus.call(call.name, call.args))
                if "page" in call.args:
                    self.visited = tuple(dict.fromkeys([*self.visited, self._corpus.find(call.args["page"])]))
            except PolicyError as fault:
                lines.append(_error(fault))
        return Observation("\n".join(lines))

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


def play_out(episode: SearchEpisode, policy: Policy, most: int) -> list[str]:
    """What a policy says until the episode ends, at most `most` messages."""
    messages: list[Message] = []
    for _ in range(most):
        said = policy(messages)
        seen = episode.act(said)
        messages.append(Message("assistant", said))
        if seen.done:
            break
        messages.append(Message("tool", seen.text))
    return [message.content for message in messages if message.role == "assistant"]


def _error(fault: PolicyError) -> str:
    """What the model is told, though it may quote the model's own text: one short line of ASCII."""
    return f"error: {ascii(str(fault))[1:-1][:_MAX_ERROR_CHARS]}"
