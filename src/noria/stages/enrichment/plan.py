"""The first step's reasoning as an explicit plan of the steps that are then taken.

A plan names tools and nothing that is found later: neither values nor refusals. What was done because a call had been
refused is no step of it; the plan says that refusals are heeded. A step that nothing in the task asks for is one that
was found to be needed: it stands there with that condition. A model is shown the steps alone, never what came of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from noria.core.types import Message
from noria.stages.enrichment.samples import Draft
from noria.tokens.renaming import plain

WHY = "plan"
_OPENINGS = ("Plan:", "My plan:", "The steps that I will take:", "Before I act, a plan:")
_FIRST = ("Start with {}.", "First {}, to see how things stand.", "Begin with {}.")
_NEXT = ("Then {}.", "After that {}.", "Next {}.", "Go on with {}.")
_NEEDED = ("Where it turns out to be needed, {}.", "If what I find calls for it, {}.")
_AGAIN = ("Once more {}, to see that it is as it should be.", "Check with {} again.")
_OFTEN = "{}, as often as it takes"
_LAST = ("At the end {}.", "When all is done, {}.", "Finish with {}.")
_ANSWER = ("give the answer", "answer", "say what was asked for")
_REFUSED = ("If a call is refused, do first what it asks for.", "Where something is refused, read why and mend it.")
REFUSED = "what mends a refusal"
#: Letters by which a word of a tool is known again in a task: "soil" in "soiled".
_STEM = 4


@dataclass(slots=True)
class Step:
    """The tools of one step, none for the answer. `often`: turns in a row had the same."""

    tools: list[str]
    often: bool = False


def is_fit(draft: Draft) -> bool:
    """Whether there is something to plan: the first step acts, and is not all. Reasoning before an answer stays."""
    return bool(draft.tools_of(0)) and len(steps(draft)) > 1


def steps(draft: Draft) -> list[Step]:
    """The steps of a trajectory; turns in a row with the same tools are one, `REFUSED` is what mends a refusal."""
    out: list[Step] = []
    for turn in range(len(draft.messages)):
        tools = list(dict.fromkeys(draft.tools_of(turn)))
        if turn and is_refusal(draft.observations[turn - 1]):
            tools = [REFUSED]
        if out and out[-1].tools == tools:
            out[-1].often = True
        else:
            out.append(Step(tools))
    return out


def is_refusal(observation: str) -> bool:
    """Whether the world refused one of a turn's calls; each is answered on a line of its own."""
    return any(line.startswith("error:") for line in observation.splitlines())


def by_rules(draft: Draft, rng: random.Random) -> str:
    """A plan in one of several wordings."""
    found: list[Step] = []
    every = steps(draft)
    for step in every:
        if step.tools != [REFUSED] and not (found and found[-1].tools == step.tools):
            found.append(step)
    asked = _stems(f"{draft.task.system} {draft.task.prompt}")
    lines = [rng.choice(_OPENINGS)]
    for at, step in enumerate(found):
        words = listed(step.tools) if step.tools else rng.choice(_ANSWER)
        wordings: Sequence[str]
        if at == 0:
            wordings = _FIRST
        elif at == len(found) - 1:
            wordings = _LAST
        elif any(other.tools == step.tools for other in found[:at]):
            wordings = _AGAIN
        else:
            wordings = _NEXT if _stems(_described(draft, step.tools)) & asked else _NEEDED
        lines.append(f"{at + 1}. {rng.choice(wordings).format(_OFTEN.format(words) if step.often else words)}")
    if len(found) < len(every):
        lines.append(rng.choice(_REFUSED))
    return "\n".join(lines)


def question(draft: Draft) -> list[Message]:
    """What a model is asked for: a plan of these steps, which it cannot know the results of."""
    named = "\n".join(f"{at}. {listed(step.tools) or 'the answer'}" for at, step in enumerate(steps(draft), 1))
    tools = "\n".join(f"{tool.name}: {tool.description}" for tool in draft.task.tools)
    return [
        Message(
            "user",
            "Write the plan that a careful assistant makes before it begins, in the first person, as a short numbered "
            "list. It has seen nothing but the task, so name no value that the task does not say. It takes these "
            f"steps, by tool:\n{named}\n\nTHE TASK\n{draft.task.system}\n{draft.task.prompt}\n\nTHE TOOLS\n{tools}\n\n"
            "Answer with the plan alone.",
        )
    ]


def listed(words: list[str]) -> str:
    """Words as a text lists them."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _described(draft: Draft, tools: list[str]) -> str:
    """What the world and the task say about the tools of a step."""
    renaming = draft.renaming or plain(draft.task.tools)
    return " ".join(f"{tool.name} {tool.quoted} {tool.text}" for tool in renaming.tools if tool.quoted in tools)


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in re.findall(r"[a-z]+", text.lower()) if len(word) >= _STEM}
