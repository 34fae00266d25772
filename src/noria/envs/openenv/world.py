"""The world `openenv`: an environment behind a server, its tasks by seed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from noria.bases.outside import OutsideWorld
from noria.bases.world import check_split
from noria.core.config import Checked
from noria.core.errors import PolicyError, SandboxError, UserError
from noria.core.protocols import Sandbox
from noria.core.types import Split, Task
from noria.envs.openenv.actions import LIST_TOOLS, STEP, Actions, calls_tools, of_list, of_schema, shown
from noria.envs.openenv.episode import Scale, ServedEpisode
from noria.envs.openenv.wire import Busy, Http, Seen, Session, Socket, request
from noria.tokens.calls import rendered

NAME = "openenv"
SPLITS: tuple[Split, ...] = ("train", "heldout")
#: One seed in this many is held out.
HELDOUT_ONE_IN = 4
_MOST_SEEDS = 1 << 31
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 1.0


class Config(Checked):
    """A server that speaks OpenEnv."""

    type: Literal["openenv"] = "openenv"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    url: str = Field(description="address of the server, as http://127.0.0.1:8000")
    transport: Literal["ws", "http"] = Field(
        default="ws",
        description="ws = a session for each episode; http = a server that keeps one environment for everybody",
    )
    timeout_s: float = Field(default=60.0, gt=0, le=86400, description="seconds that one answer may take")
    wait_s: float = Field(default=60.0, ge=0, le=86400, description="seconds to wait for a free session")
    instruction: str = Field(default="", description='what the prompt begins with; "" = the server\'s description')
    say: str = Field(
        default="", description='argument that a message without a call fills; "" = such a message ends the episode'
    )
    seeds: int = Field(default=0, ge=0, le=10**9, description="seeds are below this; 0 = below 2^31")
    reward: Literal["last", "sum"] = Field(default="last", description="which of a server's rewards count")
    reward_low: float = Field(default=0.0, description="the server's reward that is 0")
    reward_high: float = Field(default=1.0, description="the server's reward that is 1, a solved task")
    solutions: str = Field(
        default="", description='JSONL with {"seed": …, "actions": [{…}]} for proofs and the strategy `reference`'
    )

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise ValueError(f"must be an http address: got {url!r}, expected one as http://127.0.0.1:8000")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _has_a_range(self) -> Config:
        if self.reward_low >= self.reward_high:
            raise ValueError("reward_low must be below reward_high")
        return self


class ServedWorld(OutsideWorld):
    """Tasks are seeds; transitions and rewards are the server's."""

    name, splits = NAME, SPLITS

    def __init__(self, config: Config) -> None:
        self.config = config
        self._solutions = _solutions_in(config.solutions) if config.solutions else {}
        self._described: tuple[str, Actions] | None = None
        self._firsts: dict[int, str] = {}
        super().__init__(solved=bool(self._solutions))

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` tasks of "train" or "heldout"; a seed belongs to one of them for good.

        Raises:
            UserError: an unknown split, no such server, or fewer seeds than asked for.
            SandboxError: the server fails while its first observations are asked for.
        """
        check_split(split, self.splits)
        rng = random.Random(f"{NAME}:{split}:{seed}")
        most = self.config.seeds or _MOST_SEEDS
        there = [s for s in range(most) if _split_of(s) == split] if most <= 64 * n else None
        if there is not None and len(there) < n:
            raise UserError(f"tasks must be at most {len(there)} of {split}: got {n} - set seeds higher")
        drawn: dict[int, None] = dict.fromkeys(rng.sample(there, n)) if there is not None else {}
        while len(drawn) < n:
            number = rng.randrange(most)
            if _split_of(number) == split:
                drawn[number] = None
        self._look(list(drawn))
        return [self._task(split, number) for number in drawn]

    def open(self, task: Task) -> ServedEpisode:
        """A fresh episode; its session begins with the first action."""
        data, config = task.data, self.config
        actions = Actions(task.tools, {k: tuple(v) for k, v in data["required"].items()}, data["lists"])
        scale = Scale(config.reward, config.reward_low, config.reward_high)
        return ServedEpisode(lambda: self._begin(data["seed"]), data["first"], actions, scale, config.say)

    def reference(self, task: Task) -> list[str]:
        """One message for each action that `solutions` names. Raises UserError: it names none for the seed."""
        actions = self._solutions.get(task.data["seed"])
        if actions is None:
            raise UserError(f"solutions must hold the seed {task.data['seed']}: it does not - add a line for it")
        return [self._message(action, task.data["lists"]) for action in actions]

    def _message(self, action: Mapping[str, Any], lists: bool) -> str:
        name, values = (action.get("tool_name"), action.get("arguments", {})) if lists else (STEP, action)
        texts = {k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in values.items()}
        return rendered(str(name), texts)

    def _task(self, split: Split, number: int) -> Task:
        instruction, actions = self._description()
        first = self._firsts[number]
        data = {
            "seed": number,
            "first": first,
            "lists": actions.lists,
            "required": {name: list(keys) for name, keys in actions.required.items()},
        }
        prompt = f"{instruction}\n{first}".strip()
        return Task(f"{NAME}-{split}-{number}", NAME, "Act by calling tools.", prompt, actions.tools, data, split)

    def _look(self, numbers: list[int]) -> None:
        """Learn the first observation of each seed, one after the other in one session."""
        missing = [number for number in numbers if number not in self._firsts]
        if not missing:
            return
        self._description()
        session, seen = self._begin(missing[0])
        try:
            self._firsts[missing[0]] = shown(seen.observation)
            for number in missing[1:]:
                self._firsts[number] = shown(session.reset(number).observation)
        finally:
            session.close()

    def _description(self) -> tuple[str, Actions]:
        """What the server says that it is, and its actions; asked for once."""
        if self._described is None:
            try:
                schema = self._asked("/schema").get("action")
                if not isinstance(schema, dict):
                    raise SandboxError("its /schema names no action")
                text = self.config.instruction or str(self._asked("/metadata").get("description") or "")
                actions = self._listed() if calls_tools(schema) else of_schema(schema)
            except (SandboxError, PolicyError) as fault:
                raise UserError(
                    f"url must lead to an OpenEnv server that answers: got {self.config.url!r}, {fault} - start it"
                ) from fault
            if self.config.say and not any(self.config.say in tool.parameters for tool in actions.tools):
                raise UserError(f"say must be an argument of the action: got {self.config.say!r} - see /schema")
            self._described = text, actions
        return self._described

    def _asked(self, path: str) -> Mapping[str, Any]:
        return request(self.config.url, path, self.config.timeout_s)

    def _listed(self) -> Actions:
        session, _ = self._begin(0)
        try:
            return of_list(session.step(LIST_TOOLS).observation)
        finally:
            session.close()

    def _begin(self, number: int) -> tuple[Session, Seen]:
        """A session that was reset to a seed; waits for a free one. Raises SandboxError: none within `wait_s`."""
        deadline, wait = time.monotonic() + self.config.wait_s, _FIRST_WAIT_S
        while True:
            try:
                return self._reset(number)
            except Busy:
                if time.monotonic() + wait > deadline:
                    raise
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)

    def _reset(self, number: int) -> tuple[Session, Seen]:
        config = self.config
        session: Session
        if config.transport == "ws":
            session = Socket(config.url, config.timeout_s)
        else:
            session = Http(config.url, config.timeout_s)
        sound = False
        try:
            seen = session.reset(number)
            sound = True
        finally:
            if not sound:
                session.close()
        return session, seen


def build(config: Config, sandbox: Sandbox | None) -> ServedWorld:
    """The world of a config; the server is asked when the first tasks are drawn."""
    return ServedWorld(config)


def _split_of(number: int) -> Split:
    mixed = (number * 0x9E3779B1 & 0xFFFFFFFF) >> 16  # neighbouring seeds are spread: Knuth's multiplicative hash
    return "heldout" if mixed % HELDOUT_ONE_IN == 0 else "train"


def _solutions_in(file: str) -> dict[int, list[Mapping[str, Any]]]:
    """Solutions by seed. Raises UserError: no such file, or a line is none."""
    out: dict[int, list[Mapping[str, Any]]] = {}
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError as fault:
        raise UserError(f"solutions must be a file: got {file!r}, {fault.strerror} - write it") from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            out[int(row["seed"])] = [dict(action) for action in row["actions"]]
        except (ValueError, KeyError, TypeError) as fault:
            raise UserError(f'solutions line {number} must be {{"seed": …, "actions": […]}}: {fault}') from None
    return out
