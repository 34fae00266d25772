"""Samples from a server: `noria serve` or vLLM decodes, token ids and log-probabilities go over the wire.

Every sequence is one request per turn, up to `slots` of them at once, and the whole context goes with each. Text is
never encoded: ids go out and ids come back. New weights are written as a checkpoint folder that the server reads too
(`weights`), while no request is on its way, so all tokens of a message are of one version. Then it is proved that they
arrived: by the hash of the file where the server tells it, and by a few sampled tokens whose log-probabilities are
computed here as well.

A request that gets no answer within its budget makes its episode unknown. A server that answers nobody for that long
ends the run, and so do too many lost requests.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from noria.core.errors import EngineError, UserError
from noria.core.lock import hold
from noria.core.protocols import Completion
from noria.core.remote import ServerConfig, check_installed, read_key
from noria.engines import _asking as asking
from noria.engines import _preflight as preflight
from noria.engines._asking import Fault, Line, Sampled
from noria.engines._dialects import Dialect, dialect
from noria.engines._numbered import Numbered

if TYPE_CHECKING:
    from noria.engines._proof import Proof

#: There is one server, and one worker gives it its weights.
ONE_WORKER = True
#: The default; read from the source, so that a recipe is held to it before anything is loaded.
MAX_TOKENS = 448

#: How long a step waits for an answer, in s.
STEP_S = 0.05
#: Temperatures at which new weights are proved.
HEATS = (1.0, 0.7)
#: Names of the folders of weights, and how many of them are kept.
PREFIX, KEPT = "served-policy-", 2
#: Requests over which the share of lost ones is taken, and how many there must be for it.
WINDOW, LEAST = 100, 20


class Config(ServerConfig):
    """Served engine: a server decodes, `noria serve --updates DIR` or vLLM."""

    type: Literal["served"] = "served"
    server: Literal["noria", "vllm"] = Field(
        "noria",
        description="how new weights are given: noria = to `noria serve --updates`, vllm = to vLLM that was started "
        "with VLLM_SERVER_DEV_MODE=1 and --logprobs-mode processed_logprobs",
    )
    weights: str = Field(
        min_length=1,
        description="folder for new weights, this run's alone: what an earlier one left is deleted; the server must "
        "see it too, vLLM under the same path",
    )
    slots: int = Field(64, ge=1, le=4096, description="sequences on their way at once")
    max_tokens: int = Field(MAX_TOKENS, ge=16, description="longest sequence, prompt included, in tokens")
    timeout_s: float = Field(300.0, gt=0, description="longest time for the answer to one request")
    max_retries: int = Field(3, ge=0, description="further requests after an answer that lacks something")
    budget_s: float = Field(
        300.0,
        gt=0,
        description="longest time for one message, waits and repetitions included; then its episode is unknown, and if "
        "the server answered nobody meanwhile, the run ends",
    )
    update_s: float = Field(600.0, gt=0, description="longest time in which the server takes new weights")
    max_unknown: float = Field(
        0.2, ge=0, le=1, description="share of the last 100 messages without an answer that ends the run"
    )
    proof_tokens: int = Field(
        8,
        ge=0,
        le=64,
        description="tokens that are sampled after each update and scored here too, which takes memory for a copy of "
        "the model in float32; 0 = no such proof",
    )
    proof_diff: float = Field(
        0.05,
        gt=0,
        description="largest mean difference of these log-probabilities in nats; a server in float32 is off by 1e-4, "
        "one in bfloat16 by more",
    )


@dataclass(slots=True)
class _Sequence:
    seed: int
    ids: list[int] = field(default_factory=list)
    most: int = 0
    #: answers that had come, from anywhere, when this request went out
    answered: int = 0


class ServedEngine(Numbered[Config, _Sequence]):
    """See the module. One instance belongs to one thread.

    Raises:
        EngineError: no free slot, a sequence that would not fit into `max_tokens`, or a server that is gone.
        UserError: the server is not there, or cannot be what it is asked for, or `weights` is another run's.
    """

    def __init__(self, config: Config, key: str, folder: Path, end_ids: Sequence[int], temperature: float) -> None:
        from noria.tokens.reading import read_tokenizer

        super().__init__(config)
        self.temperature, self.version = temperature, 0
        self._folder, self._end = folder, frozenset(end_ids)
        self._tokenizer = read_tokenizer(folder)
        self._dialect: Dialect = dialect(config.server, end_ids)
        self._held, self._room = ExitStack(), Path(config.weights).absolute()
        self._line = Line(config, key, config.slots + 1)
        self._away: dict[int, Future[Sampled]] = {}
        self._ready: list[Completion] = []
        self._answered = 0
        self._fates: deque[bool] = deque(maxlen=WINDOW)
        self._proof: Proof | None = None
        self._is_ours = False
        self._given: tuple[Path, str] | None = None
        self._doubt, self._checking = False, asyncio.Lock()

    def _take_room(self) -> None:
        """Hold the folder of weights, and empty it of what an earlier process left there."""
        try:
            self._room.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise UserError(
                f"student.engine.weights must be a folder that can be written: {str(self._room)!r} cannot "
                f"({fault.strerror}) - name another"
            ) from fault
        self._held.enter_context(hold(self._room / "lock", "student.engine.weights"))
        for old in self._room.glob(f"{PREFIX}*"):
            shutil.rmtree(old)
        self._is_ours = True

    def add(self, seq: int, ids: Sequence[int], max_new: int, seed: int) -> None:
        """Append `ids` to a sequence (a new number opens one) and ask for up to `max_new` tokens after them."""
        state, room = self._extended(seq, ids, seed)
        state.most, state.answered = min(max_new, room), self._answered
        options = self._dialect.options(state.seed, len(state.ids))
        once = partial(self._sample, tuple(state.ids), state.most, self.temperature, options)
        self._away[seq] = self._line.begin(self._answer(once))

    def _begin(self, seq: int, seed: int) -> _Sequence:
        return _Sequence(seed)

    def step(self) -> list[Completion]:
        """What has been answered; waits a moment where nothing has."""
        if self._away and not self._ready:
            wait(self._away.values(), STEP_S, FIRST_COMPLETED)
        done, self._ready = [*self._ready, *self._finished()], []
        return done

    def drop(self, seq: int) -> None:
        """Forget a sequence and close its connection; an unknown number is ignored."""
        self._sequences.pop(seq, None)
        away = self._away.pop(seq, None)
        if away is not None:
            away.cancel()
        self._ready = [completion for completion in self._ready if completion.seq != seq]

    def load(self, checkpoint: Path | Mapping[str, Any], version: int) -> None:
        """Give the server new weights, once every request on its way is answered, and prove that it has them."""
        from noria.models import weights

        self._drain()
        if isinstance(checkpoint, Path):
            from safetensors.torch import load

            checkpoint = load(weights.read(checkpoint))
        if not self._is_ours:
            self._take_room()
        if self._given is None:
            given = (self._line, self.config, self._dialect, self._probe(), self._folder)
            self._line.begin(preflight.check(*given)).result()
        self._prepare(checkpoint)
        folder = self._room / f"{PREFIX}{version}-{self._made()}"
        sha256 = weights.write_tensors(checkpoint, folder, self._folder)
        self._given = folder, sha256
        self._run(self._give())
        self.version = version

    def close(self) -> None:
        """Drop every request, and the folders of weights."""
        self._line.close()
        if self._is_ours:
            for old in self._room.glob(f"{PREFIX}*"):
                shutil.rmtree(old, ignore_errors=True)
        self._held.close()
        self._is_ours = False

    def _made(self) -> int:
        """A number for the next folder; older ones than the last are taken away."""
        there = sorted(self._room.glob(f"{PREFIX}*"), key=lambda path: int(path.name.rpartition("-")[2]))
        for old in there[: 1 - KEPT]:
            shutil.rmtree(old)
        return int(there[-1].name.rpartition("-")[2]) + 1 if there else 0

    def _prepare(self, tensors: Mapping[str, Any]) -> None:
        if not self.config.proof_tokens:
            return
        from noria.engines._proof import Proof

        self._proof = self._proof or Proof(self._folder)
        try:
            self._proof.take(tensors)
        except ValueError as fault:
            raise EngineError(f"weights don't fit the model: {fault}") from fault

    def _drain(self) -> None:
        while self._away:
            wait(self._away.values())
            self._ready += self._finished()

    def _run(self, work: Any) -> None:
        """Do something with the server that the run cannot go on without."""
        try:
            self._line.begin(work).result()
        except Fault as fault:
            raise EngineError(f"the server did not take its weights: {fault}") from fault

    def _finished(self) -> list[Completion]:
        over = [(seq, answer) for seq, answer in self._away.items() if answer.done()]
        out = []
        for seq, answer in over:
            del self._away[seq]
            try:
                out.append(self._heard(seq, answer.result()))
            except Fault as fault:
                out.append(self._lost(seq, fault))
        return out

    def _heard(self, seq: int, found: Sampled) -> Completion:
        self._answered += 1
        self._fates.append(True)
        self._sequences[seq].ids.extend(found.ids)
        stop = "end" if found.ids[-1] in self._end else "length"
        return Completion(seq, found.ids, found.logp, (self.version,) * len(found.ids), stop)

    def _lost(self, seq: int, fault: Fault) -> Completion:
        """A completion that says why there is none. Raises EngineError where it is not the only one."""
        self._fates.append(False)
        config, lost = self.config, self._fates.count(False)
        if fault.passes and self._sequences[seq].answered == self._answered:
            raise EngineError(
                f"{config.base_url} answered nobody for student.engine.budget_s = {config.budget_s:g} s: {fault} - "
                "start the server again, then resume the run"
            )
        if len(self._fates) >= LEAST and lost > config.max_unknown * len(self._fates):
            raise EngineError(
                f"{lost} of the last {len(self._fates)} messages got no answer from {config.base_url}, more than "
                f"student.engine.max_unknown = {config.max_unknown}; the last reason: {fault}"
            )
        return Completion(seq, (), (), (), "length", f"no answer from {config.base_url}: {fault}")

    async def _answer(self, once: Any) -> Sampled:
        """A completion within its budget, from a server whose weights are beyond doubt."""

        async def sure() -> Sampled:
            await self._assure()
            try:
                found: Sampled = await once()
            except Fault as fault:
                self._doubt |= fault.breaks
                raise
            return found

        return await asking.patiently(sure, self.config.budget_s, self.config.max_retries)

    async def _assure(self) -> None:
        """After a broken connection, give the weights again unless the server still has them."""
        if not self._doubt or self._given is None:
            return
        async with self._checking:
            if self._doubt and not await self._dialect.holds(self._line, self._given[1]):
                await self._give_once()
            self._doubt = False

    async def _sample(self, ids: Sequence[int], most: int, temperature: float, options: Mapping[str, Any]) -> Sampled:
        """One request for a completion."""
        body = {
            "model": self.config.model, "prompt": list(ids), "max_tokens": most, "temperature": temperature,
            "top_p": 1.0, "logprobs": 0, "return_token_ids": True, **options,
        }  # fmt: skip
        choice = asking.choice_of(await self._line.post("completions", body))
        self._dialect.check(choice)
        found = asking.read_sampled(choice, most)
        end = found.ids[-1] in self._end
        text = str(self._tokenizer.decode(list(found.ids[: len(found.ids) - end])))
        if not asking.same_text(text, found.text):
            raise Fault(f"its token_ids read {text[:80]!r}, and its text {found.text[:80]!r}")
        if found.stopped and not end:
            raise Fault(f"it stopped at token {found.ids[-1]}, which ends no turn of this model")
        return found

    async def _give(self) -> None:
        """Give the weights that are to be served now, and prove that they arrived."""
        await asking.patiently(self._give_once, self.config.budget_s, self.config.max_retries)
        self._doubt = False

    async def _give_once(self) -> None:
        assert self._given is not None
        await self._dialect.give(self._line, *self._given, self.config.update_s)
        if self._proof is not None:
            for heat in HEATS:
                await self._prove(self._proof, heat)

    async def _prove(self, proof: Proof, heat: float) -> None:
        """Raises UserError where the server samples from another policy than the copy here."""
        ids, most = self._probe(), self.config.proof_tokens
        found = await self._sample(ids, most, heat, self._dialect.options(most, len(ids)))
        own = await asyncio.to_thread(proof.score, ids, found.ids, heat)
        gap = asking.mean_gap(found.logp, own)
        if gap > self.config.proof_diff:
            raise UserError(
                f"student.engine must sample from the weights that it was given: the log-probabilities of {len(own)} "
                f"tokens at temperature {heat:g} are {gap:.4g} nats in the mean from those computed here, more than "
                f"proof_diff = {self.config.proof_diff:g} - serve this model, with log-probabilities of the whole "
                "tempered policy (vLLM: --logprobs-mode processed_logprobs), or raise proof_diff for a coarser dtype"
            )

    def _probe(self) -> list[int]:
        from noria.engines._proof import TEXT

        found: list[int] = self._tokenizer.encode(TEXT, add_special_tokens=False)
        return found


def ready(config: Config) -> str:
    """The key, "" where the server needs none; looks at the environment alone.

    Raises:
        UserError: the variable that should hold it is not set, or the package `httpx2` is missing.
    """
    check_installed()
    return read_key(config)


def build(config: Config, model_folder: Path, end_ids: Sequence[int], temperature: float = 1.0) -> ServedEngine:
    """An engine for the policy whose tokenizer and configuration lie in a folder; asks the server for nothing yet.

    Raises:
        UserError: the package `httpx2` or the key is missing.
    """
    return ServedEngine(config, read_key(config), model_folder, end_ids, temperature)
