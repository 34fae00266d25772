"""Later reasoning that is empty, copied or contradicts what is then done, written anew from what was seen so far.

Chosen are turns at which the course changes: the tools are others than the turn before, or a refusal was heard. Calls
stay letter by letter. A model is shown the conversation up to the action, and the action; nothing behind it.
"""

from __future__ import annotations

import random
import re

from noria.core.types import Message
from noria.stages.enrichment.plan import is_refusal, listed
from noria.stages.enrichment.samples import Draft
from noria.stages.enrichment.thoughts import rest_of, thought_of
from noria.tokens.calls import Call, hear
from noria.tokens.retold import retold

EMPTY, COPIED, CONTRADICTORY = "empty", "copied", "contradictory"
#: Share of a thought's runs of `_RUN` words that stand in the last observation, from which on it is a copy.
COPY, _RUN = 0.6, 5
_CLIP = 120
_SEEN = ("I see: {}.", "The answer was: {}.", "What came back: {}.")
_REFUSAL = ("The last call was refused: {}.", "That did not work: {}.")
_ACT = ("So now {}.", "The next step is {}.", "Now I use {}.")
_WITH = " with {}"
_ANSWER = ("That settles it, I can answer.", "Now all is known, so I answer.")
_HEAD = re.compile(r"\A\[1 [^\]\s]+\] ")
_MARK = "\0"


def chosen(draft: Draft) -> dict[int, str]:
    """Turn -> what is wrong with its reasoning."""
    out: dict[int, str] = {}
    for turn in range(1, len(draft.messages)):
        refused = is_refusal(draft.observations[turn - 1])
        if (refused or draft.tools_of(turn) != draft.tools_of(turn - 1)) and (why := fault(draft, turn)):
            out[turn] = why
    return out


def fault(draft: Draft, turn: int) -> str:
    """What is wrong with the reasoning of a turn, "" for nothing."""
    thought = " ".join(thought_of(draft.messages[turn]).split())
    if not thought:
        return EMPTY if "<think>" not in rest_of(draft.messages[turn]) else ""
    earlier = [" ".join(thought_of(message).split()) for message in draft.messages[:turn]]
    runs = _runs(thought)
    shared = runs & _runs(draft.observations[turn - 1])
    if thought in earlier or (runs and len(shared) >= COPY * len(runs)):
        return COPIED
    named, called = _named(draft, thought), set(draft.tools_of(turn))
    return CONTRADICTORY if named and called and not named & called else ""


def by_rules(draft: Draft, turn: int, rng: random.Random) -> str:
    """What was just seen, and what is done about it; quotes no value of the call that was not seen or asked for."""
    seen = _HEAD.sub("", draft.observations[turn - 1].strip().partition("\n")[0])
    known = " ".join(message.content for message in draft.conversation(turn))
    said = seen.removeprefix("error:").strip() if seen.startswith("error:") else seen
    said = (said if len(said) <= _CLIP else said[:_CLIP].rpartition(" ")[0]).rstrip(".")
    lines = []
    if said:
        lines.append(rng.choice(_REFUSAL if seen.startswith("error:") else _SEEN).format(said))
    calls = [call for call in hear(draft.trajectory.turns[turn].message).calls if isinstance(call, Call)]
    if not calls:
        return " ".join([*lines, rng.choice(_ANSWER)])
    parts = []
    for name, call in zip(draft.tools_of(turn), calls, strict=True):
        values = [
            value for value in call.args.values() if "\n" not in value and len(value) <= 40 and _stands(value, known)
        ]
        parts.append(name + (_WITH.format(", ".join(values)) if values else ""))
    return " ".join([*lines, rng.choice(_ACT).format(listed(list(dict.fromkeys(parts))))])


def question(draft: Draft, turn: int) -> list[Message]:
    """What a model is asked for: the reasoning that leads from what was seen to this action."""
    shown = "\n".join(f"{message.role}: {message.content}" for message in draft.conversation(turn))
    return [
        Message(
            "user",
            "An assistant works on a task. Write the reasoning, in the first person and in three sentences at most, "
            "that leads from what it has seen to its next action. Say nothing that it has not seen.\n\n"
            f"SO FAR\n{shown[-12_000:]}\n\nNEXT ACTION\n{rest_of(draft.messages[turn])[:4_000]}\n\n"
            "Answer with the reasoning alone.",
        )
    ]


def _named(draft: Draft, thought: str) -> set[str]:
    """The tools that a thought says it uses."""
    names = {tool.quoted for tool in draft.renaming.tools} if draft.renaming else {t.name for t in draft.task.tools}
    marked = retold(thought, {name: f"{_MARK}{name}{_MARK}" for name in names})
    return set(re.findall(f"{_MARK}([^{_MARK}]+){_MARK}", marked))


def _stands(value: str, text: str) -> bool:
    return bool(value) and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def _runs(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)}
