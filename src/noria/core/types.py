"""The carriers that travel between stages: frozen, typed, with units in their names.

Everything here is plain data: it can be pickled to a worker process and written as one JSON line
(`core.codec`). No carrier imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
TokenRole = Literal["system", "user", "observation", "think", "tool_name", "tool_args", "answer", "glue"]
Split = Literal["train", "heldout", "unseen"]

STUDENT = "student"
EDITED = "edited"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; `content` of an assistant holds think, calls and answer as sampled."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the model sees it. `parameters` maps a parameter's name to its JSON type and meaning."""

    name: str
    description: str
    parameters: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Bounds that a task brings with it. The tighter of these and the recipe's holds; 0 and None = the recipe's alone.

    `max_turns` counts messages, `max_observation_tokens` tokens of one observation as it is shown; the seconds are of
    one answer of the world and of the whole episode.
    """

    max_turns: int = 0
    max_observation_tokens: int = 0
    max_command_s: float | None = None
    max_episode_s: float | None = None

    def __post_init__(self) -> None:
        if min(self.max_turns, self.max_observation_tokens) < 0:
            raise ValueError("max_turns and max_observation_tokens of a task must be at least 0")
        for seconds in (self.max_command_s, self.max_episode_s):
            if seconds is not None and not seconds > 0:
                raise ValueError("max_command_s and max_episode_s of a task must be above 0, or None")


@dataclass(frozen=True, slots=True)
class Task:
    """One verifiable problem.

    `data` is the world's own description of the instance (plain JSON), enough to open the episode,
    to grade it and to play the reference solution. The model sees only `system`, `prompt`, `tools`.
    """

    id: str
    world: str
    system: str
    prompt: str
    tools: tuple[Tool, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    split: Split = "train"
    limits: TaskLimits = TaskLimits()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a verifier said: a reward in [0, 1], or *unknown* (`reward is None`) with the reason.

    Unknown means that nobody looked (the sandbox died, the grader timed out). It is never a zero and
    takes part in no mean.
    """

    reward: float | None
    parts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    @property
    def known(self) -> bool:
        return self.reward is not None

    @property
    def solved(self) -> bool:
        return self.reward is not None and self.reward >= 1.0

    @classmethod
    def unknown(cls, reason: str) -> Outcome:
        return cls(reward=None, reason=reason)


@dataclass(frozen=True, slots=True)
class Observation:
    """What the world answers to one assistant message. `done` ends the episode (nothing is rendered then)."""

    text: str
    done: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """One assistant message and the observation it got ("" when it ended the episode).

    `token_start:token_end` is the half-open span of the assistant message in the token record; it is empty where the
    turn was said in an earlier branch. `whole` is what the world answered where the observation was cut, else "".
    """

    message: str
    observation: str
    token_start: int = 0
    token_end: int = 0
    whole: str = ""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """Equal-length per-token streams of one rollout, prompt included. Built only by `tokens.record`.

    ids         token ids as sampled or rendered
    roles       what the token is (`TokenRole`)
    turns       index of the turn, -1 for the prompt
    sources     "student", "teacher:<name>", "expert", "edited"
    mask        1 iff the student's own sampler produced the token and no rule masks it
    logp_mu     log-probability under the behaviour policy in nats, 0.0 where the token was not sampled
    versions    policy version that produced the token, -1 where it was not sampled
    """

    ids: tuple[int, ...]
    roles: tuple[TokenRole, ...]
    turns: tuple[int, ...]
    sources: tuple[str, ...]
    mask: tuple[int, ...]
    logp_mu: tuple[float, ...]
    versions: tuple[int, ...]

    def __post_init__(self) -> None:
        lengths = {
            len(self.ids), len(self.roles), len(self.turns), len(self.sources),
            len(self.mask), len(self.logp_mu), len(self.versions),
        }  # fmt: skip
        if len(lengths) != 1:
            raise ValueError(f"token streams must have one length, got {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def action_tokens(self) -> int:
        """Tokens that the student sampled (observations and glue excluded)."""
        return sum(self.mask)


@dataclass(frozen=True, slots=True)
class Branch:
    """A context of a rollout that another took the place of (`contexts`): a prompt, and what was said after it.

    record    its tokens; what earlier branches said is part of the prompt here
    turns     those said in it, with their spans in `record`
    first     number of its first turn among the rollout's; -1 = they belong to a try that was given up
    reason    the rule that ended it
    note      what the next branch was told beside the task
    """

    record: TokenRecord
    turns: tuple[Turn, ...]
    first: int
    reason: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One rollout of one task by one policy.

    id          unique in the run, made from task, source, sample and attempt
    source      "student" or "teacher:<name>"
    record      its tokens; where its context changed on the way, those of the last branch
    stop        "done", "turn_limit", "token_limit", "time_limit", "command_limit", "sandbox", "engine"
    hint        text of the hint it ran under, "" without one
    version     policy version at the start (0 for scripted policies)
    branches    the branches before the last, the oldest first
    scaffold    what stood between policy and world: a form of calls in the house's own loop, or a harness; "" = unsaid
    """

    id: str
    task: Task
    source: str
    turns: tuple[Turn, ...]
    record: TokenRecord
    outcome: Outcome
    stop: str = "done"
    hint: str = ""
    seed: int = 0
    version: int = 0
    branches: tuple[Branch, ...] = ()
    scaffold: str = ""

    @property
    def action_tokens(self) -> int:
        """Tokens that the student sampled, in all branches."""
        return self.record.action_tokens + sum(branch.record.action_tokens for branch in self.branches)

    @property
    def messages(self) -> list[Message]:
        """The assistant and tool messages after the prompt, in order."""
        out: list[Message] = []
        for turn in self.turns:
            out.append(Message("assistant", turn.message))
            if turn.observation:
                out.append(Message("tool", turn.observation))
        return out

    @property
    def solved(self) -> bool:
        return self.outcome.solved

    def with_outcome(self, outcome: Outcome) -> Trajectory:
        return replace(self, outcome=outcome)


@dataclass(frozen=True, slots=True)
class Pair:
    """The same task solved (`right`) and failed (`wrong`); only the verifier decided which is which."""

    task: Task
    right: Trajectory
    wrong: Trajectory


@dataclass(frozen=True, slots=True)
class KeyAction:
    """A decisive action: after it, the chance of success moved.

    `token_start:token_end` is its span in the trajectory's token record. `solved_before` of
    `tried_before` continuations of the weak model from just before the action succeeded, likewise after.
    """

    trajectory_id: str
    turn: int
    token_start: int
    token_end: int
    kind: str
    why: str
    confidence: float
    solved_before: int
    tried_before: int
    solved_after: int
    tried_after: int

    @property
    def shift(self) -> float:
        """Change of the success rate over the action, in [-1, 1]."""
        before = self.solved_before / max(1, self.tried_before)
        return self.solved_after / max(1, self.tried_after) - before


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the supervisor says about one pair."""

    task_id: str
    right_id: str
    wrong_id: str
    divergence: int
    marks: tuple[KeyAction, ...]
    report: str
    mermaid: str
    replays: int
    budget: int


@dataclass(frozen=True, slots=True)
class Hint:
    """A prompt and a short chain of thought aimed at the weak spot, made from marks alone."""

    task_id: str
    text: str
    thought: str
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One training row: tokens and equal-length streams, by construction.

    `advantage` and `weight` are per token, `route` names the teacher, `group` the prompt group,
    `denominator` the count of action tokens before any weight or mask was applied.
    """

    record: TokenRecord
    advantage: tuple[float, ...] = ()
    weight: tuple[float, ...] = ()
    route: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """Held-out result of one model in one world: counts first, rates derived from them."""

    model: str
    world: str
    split: Split
    n: int
    correct: int
    unknown: int
    tokens: int
    tokens_solved: int

    @property
    def pass_at_1(self) -> float:
        known = self.n - self.unknown
        return self.correct / known if known else 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's decision of one round and why."""

    promoted: bool
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
