"""The world `deepsearch`: questions that several pages together answer, over an offline corpus with links."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from noria.bases.turn import heard_calls, kind_of_first
from noria.bases.world import ScriptedWorld
from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.protocols import Policy, Sandbox
from noria.core.types import Split, Task
from noria.envs.deepsearch import admission, forgeries, own
from noria.envs.deepsearch.advice import ADVICE, REMEDIES
from noria.envs.deepsearch.clues import NAME_ASKED, decode
from noria.envs.deepsearch.corpus import ANSWER, Corpus, Sizes, check_arguments
from noria.envs.deepsearch.country import ENGINES, Country, EngineName, Place, found_country
from noria.envs.deepsearch.episode import SearchEpisode
from noria.envs.deepsearch.folder import load_pages, load_questions
from noria.envs.deepsearch.habits import EXPERTS, HABITS, make_policy
from noria.envs.deepsearch.pages import said_of
from noria.tokens.calls import Call


class Config(Checked):
    """Made-up countries, or a corpus of one's own, behind `search` and `browse`."""

    type: Literal["deepsearch"] = "deepsearch"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    pages: int = Field(default=60, ge=27, le=20_000, description="pages of a country, about")
    noise: int = Field(default=2, ge=0, le=4, description="sentences of a page that answer nothing, a link among them")
    questions: int = Field(default=4, ge=1, le=64, description="questions of one country, at most")
    hops: tuple[int, int] = Field(
        default=(2, 3), description="fewest and most links that a chain of clues is drawn with"
    )
    shapes: tuple[Literal["chain", "split", "join"], ...] = Field(
        default=("chain", "split", "join"), description="chain, split: pipeline I; join: pipeline II"
    )
    described: float = Field(
        default=0.3, ge=0, le=1, description="share of the names in a drawn question that give way to a description"
    )
    names: float = Field(
        default=0.2, ge=0, le=1, description="share of questions for a name; the others ask for a value"
    )
    max_guess: float = Field(
        default=0.2,
        gt=0,
        le=1,
        description="refuse answers that more than this share of the pages of the asked kind give",
    )
    first: int = Field(
        default=1,
        ge=1,
        le=20,
        description="refuse questions where a search with a clue's words finds the page among so many",
    )
    max_turns: int = Field(
        default=12,
        ge=4,
        le=60,
        description="refuse questions that an expert needs more messages for; that of rollouts should be as many",
    )
    hits: int = Field(default=10, ge=1, le=50, description="hits in one part of a list")
    most_hits: int = Field(default=60, ge=1, le=1000, description="hits of one search altogether")
    page_words: int = Field(default=60, ge=12, le=4000, description="words in one part of a page")
    grounded: bool = Field(
        default=False, description="a right answer counts only if the pages that hold the evidence were read"
    )
    engine: EngineName = Field(default="own", description="own, or bm25s: the package of that name")
    corpus: str = Field(
        default="", description="folder of text, Markdown or JSONL pages, or a JSONL file; empty: countries"
    )
    questions_file: str = Field(default="", description="JSONL file of questions about `corpus`")

    @field_validator("hops")
    @classmethod
    def _is_range(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 2 <= value[0] <= value[1] <= 4:
            raise ValueError(
                f"hops must be two numbers from 2 to 4, the smaller first: got {list(value)} - "
                "write for instance [2, 3]"
            )
        return value

    @field_validator("shapes")
    @classmethod
    def _has_shapes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or len(set(value)) != len(value):
            raise ValueError(f'shapes must be one or more, each once: got {list(value)} - write for instance ["chain"]')
        return value

    @model_validator(mode="after")
    def _both_files(self) -> Config:
        if bool(self.corpus) != bool(self.questions_file):
            there, lacking = ("corpus", "questions_file") if self.corpus else ("questions_file", "corpus")
            raise ValueError(f"{lacking} must be set together with {there}: got {there} alone - set both or none")
        return self

    @property
    def sizes(self) -> Sizes:
        """How much the tools show."""
        return Sizes(self.hits, self.page_words, self.most_hits)

    def space(self) -> admission.Space:
        """What tasks are drawn from."""
        return admission.Space(
            self.pages, self.noise, self.questions, self.hops, self.shapes, self.described, self.names, self.max_guess,
            self.first, self.max_turns, self.engine, self.sizes,
        )  # fmt: skip


class SearchWorld(ScriptedWorld):
    """Tasks, transitions, verifier, reference solution and scripted policies."""

    name, habits, experts, splits = admission.NAME, HABITS, EXPERTS, admission.SPLITS
    advice, remedies = ADVICE, REMEDIES
    #: for corpora of one's own; references of countries are within `Config.max_turns`
    max_turns = 60

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        ENGINES[config.engine](["a page"])  # one that is missing is said now
        self._own: Corpus | None = None
        self._rows: list[dict[str, Any]] = []
        if config.corpus:
            pages = load_pages(Path(config.corpus))
            self._own = Corpus(pages, ENGINES[config.engine], config.sizes)
            self._rows = load_questions(Path(config.questions_file), self._own.pages)

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of "train", "heldout" or "unseen" (kinds and relations that training never shows).

        Raises:
            UserError: unknown split, or options under which there are too few questions.
        """
        if self._own is not None:
            return own.draw_own(self._rows, split, n, seed)
        return list(admission.drawn(self.config.space(), split, n, seed))

    def stream(self, split: Split, seed: int, tally: admission.Tally | None = None) -> Iterator[Task]:
        """The same tasks one by one and without end; `tally` counts what is refused and why."""
        return admission.stream(self.config.space(), split, seed, tally)

    def open(self, task: Task) -> SearchEpisode:
        """A fresh episode."""
        return SearchEpisode(task, self._corpus(task), self.config.grounded)

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy; see `habits.HABITS`."""
        return own.own_policy(task, strategy, seed) if task.data.get("own") else make_policy(task, strategy, seed)

    def kind(self, message: str) -> str:
        """The tool of the first call, "talk" without a call, "malformed" where it cannot be executed."""
        return kind_of_first(message, self.kind_of, "talk")

    def kind_of(self, call: Call) -> str:
        """The tool; PolicyError: unknown, or with wrong arguments."""
        check_arguments(call.name, call.args)
        return call.name

    def answer(self, message: str) -> str | None:
        """What a final message answers (`core.protocols.Answers`)."""
        calls = [call for call in heard_calls(message) if isinstance(call, Call)]
        return next((call.args.get("text") for call in calls if call.name == ANSWER), None)

    def forgeries(self, task: Task) -> list[list[str]]:
        """Attempts that must not score 1; see `forgeries.forged`."""
        return [] if task.data.get("own") else forgeries.forged(self.country(task), task)

    def secrets(self, task: Task) -> list[str]:
        """The sentence that states the value asked for; a name is in lists, and kept out of prompts before."""
        if task.data.get("own"):
            return []
        asked = decode(task.data["query"]).asked
        target = self.country(task).graph.entities[task.data["target"]]
        return [] if asked == NAME_ASKED else [said_of(target, asked)]

    def country(self, task: Task) -> Country:
        """The country that a task asks about."""
        return found_country(Place(**task.data["place"]), self.config.engine, self.config.sizes)

    def _corpus(self, task: Task) -> Corpus:
        if not task.data.get("own"):
            return self.country(task).corpus
        if self._own is None:
            raise UserError(
                f"corpus must be the one that {task.id} asks about: got none - set corpus and questions_file"
            )
        return self._own


def build(config: Config, sandbox: Sandbox | None) -> SearchWorld:
    """The world of a config; it needs no sandbox.

    Raises:
        UserError: the corpus or its questions cannot be used, or the search engine is not installed.
    """
    return SearchWorld(config)
