"""The world `simulated`: a model plays the other side of the tools, and a checker decides what of it counts."""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import Field

from noria.bases.world import ScriptedWorld
from noria.core.config import Checked
from noria.core.errors import PolicyError
from noria.core.protocols import Policy, Sandbox
from noria.core.types import Split, Task
from noria.envs.simulated import model, recorded
from noria.envs.simulated.advice import ADVICE, REMEDIES
from noria.envs.simulated.domains import DOMAINS
from noria.envs.simulated.episode import SimulatedEpisode
from noria.envs.simulated.forgeries import forged
from noria.envs.simulated.habits import EXPERTS, HABITS, make_policy
from noria.envs.simulated.model import SimulatorConfig
from noria.envs.simulated.question import Simulator
from noria.envs.simulated.recorded import RecordConfig
from noria.envs.simulated.scripted import Scripted
from noria.envs.simulated.tasks import LEVELS, NAME, SPLITS, Level, domain_of, draw_tasks, planned
from noria.envs.simulated.transition import Transitions
from noria.tokens.calls import Call, render_call


class Config(Checked):
    """Tools whose answers a model makes up, by rules where none is named."""

    type: Literal["simulated"] = "simulated"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    levels: tuple[Level, ...] = Field(
        default=tuple(LEVELS), min_length=1, description="levels in turn: easy, normal, hard"
    )
    seed: int = Field(default=0, ge=0, description="what the rules choose where a card leaves them free")
    calls: int = Field(default=40, ge=1, le=1000, description="calls of an episode that are carried out at most")
    protocol: Literal["told", "hard"] = Field(
        default="told", description="a call that is not well made: told in the parts alone; hard: costs the reward"
    )
    simulator: SimulatorConfig | None = Field(
        default=None, description="a chat model that plays the other side; empty: rules"
    )
    record: RecordConfig = Field(default_factory=RecordConfig, description="where a model's answers are kept")


class SimulatedWorld(ScriptedWorld):
    """Tasks, checked transitions, verifier, reference solution and scripted policies."""

    name, habits, experts, splits = NAME, HABITS, EXPERTS, SPLITS
    advice, remedies = ADVICE, REMEDIES

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        asked = config.simulator
        simulator: Simulator = model.build(asked) if asked else Scripted(config.seed)
        kept = recorded.build(config.record) if asked else None
        self.transitions = Transitions(simulator, kept, asked.tries if asked else 1, config.record.replay)

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of "train", "heldout" or "unseen" (a domain that training never shows)."""
        return draw_tasks(split, n, seed, self.config.levels, self.config.seed)

    def open(self, task: Task) -> SimulatedEpisode:
        """A fresh episode."""
        config = self.config
        history = config.simulator.history if config.simulator else 0
        return SimulatedEpisode(
            domain_of(task), task, self.transitions, config.calls, history, config.protocol == "hard"
        )

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy; see `habits.HABITS`."""
        return make_policy(task, strategy, seed, lambda: self.open(task), self.config.seed)

    def kind_of(self, call: Call) -> str:
        """Whether a tool looks, makes, or lets the other side choose; PolicyError: there is no such tool."""
        kind = _kinds().get(call.name)
        if kind is None:
            raise PolicyError(f"no tool {call.name}")
        return kind

    def forgeries(self, task: Task) -> list[list[str]]:
        """Attempts that must not score 1; see `forgeries.forged`."""
        return forged(task, self.config.seed)

    def secrets(self, task: Task) -> list[str]:
        """The calls of a solution: nothing that is shown may spell one out."""
        plan = planned(task, task.data["state"], 0, self.config.seed)
        return [render_call(call.name, **call.args) for call in plan]

    def close(self) -> None:
        """End the simulator's connections."""
        self.transitions.simulator.close()


@cache
def _kinds() -> dict[str, str]:
    return {action.name: action.kind for domain in DOMAINS.values() for action in domain.actions}


def build(config: Config, sandbox: Sandbox | None) -> SimulatedWorld:
    """The world of a config; it needs no sandbox.

    Raises:
        UserError: a simulator is configured and its key or the package `openai` is missing, or the record is no file.
    """
    return SimulatedWorld(config)
