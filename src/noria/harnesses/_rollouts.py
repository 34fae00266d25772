"""Rollouts that foreign harnesses play, many at once, in front of the policy that is served beside them.

To a worker this is a roller and an engine in one: it takes jobs, weights and limits, and gives trajectories.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol

from noria.core.errors import UserError
from noria.core.protocols import World
from noria.core.types import Trajectory
from noria.engines import embedded
from noria.engines.serving import ServingEngine, load_engine
from noria.server.app import Api
from noria.server.inside import Inside
from noria.server.loop import DecodingLoop, Engine
from noria.server.model import Limits as ServedLimits
from noria.server.model import Served
from noria.server.record import Terms
from noria.server.run import log
from noria.server.sessions import Sessions
from noria.stages.errands import Errands
from noria.stages.jobs import Job, Limits
from noria.stages.roller import Roller
from noria.tokens.renderer import Renderer

#: The policy's name as clients ask for it, the jobs that may wait for a slot, and how long a step may wait, in s.
NAME, QUEUE, STEP_S = "policy", 1024, 0.2


class Player(Protocol):
    """What plays one rollout, in a thread of its own."""

    def play(
        self, job: Job, session: str, limits: Limits, temperature: float, given_up: threading.Event
    ) -> Trajectory: ...
    def close(self) -> None: ...


def served_inside(served: Served, sessions: Sessions, engine: Engine, slots: int) -> Inside:
    """A server inside this process, for its sessions alone."""
    return Inside(Api(served, DecodingLoop(engine, slots, QUEUE, log), "", sessions=sessions))


class Policy:
    """A checkpoint that is served inside this process, to sessions alone.

    Raises:
        UserError: the engine's settings are not those of the embedded one.
    """

    def __init__(self, folder: Path, config: Any, renderer: Renderer, form: str) -> None:
        if not isinstance(config, embedded.Config):
            raise UserError(
                "student.engine must be embedded where rollout.harness is set: got another - leave one of them out"
            )
        self.engine: ServingEngine = load_engine(config, folder, renderer.end_ids)
        limits = ServedLimits(config.max_tokens)
        served = Served(NAME, renderer.tokenizer, renderer.end_ids, limits, form)
        self.sessions = Sessions(served, None, Terms(), takes_new=False)
        self.name = NAME
        self.inside = served_inside(served, self.sessions, self.engine, config.slots)

    def load(self, weights: Mapping[str, Any], version: int) -> None:
        """Take these weights, between two tokens."""
        self.inside.between(lambda: self.engine.load(weights, version))

    def close(self) -> None:
        """Stop serving."""
        self.inside.close()


class Rollouts:
    """See the module. Scripted policies play as everywhere; owns the policy and the player."""

    def __init__(
        self,
        policy: Policy,
        player: Player,
        parallel: int,
        worlds: Mapping[str, World],
        renderer: Renderer,
        limits: Limits,
    ) -> None:
        self._policy, self._player, self._parallel = policy, player, parallel
        self._scripted = Roller(worlds, renderer, None, limits, 1)
        self.temperature = 1.0
        #: rollouts here come back as they end, whatever is asked for
        self.errands = Errands()
        self._numbers = itertools.count()
        self._away: list[Future[Trajectory]] = []
        self._begin()

    def _begin(self) -> None:
        self._given_up = threading.Event()
        self._threads = ThreadPoolExecutor(self._parallel, thread_name_prefix="noria-harness")

    @property
    def limits(self) -> Limits:
        """Bounds of rollouts, from the next one on."""
        return self._scripted.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._scripted.limits = limits

    @property
    def pending(self) -> int:
        """Rollouts submitted and not yet returned."""
        return self._scripted.pending + len(self._away)

    def load(self, weights: Mapping[str, Any], version: int) -> None:
        """Take these weights; rollouts under way go on with them."""
        self._policy.load(weights, version)

    def submit(self, jobs: Iterable[Job]) -> None:
        """Begin these rollouts as soon as there is room."""
        for job in jobs:
            if job.strategy or job.script:
                self._scripted.submit([job])
                continue
            name = f"r{next(self._numbers)}-{secrets.token_hex(8)}"  # which no other rollout can guess
            given = (job, name, self.limits, self.temperature, self._given_up)
            self._away.append(self._threads.submit(self._player.play, *given))

    def step(self) -> list[Trajectory]:
        """The rollouts that ended; waits a moment where none has."""
        done = self._scripted.step() if self._scripted.pending else []
        if self._away and not done:
            wait(self._away, STEP_S, FIRST_COMPLETED)
        over = [answer for answer in self._away if answer.done()]
        self._away = [answer for answer in self._away if answer not in over]
        return [*done, *(answer.result() for answer in over)]

    def clear(self) -> None:
        """Forget every rollout; the harnesses of those under way are killed and waited for."""
        self._scripted.clear()
        self._given_up.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._away = []
        self._begin()

    def close(self) -> None:
        """End everything."""
        self.clear()
        self._threads.shutdown()
        self._policy.close()
        self._player.close()
