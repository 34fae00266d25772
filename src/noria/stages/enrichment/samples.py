"""A trajectory in the making of a sample: what is shown of it, which may be under other names than the world's.

A sample is a conversation of the supervised phase. It has no token ids: nothing in it was sampled as it stands, so
there is no probability to be a ratio of, whoever said its words first. Turns that the rules of error masking know as
errors have weight 0: they are context, and carry no loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from noria.bases.renamed import renamed
from noria.core.codec import to_json
from noria.core.types import Message, Task, Trajectory
from noria.stages import masking
from noria.tokens import retold
from noria.tokens.calls import Call, hear
from noria.tokens.renaming import Renaming, Unmapped
from noria.tokens.renderer import tool_schema


@dataclass(frozen=True, slots=True)
class Draft:
    """A trajectory as it is shown.

    messages       what the assistant says, one per turn of the trajectory
    observations   what it is shown after each, cut where it was cut; `wholes` are uncut
    renaming       of the tools; None = they are the world's own
    rewritten      turn -> why its reasoning is another
    """

    trajectory: Trajectory
    task: Task
    messages: tuple[str, ...]
    observations: tuple[str, ...]
    wholes: tuple[str, ...]
    renaming: Renaming | None = None
    rewritten: Mapping[int, str] = field(default_factory=dict)

    def thinking(self, turn: int, message: str, why: str) -> Draft:
        """The same with another message at a turn, which may differ in its reasoning alone."""
        messages = (*self.messages[:turn], message, *self.messages[turn + 1 :])
        return replace(self, messages=messages, rewritten={**self.rewritten, turn: why})

    def tools_of(self, turn: int) -> list[str]:
        """The tools that a turn calls, as texts name them."""
        found = [call for call in hear(self.messages[turn]).calls if isinstance(call, Call)]
        if self.renaming is None:
            return [call.name for call in found]
        return [_quoted(self.renaming, call) for call in found]

    def conversation(self, until: int | None = None) -> list[Message]:
        """The messages, or those before the assistant's turn `until`."""
        out = [Message("system", self.task.system)] if self.task.system else []
        out.append(Message("user", self.task.prompt))
        last = len(self.messages) if until is None else until
        for said, seen in zip(self.messages[:last], self.observations[:last], strict=True):
            out.append(Message("assistant", said))
            if seen:
                out.append(Message("tool", seen))
        return out


def as_it_is(trajectory: Trajectory) -> Draft:
    """A trajectory under the world's own names."""
    turns = trajectory.turns
    seen = tuple(turn.observation for turn in turns)
    wholes = tuple(turn.whole or turn.observation for turn in turns)
    return Draft(trajectory, trajectory.task, tuple(turn.message for turn in turns), seen, wholes)


def under(trajectory: Trajectory, renaming: Renaming) -> Draft:
    """A trajectory under other names.

    Raises:
        Unmapped: a call cannot be said so, or an observation would not be told from another.
    """
    messages: list[str] = []
    seen: list[str] = []
    wholes: list[str] = []
    for turn in trajectory.turns:
        messages.append(retold.said(renaming, turn.message))
        for text, out in ((turn.observation, seen), (turn.whole or turn.observation, wholes)):
            shown = retold.seen(renaming, turn.message, text)
            if retold.unseen(renaming, turn.message, shown) != text:
                raise Unmapped("an observation could not be told back")
            out.append(shown)
    task = renamed(trajectory.task, renaming)
    return Draft(trajectory, task, tuple(messages), tuple(seen), tuple(wholes), renaming)


def line(draft: Draft, seed: int) -> dict[str, Any]:
    """A sample as a line of a data file; what `enrichment` holds is passed over by whoever trains on it."""
    trajectory = draft.trajectory
    wrong = iter(masking.errors(trajectory.turns))
    messages = [
        {"role": message.role, "content": message.content}
        | ({"weight": 0} if message.role == "assistant" and next(wrong) else {})
        for message in draft.conversation()
    ]
    return {
        "messages": messages,
        "tools": [tool_schema(tool) for tool in draft.task.tools],
        "enrichment": {
            "trajectory": trajectory.id,
            "task": trajectory.task.id,
            "world": trajectory.task.world,
            "source": trajectory.source,
            "reward": trajectory.outcome.reward,
            "rewritten": {str(turn): why for turn, why in sorted(draft.rewritten.items())},
            "renaming": None if draft.renaming is None else to_json(draft.renaming),
            "seed": seed,
        },
    }


def _quoted(renaming: Renaming, call: Call) -> str:
    """How a text names the tool of a shown call."""
    for tool in renaming.tools:
        if tool.shown == call.name and (not tool.choice or call.args.get(tool.choice) == tool.value):
            return tool.quoted
    return call.name
