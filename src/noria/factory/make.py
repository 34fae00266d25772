"""Makes a dataset: prepares sources, tries candidates side by side, keeps proven tasks, and writes all down.

sources ─► repositories ─► candidates in turn ─► proof (workers) ─► statement ─► curation ─► tasks.jsonl
                                   └── journal: what was tried is not tried again ──┘
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from noria.core.code import apply, diff
from noria.core.errors import SandboxError, UserError
from noria.core.lock import hold
from noria.core.protocols import Sandbox
from noria.core.seeds import derive
from noria.envs.swe.records import DATASET, FORMAT, TASKS, Repo, SweTask
from noria.factory.benches import OPEN, Benches
from noria.factory.bugs import Candidate, candidates, combinations
from noria.factory.curation import Curation, read_evaluation
from noria.factory.journal import Journal
from noria.factory.layers import Store
from noria.factory.proof import Prover, Verdict
from noria.factory.repository import Names, Prepared, Refused, prepare
from noria.factory.statements import state
from noria.languages.base import Quoting

REPORT = "report.json"
#: Times that a candidate is tried where the sandbox fails, and such failures in a row that end the making.
TRIES, FAULTS = 2, 20
#: Candidates of one repository in a row, where there are more of those than benches stay open.
TURN = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be made. `per_target`: tasks of one function at most; `repeats`: runs that must say the same.

    `combined`: share of the tasks that put two proven bugs together.
    """

    sources: tuple[str, ...]
    out: Path
    count: int
    seed: int = 0
    operators: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    workers: int = 2
    repeats: int = 3
    per_target: int = 3
    combined: float = 0.15
    evaluation: tuple[Path, ...] = ()


@dataclass(slots=True)
class Tally:
    """What is counted on the way. `tried` and `proven` are by repository and operator."""

    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept: Counter[tuple[str, str]] = field(default_factory=Counter)
    proven: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    sources: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    sandbox_s: float = 0.0
    prepare_s: float = 0.0
    bugs_s: float = 0.0
    fresh: int = 0
    fresh_kept: int = 0


@dataclass(frozen=True, slots=True)
class _Site:
    """A repository that bugs are made in."""

    prepared: Prepared
    tree: Path


def make(plan: Plan, sandbox: Sandbox, advance: Callable[[int, str], None] = lambda kept, what: None) -> dict[str, Any]:
    """Fill `plan.out` and return the report. `advance` hears how many tasks there are and what is being done.

    Raises:
        UserError: no source can be used, or the folder was begun with other settings.
        SandboxError: the sandbox fails again and again.
    """
    if plan.out.exists() and not plan.out.is_dir():
        raise UserError(f"--out must be a folder: got {plan.out}, which is a file - name another")
    plan.out.mkdir(parents=True, exist_ok=True)
    settings = {"seed": plan.seed, "operators": list(plan.operators), "repeats": plan.repeats,
                "per_target": plan.per_target, "combined": plan.combined}  # fmt: skip
    with hold(plan.out / "lock", "--out"), ExitStack() as stack:
        Store(plan.out).sweep()
        journal = Journal(plan.out, settings)
        stack.callback(journal.close)
        tally = Tally()
        began = time.monotonic()
        sites = _sites(plan, sandbox, tally, advance)
        tally.prepare_s = time.monotonic() - began
        began = time.monotonic()
        benches = Benches(plan.out, sandbox)
        stack.callback(benches.close)
        tasks = _tasks(plan, sites, benches, journal, tally, advance)
        tally.bugs_s = time.monotonic() - began
        report = summary(plan, tally, tasks)
        _write(plan, sites, tasks, report)
    return report


def _sites(plan: Plan, sandbox: Sandbox, tally: Tally, advance: Callable[[int, str], None]) -> list[_Site]:
    sites: list[_Site] = []
    names = Names(plan.out)
    with ThreadPoolExecutor(plan.workers, thread_name_prefix="noria-source") as pool:
        sources = list(dict.fromkeys(plan.sources))
        futures = [pool.submit(_prepared, source, plan, sandbox, names, advance) for source in sources]
        try:
            found = [(source, future.result()) for source, future in zip(sources, futures, strict=True)]
        finally:
            for future in futures:
                future.cancel()
    for source, prepared in found:
        tally.sources[source] = prepared if isinstance(prepared, str) else ""
        if isinstance(prepared, str):
            continue
        if prepared.notes:
            tally.notes[source] = list(prepared.notes)
        sites.append(_Site(prepared, Store(plan.out).root / prepared.repo.tree))
    if not sites:
        why = "; ".join(f"{source}: {reason}" for source, reason in tally.sources.items())
        raise UserError(f"SOURCE must name a repository that tasks can be made of: got {why} - name another")
    return sites


def _prepared(
    source: str, plan: Plan, sandbox: Sandbox, names: Names, advance: Callable[[int, str], None]
) -> Prepared | str:
    """A source that can be used, or why it cannot."""
    advance(0, source)
    try:
        return prepare(source, plan.out, sandbox, names, plan.languages)
    except Refused as fault:
        return str(fault)


def _tasks(
    plan: Plan,
    sites: Sequence[_Site],
    benches: Benches,
    journal: Journal,
    tally: Tally,
    advance: Callable[[int, str], None],
) -> list[SweTask]:
    """Proven, new tasks in the order of their candidates, whoever was done first."""
    curation = Curation(2 * plan.count + 64, plan.per_target, read_evaluation(plan.evaluation))
    by_name = {site.prepared.repo.name: site for site in sites}
    tasks: list[SweTask] = []
    waiting: deque[tuple[Candidate, str, Future[Verdict] | None]] = deque()
    proven: dict[str, list[Candidate]] = defaultdict(list)
    stream = _stream(plan, sites, proven, tasks)
    faults = 0
    with ThreadPoolExecutor(plan.workers, thread_name_prefix="noria-proof") as pool:
        try:
            while len(tasks) < plan.count:
                while len(waiting) < 2 * plan.workers:
                    candidate = next(stream, None)
                    if candidate is None:
                        break
                    if curation.crowded(candidate.repo, candidate.target):
                        continue
                    site = by_name[candidate.repo]
                    key = candidate.key(site.prepared.repo.tree)
                    future = (
                        None if key in journal.known else pool.submit(_prove, site, benches, candidate, plan.repeats)
                    )
                    waiting.append((candidate, key, future))
                if not waiting:
                    break
                candidate, key, future = waiting.popleft()
                site = by_name[candidate.repo]
                if future is not None:
                    try:
                        verdict = future.result()
                        faults = 0
                    except SandboxError as fault:
                        faults += 1
                        tally.refused["the sandbox failed"] += 1
                        if faults >= FAULTS:
                            raise SandboxError(f"the sandbox failed {FAULTS} times in a row: {fault}") from fault
                        continue
                    journal.note(key, _line(site, candidate, verdict, plan.seed))
                    tally.fresh += 1
                task = _settled(candidate, journal.known[key], curation, tally)
                if task is not None:
                    if len(candidate.mutations) == 1:
                        proven[candidate.repo].append(candidate)
                    tasks.append(task)
                    tally.fresh_kept += future is not None
                advance(len(tasks), candidate.repo)
        finally:
            for _, _, future in waiting:
                if future is not None:
                    future.cancel()
    return tasks


def _stream(
    plan: Plan, sites: Sequence[_Site], proven: Mapping[str, list[Candidate]], tasks: Sequence[SweTask]
) -> Iterator[Candidate]:
    """Single bugs until their share is reached, then pairs of those that were proven, then single ones again."""
    singles = _in_turn(plan, sites)
    wanted = plan.count - round(plan.combined * plan.count)
    for candidate in singles:
        yield candidate
        if len(tasks) >= wanted:
            break
    pairs = {
        repo: combinations(list(found), derive(plan.seed, repo, "pairs"), 4 * (plan.count - wanted))
        for repo, found in sorted(proven.items())
    }
    yield from (pair for turn in zip_longest(*pairs.values()) for pair in turn if pair is not None)
    yield from singles


def _in_turn(plan: Plan, sites: Sequence[_Site]) -> Iterator[Candidate]:
    """Candidates of each repository in turn, as long as it has any: one, or several where benches are scarce."""
    streams = [
        candidates(site.prepared, site.tree, derive(plan.seed, site.prepared.repo.name), plan.operators or None)
        for site in sites
    ]
    turn = 1 if len(streams) <= OPEN else TURN
    while streams:
        going = []
        for stream in streams:
            found = list(islice(stream, turn))
            yield from found
            if len(found) == turn:
                going.append(stream)
        streams = going


def _prove(site: _Site, benches: Benches, candidate: Candidate, repeats: int) -> Verdict:
    paths = dict.fromkeys(edit.path for edit in candidate.edits)
    files = apply({path: (site.tree / path).read_bytes() for path in paths}, candidate.edits)
    with benches.use(site.prepared) as bench:
        prover = Prover(bench, site.prepared.repo, repeats)
        for _ in range(TRIES - 1):
            try:
                return prover.prove(files, candidate.tests)
            except SandboxError:
                continue
        return prover.prove(files, candidate.tests)


def _line(site: _Site, candidate: Candidate, verdict: Verdict, seed: int) -> dict[str, Any]:
    """What the journal holds of a candidate: all that a task needs."""
    repo = site.prepared.repo
    line: dict[str, Any] = {
        "repo": repo.name, "operator": candidate.operator, "target": candidate.target, "reason": verdict.reason,
        "seconds": verdict.seconds,
    }  # fmt: skip
    if verdict.reason:
        return line
    return line | {"task": _task(site, candidate, verdict, seed).to_json()}


def _task(site: _Site, candidate: Candidate, verdict: Verdict, seed: int) -> SweTask:
    repo = site.prepared.repo
    paths = dict.fromkeys(edit.path for edit in candidate.edits)
    sound = {path: (site.tree / path).read_bytes() for path in paths}
    patch = diff(apply(sound, candidate.edits), sound)
    passing = len(repo.tests) - len(verdict.fail_to_pass) - len(verdict.unsure)
    key = candidate.key(repo.tree)
    language = site.prepared.language
    read = partial(_text, site.tree)
    statement = state(
        repo.layout.name, verdict.said or {}, passing, patch, random.Random(f"{seed}/{key}/statement"),
        (lambda test: language.quote(repo.layout, test, read)) if isinstance(language, Quoting) else lambda test: "",
    )  # fmt: skip
    return SweTask(
        f"{repo.name}-{key}", repo.name, repo.layout.language, candidate.operator, candidate.target,
        candidate.complexity, candidate.edits, patch, statement.text, statement.style, verdict.fail_to_pass,
        verdict.unsure, {"seed": seed, "tree": repo.tree, "deps": repo.deps},
    )  # fmt: skip


def _text(tree: Path, path: str) -> str:
    return (tree / path).read_text(encoding="utf-8", errors="replace")


def _settled(candidate: Candidate, line: dict[str, Any], curation: Curation, tally: Tally) -> SweTask | None:
    """Count a candidate that was tried, now or before; its task where it is kept."""
    where = (candidate.repo, candidate.operator)
    tally.tried[where] += 1
    tally.sandbox_s += float(line["seconds"])
    if line["reason"]:
        tally.refused[str(line["reason"])] += 1
        return None
    tally.proven[where] += 1
    task = SweTask.from_json(line["task"])
    reason = curation.refuse(task.repo, task.target, task.patch, task.statement)
    if reason:
        tally.refused[reason] += 1
        return None
    tally.kept[where] += 1
    return task


def summary(plan: Plan, tally: Tally, tasks: Sequence[SweTask]) -> dict[str, Any]:
    """The report: counts, shares and speed. Rates are of this call alone, journalled candidates left out."""
    repos = sorted({repo for repo, _ in tally.tried})
    operators = sorted({operator for _, operator in tally.tried})
    tried, proven = sum(tally.tried.values()), sum(tally.proven.values())
    hours = tally.bugs_s / 3600
    return {
        "tasks": len(tasks),
        "asked": plan.count,
        "tried": tried,
        "proven": proven,
        "yield": round(proven / tried, 4) if tried else 0.0,
        "refused": dict(tally.refused.most_common()),
        "by_repo": {repo: _share(tally, 0, repo) for repo in repos},
        "by_operator": {name: _share(tally, 1, name) for name in operators},
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


def _share(tally: Tally, part: int, name: str) -> dict[str, Any]:
    """Counts of one repository (`part` 0) or operator (1)."""
    counts = (tally.tried, tally.proven, tally.kept)
    tried, proven, kept = (sum(n for key, n in each.items() if key[part] == name) for each in counts)
    return {"tried": tried, "proven": proven, "kept": kept, "yield": round(proven / tried, 4) if tried else 0.0}


def _spread(counts: Sequence[int]) -> dict[str, int]:
    found = sorted(counts)
    return {"least": found[0], "median": found[len(found) // 2], "most": found[-1]} if found else {}


def _changed(patch: str) -> int:
    return sum(line.startswith(("+", "-")) and not line.startswith(("+++", "---")) for line in patch.split("\n"))


def _write(plan: Plan, sites: Sequence[_Site], tasks: Sequence[SweTask], report: dict[str, Any]) -> None:
    """Each file appears whole; the head comes last."""
    lines = "".join(json.dumps(task.to_json()) + "\n" for task in tasks)
    head = {
        "format": FORMAT, "tasks": len(tasks), "seed": plan.seed, "sources": list(plan.sources),
        "repos": {site.prepared.repo.name: _about(site.prepared.repo) for site in sites},
    }  # fmt: skip
    for name, text in ((TASKS, lines), (REPORT, json.dumps(report, indent=1)), (DATASET, json.dumps(head, indent=1))):
        partial = plan.out / f"{name}.partial"
        partial.write_text(text, encoding="utf-8")
        partial.replace(plan.out / name)


def _about(repo: Repo) -> dict[str, Any]:
    return {"source": repo.source, "revision": repo.revision, "language": repo.layout.language,
            "tests": len(repo.tests), "suite_s": repo.suite_s, "tree": repo.tree, "deps": repo.deps,
            "left_out": dict(repo.left_out)}  # fmt: skip
