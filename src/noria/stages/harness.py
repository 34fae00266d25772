"""What stands between a policy and its world: forms of calls, cut observations, limits, and changes of context.

The roller drives engines and scripts; everything that one rollout is told and how its record grows is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from noria.contexts.base import Ask, Fresh, Rule, View
from noria.core.errors import SandboxError
from noria.core.protocols import Episode, Spills
from noria.core.turns import Progress
from noria.core.types import Branch, Observation, TokenRole, Turn
from noria.stages.jobs import Job, Limits, said
from noria.tokens.record import RecordBuilder
from noria.tokens.renderer import Piece, Renderer
from noria.tokens.truncation import cut


@dataclass(slots=True)
class Live:
    """A rollout that is under way.

    `first` is the number of the first turn of its present branch, `texts` the token ids of each turn's message.
    """

    job: Job
    episode: Episode
    record: RecordBuilder
    turns: list[Turn]
    version: int
    thought: str = ""
    thought_start: int | None = None
    #: tokens sampled so far
    response: int = 0
    #: when it began, where its time is bounded
    began: float = 0.0
    progress: Progress = field(default_factory=Progress)
    texts: list[tuple[int, ...]] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    first: int = 0
    #: branches of the rollout that it goes on from
    inherited: int = 0
    #: the next message answers a question of the context rule: "heard" or "ending", else ""
    question: str = ""
    #: a message that the world has not heard yet, and its span
    held: tuple[str, tuple[int, int]] = ("", (0, 0))
    #: whether the engine must be given the whole context anew
    renewed: bool = False


class Harness:
    """See the module. `clock` gives seconds; it is read only where time is bounded."""

    def __init__(self, renderer: Renderer, limits: Limits, rule: Rule | None, clock: Callable[[], float]) -> None:
        self.renderer, self.limits, self.rule, self.clock = renderer, limits, rule, clock

    def begin(self, live: Live) -> None:
        """Start the clock of an episode."""
        if self.bounds(live).max_episode_s is not None:
            live.began = self.clock()

    def bounds(self, live: Live) -> Limits:
        """The limits of one rollout: the recipe's and its task's."""
        return self.limits.within(live.job.task.limits)

    def prompt(self, live: Live, note: str = "") -> Piece:
        """The opening of a context."""
        job = live.job
        task = replace(job.task, prompt=f"{job.task.prompt}\n\n{note}") if note else job.task
        is_script = bool(job.strategy or job.script)
        return self.renderer.prompt(task, job.hint.text if job.hint and not is_script else "")

    def take_over(self, live: Live) -> None:
        """The turns before the one that a job starts at, and the tokens of the context they stand in."""
        job = live.job
        assert job.start is not None
        start, k = job.start, job.start_turn
        all_said = said(start)
        record = all_said[k].record if k < len(all_said) else start.record
        cut_at = all_said[k].turn.token_start if k < len(all_said) else len(start.record)
        live.inherited = all_said[k].branch if k < len(all_said) else len(start.branches)
        for one in all_said[:k]:
            live.texts.append(one.record.ids[one.turn.token_start : one.turn.token_end])
            here = one.branch == live.inherited
            live.turns.append(one.turn if here else replace(one.turn, token_start=0, token_end=0))
            live.first += not here
        live.record.prefix(record, cut_at if job.start_token is None else job.start_token)
        if start.branches and job.start_token is None:
            live.record.next_turn(k)

    def hear(self, live: Live, message: str, span: tuple[int, int], seen: Observation) -> str:
        """Take in what the world answered to a turn; the reason why the episode is over, "" while it goes on."""
        shown, whole = ("", "") if seen.done else self._shown(live, seen.text)
        live.turns.append(Turn(message, shown, *span, whole))
        live.texts.append(tuple(live.record.ids[span[0] : span[1]]))
        if seen.done:
            return "done"
        given_up = sum(len(branch.turns) for branch in live.branches if branch.first < 0)
        bounds = self.bounds(live)
        if given_up + len(live.turns) >= min(bounds.max_turns, live.job.max_turns or bounds.max_turns):
            return "turn_limit"
        if live.job.max_response and live.response >= live.job.max_response:
            return "token_limit"
        if bounds.max_episode_s is not None and self.clock() - live.began >= bounds.max_episode_s:
            return "time_limit"
        piece = self.renderer.observation(shown)
        step = self.rule.heard(self.view(live, len(piece.ids))) if self.rule else None
        if isinstance(step, Fresh):
            return self.renew(live, step)
        if isinstance(step, Ask):
            asked = self.renderer.observation(f"{shown}\n\n{step.text}")
            if self._fits(live, asked):
                live.question, piece = "heard", asked
        return self._add(live, piece)

    def ask_first(self, live: Live, message: str, span: tuple[int, int]) -> bool:
        """Whether the policy is asked about a message before the world hears it; the question then stands there."""
        step = self.rule.ending(self.view(live, 0), message) if self.rule else None
        if step is None:
            return False
        piece = self.renderer.observation(step.text)
        if not self._fits(live, piece) or 0 < live.job.max_response <= live.response:
            return False
        live.record.rendered(piece)
        live.question, live.held = "ending", (message, span)
        return True

    def answered(self, live: Live, answer: str) -> Fresh | None:
        """Take the answer to a question: the context that follows from it, None where the rollout goes on in this."""
        assert self.rule is not None
        live.question = ""
        return self.rule.told(self.view(live, 0), answer)

    def renew(self, live: Live, fresh: Fresh) -> str:
        """Go on in another context; "" or the reason why the episode is over."""
        assert self.rule is not None
        own = tuple(live.turns[live.first :])
        if fresh.redo and live.held[0]:
            own += (Turn(live.held[0], "", *live.held[1]),)
        first = -1 if fresh.redo else live.first
        live.branches.append(Branch(live.record.freeze(), own, first, self.rule.name, fresh.note))
        if fresh.redo:
            live.branches = [replace(branch, first=-1) for branch in live.branches]
            live.turns, live.texts = [], []
        live.turns = [replace(turn, token_start=0, token_end=0) for turn in live.turns]
        live.held, live.first, live.renewed = ("", (0, 0)), len(live.turns), True
        live.thought, live.thought_start = "", None
        pieces = [self.prompt(live, fresh.note)]
        for k, observation in fresh.shown:
            pieces += [_as_prompt(live.texts[k]), _as_prompt(self.renderer.observation(observation).ids)]
        live.record = RecordBuilder()
        for piece in pieces:
            live.record.rendered(piece)
        live.record.next_turn(live.first)
        return "token_limit" if len(live.record) + 2 >= self.limits.max_tokens else ""

    def view(self, live: Live, more: int) -> View:
        """What the rule sees when `more` tokens are about to join the context."""
        given_up = live.inherited + len(live.branches)
        return View(live.job.task, tuple(live.turns), len(live.record) + more, self.limits.max_tokens, given_up)

    def room(self, live: Live) -> int:
        """Tokens that the next message may have."""
        room = min(self.limits.max_new_tokens, self.limits.max_tokens - len(live.record))
        return min(room, live.job.max_response - live.response) if live.job.max_response else room

    def _shown(self, live: Live, text: str) -> tuple[str, str]:
        """An observation as it is shown, and the whole of it where that is cut."""
        limit = self.bounds(live).max_observation_tokens
        if not limit or len(self.renderer.encode(text)) <= limit:
            return text, ""
        path = spill(live.episode, text)
        found = cut(self.renderer, text, limit, f", all in {path}" if path else "")
        assert found is not None
        return found, text

    def _add(self, live: Live, piece: Piece) -> str:
        if not self._fits(live, piece):
            return "token_limit"
        live.record.rendered(piece)
        return ""

    def _fits(self, live: Live, piece: Piece) -> bool:
        return len(live.record) + len(piece.ids) + 2 < self.limits.max_tokens


def spill(episode: Episode, text: str) -> str:
    """Put a text where the model can read it; its path, "" where the world has no files."""
    return episode.spill(text) if isinstance(episode, Spills) else ""


def replay(episode: Episode, turn: Turn, id: str) -> None:
    """Let a turn happen again, with the file that it left. Raises SandboxError where the world answers otherwise."""
    seen = episode.act(turn.message)
    if ("" if seen.done else seen.text) != (turn.whole or turn.observation):
        raise SandboxError(f"replay of {id} diverged: got {seen.text!r}")
    if turn.whole:
        spill(episode, turn.whole)


def _as_prompt(ids: tuple[int, ...]) -> Piece:
    role: TokenRole = "user"
    return Piece(ids, (role,) * len(ids))
