"""Rules inside a sampled phase: which signals and losses can be right together. Reads plug-ins, imports none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noria.core import registry
from noria.core.errors import UserError

if TYPE_CHECKING:
    from noria.core.recipe_phases import Distilled, Sampled

#: Signals that have a field of their own in a phase.
OWN_FIELD = {
    "tis": "tis_cap", "key_action": "credit.key_action", "dynamic": "max_refills",
    "teacher_k1": 'signal = "teacher_k1"',
}  # fmt: skip
#: Kinds of phases that are named by `signal`. Every other name is an advantage's.
KINDS = ("curated", "teacher_k1", "teacher", "joint", "hmpo")
#: Those that compare no rewards of their own groups: their terms read teachers, or what HMPO pays.
UNREWARDED = ("teacher_k1", "teacher", "hmpo")
SLOTS = ("weight", "reward", "transform", "controller", "rollout", "view", "takeover", "rewrite")
#: Slots that one signal of a phase may fill.
SINGLE_SLOTS = ("transform", "rollout", "view", "takeover", "rewrite")
#: Slots that need a teacher, and those that need rewards.
TEACHER_SLOTS, REWARD_SLOTS = ("view", "takeover", "rewrite"), ("reward",)
REFUSED_LOSSES = {
    "k1": "the gradient of k1 as a loss is zero on average - use k1_pg (a policy gradient) or kl_teacher",
    "k3": 'plain k3 has the gradient of the forward KL - use kl_teacher with estimator = "iw_k3"',
    "mse": "half the square of k1 is no mean squared error of logits - use mse_logits, or kl_teacher with k2",
}


def check_use(phase: Sampled) -> None:
    """Raises ValueError where a further signal does not fit its phase."""
    distils, rewards = hasattr(phase, "route"), phase.signal not in UNREWARDED  # type: ignore[attr-defined]
    once: dict[str, str] = {}
    for name, table in phase.use.items():
        module = table.module(name)
        if module in OWN_FIELD:
            raise ValueError(f"use.{name} must not be {module!r}: it has a field of its own - set {OWN_FIELD[module]}")
        slot = said("signals", module, "SLOT")
        if slot is None:
            continue  # unknown names are reported where plug-ins are checked
        if slot == "advantage":
            raise ValueError(f"use.{name} must not be an advantage, and {module!r} is one - set signal = {module!r}")
        if slot not in SLOTS:
            raise ValueError(f"use.{name} must fill one of {', '.join(SLOTS)}: {module!r} is of the slot {slot!r}")
        if slot in TEACHER_SLOTS and not distils:
            raise ValueError(
                f'use.{name} needs a teacher, which signal = "{phase.signal}" has not - use signal = "teacher"'  # type: ignore[attr-defined]
            )
        if slot in REWARD_SLOTS and not rewards:
            raise ValueError(
                f'use.{name} shapes rewards, which signal = "{phase.signal}" does not use - remove it'  # type: ignore[attr-defined]
            )
        if slot in SINGLE_SLOTS and slot in once:
            raise ValueError(
                f"use may hold one signal of the slot {slot!r}: got {once[slot]!r} and {name!r} - remove one"
            )
        once[slot] = name
        _unit(phase, name, module)
        if said("signals", module, "READS_OUTCOMES"):
            _alone(phase, name)
        if slot == "weight" and said("signals", module, "FAMILY") == "rl" and distils and not rewards:
            raise ValueError(
                f'use.{name} weighs reinforcement, which signal = "{phase.signal}" has not - remove it'  # type: ignore[attr-defined]
            )
        if slot == "weight" and said("signals", module, "CORRECTS") and phase.tis_cap > 0:
            raise ValueError(
                f"use.{name} and tis_cap = {phase.tis_cap} both correct the engine's policy - set tis_cap = 0"
            )
        if slot == "controller":
            _target(phase, name, table.options)
    if "view" in once and "takeover" in once:
        raise ValueError(
            f"use.{once['view']} and use.{once['takeover']} both change what the student is trained on - remove one"
        )


def check_source(phase: Sampled) -> None:
    """Raises ValueError where the phase does not measure what its task source needs."""
    source = phase.task_source
    name = source if isinstance(source, str) else str(source["type"])
    if said("sources", name, "NEEDS_RATES") and phase.difficulty is None:
        raise ValueError(
            f"task_source = {name!r} orders tasks by their pass rate, which the phase does not measure - add "
            "difficulty = {}, or difficulty = { low = 0.0, high = 1.0 } to keep all tasks"
        )


def is_advantage(name: str) -> bool:
    """Whether `signal = "<name>"` stands for a group advantage: a file of the slot, or any module of the user's own."""
    return "." in name or said("signals", name, "SLOT") == "advantage"


def check_advantage(field: str, name: str) -> None:
    """Raises ValueError unless a module is there and says that it is an advantage."""
    try:
        slot = registry.constant("signals", name, "SLOT")
    except UserError as fault:
        known = registry.of_slot("advantage")
        if "." not in name:
            raise ValueError(
                f"{field} must name an advantage: got {name!r}, expected {', '.join([*known, 'a dotted name'])}"
                f"{registry.nearest(name, known)}"
            ) from fault
        raise ValueError(f"{field} must name an advantage: {fault}") from fault
    if slot != "advantage":
        raise ValueError(
            f"{field} must name an advantage: the module {name!r} is of the slot {slot!r} - name another, or write "
            'SLOT = "advantage" in it'
        )


def check_losses(phase: Sampled) -> None:
    """Raises ValueError where a loss term of the phase cannot be right."""
    signal = phase.signal  # type: ignore[attr-defined]
    distils = hasattr(phase, "route")
    slots = {said("signals", table.module(name), "SLOT"): name for name, table in phase.use.items()}
    for name, table in phase.loss.items():
        if name in REFUSED_LOSSES:
            raise ValueError(f"loss.{name} is refused: {REFUSED_LOSSES[name]}")
        family = said("losses", name, "FAMILY")
        if family == "opd" and not distils:
            raise ValueError(f'loss.{name} needs a teacher, which signal = "{signal}" has not - use signal = "teacher"')
        if family == "rl" and signal == "teacher":
            raise ValueError(
                f'loss.{name} needs an advantage, which signal = "teacher" does not give: a divergence is no '
                'advantage, it does not depend on the action - use loss.k1_pg, or signal = "joint"'
            )
        if "view" in slots and said("losses", name, "ON_POLICY"):
            raise ValueError(
                f"loss.{name} must not be used with use.{slots['view']}: under that view the tokens are not the "
                "student's samples - use a divergence, as reverse_kl"
            )
        if table.options.get("kl_discount") and table.options.get("ratio", "token") != "token":
            raise ValueError(
                f"loss.{name}.kl_discount must not be set with a sequence ratio, which credits all tokens alike "
                '- set ratio = "token"'
            )
        if signal == "teacher_k1" and family == "rl" and {"takeover", "rewrite"} & set(slots):
            parting = slots["takeover"] if "takeover" in slots else slots["rewrite"]
            raise ValueError(
                f"loss.{name} would train nothing with use.{parting}, which parts what is distilled from what is "
                f"imitated and leaves nothing to terms of rewards - use loss.k1_pg instead of loss.{name}"
            )
    if {"takeover", "rewrite"} & set(slots) and "ce" not in phase.loss:
        slot = "takeover" if "takeover" in slots else "rewrite"
        raise ValueError(f"use.{slots[slot]} makes tokens to imitate and no loss reads them - add loss.ce")


def check_auxiliary(phase: Distilled) -> None:
    """Raises ValueError unless a second policy is there when, and only when, a loss reads it."""
    there = phase.auxiliary is not None
    readers = [name for name in phase.loss if said("losses", name, "AUXILIARY")]
    if readers and not there:
        raise ValueError(
            f"loss.{readers[0]} mixes the policy with a second one, which the phase has not - add "
            'auxiliary = { model = "weak" }, or use loss.reverse_kl'
        )
    if there and not readers:
        raise ValueError("auxiliary is trained by no loss of the phase - add loss.mixture_kl, or remove auxiliary")


def said(folder: str, name: str, key: str) -> object | None:
    """A constant of a plug-in's module; None where it has none, or there is no such plug-in."""
    try:
        return registry.constant(folder, name, key)
    except UserError:
        return None


def _unit(phase: Sampled, name: str, module: str) -> None:
    """Raises ValueError where credits of turns meet an advantage in other units."""
    if not hasattr(phase, "advantage") or not said("signals", module, "PER_TURN"):
        return
    advantage = str(phase.advantage.type if hasattr(phase, "alpha") else phase.signal)  # type: ignore[attr-defined]
    if said("signals", advantage, "RESCALES"):
        raise ValueError(
            f"use.{name} credits turns in units of the reward, which {advantage!r} rescales - use group_mean or rloo"
        )


def _alone(phase: Sampled, name: str) -> None:
    """Raises ValueError where another reward too takes what it is given for the verifier's own.

    Of HMPO and the two-stage curriculum, whichever came second would undo the first: HMPO pays nothing for progress,
    the first stage pays nothing for shortness, and what HMPO pays is below the 1 by which the curriculum counts.
    """
    reads = [key for key, table in phase.use.items() if said("signals", table.module(key), "READS_OUTCOMES")]
    if reads[0] != name:
        raise ValueError(
            f"use.{reads[0]} and use.{name} both read the verifier's own reward, and each would undo the other - "
            "remove one, or use them in two phases one after the other"
        )


def _target(phase: Sampled, name: str, options: dict[str, Any]) -> None:
    known = [*(("alpha", "beta") if hasattr(phase, "alpha") else ()), *phase.loss]
    target = options.get("target")
    if target is not None and target not in known:
        raise ValueError(
            f"use.{name}.target must be one of {', '.join(known)}: got {target!r}{registry.nearest(str(target), known)}"
        )
    if str(options.get("metric", "")).startswith("validation/") and phase.validation is None:
        raise ValueError(
            f"use.{name}.metric is measured by a validation, which the phase has not - add validation = {{}}"
        )
