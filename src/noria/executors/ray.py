"""Workers as actors of a Ray cluster, each with the resources that the recipe gives it; needs the extra `ray`.

In each actor one thread runs the service; two more take messages in and hand them out, so that neither side waits for
the other. This process always has one question open with every actor: what it has to say next.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import EngineError, UserError, boundary
from noria.core.protocols import Service

#: Seconds that an actor has for ending its service before it is killed.
GRACE_S = 3.0
#: Where a local cluster listens. Ray takes 127.0.0.1 for a wish to be reached from other machines.
LOOPBACK = "127.0.0.2"
#: Cores that a local cluster says it has.
LOCAL_CPUS = 256


class Config(Checked):
    """Actors of a Ray cluster."""

    type: Literal["ray"] = "ray"
    workers: int = Field(2, ge=1, description="actors, each with one thread for its service")
    address: str = Field(
        "local",
        min_length=1,
        description="local = a cluster of this run alone, on this machine's loopback; auto = the one that runs here; "
        "or host:port",
    )
    num_cpus: float = Field(1.0, ge=0, description="cores that Ray sets aside for each worker")
    num_gpus: float = Field(0.0, ge=0, description="GPUs that Ray sets aside for each worker")
    resources: dict[str, float] = Field(default_factory=dict, description="other resources for each worker, by name")
    object_store_mb: int = Field(
        256, ge=80, description="memory of a local cluster for messages, in MB; several times a model's weights"
    )


class Host:
    """Runs in an actor: the service in a thread of its own, and its two ends.

    `paths` is where the caller looks for modules; a service may be one of the user's own.
    """

    def __init__(self, service: str, argument: Any, paths: Sequence[str]) -> None:
        sys.path += [path for path in paths if path not in sys.path]
        self._inbox: deque[Any] = deque()
        self._outbox: list[Any] = []
        self._bell = threading.Condition()
        self._open, self._fault = True, ""
        self._thread = threading.Thread(target=self._main, args=(service, argument), daemon=True, name="service")
        self._thread.start()

    def tell(self, message: Any) -> None:
        """Take one message in."""
        with self._bell:
            self._inbox.append(message)
            self._bell.notify_all()

    def listen(self) -> list[Any]:
        """Wait until the service has something to say.

        Raises:
            EngineError: it has failed, and what it had said before was fetched.
        """
        with self._bell:
            self._bell.wait_for(lambda: self._outbox or self._fault)
            out, self._outbox = self._outbox, []
        if not out:
            raise EngineError(self._fault)
        return out

    def pid(self) -> int:
        """The actor's process."""
        return os.getpid()

    def close(self) -> None:
        """End the service."""
        with self._bell:
            self._open = False
            self._bell.notify_all()
        self._thread.join(GRACE_S)

    def _main(self, service: str, argument: Any) -> None:
        ended = False
        try:
            module, name = service.rsplit(".", 1)
            running: Service = getattr(importlib.import_module(module), name)(argument)
            try:
                while self._take_in(running):
                    said = running.work()
                    if said:
                        with self._bell:
                            self._outbox += said
                            self._bell.notify_all()
            finally:
                running.close()
            ended = True
        finally:
            if not ended:
                traceback.print_exc()
                with self._bell:
                    self._fault = traceback.format_exc().strip().splitlines()[-1]
                    self._bell.notify_all()

    def _take_in(self, running: Service) -> bool:
        """Hand the service its messages, waiting for one while it is idle; False once it is to end."""
        with self._bell:
            self._bell.wait_for(lambda: self._inbox or not self._open or running.busy())
            messages = list(self._inbox)
            self._inbox.clear()
        for message in messages:
            running.receive(message)
        return self._open


class RayExecutor:
    """A fixed set of actors that run the same service (`core.protocols.Executor`)."""

    def __init__(self, ray: Any, config: Config, service: str, argument: Any, owner: bool) -> None:
        self.size, self._owner, self.config = config.workers, owner, config
        self.owns_local = owner and config.address == "local"
        self._ray, self._arguments = ray, (service, argument, [path or os.getcwd() for path in sys.path])
        self._actor = ray.remote(
            num_cpus=config.num_cpus, num_gpus=config.num_gpus, resources=config.resources,
            concurrency_groups={"ear": 1, "mouth": 1},
        )(Host)  # fmt: skip
        self._hosts = [self._actor.remote(*self._arguments) for _ in range(config.workers)]
        self._questions = [self._ask(host) for host in self._hosts]

    def _ask(self, host: Any) -> Any:
        return host.listen.options(concurrency_group="mouth").remote()

    def send(self, worker: int, message: Any) -> None:
        self._hosts[worker].tell.options(concurrency_group="ear").remote(message)

    def receive(self, worker: int, timeout_s: float | None) -> list[Any]:
        question = self._questions[worker]
        answered, _ = self._ray.wait([question], timeout=timeout_s)
        if not answered:
            return []
        try:
            messages: list[Any] = self._ray.get(question)
        except self._ray.exceptions.RayError as fault:
            raise EngineError(f"worker {worker}, a Ray actor, died: {str(fault).strip().splitlines()[-1]}") from fault
        self._questions[worker] = self._ask(self._hosts[worker])
        return messages

    def ready(self, workers: Sequence[int]) -> list[int]:
        of = {self._questions[i]: i for i in workers}
        self._ray.wait(list(of), timeout=None)
        answered, _ = self._ray.wait(list(of), num_returns=len(of), timeout=0)
        return sorted(of[question] for question in answered)

    def restart(self, worker: int) -> None:
        self._end([self._hosts[worker]])
        self._hosts[worker] = self._actor.remote(*self._arguments)
        self._questions[worker] = self._ask(self._hosts[worker])

    def pid(self, worker: int) -> int:
        """The process of a worker, on whichever machine it is."""
        found: int = self._ray.get(self._hosts[worker].pid.remote())
        return found

    def close(self) -> None:
        _LIVE.remove(self)
        if self._ray.is_initialized():  # else the owner of the cluster has closed it with everything in it
            self._end(self._hosts)
            if self._owner:
                self._ray.shutdown()

    def _end(self, hosts: Sequence[Any]) -> None:
        """Ask actors to end their services, then kill them."""
        ends = [host.close.remote() for host in hosts]
        self._ray.wait(ends, num_returns=len(ends), timeout=GRACE_S)
        for host in hosts:
            with contextlib.suppress(ValueError):
                self._ray.kill(host, no_restart=True)


#: Executors of this process that are open.
_LIVE: list[RayExecutor] = []


def build(config: Config, service: str, argument: Any) -> RayExecutor:
    """Start or join the cluster, and start the workers. A cluster that this process has joined before is shared.

    Raises:
        UserError: Ray is missing, there is no such cluster, or it has less than the workers need.
        EngineError: a cluster of this run alone does not start.
    """
    ray = _ray()
    owner = not ray.is_initialized()
    if owner:
        boundary(lambda: _join(ray, config), lambda fault: _refuse(config, fault))
    elif config.address == "local" and not any(executor.owns_local for executor in _LIVE):
        raise EngineError(
            "a local Ray cluster must be the only one of its process: another program here has one open - close that "
            'first, or set executor.address = "auto" to share it'
        )
    try:
        _check_room(config, _left(ray.cluster_resources()))
    except UserError:
        if owner:
            ray.shutdown()
        raise
    made = RayExecutor(ray, config, service, argument, owner)
    _LIVE.append(made)
    return made


def _left(there: dict[str, float]) -> dict[str, float]:
    """What a cluster's resources are without what the executors of this process hold of them."""
    left = dict(there)
    for config in (executor.config for executor in _LIVE):
        for name, each in _wanted(config).items():
            left[name] = left.get(name, 0.0) - each * config.workers
    return left


def _wanted(config: Config) -> dict[str, float]:
    return {"CPU": config.num_cpus, "GPU": config.num_gpus, **config.resources}


def _join(ray: Any, config: Config) -> None:
    if config.address != "local":
        ray.init(address=config.address, log_to_driver=False, logging_level="ERROR")
        return
    # Cores are counted, not bound: a local cluster has enough of them for every executor of this process. Ray would
    # start an idle process for each.
    ray.init(
        address="local", num_cpus=max(LOCAL_CPUS, math.ceil(config.workers * config.num_cpus)),
        resources={name: config.workers * amount for name, amount in config.resources.items()},
        object_store_memory=config.object_store_mb * 1_000_000, include_dashboard=False, log_to_driver=False,
        logging_level="ERROR", _node_ip_address=LOOPBACK, _system_config={"prestart_worker_first_driver": False},
    )  # fmt: skip


def _refuse(config: Config, fault: BaseException) -> None:
    """Ray tells with a plain `Exception` that a cluster doesn't start, and with many kinds that there is none."""
    if config.address == "local":
        raise EngineError(f"Ray's local cluster did not start: {fault}") from fault
    raise UserError(
        f"executor.address must be a Ray cluster that runs: got {config.address!r} ({fault}) - start one with "
        '`ray start --head`, or set address = "local"'
    ) from fault


def _ray() -> Any:
    # Ray would report its use to its makers; nothing leaves this machine unasked.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError as fault:
        raise UserError(
            f'executor.type = "ray" needs the package {fault.name!r}, which is missing - run `pip install "noria[ray]"`'
        ) from fault
    return ray


def _check_room(config: Config, there: dict[str, float]) -> None:
    """Refuse what would wait for ever."""
    for name, each in _wanted(config).items():
        needed, got = each * config.workers, there.get(name, 0.0)
        if needed > got:
            raise UserError(
                f"executor.workers must fit the cluster: {config.workers} of them need {needed:g} {name}, it has "
                f"{got:g} - lower workers or what each is given, or add nodes"
            )
