"""What a rule of context management is: it decides when a policy goes on in another context, and in which.

A new context begins a branch of the rollout: a prompt, then what the policy says after it. What was said in earlier
branches stands in the prompt with its exact token ids and carries no loss there, so every sampled token is trained in
the one branch that it was sampled in.

Rules hold no state: all that they know is in the `View`, so that a rollout continued from its middle goes on as it
would have. A rule is a file of this folder with `SOURCE`, `Config` and `build(config)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from noria.core.types import Task, Turn


@dataclass(frozen=True, slots=True)
class View:
    """What a rule sees.

    turns        those of this try at the task, the newest last
    tokens       of the context, with the newest observation
    max_tokens   that a context may have
    branches     contexts given up so far
    """

    task: Task
    turns: tuple[Turn, ...]
    tokens: int
    max_tokens: int
    branches: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to the policy that the world does not hear; its answer goes to `Rule.told`."""

    text: str


@dataclass(frozen=True, slots=True)
class Fresh:
    """The next context: the task with a note added, then turns by number with the observation shown for each.

    `redo` starts the world anew as well; no turns are shown then.
    """

    note: str = ""
    shown: tuple[tuple[int, str], ...] = ()
    redo: bool = False


class Rule(Protocol):
    """A built rule."""

    name: str

    def heard(self, view: View) -> Ask | Fresh | None:
        """After an observation, before the next message is asked for; None = the context stays."""
        ...

    def ending(self, view: View, message: str) -> Ask | None:
        """Before the world hears a message; None = it hears it now."""
        ...

    def told(self, view: View, answer: str) -> Fresh | None:
        """After an answer to `Ask`; None = go on: after `ending` the world hears the message."""
        ...

    def scripted(self, view: View) -> str:
        """The answer to `Ask` of a policy that is a script."""
        ...
