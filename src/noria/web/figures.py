"""What the report's sections hold: tables and charts made from the structures of `web.data`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup

from noria.web import charts
from noria.web.charts import Bar, Dot
from noria.web.data import RoundData, RunData

ARMS = {"hint": "with the hint", "none": "without a hint", "random": "hint from random marks"}


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def head(data: RunData) -> dict[str, Any]:
    """Identity and totals of the run."""
    stages = [stage for part in data.rounds for stage in part.stages]
    return {
        "recipe": data.about.get("recipe", data.name),
        "fingerprint": data.about.get("fingerprint", ""),
        "version": data.about.get("noria", ""),
        "seed": data.recipe.get("seed", "unknown"),
        "began": _date(str(data.about.get("created", ""))),
        "ended": _date(max((stage.created for stage in stages), default="")),
        "seconds": sum(stage.seconds for stage in stages),
        "stages": len(stages),
        "planned": data.recipe.get("rounds", len(data.rounds)),
        "confidence": f"{100 * data.confidence:.4g} %",
    }


def _date(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC" if text else "not yet"


def headline(data: RunData) -> list[dict[str, Any]]:
    """Per world: held-out success of the first weak model and of the last promoted, else of the newest final.

    `promoted` is None while the gate has not decided about that model.
    """
    verdicts = {part.number: part.verdict and bool(part.verdict["promoted"]) for part in data.rounds}
    out = []
    for world in data.worlds:
        found = [
            (part.number, score) for part in data.rounds for score in part.scores
            if score["world"] == world and score["split"] == "heldout"
        ]  # fmt: skip
        first = next((score for _, score in found if score["model"] == "weak"), None)
        if first is None:
            continue
        finals = [item for item in found if item[1]["model"] == "final"]
        number, last = next(reversed([item for item in finals if verdicts[item[0]]] or finals), (None, None))
        promoted = None if number is None else verdicts[number]
        out.append({"world": world, "first": first, "last": last, "round": number, "promoted": promoted})
    return out


def score_tables(data: RunData) -> list[dict[str, Any]]:
    """One table per split, held-out first: rows round x model, one cell per world (None where not played).

    Experts share a row, since each is judged in its own world only.
    """
    out = []
    for split in ("heldout", "unseen"):
        rows = []
        for part in data.rounds:
            mine = [score for score in part.scores if score["split"] == split]
            for model in dict.fromkeys(_family(score) for score in mine):
                by_world = {score["world"]: score for score in mine if _family(score) == model}
                rows.append({"round": part.number, "model": model, "cells": [by_world.get(w) for w in data.worlds]})
        if rows:
            out.append({"split": split, "rows": rows})
    return out


def _family(score: dict[str, Any]) -> str:
    model = str(score["model"])
    return "expert:<world>" if model == f"expert:{score['world']}" else model


def score_charts(data: RunData) -> list[dict[str, Any]]:
    """Per split and world: pass@1 by model with intervals, and tokens per solve."""
    out = []
    for split in ("heldout", "unseen"):
        for world in data.worlds:
            mine = {
                part.number: [s for s in part.scores if s["split"] == split and s["world"] == world]
                for part in data.rounds
            }
            if not any(mine.values()):
                continue
            places = _places([s for scores in mine.values() for s in scores])
            rates = [(f"round {r}", [_rate(s) for s in scores]) for r, scores in mine.items()]
            lengths = [(f"round {r}", [_length(s) for s in scores if s["correct"]]) for r, scores in mine.items()]
            where = f"{world}, {split} tasks"
            out.append(
                {
                    "split": split,
                    "world": world,
                    "rates": charts.dots(f"pass@1 by model: {where}", places, rates, 1.0, charts.percent),
                    "lengths": charts.dots(f"Tokens per solve by model: {where}", places, lengths),
                }
            )
    return out


def _places(scores: Sequence[dict[str, Any]]) -> list[str]:
    """Models on the axis in the order in which they are made; an expert is just "expert" in its own world."""
    rank = {"weak": 0, "sft": 1, "expert": 2, "merged": 3, "final": 9}
    names = list(dict.fromkeys(_place(score) for score in scores))
    return sorted(names, key=lambda name: rank.get(name, 5))


def _place(score: dict[str, Any]) -> str:
    return str(score["model"]).partition(":")[0]


def _rate(score: dict[str, Any]) -> Dot:
    low, high = score["ci95"]
    return Dot(_place(score), score["pass@1"], low, high, f"of {score['n'] - score['unknown']} known")


def _length(score: dict[str, Any]) -> Dot:
    mean = float(score["tokens_per_solve"] or 0.0)
    low, high = score.get("tokens_per_solve_ci") or (mean, mean)
    if high < mean:  # a single solve has no interval
        low = high = mean
    return Dot(_place(score), mean, max(low, 0.0), high, f"over {score['correct']} solved")


def gains(data: RunData) -> list[dict[str, Any]]:
    """The gate's paired evidence by round: rows of numbers, and a chart of the gains with intervals."""
    out = []
    for part in data.rounds:
        evidence = (part.verdict or {}).get("evidence") or {}
        if "overall" not in evidence:
            continue
        rows = [("all worlds", evidence["overall"]), *evidence.get("worlds", {}).items()]
        chart = charts.forest(
            f"Gain in points of the candidate over the weak model, round {part.number}",
            [(name, row["gain"], *row["ci"], _direction(row)) for name, row in rows],
        )
        out.append({"round": part.number, "rows": rows, "chart": chart, "unpaired": evidence.get("unpaired", 0)})
    return out


def _direction(row: dict[str, Any]) -> str:
    low, high = row["ci"]
    return "better" if low > 0 else "worse" if high < 0 else "even"


def curve_charts(data: RunData) -> list[dict[str, Any]]:
    """Small multiples by phase."""
    names = [f"round {part.number}" for part in data.rounds]
    out = []
    for phase, panels in data.curves.items():
        drawn = []
        for panel in panels:
            series = [
                (names.index(which) if which in names else len(names), which, points)
                for which, points in panel.lines.items()
            ]
            drawn.append({"title": panel.title, "chart": charts.lines(f"{panel.title} by step, {phase}", series)})
        out.append({"phase": phase, "panels": drawn})
    return out


def arm_charts(data: RunData) -> list[dict[str, Any]]:
    """Per round and world: success of the three arms of re-sampling."""
    out = []
    for part in data.rounds:
        worlds = list(dict.fromkeys(world for arm in part.arms.values() for world in arm))
        drawn = []
        for world in worlds:
            found = [(name, part.arms.get(name, {}).get(world)) for name in ARMS]
            rows = [_arm(name, row) for name, row in found if row and row["n"]]
            if rows:
                chart = charts.bars(f"Success by arm, {world}, round {part.number}", rows, 1.0)
                drawn.append({"world": world, "chart": chart})
        if drawn:
            out.append({"round": part.number, "worlds": drawn})
    return out


def _arm(name: str, row: dict[str, Any]) -> Bar:
    low, high = row["ci95"]
    return Bar(
        ARMS[name],
        row["rate"],
        f"{row['solved']} of {row['n']}",
        low,
        high,
        "c2" if name == "hint" else "even",
        f"{100 * row['rate']:.1f} %, interval {100 * low:.1f} to {100 * high:.1f}",
    )


def filters(data: RunData) -> list[dict[str, Any]]:
    """Per round: counts in and out of every stage, what curating dropped and why, unknown outcomes."""
    return [
        {
            "round": part.number,
            "stages": [(_short(stage.name), stage.counts_in, stage.counts_out) for stage in part.stages],
            "left": _left(part),
            "unknown": [(_short(name), reason, n) for name, reason, n in part.unknown],
        }
        for part in data.rounds
        if part.stages
    ]


def _left(part: RoundData) -> Markup | None:
    kept = next((s.counts_out.get("kept", 0) for s in part.stages if _short(s.name) == "curate"), None)
    if kept is None:
        return None
    rows = [Bar("kept", kept, str(kept), colour="better")]
    rows += [
        Bar(reason.replace("_", " "), n, str(n)) for reason, n in sorted(part.left.items(), key=lambda item: -item[1])
    ]
    return charts.bars(f"What curating kept and dropped, round {part.number}", rows, width=480)


def timings(data: RunData) -> list[dict[str, Any]]:
    """Per round: seconds of each stage in order, on one scale over the run."""
    most = max((stage.seconds for part in data.rounds for stage in part.stages), default=0.0) or 1.0
    return [
        {
            "round": part.number,
            "seconds": sum(stage.seconds for stage in part.stages),
            "chart": charts.bars(
                f"Seconds per stage, round {part.number}",
                [Bar(_short(s.name), s.seconds, duration(s.seconds), colour="c3") for s in part.stages],
                most,
                width=480,
            ),
        }
        for part in data.rounds
        if part.stages
    ]


def models(data: RunData) -> list[dict[str, Any]]:
    """Every artifact with what it was made from; those that hold weights are models."""
    return [
        {"name": stage.name, "stage": stage, "made": _date(stage.created), "model": bool(stage.weights)}
        for part in data.rounds
        for stage in part.stages
    ]


def _short(name: str) -> str:
    return name.partition("/")[2]
