"""How `vs_trl` counts the work of TRL, what it prints of its runs, and whether both sides did equal work."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

#: Tokens of both sides may differ by this share.
ALIKE = 0.1
OURS = "noria"
Runs = dict[str, list[dict[str, float]]]


def counted_batches(collate: Callable[[Any], Any], counts: list[tuple[int, int]]) -> Callable[[Any], Any]:
    """The collator, which notes of each micro-batch its tokens, padding excluded, and those that carry loss."""

    def counted(rows: Any) -> Any:
        batch = collate(rows)
        tokens = batch["attention_mask"].sum() if "attention_mask" in batch else batch["input_ids"].numel()
        counts.append((int(tokens), int((batch["labels"] != -100).sum())))
        return batch

    return counted


def counted_losses(loss: Callable[..., Any], counts: list[tuple[int, int]]) -> Callable[..., Any]:
    """The loss of a sampled phase, which notes of each micro-batch the tokens that its mask trains, and which of these
    have advantage 0."""

    def counted(model: Any, inputs: Any, *rest: Any, **more: Any) -> Any:
        mask = inputs["completion_mask"]
        tokens = (mask * inputs.get("tool_mask", mask)).sum(dim=1)
        flat = inputs["advantages"] == 0 if "advantages" in inputs else [False] * len(tokens)
        counts.append((int(tokens.sum()), sum(int(n) for n, zero in zip(tokens, flat, strict=True) if zero)))
        return loss(model, inputs, *rest, **more)

    return counted


def report(what: str, found: Runs) -> list[str]:
    """Print one comparison; returns what `unequal` does."""
    middle = {}
    for name, runs in found.items():
        seconds, work = sorted(run["seconds"] for run in runs), _work(runs)
        middle[name] = statistics.median(seconds)
        read = "read" if what == "sft" else "sampled"
        silent = f" ({work['silent']:.0f} without signal)" if what == "grpo" else ""
        print(
            f"{what:>7} {name:>24}: {middle[name]:.3f} s per step ({seconds[0]:.3f} to {seconds[-1]:.3f}), "
            f"{work['sampled']:.0f} tokens {read}, {work['trained']:.0f} trained{silent}"
        )
    best = min((name for name in middle if name != OURS), key=lambda name: middle[name])
    print(f"{what:>7} noria is {middle[best] / middle[OURS]:.2f} times as fast as {best}")
    faults = unequal(what, found)
    for fault in faults:
        print(f"{what:>7} NOT EQUAL: {fault}")
    return faults


def unequal(what: str, found: Runs) -> list[str]:
    """Each difference in work from a setting of TRL that isn't meant, in words.

    Meant is one: tokens of groups without signal pass through TRL's loss, and are left out by ours. They are counted on
    our side where rollouts get their advantages, and what is trained with them must be what TRL trains.
    """
    ours, out = _work(found[OURS]), []
    pairs = [("sampled", ours["sampled"]), ("trained", ours["trained"] + (ours["silent"] if what == "grpo" else 0))]
    for name, runs in found.items():
        theirs = _work(runs)
        for key, value in pairs if name != OURS else ():
            ratio = value / theirs[key] if theirs[key] else float("inf")
            if abs(ratio - 1) > ALIKE:
                out.append(f"noria's tokens {key} are {ratio:.2f} of those of {name}")
    return out


def _work(runs: list[dict[str, float]]) -> dict[str, float]:
    """Mean tokens per step."""
    return {key: statistics.mean(run[key] for run in runs) for key in ("sampled", "trained", "silent")}
