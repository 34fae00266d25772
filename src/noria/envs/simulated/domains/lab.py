"""A bench with samples: how far drops move the ph of one is left open."""

from __future__ import annotations

import random
from typing import Any

from noria.envs.simulated.card import Action, Args, Ask, Domain, Effect, Rule
from noria.envs.simulated.paths import State
from noria.envs.simulated.schema import Record, Ref, Table, Whole, Word
from noria.tokens.calls import Call

_KINDS, _LABELS = ("soil", "water", "milk", "sap"), ("none", "acid", "neutral", "base")
_PH, _NEUTRAL, _DROPS = Whole(1, 13), 7, Whole(1, 5)
_SAMPLE = Ref("samples")
_RIGHT = f"('acid' if {{0}} < {_NEUTRAL} else 'base' if {{0}} > {_NEUTRAL} else 'neutral')"
_MEASURED = Rule("samples[sample].known == 'yes'", "{sample} must be measured first")
_ROOM = Rule("samples[sample].ml + drops <= 50", "{sample} has no room for {drops} drops")
#: A drop too weak is lost at times, the last of several at most.
_ACID = "max(1, samples[sample].ph - drops + luck(2))"
_BASE = "min(13, samples[sample].ph + drops - luck(2))"
_DROPPED = (Effect("samples/{sample}/ml", "samples[sample].ml + drops"), Effect("samples/{sample}/known", "'no'"))
_CLEARED = Effect("samples/{sample}/label", "'none'")
_ACTIONS = (
    Action(
        "list_samples", "look", "every sample; not its ph",
        'bath {bath}; {join(f"{s} {samples[s].kind}, {samples[s].ml} ml, {samples[s].temp} degrees, '
        'label {samples[s].label}, measured {samples[s].known}" for s in samples)}',
        shows=("bath", "samples/*/kind", "samples/*/ml", "samples/*/temp", "samples/*/label", "samples/*/known"),
    ),
    Action(
        "measure", "make", "the ph of a sample; takes 1 ml of it", "{sample} ph {samples[sample].ph}",
        {"sample": _SAMPLE},
        (Rule("samples[sample].ml > 1", "{sample} is used up"),),
        (Effect("samples/{sample}/ml", "samples[sample].ml - 1"), Effect("samples/{sample}/known", "'yes'")),
        shows=("samples/{sample}/ph",),
    ),
    Action(
        "add_acid", "let", "lower the ph by about 1 a drop", "{sample} {samples[sample].ml} ml, label none",
        {"sample": _SAMPLE, "drops": _DROPS}, (_ROOM,),
        (*_DROPPED, _CLEARED, Effect("samples/{sample}/ph", _ACID, free=True)),
        (Rule("max(1, was.samples[sample].ph - drops) <= samples[sample].ph and "
              "samples[sample].ph <= max(1, was.samples[sample].ph - drops + 1)", "a drop at most is lost"),),
        ("samples/{sample}/ml",),
    ),
    Action(
        "add_base", "let", "raise the ph by about 1 a drop", "{sample} {samples[sample].ml} ml, label none",
        {"sample": _SAMPLE, "drops": _DROPS}, (_ROOM,),
        (*_DROPPED, _CLEARED, Effect("samples/{sample}/ph", _BASE, free=True)),
        (Rule("min(13, was.samples[sample].ph + drops - 1) <= samples[sample].ph and "
              "samples[sample].ph <= min(13, was.samples[sample].ph + drops)", "a drop at most is lost"),),
        ("samples/{sample}/ml",),
    ),
    Action(
        "label", "make", "put on a label that agrees with the measured ph", "{sample} label {as_}",
        {"sample": _SAMPLE, "as_": Word(_LABELS[1:])},
        (_MEASURED, Rule(f"as_ == {_RIGHT.format('samples[sample].ph')}", "{sample} has ph {samples[sample].ph}")),
        (Effect("samples/{sample}/label", "as_"),), shows=("samples/{sample}/label",),
    ),
    Action(
        "switch_bath", "make", "the water bath", "bath {to}", {"to": Word(("on", "off"))},
        (Rule("bath != to", "the bath is {to}"),), (Effect("bath", "to"),), shows=("bath",),
    ),
    Action(
        "heat", "make", "bring a sample to a temperature in the bath", "{sample} {degrees} degrees",
        {"sample": _SAMPLE, "degrees": Whole(20, 90)},
        (Rule("bath == 'on'", "the bath is off"),
         Rule("degrees > samples[sample].temp", "{sample} has {samples[sample].temp} degrees")),
        (Effect("samples/{sample}/temp", "degrees"),), shows=("samples/{sample}/temp",),
    ),
    Action(
        "cool", "make", "let a sample come to room temperature", "{sample} 20 degrees", {"sample": _SAMPLE},
        (Rule("samples[sample].temp != 20", "{sample} has 20 degrees"),),
        (Effect("samples/{sample}/temp", "20"),), shows=("samples/{sample}/temp",),
    ),
    Action(
        "discard", "make", "throw a sample away", "{sample} is gone", {"sample": _SAMPLE},
        effects=(Effect("samples/{sample}", op="delete"),),
    ),
)  # fmt: skip


def _start(rng: random.Random, rows: int) -> State:
    samples = {
        f"S{number}": {
            "kind": rng.choice(_KINDS), "ml": rng.randint(10, 20), "ph": rng.randint(3, 11),
            "temp": rng.choice((20, 20, 35)), "label": "none", "known": "no",
        }
        for number in sorted(rng.sample(range(1, 10), rows))
    }  # fmt: skip
    return {"bath": rng.choice(("on", "off")), "samples": samples}


def _draw_any(rng: random.Random, state: State) -> dict[str, Any] | None:
    return {"sample": rng.choice(list(state["samples"]))}


def _draw_heat(rng: random.Random, state: State) -> dict[str, Any] | None:
    return {"sample": rng.choice(list(state["samples"])), "degrees": rng.randrange(40, 90, 5)}


def _neutral(state: State, params: Args, way: int) -> list[Call]:
    """All drops at once and measured, or half of them at a time."""
    name, sample = params["sample"], state["samples"][params["sample"]]
    if sample["known"] == "no":
        return [Call("measure", {"sample": name})]
    off = sample["ph"] - _NEUTRAL
    if off:
        drops = max(1, min(abs(off), _DROPS.high) // (2 if way else 1))
        return [Call("add_acid" if off > 0 else "add_base", {"sample": name, "drops": str(drops)})]
    return [Call("label", {"sample": name, "as_": "neutral"})]


def _labelled(state: State, params: Args, way: int) -> list[Call]:
    name, sample = params["sample"], state["samples"][params["sample"]]
    if sample["known"] == "no":
        return [Call("measure", {"sample": name})]
    ph = sample["ph"]
    right = "acid" if ph < _NEUTRAL else "base" if ph > _NEUTRAL else "neutral"
    return [Call("label", {"sample": name, "as_": right})]


def _heat(state: State, params: Args, way: int) -> list[Call]:
    """At once, or after it was cooled."""
    name, sample = params["sample"], state["samples"][params["sample"]]
    calls = [Call("switch_bath", {"to": "on"})] if state["bath"] == "off" else []
    if way and sample["temp"] != 20:
        calls.append(Call("cool", {"sample": name}))
    return [*calls, Call("heat", {"sample": name, "degrees": str(params["degrees"])})]


_OF = ("samples/{sample}/ml", "samples/{sample}/known", "samples/{sample}/label")
_LEFT = ("How many ml of {sample} are there then?", "samples.{sample}.ml")
DOMAIN = Domain(
    "lab",
    "A bench with samples and a water bath. A drop moves the ph by 1; of several drops one may be lost. The ph is "
    "known only after it was measured, and no longer once something was added.",
    Record({
        "bath": Word(("on", "off")),
        "samples": Table(Record({
            "kind": Word(_KINDS), "ml": Whole(0, 50), "ph": _PH, "temp": Whole(0, 90), "label": Word(_LABELS),
            "known": Word(("no", "yes")),
        })),
    }),
    (Rule(f"all(samples[s].label in ['none', {_RIGHT.format('samples[s].ph')}] for s in samples)",
          "no label is wrong"),),
    _ACTIONS, _start,
    {
        "neutral": Ask(
            _draw_any, "bring {sample} to ph 7 and label it", ("samples.{sample}.ph == 7 and "
            "samples.{sample}.label == 'neutral'",), ("samples/{sample}/ph", *_OF), _neutral, (_LEFT,),
        ),
        "label": Ask(
            _draw_any, "label {sample} by its ph", ("samples.{sample}.label != 'none'",), _OF, _labelled,
            (("Which ph has {sample} then?", "samples.{sample}.ph"), _LEFT),
        ),
        "heat": Ask(
            _draw_heat, "heat {sample} to {degrees} degrees", ("samples.{sample}.temp == {degrees}",),
            ("bath", "samples/{sample}/temp"), _heat,
            (("What is {sample} made of?", "samples.{sample}.kind"),
             ("How many degrees has {sample} then?", "samples.{sample}.temp")),
        ),
    },
    ("list_samples",),
)  # fmt: skip
