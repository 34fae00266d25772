"""The world `harbor`: task folders of Harbor, worked on with a shell in the sandbox, graded by their own tests."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import PolicyError, UserError
from noria.core.protocols import Policy, Sandbox, Shape, Shaping
from noria.core.types import Message, Split, Task
from noria.envs.harbor import solving
from noria.envs.harbor.admission import Admission, Plan, admit
from noria.envs.harbor.advice import ADVICE, REMEDIES, kind_of_command
from noria.envs.harbor.box import Box
from noria.envs.harbor.episode import BASH, HarborEpisode
from noria.envs.harbor.folder import find_folders, read_folder
from noria.envs.harbor.samples import draw_names, sample
from noria.tokens.calls import parse

SYSTEM = "Work in a Linux shell. Call bash; give a final answer without a call when the work is done."
#: Shapes of sandboxes that are kept at the same time.
_SHAPES = 8


class Config(Checked):
    """Task folders of Harbor below `path`; without one, small tasks of the world's own."""

    type: Literal["harbor"] = "harbor"
    tasks: int = Field(default=64, ge=1, le=10**6, description="training tasks of a round; with `path` those there are")
    path: str = Field(default="", description="a task folder, or a folder of them; empty: small tasks of its own")
    heldout: float = Field(default=0.25, ge=0, lt=1, description="share of the folders that is held out, by name")
    variables: dict[str, str] = Field(
        default={}, description="what tasks may ask for as ${NAME}; the process's own variables are never given"
    )
    history: Literal["cut", "keep"] = Field(
        default="cut",
        description="cut: repositories that the policy sees have one commit; keep: the task is about them",
    )
    command_s: float = Field(default=60.0, gt=0, description="seconds of one command at most")
    limit_s: float = Field(
        default=600.0, gt=0, description="seconds of all commands of a step, where its task.toml says nothing"
    )


class Harbor:
    """Tasks, episodes, reference solutions and scripted policies."""

    name = "harbor"
    experts: tuple[str, ...] = solving.EXPERTS
    strategies: Mapping[str, float] = {name: habit.weight for name, habit in solving.HABITS.items()}
    advice, remedies = ADVICE, REMEDIES
    splits: tuple[Split, ...] = ("train", "heldout")

    def __init__(self, config: Config, sandbox: Sandbox | None) -> None:
        """Raises UserError where `path` holds no task folder, or one that cannot be read."""
        self.config = config
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._shaped: dict[Shape, Sandbox] = {}
        self._plans: dict[str, Plan] = {}
        self._digests: dict[str, str] = {}
        self.admissions: Sequence[Admission] = []
        if config.path:
            root = Path(config.path)
            keep = config.history == "keep"
            self.admissions = [admit(read_folder(each, keep), config.variables) for each in find_folders(root)]
            self._index()
            if self._plans:
                held = {self._split_of(name) for name in self._plans}
                self.splits = tuple(split for split in self.splits if split in held)

    @property
    def admitted(self) -> int:
        """How many folders of `path` can be worked on here."""
        return len(self._plans)

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """Tasks of a split: of `path` those that were admitted, `n` at most, in an order of the seed.

        Raises:
            UserError: an unknown split, or `path` has no admitted task for it.
        """
        if split not in Harbor.splits:
            raise UserError(f"split must be one of {', '.join(Harbor.splits)}: got {split!r}")
        if not self.config.path:
            return [self._task(name, split) for name in draw_names(split, n, seed)]
        names = sorted(name for name in self._plans if self._split_of(name) == split)
        if not names:
            refused = [f"{each.folder.name}: {each.reasons[0]}" for each in self.admissions if each.reasons]
            why = f" - refused: {'; '.join(refused[:3])}" if refused else " - change heldout, or add tasks"
            raise UserError(f"path must hold a task that can be worked on here, for {split}: got none{why}")
        random.Random(f"harbor/{split}/{seed}").shuffle(names)
        return [self._task(name, split) for name in names[:n]]

    def open(self, task: Task) -> HarborEpisode:
        """A fresh episode; the sandbox is asked when the first command comes."""
        plan = self.plan(task)
        return HarborEpisode(plan, lambda: self._begin(plan), self.config.command_s, self.config.limit_s)

    def plan(self, task: Task) -> Plan:
        """What a task consists of. Raises UserError where its folder is gone or has changed."""
        name = str(task.data["name"])
        plan = self._plan(name)
        if task.data["digest"] != (self._digests.get(name) or _digest(plan)):
            raise UserError(f"path must hold {name} as it was when the task was drawn: it has changed - draw anew")
        return plan

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy: it says its script, whatever it hears. Raises UserError for an unknown strategy."""
        if strategy not in self.strategies:
            raise UserError(f"strategy must be one of {', '.join(self.strategies)}: got {strategy!r}")
        said = solving.script(self.plan(task), strategy)

        def play(heard: Sequence[Message]) -> str:
            turn = sum(message.role == "assistant" for message in heard)
            return said[turn] if turn < len(said) else solving.DONE

        return play

    def reference(self, task: Task) -> list[str]:
        """The messages that run each step's `solve.sh`."""
        return solving.script(self.plan(task), "direct")

    def forgeries(self, task: Task) -> list[list[str]]:
        """See `solving.forgeries`."""
        return solving.forgeries(self.plan(task))

    def secrets(self, task: Task) -> list[str]:
        """See `solving.secrets`."""
        return solving.secrets(self.plan(task))

    def kind(self, message: str) -> str:
        """What the first command does, "answer" without a call, "malformed" where it cannot be executed."""
        try:
            calls = parse(message).calls
        except PolicyError:
            return "malformed"
        if not calls:
            return "answer"
        if calls[0].name != BASH.name or set(calls[0].args) != {"command"}:
            return "malformed"
        return kind_of_command(calls[0].args["command"])

    def left_out(self) -> list[tuple[str, str]]:
        """Folders below `path` that cannot be worked on here, with all the reasons."""
        return [(each.folder.name, "; ".join(each.reasons)) for each in self.admissions if each.reasons]

    def notes(self) -> list[tuple[str, str]]:
        """What was changed or passed over in folders that were admitted."""
        return [(each.folder.name, "; ".join(each.notes)) for each in self.admissions if each.plan and each.notes]

    def close(self) -> None:
        """Stop the sandboxes that were started for shapes; the one it was built with belongs to whoever made it."""
        with self._lock:
            shaped, self._shaped = self._shaped, {}
        for sandbox in shaped.values():
            sandbox.close()

    def _index(self) -> None:
        for each in self.admissions:
            if each.plan is None:
                continue
            if each.folder.name in self._plans:
                raise UserError(f"path must hold each task once: got {each.folder.name!r} twice - rename one")
            self._plans[each.folder.name] = each.plan
            self._digests[each.folder.name] = _digest(each.plan)

    def _plan(self, name: str) -> Plan:
        if not self.config.path and name not in self._plans:
            made = admit(sample(name), {}).plan
            assert made is not None
            return made
        if name not in self._plans:
            raise UserError(f"path must hold the task {name!r}: it does not, or it is refused now - draw anew")
        return self._plans[name]

    def _task(self, name: str, split: Split) -> Task:
        plan = self._plan(name)
        digest = self._digests.get(name) or _digest(plan)
        slug = "".join(sign if sign.isalnum() else "-" for sign in name)
        data = {"name": name, "digest": digest}
        return Task(f"harbor-{slug}-{digest[:8]}", self.name, SYSTEM, plan.stages[0].instruction, (BASH,), data, split)

    def _split_of(self, name: str) -> Split:
        share = int.from_bytes(hashlib.sha256(f"harbor/{name}".encode()).digest()[:4], "big") / 2**32
        return "heldout" if share < self.config.heldout else "train"

    def _begin(self, plan: Plan) -> Box:
        return Box.build(plan, self._of_shape(plan.shape))

    def _of_shape(self, shape: Shape) -> Sandbox:
        if not isinstance(self._sandbox, Shaping):
            got = "none" if self._sandbox is None else type(self._sandbox).__name__
            raise UserError(
                f'[sandbox] type must be one that shows folders at paths of their own: got {got} - use "bwrap"'
            )
        with self._lock:
            if shape not in self._shaped:
                if len(self._shaped) >= _SHAPES:
                    raise UserError(
                        f"path must hold tasks of at most {_SHAPES} shapes: folders, memory and disk differ"
                    )
                self._shaped[shape] = self._sandbox.shaped(shape)
            return self._shaped[shape]


def build(config: Config, sandbox: Sandbox | None) -> Harbor:
    """The world; without a sandbox it can draw tasks, but not run a command."""
    return Harbor(config, sandbox)


def _digest(plan: Plan) -> str:
    """SHA-256 over all that an episode depends on, in hex."""
    return hashlib.sha256(repr(plan).encode()).hexdigest()
