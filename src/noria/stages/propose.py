"""The model variant of the supervisor: a model reads a pair and names the actions worth a replay.

    pair ─► prompt ─► chat ─► parse ─┬─► Proposal          (replay then decides what becomes a mark)
                        ▲            └─ cannot be used: told why, asked again, `max_retries` times at most
                        └──────────────┘

Nothing that the model says is believed: a proposal only chooses where continuations are spent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from noria.core.errors import EngineError, PolicyError
from noria.core.types import KeyAction, Message, Pair, Trajectory
from noria.stages.context import Context

Side = Literal["right", "wrong"]
PROPOSALS = "proposals.jsonl"

#: Characters of a prompt that one attempt, the task and one reason may take.
ATTEMPT_CHARS, TASK_CHARS, WHY_CHARS = 12_000, 3_000, 200
_LEAST_CHARS = 60
_ANSWER_CHARS = 2_000
_PARSED_CHARS = 50_000


class Chat(Protocol):
    """What an engine that chats offers (its module says `CHATS = True`)."""

    def complete(self, messages: Sequence[Message], max_tokens: int, temperature: float) -> str: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ProposedAction:
    """The action of turn `turn` (0-based) in one of the two trajectories, and the model's reason."""

    side: Side
    turn: int
    why: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the model proposed for one pair after `asked` questions; without actions, `fault` says why."""

    task_id: str
    actions: tuple[ProposedAction, ...]
    asked: int
    fault: str = ""

    def reasons(self, side: Side) -> dict[int, str]:
        """The model's reason by turn, in the order of the proposal."""
        return {action.turn: action.why for action in self.actions if action.side == side}


def proposals(ctx: Context, pairs: Sequence[Pair]) -> dict[str, Proposal]:
    """Ask about every pair, several at a time; where no answer is usable, the proposal has no actions.

    Raises:
        UserError: the engine cannot work as configured (package, key, address or model is missing).
    """
    table = ctx.recipe.supervisor
    assert table.engine is not None  # a rule of the recipe
    config = table.engine.config()
    with closing(table.engine.module().build(config)) as chat:
        pool = ThreadPoolExecutor(config.concurrency)
        try:
            made = list(pool.map(lambda pair: propose(chat, pair, table.key_actions, config), pairs))
        finally:
            pool.shutdown(cancel_futures=True)
    return {proposal.task_id: proposal for proposal in made}


def propose(chat: Chat, pair: Pair, most: int, config: Any) -> Proposal:
    """Ask about one pair. `config` gives `max_output_tokens`, `temperature` and `max_retries`."""
    question = Message("user", prompt(pair, most))
    messages, fault = [question], ""
    for asked in range(1, config.max_retries + 2):
        try:
            answer = chat.complete(messages, config.max_output_tokens, config.temperature)
        except EngineError as error:  # the client has tried again by itself
            return Proposal(pair.task.id, (), asked, clean(str(error), 300))
        try:
            return Proposal(pair.task.id, parse(answer, pair, most), asked)
        except PolicyError as error:
            fault = str(error)
        again = f"That can't be used: {fault}. Answer with the JSON list alone."
        said = clip(answer, _ANSWER_CHARS) or "(nothing)"
        messages = [question, Message("assistant", said), Message("user", again)]
    return Proposal(pair.task.id, (), config.max_retries + 1, clean(fault, 300))


def prompt(pair: Pair, most: int) -> str:
    """The question about one pair: the task and both attempts as numbered lists."""
    reason = pair.wrong.outcome.reason or pair.wrong.stop
    example = '[{"side": "wrong", "turn": 2, "why": "edits before reading the failing test"}]'
    return "\n".join(
        [
            "Two attempts at the same task follow. A checker accepted the one called `right` and refused the "
            "one called `wrong`.",
            "Which single actions decided that? Look for turns after which success became much more likely "
            "or much less likely than just before: in the wrong attempt a mistake that was not made up for, "
            "in the right attempt a step that set it on course. Turns without influence on the result don't "
            "count.",
            "",
            "TASK",
            clip(pair.task.prompt, TASK_CHARS),
            "",
            "ATTEMPT right (accepted)",
            *listing(pair.right),
            "",
            f"ATTEMPT wrong (refused: {clip(reason, 200)})",
            *listing(pair.wrong),
            "",
            f"Name one turn at least, and {most} per attempt at most, the most decisive first. Answer with a "
            "JSON list alone, one object per action: `side` is right or wrong, `turn` is the number in the "
            "list above, `why` is one short sentence. For example:",
            example,
        ]
    )


def listing(trajectory: Trajectory) -> list[str]:
    """The turns, numbered from 1, long texts cut so that the whole keeps to `ATTEMPT_CHARS` or so."""
    each = max(_LEAST_CHARS, ATTEMPT_CHARS // max(1, 2 * len(trajectory.turns)))
    lines = []
    for number, turn in enumerate(trajectory.turns, start=1):
        lines.append(f"{number}. did: {clip(turn.message, each)}")
        if turn.observation:
            lines.append(f"   saw: {clip(turn.observation, each)}")
    return lines


def parse(answer: str, pair: Pair, most: int) -> tuple[ProposedAction, ...]:
    """The proposed actions, `most` per side at most, each turn once.

    Raises:
        PolicyError: no JSON list of objects, an empty one, or an action that does not exist; says which.
    """
    items = _last_list(answer[:_PARSED_CHARS])
    if items is None:
        raise PolicyError("it holds no JSON list of objects")
    if not items:
        raise PolicyError("the list names no action")
    found: dict[tuple[Side, int], ProposedAction] = {}
    for item in items:
        action = _action(item, pair)
        found.setdefault((action.side, action.turn), action)
    sides: tuple[Side, ...] = ("wrong", "right")
    kept = [[a for a in found.values() if a.side == side][:most] for side in sides]
    return tuple(action for actions in kept for action in actions)


def _action(item: Mapping[str, Any], pair: Pair) -> ProposedAction:
    named, turn, why = item.get("side"), item.get("turn"), item.get("why", "")
    if named not in ("right", "wrong"):
        raise PolicyError(f'side must be "right" or "wrong": got {clip(repr(named), 60)}')
    side: Side = "right" if named == "right" else "wrong"
    turns = len((pair.right if side == "right" else pair.wrong).turns)
    if not isinstance(turn, int) or isinstance(turn, bool) or not 1 <= turn <= turns:
        raise PolicyError(
            f"turn must be a whole number from 1 to {turns} in the {side} attempt: got {clip(repr(turn), 60)}"
        )
    if not isinstance(why, str):
        raise PolicyError(f"why must be a text: got {clip(repr(why), 60)}")
    return ProposedAction(side, turn - 1, clean(why, WHY_CHARS))


def _last_list(text: str) -> list[Any] | None:
    """The last JSON list of objects in a text (models think, quote and fence); empty if no other is there."""
    decoder, found, at = json.JSONDecoder(), None, text.find("[")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            value, end = None, at + 1
        except RecursionError:  # no answer is nested so deep; trying every bracket in it would take minutes
            break
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            found = value or found or []
        at = text.find("[", end)
    return found


def section(proposal: Proposal, pair: Pair, tried: Sequence[KeyAction], marks: Sequence[KeyAction]) -> str:
    """The part of a pair's report about the proposal: what replay made of each action."""
    lines = ["", "## Proposed by the model", ""]
    if not proposal.actions:
        return "\n".join([*lines, f"Nothing usable in {proposal.asked} answer(s): {proposal.fault}.", ""])
    lines += ["| trajectory | turn | the model's reason | by replay | |", "|---|---|---|---|---|"]
    for action in proposal.actions:
        trajectory = pair.right if action.side == "right" else pair.wrong
        seen = [m for m in tried if (m.trajectory_id, m.turn) == (trajectory.id, action.turn)]
        best = max(seen, key=lambda m: abs(m.shift), default=None)
        counts, word = "-", "not replayed: budget spent"
        if best is not None:
            counts = f"{best.solved_before}/{best.tried_before} → {best.solved_after}/{best.tried_after}"
            word = "marked" if any(m in marks for m in seen) else "not confirmed"
        why = action.why.replace("|", "\\|")
        lines.append(f"| {action.side} | {action.turn + 1} | {why} | {counts} | {word} |")
    return "\n".join([*lines, ""])


def clip(text: str, chars: int) -> str:
    """At most `chars` characters of a text that every encoder takes; what was left out is counted."""
    sound = text.encode("utf-8", "replace").decode("utf-8").strip()
    if len(sound) <= chars:
        return sound
    half = chars // 2
    return f"{sound[:half]} […{len(sound) - 2 * half} characters…] {sound[-half:]}"


def clean(text: str, chars: int) -> str:
    """One printable line of at most `chars` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= chars else line[: chars - 1] + "…"
