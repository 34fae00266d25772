"""The tables of a recipe that are not phases: one class per table, every default here and nowhere else."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from noria.core import registry
from noria.core.config import Checked
from noria.core.errors import UserError

ConfigClass = type[BaseModel]
NAME = r"^[A-Za-z][A-Za-z0-9_.-]*$"


class Table(Checked):
    """Base of every table: unknown keys are refused, values are not converted and not changed after loading."""

    model_config = ConfigDict(strict=True)

    @classmethod
    def largest(cls) -> int:
        """Steps, tasks, prompts and the like; what counts tokens has a bound of its own."""
        return 10**6


class OpenTable(Checked):
    """A table whose further keys belong to a plug-in's own `Config`."""

    model_config = ConfigDict(extra="allow", strict=True)


class Plug(OpenTable):
    """A table that names a plug-in by `type`; every other key belongs to the plug-in's own `Config`."""

    folder: ClassVar[str]

    type: str = Field(description="name of a module in the folder, or a dotted name of your own module")

    @property
    def options(self) -> dict[str, Any]:
        """The keys besides `type`, as written."""
        return dict(self.model_extra or {})

    def module(self) -> ModuleType:
        """Import the plug-in. Raises UserError where there is none or a package is missing."""
        return registry.resolve(self.folder, self.type)

    def config(self) -> Any:
        """The plug-in's own `Config`, built from this table.

        Raises:
            UserError: no such plug-in.
            pydantic.ValidationError: a key or value that the plug-in refuses (`recipe.load` reports it).
        """
        return make_config(self.folder, self.type, self.options)


def config_class(folder: str, name: str) -> ConfigClass:
    """The `Config` of a plug-in. Raises UserError where its module does not define one."""
    found = vars(registry.resolve(folder, name)).get("Config")
    if not (isinstance(found, type) and issubclass(found, BaseModel)):
        raise UserError(f"type = {name!r} must name a module with a pydantic `Config` and a `build`: it has none")
    return found


def make_config(folder: str, name: str, options: dict[str, Any]) -> BaseModel:
    """Build a plug-in's `Config`. Raises UserError and pydantic.ValidationError."""
    kind = config_class(folder, name)
    given = dict(options)
    if "type" in kind.model_fields:
        # A dotted name stands for the module, whose own `type` may be a Literal of a short name.
        literal = get_args(kind.model_fields["type"].annotation)
        given["type"] = literal[0] if literal and "." in name else name
    return kind.model_validate(given)


class EngineTable(Plug):
    """What samples tokens."""

    folder: ClassVar[str] = "engines"
    type: str = Field(default="embedded", description="embedded = in this process, or another of `noria list engines`")


class TrainerTable(Plug):
    """What takes optimiser steps."""

    folder: ClassVar[str] = "trainers"
    type: str = Field(default="local", description="local = one process, or another of `noria list trainers`")


class ExecutorTable(Plug):
    """Where workers run."""

    folder: ClassVar[str] = "executors"
    type: str = Field(default="local", description="local = processes of this machine")


class ServiceTable(ExecutorTable):
    """Where a service other than rollouts runs: one worker, unless the table says more."""

    @model_validator(mode="before")
    @classmethod
    def _one_worker(cls, data: Any) -> Any:
        return {"workers": 1, **data} if isinstance(data, dict) else data


class SandboxTable(Plug):
    """Where code written by a model runs."""

    folder: ClassVar[str] = "sandboxes"
    type: str = Field(
        default="bwrap", description="bwrap = isolated; process = NOT isolated, must be asked for by name"
    )


class TeacherTable(Plug):
    """One teacher; `strategy` of a scripted one names a world's own expert."""

    folder: ClassVar[str] = "teachers"

    @property
    def scores_tokens(self) -> bool:
        """Whether it scores the tokens of a student: its module says `SCORES_TOKENS = True`."""
        return registry.constant(self.folder, self.type, "SCORES_TOKENS") is True


class ContextTable(Plug):
    """How a long episode is kept inside its context."""

    folder: ClassVar[str] = "contexts"


class HarnessTable(Plug):
    """What plays rollouts instead of the house's own loop."""

    folder: ClassVar[str] = "harnesses"


class EnvTable(Plug):
    """One world; its options are those of the world's own `Config` (`tasks` = training tasks of a round)."""

    folder: ClassVar[str] = "envs"
    admitted: str = Field(
        default="",
        description='file of `noria tasks validate --out`: tasks that it lists are never drawn; "" = no list',
    )


class LossTable(OpenTable):
    """One loss term: `coef` weighs it, the other keys belong to the loss."""

    coef: float = Field(default=1.0, description="factor of the term in the sum; 0 = not computed")

    @property
    def options(self) -> dict[str, Any]:
        """The keys besides `coef`."""
        return dict(self.model_extra or {})

    def config(self, name: str) -> Any:
        """The `Config` of the loss `name`, built from this table."""
        return make_config("losses", name, self.options)


class Student(Table):
    """The model that is improved."""

    model: str = Field(default="builtin:tiny", description="builtin:tiny, or a folder of a Hugging Face causal LM")
    call_form: Literal["auto", "xml", "hermes", "qwen"] = Field(
        default="auto",
        description="how it writes tool calls: auto = as its chat template teaches, Noria's XML where it teaches none",
    )
    engine: EngineTable = Field(default_factory=EngineTable, description="what samples from it")
    trainer: TrainerTable = Field(default_factory=TrainerTable, description="what trains it")


class Rollout(Table):
    """The dual track: teachers and the weak model on the same tasks."""

    samples_per_task: int = Field(default=4, ge=1, description="rollouts of the weak model per task")
    teacher_samples_per_task: int = Field(default=1, ge=1, description="rollouts per task of each teacher")
    temperature: float = Field(
        default=1.0, gt=0, description="the weak model's sampling temperature; logits are divided"
    )
    max_turns: int = Field(default=12, ge=1, description="assistant messages per episode")
    max_new_tokens: int = Field(default=160, ge=1, description="tokens of one assistant message")
    max_tokens: int = Field(default=448, ge=1, description="tokens per episode, prompt and observations included")
    max_observation_tokens: int = Field(
        default=0, ge=0, description="tokens of one observation; head and tail of a longer one stay; 0 = no limit"
    )
    max_command_s: float | None = Field(
        default=None,
        gt=0,
        description="seconds for one answer of a world whose tools run in threads, its grade included; over = the "
        "outcome is unknown; None = the world's own limits alone",
    )
    max_episode_s: float | None = Field(
        default=None,
        gt=0,
        description="seconds from an episode's beginning after which no more messages are asked for; it is graded as "
        "it stands; None = no limit",
    )
    context: ContextTable | None = Field(
        default=None, description="what takes the place of a context that grows; None = it grows up to max_tokens"
    )
    harness: HarnessTable | None = Field(
        default=None,
        description="a harness of somebody else's that plays the model's rollouts, in evaluation too; None = the own",
    )
    max_unknown: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="share of unknown outcomes above which the run stops (infrastructure is ill)",
    )

    @property
    def replays(self) -> bool:
        """Whether a rollout can be gone on with from its middle: what a harness of somebody else's did cannot."""
        return self.harness is None


class Supervisor(Table):
    """Finds the decisive actions of a pair."""

    type: Literal["counterfactual", "model"] = Field(
        default="counterfactual",
        description="counterfactual = replay only; model = a model proposes, replay verifies",
    )
    engine: EngineTable | None = Field(
        default=None, description="for type = model: what proposes the marks; None = no model"
    )
    key_actions: int = Field(default=3, ge=1, description="marks per trajectory at most")
    continuations: int = Field(
        default=8, ge=2, description="continuations sampled at each point, before and after an action"
    )
    pairs: int = Field(default=24, ge=1, description="pairs analysed per world and round at most")
    replay_budget: int = Field(
        default=64, ge=1, description="continuations per trajectory at most (the intervention budget)"
    )
    min_shift: float = Field(default=0.25, gt=0, le=1, description="least change of the success rate that makes a mark")


class HintTable(Table):
    """From marks to a hint and a short chain of thought."""

    samples_per_task: int = Field(default=4, ge=1, description="re-samples of the weak model per failed task and arm")
    tasks: int = Field(default=64, ge=1, description="failed tasks re-sampled per world at most")
    max_words: int = Field(default=24, ge=1, description="length of a hint")
    leak_ngram: int = Field(
        default=4, ge=2, description="words in a row shared with the right trajectory that count as a leak"
    )
    controls: bool = Field(default=True, description="also sample without a hint and with a hint from random marks")


class Curate(Table):
    """What stays in the training set."""

    near_duplicate: float = Field(
        default=0.9, gt=0, le=1, description="Jaccard similarity from which a copy is dropped; 1 = exact"
    )
    shingle: int = Field(default=5, ge=1, description="words per shingle of that similarity")
    contamination_ngram: int = Field(
        default=0,
        ge=0,
        description="words in a row shared with a held-out prompt that drop a sample; 0 = only equal tasks, as fits "
        "generated worlds, where prompts of a kind share their wording",
    )
    max_per_task: int = Field(default=4, ge=1, description="trajectories kept per task")


class Gate(Table):
    """Promotion: only a candidate that is better and no worse where it must not be."""

    tasks: int = Field(default=384, ge=1, description="held-out tasks per world, the same for every model of the run")
    confidence: float = Field(default=0.95, gt=0.5, lt=1, description="level of the intervals and of the paired test")
    worlds: list[str] | None = Field(
        default=None, description="worlds whose held-out tasks are played and decide; None = all"
    )
    protected: list[str] | None = Field(
        default=None, description="of these, worlds that must not get significantly worse; None = all, [] = none"
    )


class Eval(Table):
    """How held-out tasks are played."""

    temperature: float = Field(default=1.0, ge=0, description="sampling temperature; 0 = greedy")
    max_turns: int = Field(default=12, ge=1, description="assistant messages per episode")
    max_new_tokens: int = Field(default=160, ge=1, description="tokens of one assistant message")
    max_tokens: int = Field(default=448, ge=1, description="tokens per episode, prompt and observations included")
    samples_per_task: int = Field(default=1, ge=1, description="rollouts per held-out task")
    unseen_tasks: int = Field(default=128, ge=0, description="tasks of whole unseen families, reported apart; 0 = none")
