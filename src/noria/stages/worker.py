"""The rollout service: what runs inside a worker process, and the pool that stages talk to.

A worker holds the worlds, its own sandbox, a renderer and an engine. It takes weights and jobs and returns
trajectories. The pool deals jobs out in a fixed way, so that the same jobs give the same trajectories, starts a
dead worker again, and proves by checksum that weights arrived.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noria.core.errors import EngineError, Halted, NoriaError, UserError
from noria.core.memory import keep_freed_memory
from noria.core.protocols import Executor
from noria.core.recipe import Recipe, from_json
from noria.core.types import Trajectory
from noria.stages.roller import Job, Limits, Roller, with_attempt
from noria.tokens.renderer import Renderer


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker is started with: plain data that travels to another process."""

    recipe_json: str
    model_folder: str


@dataclass(frozen=True, slots=True)
class Load:
    """Take these weights (safetensors bytes) as policy `version`, sampled at `temperature` within `limits`."""

    weights: bytes
    version: int
    temperature: float | None = None
    limits: Limits | None = None
    #: whether rollouts depend on no clock; otherwise slow tools are heard as they answer
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Clear:
    """Forget every rollout that is queued or in flight; answered by `Cleared`."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """Nothing older follows."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Proof of arrival."""

    version: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The worker's engine cannot go on, nor could that of a successor."""

    reason: str
    is_users: bool


def open_worlds(recipe: Recipe, names: Sequence[str] | None = None) -> tuple[dict[str, Any], Any]:
    """The recipe's worlds by name and the sandbox they share (None where no world needs one)."""
    sandbox = None
    worlds: dict[str, Any] = {}
    for name, table in recipe.env.items():
        if names is not None and name not in names:
            continue
        module, config = table.module(), table.config()
        if getattr(module, "NEEDS_SANDBOX", False) and sandbox is None:
            sandbox = recipe.sandbox.module().build(recipe.sandbox.config())
        world = module.build(config, sandbox)
        worlds[name] = world
    return worlds, sandbox


class RolloutService:
    """What a worker runs (`core.protocols.Service`)."""

    def __init__(self, setup: Setup) -> None:
        keep_freed_memory()
        recipe = from_json(setup.recipe_json)
        folder = Path(setup.model_folder)
        self.renderer = Renderer.load(folder, recipe.student.call_form)
        self.worlds, self._sandbox = open_worlds(recipe)
        engine_table = recipe.student.engine
        config = engine_table.config()
        limits, context = Limits.of(recipe.rollout), recipe.rollout.context
        rule = None if context is None else context.module().build(context.config())
        blocking = [name for name, table in recipe.env.items() if getattr(table.module(), "BLOCKING", False)]
        harness = recipe.rollout.harness
        if harness is None:
            self.engine: Any = engine_table.module().build(config, folder, self.renderer.end_ids)
            self.roller: Any = Roller(self.worlds, self.renderer, self.engine, limits, config.slots, blocking, rule)
        else:
            given = (self.worlds, blocking, self.renderer, folder, config, limits)
            self.engine = self.roller = harness.module().build(harness.config(), *given)
        self._out: list[Any] = []

    def receive(self, message: Any) -> None:
        if isinstance(message, Load):
            from safetensors.torch import load

            try:
                self.engine.load(load(message.weights), message.version)
            except NoriaError as fault:
                self._out.append(Stopped(str(fault), isinstance(fault, UserError)))
                return
            if message.temperature is not None:
                self.engine.temperature = message.temperature
            if message.limits is not None:
                self.roller.limits = message.limits
            self.roller.errands.ordered = message.ordered
            self._out.append(Loaded(message.version, hashlib.sha256(message.weights).hexdigest()))
        elif isinstance(message, Clear):
            self.roller.clear()
            self._out.append(Cleared())
        else:
            self.roller.submit(message)

    def busy(self) -> bool:
        return bool(self._out) or self.roller.pending > 0

    def work(self) -> list[Any]:
        out, self._out = self._out, []
        if not self.roller.pending:
            return out
        try:
            return [*out, *self.roller.step()]
        except NoriaError as fault:
            self.roller.clear()
            return [*out, Stopped(str(fault), isinstance(fault, UserError))]

    def close(self) -> None:
        self.roller.clear()
        self.engine.close()
        for world in self.worlds.values():
            world.close()
        if self._sandbox is not None:
            self._sandbox.close()


class Pool:
    """Workers that roll out jobs.

    `retries` is how often a job whose outcome is unknown is tried again before it stays unknown, and how often a
    dead worker is replaced within one call.
    """

    def __init__(self, recipe: Recipe, model_folder: Path, retries: int = 2) -> None:
        setup = Setup(recipe.resolved_json(), str(model_folder))
        module, config = recipe.executor.module(), recipe.executor.config()
        self.executor: Executor = module.build(config, "noria.stages.worker.RolloutService", setup)
        self.retries = retries
        self._weights: Load | None = None

    @property
    def size(self) -> int:
        return self.executor.size

    def load(
        self, weights: bytes, version: int = 0, temperature: float | None = None, limits: Limits | None = None
    ) -> None:
        """Give every worker these weights and wait until each has proved that it has them.

        Raises:
            Halted, UserError: the engine of a worker cannot take them.
        """
        self._weights = Load(weights, version, temperature, limits)
        for index in range(self.size):
            try:
                self.load_one(index)
            except EngineError:
                self.revive(index)

    def load_one(self, index: int) -> None:
        """Give one worker the current weights again, and wait for the proof."""
        assert self._weights is not None
        self.executor.send(index, self._weights)
        checksum = hashlib.sha256(self._weights.weights).hexdigest()
        (loaded, *rest) = self.executor.receive(index, None)
        check_going(loaded)
        if not isinstance(loaded, Loaded) or loaded.checksum != checksum or rest:
            raise EngineError(f"worker {index} didn't confirm its weights: got {loaded!r}")

    def reset(self) -> None:
        """Make every worker forget its rollouts; what it said before that is thrown away."""
        for index in range(self.size):
            try:
                self.executor.send(index, Clear())
                while not any(isinstance(message, Cleared) for message in self.executor.receive(index, None)):
                    pass
            except EngineError:
                self.revive(index)

    def run(self, jobs: Sequence[Job], progress: Callable[[Trajectory], None] | None = None) -> list[Trajectory]:
        """Trajectories in the order of the jobs. Unknown outcomes are retried; a job may stay unknown.

        Raises:
            EngineError: workers died more often than `retries` allows.
            Halted, UserError: the engine of a worker cannot go on.
        """
        assert len({job.id for job in jobs}) == len(jobs), "job ids must differ"
        found: dict[str, Trajectory] = {}
        waiting, deaths = list(jobs), 0
        for attempt in range(self.retries + 1):
            owed = [waiting[i :: self.size] for i in range(self.size)]
            deaths = self._collect(owed, found, progress if attempt == 0 else None, deaths)
            waiting = [with_attempt(job, attempt + 1) for job in jobs if not found[job.id].outcome.known]
            if not waiting:
                break
        return [found[job.id] for job in jobs]

    def _collect(
        self,
        owed: list[list[Job]],
        found: dict[str, Trajectory],
        progress: Callable[[Trajectory], None] | None,
        deaths: int,
    ) -> int:
        open_jobs = [{job.id: job for job in part} for part in owed]
        for index, part in enumerate(owed):
            if part:
                deaths = self._deal(index, part, deaths)
        while any(open_jobs):
            for index in self.executor.ready([i for i, part in enumerate(open_jobs) if part]):
                try:
                    for trajectory in self.executor.receive(index, 0):
                        check_going(trajectory)
                        open_jobs[index].pop(trajectory.id, None)
                        found[trajectory.id] = trajectory
                        if progress:
                            progress(trajectory)
                except EngineError:
                    deaths += 1
                    if deaths > self.retries:
                        raise
                    self.revive(index)
                    deaths = self._deal(index, list(open_jobs[index].values()), deaths)
        return deaths

    def _deal(self, index: int, jobs: list[Job], deaths: int) -> int:
        """Send jobs to a worker, or to its successor if it has died; returns the deaths so far."""
        while True:
            try:
                self.executor.send(index, jobs)
                return deaths
            except EngineError:
                deaths += 1
                if deaths > self.retries:
                    raise
                self.revive(index)

    def revive(self, index: int) -> None:
        """Start a dead worker again with the current weights."""
        self.executor.restart(index)
        if self._weights is not None:
            self.load_one(index)

    def close(self) -> None:
        self.executor.close()


def check_going(message: Any) -> None:
    """Raises Halted or UserError where a worker says that its engine cannot go on."""
    if isinstance(message, Stopped):
        raise UserError(message.reason) if message.is_users else Halted(message.reason)


def unknown_share(trajectories: Sequence[Trajectory]) -> float:
    """Share of rollouts about which nothing is known."""
    return sum(not t.outcome.known for t in trajectories) / max(1, len(trajectories))
