"""A policy playing an episode to its end."""

from __future__ import annotations

from collections.abc import Sequence

from noria.core.protocols import Episode, Policy
from noria.core.types import Message


def play(episode: Episode, policy: Policy, most: int, begun: Sequence[Message] = ()) -> list[Message]:
    """What was said and answered until the episode ended, or the policy had said `most` messages.

    `begun` is a conversation that the episode has already seen: it opens the list, and the policy goes on from it.
    The answer to the last message of an episode that ended is left out, since nobody reads it.
    """
    messages = list(begun)
    for _ in range(most):
        said = policy(messages)
        seen = episode.act(said)
        messages.append(Message("assistant", said))
        if seen.done:
            break
        messages.append(Message("tool", seen.text))
    return messages


def said(messages: Sequence[Message]) -> list[str]:
    """What the policy said."""
    return [message.content for message in messages if message.role == "assistant"]
