"""Tasks of the solved mechanisms, drawn once, and a policy's episode on one."""

from __future__ import annotations

from functools import cache

from noria.bases.play import play as played
from noria.core.types import Message, Split, Task
from noria.envs.mechanisms import Config, build
from noria.envs.mechanisms.play import Play
from noria.envs.mechanisms.tasks import UNSEEN_FAMILIES, solved_of
from noria.envs.mechanisms.world import MechanismWorld
from noria.tokens.calls import render_call

MAX_TURNS = 16
WORLD = build(Config(), None)


@cache
def pool(split: Split, n: int = 40) -> list[Task]:
    return WORLD.tasks(split, n, 0)


def of_family(name: str, n: int = 6) -> list[Task]:
    split: Split = "unseen" if name in UNSEEN_FAMILIES else "train"
    return [task for task in pool(split) if task.data["family"] == name][:n]


def play(
    world: MechanismWorld, task: Task, strategy: str, begun: list[Message] | None = None
) -> tuple[Play, list[Message]]:
    """A policy's episode to its end, after what `begun` says; fails where it does not end."""
    episode = world.open(task)
    for message in (begun or [])[::2]:
        episode.act(message.content)
    messages = played(episode, world.policy(task, strategy, 0), MAX_TURNS, begun or [])
    assert messages[-1].role == "assistant", f"{strategy} did not end on {task}"
    return episode, messages


def act(task: Task, n: int) -> str:
    return render_call(solved_of(task).mechanism.act.name, n=n)
