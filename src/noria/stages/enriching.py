"""Enrichment inside a run: a share of a supervised phase's trajectories, written anew and proved by replay.

The samples join the trajectories that they were made of. They lie in the phase's folder, made once, so that a continued
phase trains on the same rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from noria.core.recipe_phases import SftPhase
from noria.core.types import Trajectory
from noria.stages.context import Context
from noria.stages.datasets import load_rows
from noria.stages.enrichment.enrich import Options, Report, enrich
from noria.trainers.rows import Row

SAMPLES, COUNTS = "enriched.jsonl", "enriched.json"


def enriched_rows(ctx: Context, name: str, phase: SftPhase, chosen: Sequence[Trajectory], folder: Path) -> list[Row]:
    """Rows of the samples; none where the phase does not ask for them, or nothing could be enriched."""
    table = phase.enrich
    if table is None:
        return []
    path = folder / SAMPLES
    if not path.exists():
        report = Report()
        options = Options(table.schemas, table.plan, table.refine, table.share, ctx.seed(name, "enrich"))
        part = folder / f".{SAMPLES}.part"
        with part.open("w", encoding="utf-8") as file:
            for sample in enrich(chosen, ctx.worlds.get, options, report):
                file.write(json.dumps(sample, ensure_ascii=False, allow_nan=False) + "\n")
        (folder / COUNTS).write_text(json.dumps(report.as_json(), indent=1), encoding="utf-8")
        os.replace(part, path)
        counts = report.as_json()
        ctx.run.event("enriched", phase=name, read=counts["read"], written=counts["written"])
    if not path.stat().st_size:
        return []
    rows, dropped = load_rows(
        [str(path)], ctx.renderer, ctx.recipe.rollout.max_tokens, phase.mask_errors, phase.error_rules
    )
    if dropped:
        ctx.run.event("dropped", stage="enriched", **dropped)
    return rows
