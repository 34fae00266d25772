"""Makes a dataset: prepares sources, tries candidates side by side, keeps proven tasks, and writes all down.

sources ─► repositories ─► candidates in turn ─► proof (workers) ─► statement ─► curation ─► tasks.jsonl
                                   └── journal: what was tried is not tried again ──┘
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from noria.core.code import apply, diff
from noria.core.errors import SandboxError, UserError
from noria.core.lock import hold
from noria.core.protocols import Sandbox
from noria.core.seeds import derive
from noria.envs.swe.records import DATASET, FORMAT, TASKS, Repo, SweTask
from noria.factory.benches import OPEN, Benches
from noria.factory.bugs import candidates, combinations
from noria.factory.candidate import Candidate, Site, woven
from noria.factory.curation import Curation, read_evaluation
from noria.factory.journal import JOURNAL, Journal
from noria.factory.layers import Store
from noria.factory.place import begin
from noria.factory.proof import Prover, Verdict
from noria.factory.proposed import Ask, Proposals
from noria.factory.report import Tally, summary
from noria.factory.repository import Names, Prepared, Refused, prepare
from noria.factory.statements import state
from noria.factory.worded import Wording
from noria.languages.base import Quoting

REPORT = "report.json"
#: Times that a candidate is tried where the sandbox fails, and such failures in a row that end the making.
TRIES, FAULTS = 2, 20
#: Candidates of one repository in a row, where there are more of those than benches stay open.
TURN = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be made.

    repeats      runs that must say the same
    per_target   tasks of one function at most
    combined     share of the tasks that put two proven bugs together
    history      commits of a repository that are taken back at most, 0 = its history is not looked at
    model        name of the model that writes bugs, "" = none does
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
    history: int = 0
    model: str = ""
    worded: bool = False

    def settings(self) -> dict[str, Any]:
        """What decides which candidates are tried; what was not asked for is not there."""
        settled = {"seed": self.seed, "operators": list(self.operators), "repeats": self.repeats,
                   "per_target": self.per_target, "combined": self.combined}  # fmt: skip
        asked = {"history": self.history, "model": self.model, "worded": self.worded}
        return settled | {name: value for name, value in asked.items() if value}


def make(
    plan: Plan,
    sandbox: Sandbox,
    advance: Callable[[int, str], None] = lambda kept, what: None,
    ask: Ask | None = None,
) -> dict[str, Any]:
    """Fill `plan.out` and return the report. `advance` hears how many tasks there are and what is being done.

    `ask` asks the model of `plan.model` for bugs, and for statements where the plan says so.

    Raises:
        UserError: no source can be used, or the folder is not one of this command, or of one with other settings.
        SandboxError: the sandbox fails again and again.
        EngineError: the model's server does.
    """
    with hold(begin(plan.out), "--out"), ExitStack() as stack:
        Store(plan.out).sweep()
        journal = Journal(plan.out, plan.settings())
        stack.callback(journal.close)
        tally = Tally()
        curation = Curation(2 * plan.count + 64, plan.per_target, read_evaluation(plan.evaluation))
        began = time.monotonic()
        sites = _sites(plan, sandbox, tally, advance)
        tally.prepare_s = time.monotonic() - began
        began = time.monotonic()
        benches = Benches(plan.out, sandbox)
        stack.callback(benches.close)
        proposals = Proposals(plan.out, ask) if ask is not None else None
        if proposals is not None:
            stack.callback(proposals.close)
        wording = Wording(ask) if ask is not None and plan.worded else None
        tools = _Tools(benches, journal, proposals, wording, curation)
        tasks = _tasks(plan, sites, tools, tally, advance)
        tally.bugs_s = time.monotonic() - began
        if len(tasks) < plan.count:
            tried = {repo for repo, _ in tally.tried}
            for site in sites:
                if site.name not in tried:
                    tally.notes.setdefault(site.prepared.repo.source, []).append("nothing in it can be broken")
        report = summary(plan.count, tally, tasks)
        if proposals is not None:
            report["proposals"] = dict(proposals.counts.most_common())
        if wording is not None:
            report["worded"] = dict(wording.counts.most_common())
        _write(plan, sites, tasks, report)
    return report


def _sites(plan: Plan, sandbox: Sandbox, tally: Tally, advance: Callable[[int, str], None]) -> list[Site]:
    sites: list[Site] = []
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
        sites.append(Site(prepared, Store(plan.out).root / prepared.repo.tree))
        tally.languages[prepared.repo.name] = prepared.repo.layout.language
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
        return prepare(source, plan.out, sandbox, names, plan.languages, plan.history)
    except Refused as fault:
        return str(fault)


@dataclass(frozen=True, slots=True)
class _Tools:
    """What candidates come from, are proven with, and must pass."""

    benches: Benches
    journal: Journal
    proposals: Proposals | None
    wording: Wording | None
    curation: Curation


def _tasks(
    plan: Plan, sites: Sequence[Site], tools: _Tools, tally: Tally, advance: Callable[[int, str], None]
) -> list[SweTask]:
    """Proven, new tasks in the order of their candidates, whoever was done first."""
    by_name = {site.prepared.repo.name: site for site in sites}
    tasks: list[SweTask] = []
    waiting: deque[tuple[Candidate, str, Future[dict[str, Any]] | None]] = deque()
    proven: dict[str, list[Candidate]] = defaultdict(list)
    stream = _stream(plan, sites, tools.proposals, proven, tasks)
    journal, curation = tools.journal, tools.curation
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
                    future = None if key in journal.known else pool.submit(_tried, site, tools, candidate, plan)
                    waiting.append((candidate, key, future))
                if not waiting:
                    break
                candidate, key, future = waiting.popleft()
                site = by_name[candidate.repo]
                if future is not None:
                    try:
                        line = future.result()
                        faults = 0
                    except SandboxError as fault:
                        faults += 1
                        tally.refused["the sandbox failed"] += 1
                        if faults >= FAULTS:
                            raise SandboxError(f"the sandbox failed {FAULTS} times in a row: {fault}") from fault
                        continue
                    journal.note(key, line)
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
    plan: Plan,
    sites: Sequence[Site],
    proposals: Proposals | None,
    proven: Mapping[str, list[Candidate]],
    tasks: Sequence[SweTask],
) -> Iterator[Candidate]:
    """Single bugs until their share is reached, then pairs of those that were proven, then single ones again."""
    singles = _in_turn(plan, sites, proposals)
    wanted = plan.count - round(plan.combined * plan.count)
    for candidate in singles:
        yield candidate
        if len(tasks) >= wanted:
            break
    pairs = {
        name: combinations(proven[name], site, derive(plan.seed, name, "pairs"), 4 * (plan.count - wanted))
        for name, site in sorted({site.name: site for site in sites if proven.get(site.name)}.items())
    }
    yield from (pair for turn in zip_longest(*pairs.values()) for pair in turn if pair is not None)
    yield from singles


def _in_turn(plan: Plan, sites: Sequence[Site], proposals: Proposals | None) -> Iterator[Candidate]:
    """Candidates of each language in turn, of its repositories in turn: one, or several where benches are scarce."""
    by_language: dict[str, list[Iterator[list[Candidate]]]] = defaultdict(list)
    turn = 1 if len(sites) <= OPEN else TURN
    for site in sites:
        found = candidates(site, derive(plan.seed, site.name), plan.operators or None, proposals)
        by_language[site.prepared.repo.layout.language].append(_turns(found, turn))
    streams = [(1.0, woven([(1.0, each) for each in found])) for found in by_language.values()]
    yield from chain.from_iterable(woven(streams))


def _turns(found: Iterator[Candidate], turn: int) -> Iterator[list[Candidate]]:
    """A stream in lists of `turn`."""
    while batch := list(islice(found, turn)):
        yield batch


def _tried(site: Site, tools: _Tools, candidate: Candidate, plan: Plan) -> dict[str, Any]:
    """What the journal is told of a candidate. Raises SandboxError: nothing is known."""
    verdict = _prove(site, tools.benches, candidate, plan.repeats)
    return _line(site, candidate, verdict, plan.seed, tools.wording)


def _prove(site: Site, benches: Benches, candidate: Candidate, repeats: int) -> Verdict:
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


def _line(site: Site, candidate: Candidate, verdict: Verdict, seed: int, wording: Wording | None) -> dict[str, Any]:
    """What the journal holds of a candidate: all that a task needs."""
    repo = site.prepared.repo
    line: dict[str, Any] = {
        "repo": repo.name, "operator": candidate.operator, "target": candidate.target, "reason": verdict.reason,
        "seconds": verdict.seconds,
    }  # fmt: skip
    if verdict.reason:
        return line
    return line | {"task": _task(site, candidate, verdict, seed, wording).to_json()}


def _task(site: Site, candidate: Candidate, verdict: Verdict, seed: int, wording: Wording | None) -> SweTask:
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
        candidate.missing, wording,
    )  # fmt: skip
    facts = {"seed": seed, "tree": repo.tree, "deps": repo.deps}
    return SweTask(
        f"{repo.name}-{key}", repo.name, repo.layout.language, candidate.operator, candidate.target,
        candidate.complexity, candidate.edits, patch, statement.text, statement.style, verdict.fail_to_pass,
        verdict.unsure, {**facts, "commit": candidate.commit} if candidate.commit else facts,
    )  # fmt: skip


def _text(tree: Path, path: str) -> str:
    return (tree / path).read_text(encoding="utf-8", errors="replace")


def _settled(candidate: Candidate, line: dict[str, Any], curation: Curation, tally: Tally) -> SweTask | None:
    """Count a candidate that was tried, now or before; its task where it is kept. Raises UserError: a changed line."""
    where = (candidate.repo, candidate.operator)
    try:
        seconds, reason = float(line["seconds"]), str(line["reason"])
        task = None if reason else SweTask.from_json(line["task"])
    except (KeyError, TypeError, ValueError) as fault:
        raise UserError(
            f"{JOURNAL} must be as it was written: the line with the key {line['key']} has {fault!r} - delete that line"
        ) from fault
    tally.tried[where] += 1
    tally.sandbox_s += seconds
    if task is None:
        tally.refused[reason] += 1
        return None
    tally.proven[where] += 1
    reason = curation.refuse(task.repo, task.target, task.patch, task.statement)
    if reason:
        tally.refused[reason] += 1
        return None
    tally.kept[where] += 1
    return task


def _write(plan: Plan, sites: Sequence[Site], tasks: Sequence[SweTask], report: dict[str, Any]) -> None:
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
