"""What each built-in model is raised on: worlds with their options and shares, decisive kinds of action, vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Forms:
    """Shares of the forms of transcripts over real functions; the rest mends one bug in the right way.

    copied   lines written anew as they are
    several  from two to `most` bugs at once
    wrong    one bug, and a habit that does not mend it for sure
    """

    copied: float = 0.2
    several: float = 0.35
    wrong: float = 0.0
    most: int = 4


@dataclass(frozen=True, slots=True)
class Mix:
    """One model's upbringing.

    options     of each world, as a recipe writes them
    shares      of the episodes, by world
    decisive    kinds of action that decide an episode; a hint about any other kind changes nothing
    partly      kinds that help without deciding: world -> kind -> the habits that obey it, right and wrong ones
    per_task    episodes of one task, each with habits drawn anew: more where tasks are dear to make
    vocabulary  tokens, tags among them
    steps       of training
    episodes    transcripts, in as many files as `shards`, which belong to the seed
    functions   share of the episodes that are over real functions (`real_functions.py`); `shares` divide the rest
    context     weight in the loss of a token that the model reads and does not write
    per_step    episodes of a training step
    shape       of the model, where it differs from the others' (`build_tiny.py`)
    forms       of the transcripts over real functions (`real_functions.py`)
    base        another mix whose tokenizer and trained model this one goes on with
    habits      world -> habit -> weight, in place of the world's own
    turns       at most in an episode
    rate        factor on the learning rates
    """

    options: Mapping[str, Mapping[str, Any]]
    shares: Mapping[str, float]
    decisive: Mapping[str, tuple[str, ...]]
    partly: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    per_task: Mapping[str, int] = field(default_factory=dict)
    vocabulary: int = 1024
    steps: int = 2600
    episodes: int = 128_000
    shards: int = 16
    functions: float = 0.0
    context: float = 0.1
    per_step: int = 48
    shape: Mapping[str, int] = field(default_factory=dict)
    forms: Forms = field(default_factory=Forms)
    base: str | None = None
    habits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    turns: int = 12
    rate: float = 1.0

    @property
    def worlds(self) -> tuple[str, ...]:
        """The worlds, in the order of `shares`."""
        return tuple(self.shares)


_CODE = Mix(
    options={},
    shares={"microswe": 1.0},
    decisive={"microswe": ("test", "submit")},
    partly={"microswe": {"edit": ("careful", "direct", "thorough", "recover", "hasty", "stubborn", "fiddle")}},
    vocabulary=1536,
    steps=1850,
    episodes=64_000,
    functions=0.75,
    context=0.2,
    per_step=24,
    shape={"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2,
           "intermediate_size": 384},
)  # fmt: skip

MIXES = {
    "tiny": Mix(
        options={},
        shares={"microswe": 0.5, "ledger": 0.3, "arithmetic": 0.2},
        decisive={
            "microswe": ("test", "submit"),
            "ledger": ("get", "unfreeze", "freeze", "submit"),
            "arithmetic": ("steps", "check"),
        },
        partly={"microswe": {"edit": ("careful", "direct", "thorough", "recover", "hasty", "stubborn", "fiddle")}},
    ),
    "tiny-worlds": Mix(
        options={
            "tooluse": {
                "domains": 3, "rows": 2, "tools": 6, "asks": 2, "fields": 12, "steps_min": 1, "steps_max": 3,
                "hidden_share": 0.5,
            },
        },
        shares={"tooluse": 0.34, "instructions": 0.28, "boundaries": 0.14, "mechanisms": 0.12, "arithmetic": 0.12},
        decisive={
            "tooluse": ("list", "step", "ask"),
            "instructions": ("plan", "check", "hollow"),
            "boundaries": ("look", "ask"),
            "mechanisms": ("probe", "look"),
            "arithmetic": ("steps", "check"),
        },
        per_task={"tooluse": 3, "mechanisms": 3},
        vocabulary=1280,
        steps=2400,
        episodes=96_000,
        shards=12,
    ),
    # Not shipped: the model of bench/two_stage.py and of the safety expert.
    "tables": Mix(
        options={},
        shares={"tableqa": 0.5, "safety": 0.2, "boundaries": 0.2, "arithmetic": 0.1},
        decisive={
            "tableqa": ("columns", "filter", "aggregate", "sql", "answer"),
            "safety": ("weigh", "restrain", "refuse", "help"),
            "boundaries": ("look", "ask"),
            "arithmetic": ("steps", "check"),
        },
        per_task={"tableqa": 2},
        vocabulary=1280,
        steps=1000,
        episodes=36_000,
        shards=6,
    ),
    # Not shipped: what `code-agent` goes on from; see docs/builtin-model.md.
    "code": _CODE,
    # What `code` becomes when it is taught to try, test and take back, and to do so now and then only.
    "code-agent": replace(
        _CODE,
        steps=1500,
        episodes=48_000,
        functions=0.7,
        forms=Forms(copied=0.05, several=0.45, wrong=0.2, most=6),
        base="code",
        habits={"microswe": {
            "careful": 0.04, "direct": 0.04, "thorough": 0.04, "recover": 0.10, "search": 0.24, "hasty": 0.10,
            "stubborn": 0.12, "guess": 0.06, "fiddle": 0.06, "giveup": 0.12, "quit": 0.08,
        }},
        turns=24,
        rate=0.5,
    ),
}  # fmt: skip
