"""Makes the file of function tasks: every source in turn, every small function of it, all rows with their splits."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noria.core.errors import SandboxError, UserError
from noria.core.lock import hold
from noria.core.protocols import Sandbox
from noria.factory.functions.build import Found, chosen, split, summary, tasks_of, watched
from noria.factory.functions.choose import Choice
from noria.factory.layers import Store
from noria.factory.place import begin
from noria.factory.repository import Names, Refused, opened, prepare

TASKS, REPORT = "functions.jsonl", "functions.json"
#: Where the finished functions of a repository are kept, so that a call that was stopped goes on.
DONE = "functions"
#: Told how much of how much is done, and of what.
Advance = Callable[[int, str, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be made. `unseen`: packages that neither training nor held-out tasks are from."""

    sources: tuple[str, ...]
    out: Path
    seed: int = 0
    unseen: tuple[str, ...] = ()


def make(plan: Plan, sandbox: Sandbox, advance: Advance = lambda done, what, total: None) -> dict[str, Any]:
    """Fill `plan.out` and return the report. `advance` hears what is being done: how much of it, and how much it is.

    Raises:
        UserError: no source can be used, none has a small function with tests, or `unseen` names none of them.
        SandboxError: the sandbox failed.
    """
    refused: dict[str, str] = {}
    found: list[tuple[str, Found]] = []
    with hold(begin(plan.out), "--out"):
        Store(plan.out).sweep()
        names = Names(plan.out)
        for number, source in enumerate(dict.fromkeys(plan.sources)):
            advance(number, source, len(plan.sources))
            try:
                found += _of(source, plan, sandbox, names, advance)
            except (Refused, SandboxError) as fault:
                refused[source] = str(fault)
        packages = {package for package, _ in found}
        if not any(one.rows for _, one in found):
            why = "; ".join(f"{source}: {said}" for source, said in refused.items())
            raise UserError(f"SOURCE must have small functions that its tests call: got {why or 'none'} - name another")
        if set(plan.unseen) - packages:
            unknown = sorted(set(plan.unseen) - packages)[0]
            raise UserError(f"--unseen must name a package made: got {unknown}, have {', '.join(sorted(packages))}")
        rows = list(split(found, plan.unseen))
        report = {**summary(found, rows), "sources_refused": refused}
        _replace(plan.out / TASKS, "".join(json.dumps(row) + "\n" for row in rows))
        _replace(plan.out / REPORT, json.dumps(report, indent=1) + "\n")
    return report


def _of(source: str, plan: Plan, sandbox: Sandbox, names: Names, advance: Advance) -> Sequence[tuple[str, Found]]:
    """The functions of one source; those of an earlier call with the same seed are read."""
    prepared = prepare(source, plan.out, sandbox, names, ("python",))
    repo = prepared.repo
    kept = plan.out / DONE / f"{repo.name}-{plan.seed}.jsonl"
    choices = chosen(Store(plan.out).root / repo.tree, repo.layout)
    if kept.exists():
        return [(repo.name, found) for found in _read(kept, choices)]
    if not choices:
        raise Refused("it has no small function that needs nothing but its arguments")
    found: list[Found] = []
    with opened(repo, plan.out, prepared.language, sandbox) as bench:
        advance(0, f"called by the tests of {repo.name}", len(choices))
        calls = watched(bench, choices)
        for number, choice in enumerate(choices):
            advance(number, f"of {repo.name}: {choice.name}", len(choices))
            found.append(tasks_of(repo.name, choice, calls[choice], bench.sandbox, plan.seed))
    kept.parent.mkdir(exist_ok=True)
    _replace(kept, "".join(json.dumps([list(one.rows), one.reason]) + "\n" for one in found))
    return [(repo.name, one) for one in found]


def _read(path: Path, choices: Sequence[Choice]) -> list[Found]:
    lines = [json.loads(text) for text in path.read_text("utf-8").splitlines()]
    return [Found(choice, tuple(rows), reason) for choice, (rows, reason) in zip(choices, lines, strict=True)]


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text, "utf-8")
    partial.replace(path)
