"""What a making counts, and the report of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from noria.envs.swe.records import SweTask
from noria.factory.candidate import SIZES, size_of


@dataclass(slots=True)
class Tally:
    """What is counted on the way. `tried`, `proven` and `kept` are by repository and operator.

    `languages` is that of each repository.
    """

    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept: Counter[tuple[str, str]] = field(default_factory=Counter)
    proven: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    languages: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    sandbox_s: float = 0.0
    prepare_s: float = 0.0
    bugs_s: float = 0.0
    fresh: int = 0
    fresh_kept: int = 0


def summary(asked: int, tally: Tally, tasks: Sequence[SweTask]) -> dict[str, Any]:
    """The report: counts, shares and speed. Rates are of this call alone, journalled candidates left out."""
    repos = sorted({repo for repo, _ in tally.tried})
    operators = sorted({operator for _, operator in tally.tried})
    languages = sorted({tally.languages[repo] for repo in repos if repo in tally.languages})
    tried, proven = sum(tally.tried.values()), sum(tally.proven.values())
    hours = tally.bugs_s / 3600
    return {
        "tasks": len(tasks),
        "asked": asked,
        "tried": tried,
        "proven": proven,
        "yield": round(proven / tried, 4) if tried else 0.0,
        "refused": dict(tally.refused.most_common()),
        "by_language": {
            name: _share(tally, (repo for repo in repos if tally.languages.get(repo) == name)) for name in languages
        },
        "by_repo": {repo: _share(tally, [repo]) for repo in repos},
        "by_operator": {name: _share(tally, repos, name) for name in operators},
        "by_size": {size: sum(size_of(_changed(task.patch)) == size for task in tasks) for size in SIZES},
        "by_style": dict(Counter(task.style for task in tasks)),
        "fail_to_pass": _spread([len(task.fail_to_pass) for task in tasks]),
        "changed_lines": _spread([_changed(task.patch) for task in tasks]),
        "sources_refused": {source: reason for source, reason in tally.sources.items() if reason},
        "notes": tally.notes,
        "seconds": {"prepare": round(tally.prepare_s, 1), "bugs": round(tally.bugs_s, 1),
                    "sandbox": round(tally.sandbox_s, 1)},
        "tasks_per_hour": round(tally.fresh_kept / hours) if tally.fresh_kept else 0,
        "tried_per_hour": round(tally.fresh / hours) if tally.fresh else 0,
    }  # fmt: skip


def _share(tally: Tally, repos: Iterable[str], operator: str = "") -> dict[str, Any]:
    """Counts of some repositories, and of one operator or all."""
    wanted = set(repos)
    counts = (tally.tried, tally.proven, tally.kept)
    tried, proven, kept = (
        sum(n for (repo, name), n in each.items() if repo in wanted and operator in ("", name)) for each in counts
    )
    return {"tried": tried, "proven": proven, "kept": kept, "yield": round(proven / tried, 4) if tried else 0.0}


def _spread(counts: Sequence[int]) -> dict[str, int]:
    found = sorted(counts)
    return {"least": found[0], "median": found[len(found) // 2], "most": found[-1]} if found else {}


def _changed(patch: str) -> int:
    """Lines that a patch changes: those that go or those that come, whichever are more."""
    lines = [line for line in patch.split("\n") if not line.startswith(("+++", "---"))]
    return max(1, *(sum(line.startswith(sign) for line in lines) for sign in "+-"))
