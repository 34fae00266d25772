"""A run folder as plain structures for the report: finished artifacts are read, what is missing is left out.

Nothing here trusts the folder's text: it stays plain text until the template escapes it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from noria.core.codec import read_json, read_json_lines
from noria.core.store import MANIFEST, PARTIAL, Run

#: Curves shown for each phase, in this order: metric (or "prefix/" for all that begin so) and its title.
CURVES = (
    ("reward/mean", "mean reward"),
    ("loss/", "loss"),
    ("response_tokens/mean", "tokens per rollout"),
    ("entropy", "entropy, nats"),
    ("kl/", "divergence"),
    ("distill/abs/", "mean |k1| to teacher"),
    ("staleness/max", "largest staleness, versions"),
    ("clip_frac", "share of clipped tokens"),
)


@dataclass(frozen=True, slots=True)
class Stage:
    """One finished artifact. `inputs` maps artifacts to the SHA-256 of their manifests."""

    name: str
    created: str
    seconds: float
    seed: int
    counts_in: dict[str, int]
    counts_out: dict[str, int]
    inputs: dict[str, str]
    weights: str = ""
    weights_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RoundData:
    """What one round left so far; `verdict` is None until the gate has decided."""

    number: int
    stages: list[Stage]
    scores: list[dict[str, Any]]
    verdict: dict[str, Any] | None
    arms: dict[str, dict[str, Any]]
    left: dict[str, int]
    unknown: list[tuple[str, str, int]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One small chart: lines by name, each a list of (step, value)."""

    title: str
    lines: dict[str, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class RunData:
    """The whole run. `curves` maps a phase, as "experts/repair", to its panels over all rounds."""

    name: str
    about: dict[str, Any]
    recipe: dict[str, Any]
    rounds: list[RoundData]
    curves: dict[str, list[Panel]]
    notes: list[str] = field(default_factory=list)

    @property
    def confidence(self) -> float:
        """Confidence of the intervals, as configured for the gate."""
        return float((self.recipe.get("gate") or {}).get("confidence", 0.95))

    @property
    def worlds(self) -> list[str]:
        """Worlds in the order of the recipe, then any other that was scored."""
        scored = [str(score["world"]) for part in self.rounds for score in part.scores]
        return list(dict.fromkeys([*(self.recipe.get("env") or {}), *scored]))


def read_run(run: Run) -> RunData:
    """Read what there is."""
    numbers = sorted(
        int(path.name[6:]) for path in run.path.glob("round-*") if path.is_dir() and path.name[6:].isdigit()
    )
    return RunData(
        name=run.name,
        about=read_json(run.path / "run.json") or {},
        recipe=read_json(run.path / "recipe.json") or {},
        rounds=[read_round(run, number) for number in numbers],
        curves=read_curves(read_json_lines(run.path / "metrics.jsonl")),
    )


def read_round(run: Run, number: int) -> RoundData:
    """One round's finished artifacts."""
    prefix = f"round-{number}"
    stages = _stages(run, prefix)
    names = [stage.name for stage in stages]
    tables = [f"{prefix}/evaluate"] if f"{prefix}/evaluate" in names else _evaluations(names, prefix)
    scores = [score for name in tables for score in read_json(run.folder(name) / "scores.json") or []]
    for score in scores:
        score.setdefault("split", "heldout")
    return RoundData(
        number=number,
        stages=stages,
        scores=scores,
        verdict=_finished(run, names, f"{prefix}/gate", "verdict.json"),
        arms=_finished(run, names, f"{prefix}/resample", "arms.json") or {},
        left=_finished(run, names, f"{prefix}/curate", "left.json") or {},
        unknown=_unknown(run, [stage.name for stage in stages if stage.counts_out.get("unknown")]),
    )


def _evaluations(names: list[str], prefix: str) -> list[str]:
    return [name for name in names if name.startswith(f"{prefix}/evaluate-")]


def _finished(run: Run, names: list[str], name: str, file: str) -> Any:
    return read_json(run.folder(name) / file) if name in names else None


def _stages(run: Run, prefix: str) -> list[Stage]:
    """Finished artifacts of a round in the order in which they were finished."""
    found = []
    for path in run.folder(prefix).rglob(MANIFEST):
        name = path.parent.relative_to(run.path)
        if any(part.endswith(PARTIAL) for part in name.parts) or not run.done(str(name)):
            continue
        data = run.manifest(str(name))
        weights = data["files"].get("model.safetensors", {})
        found.append(
            Stage(
                name=str(name),
                created=data["created"],
                seconds=float(data["seconds"]),
                seed=int(data["seed"]),
                counts_in=dict(data["counts"]["in"]),
                counts_out=dict(data["counts"]["out"]),
                inputs=dict(data["inputs"]),
                weights=weights.get("sha256", ""),
                weights_bytes=weights.get("bytes", 0),
            )
        )
    return sorted(found, key=lambda stage: (stage.created, stage.name))


def _unknown(run: Run, names: list[str]) -> list[tuple[str, str, int]]:
    """(artifact, reason, number) of evaluated rollouts whose outcome nobody knows; the commonest reasons."""
    out = []
    for name in names:
        rows = read_json_lines(run.folder(name) / "outcomes.jsonl")
        reasons = Counter(str(row.get("reason", "")) for row in rows if row.get("reward") is None)
        out += [(name, reason, n) for reason, n in reasons.most_common(5)]
    return out


def read_curves(rows: list[dict[str, Any]]) -> dict[str, list[Panel]]:
    """Metric rows to panels by phase. Of a step written twice (the phase was resumed) the last row counts."""
    series: dict[str, dict[str, dict[str, dict[float, float]]]] = {}
    for row in rows:
        round_name, _, phase = str(row.get("phase", "")).partition("/")
        step = row.get("step")
        if not phase or not isinstance(step, int | float):
            continue
        which = f"round {round_name.removeprefix('round-')}"
        for key, value in row.items():
            if _wanted(key) and isinstance(value, int | float) and value == value:
                by_key = series.setdefault(phase, {}).setdefault(key, {})
                by_key.setdefault(which, {})[float(step)] = float(value)
    return {phase: _panels(by_key) for phase, by_key in series.items()}


def _wanted(key: str) -> bool:
    return any(key.startswith(name) if name.endswith("/") else key == name for name, _ in CURVES)


def _panels(by_key: dict[str, dict[str, dict[float, float]]]) -> list[Panel]:
    out = []
    for name, title in CURVES:
        for key in sorted(by_key):
            if key == name or (name.endswith("/") and key.startswith(name)):
                rest = key.removeprefix(name)
                lines = {which: sorted(points.items()) for which, points in by_key[key].items()}
                out.append(Panel(f"{title}: {rest}" if rest else title, lines))
    return out
