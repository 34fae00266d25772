"""Stage 9, the gate: promotion only if a paired test says better, and no protected world is significantly worse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from noria.core.codec import read_json, to_json
from noria.core.recipe_checks import measured
from noria.core.stats import mcnemar, newcombe_paired, paired_counts
from noria.core.types import Verdict
from noria.stages.context import Context
from noria.stages.evaluate import outcomes

VERDICT = "verdict.json"


def run(ctx: Context, candidate: str) -> Verdict:
    """Make the artifact `gate`; returns the verdict."""
    name = ctx.name("gate")
    if ctx.run.done(name):
        return load(ctx)
    inputs = [ctx.name("evaluate-weak"), ctx.name(f"evaluate-{candidate}")]
    with ctx.run.artifact(name, inputs=inputs) as work:
        table = ctx.recipe.gate
        protected = measured(ctx.recipe) if table.protected is None else table.protected
        verdict = decide(outcomes(ctx, "weak"), outcomes(ctx, candidate), protected, table.confidence)
        (work.path / VERDICT).write_text(json.dumps(to_json(verdict), indent=1), encoding="utf-8")
        work.count_in(tasks=len(outcomes(ctx, "weak")))
        work.count_out(promoted=int(verdict.promoted))
    return verdict


def refuse(ctx: Context, reason: str) -> Verdict:
    """Make the artifact `gate` for a round whose training failed: the weak model stays."""
    if ctx.run.done(ctx.name("gate")):
        return load(ctx)
    verdict = Verdict(False, f"kept: training failed, {reason}")
    with ctx.run.artifact(ctx.name("gate"), inputs=[ctx.name("evaluate-weak")]) as work:
        (work.path / VERDICT).write_text(json.dumps(to_json(verdict), indent=1), encoding="utf-8")
        work.count_out(promoted=0)
    return verdict


def load(ctx: Context) -> Verdict:
    """The verdict of this round."""
    return Verdict(**read_json(ctx.run.folder(ctx.name("gate")) / VERDICT))


def decide(
    old: Mapping[str, Mapping[str, Any]],
    new: Mapping[str, Mapping[str, Any]],
    protected: list[str],
    confidence: float,
) -> Verdict:
    """Compare two models on the rollouts that are known for both.

    Promotion needs (1) an exact one-sided McNemar test over all held-out tasks that says better, and (2) in no
    protected world the same test saying worse, at `1 - confidence` shared among those worlds (Bonferroni).
    """
    both = sorted(k for k in old if k in new and old[k]["reward"] is not None and new[k]["reward"] is not None)
    if not both:
        return Verdict(False, "kept: no held-out task has a known outcome under both models", {"tasks": 0})
    level = 1 - confidence
    overall = compare(old, new, both, confidence)
    evidence: dict[str, Any] = {"tasks": len(both), "unpaired": len(old) - len(both), "overall": overall, "worlds": {}}
    worse = []
    for world in sorted({str(old[k]["world"]) for k in both}):
        found = compare(old, new, [k for k in both if old[k]["world"] == world], confidence)
        evidence["worlds"][world] = found | {"protected": world in protected}
        if world in protected and found["p_worse"] < level / max(1, len(protected)):
            worse.append(world)
    unseen = [world for world in protected if world not in evidence["worlds"]]
    if unseen:
        return Verdict(False, f"kept: protected {', '.join(unseen)} not measured under both models", evidence)
    low, high = (100 * end for end in overall["ci"])
    gain = f"{100 * overall['gain']:+.1f} points ({100 * confidence:g} % interval {low:+.1f} to {high:+.1f})"
    if worse:
        return Verdict(False, f"kept: significantly worse in protected {', '.join(worse)}; overall {gain}", evidence)
    if overall["p_better"] >= level:
        return Verdict(False, f"kept: not significantly better, {gain}, p = {overall['p_better']:.3g}", evidence)
    return Verdict(True, f"promoted: {gain}, p = {overall['p_better']:.2g}, no protected world worse", evidence)


def compare(
    old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]], keys: list[str], confidence: float
) -> dict[str, Any]:
    """Paired comparison on the rollouts `keys`."""
    counts = paired_counts([old[k]["reward"] >= 1.0 for k in keys], [new[k]["reward"] >= 1.0 for k in keys])
    test, ends = mcnemar(counts), newcombe_paired(counts, confidence)
    return {
        "n": len(keys),
        "won": counts.only_new,
        "lost": counts.only_old,
        "gain": (counts.only_new - counts.only_old) / len(keys),
        "ci": [ends[0], ends[1]],
        "p_better": test.better,
        "p_worse": test.worse,
    }
