"""Grades what an agent left: its changes to sources, on the broken tree with the tests as they were, in a fresh box.

Nothing of the agent runs any more: every command's processes were dead when it returned. What it changed of tests,
settings, and whatever decides what a test run loads, is left out.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from noria.core.errors import PolicyError, SandboxError
from noria.core.protocols import Layered, Workspace
from noria.core.types import Outcome
from noria.envs.swe.records import Repo, SweTask
from noria.envs.swe.trial import PLACE, Bench, Run
from noria.languages.base import UNENDED, Ending, Wary

#: A run of tests takes at most so many times what it takes on the sound tree, and so many seconds at least.
SLOWER, LEAST_S = 10.0, 60.0
#: Names of files that are shown at most.
SHOWN = 3
_NUMBERED = re.compile(r"(.*)#\d+", re.S)


@dataclass(slots=True)
class Taken:
    """An agent's changes. `sources`: path -> new content, None = removed; `left_out`: paths that don't count.

    `restored`: files that are as on the sound tree.
    """

    sources: dict[str, bytes | None] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    restored: set[str] = field(default_factory=set)


def taken(workspace: Workspace, start: Mapping[str, bytes | None], repo: Repo, bench: Bench) -> Taken:
    """What an agent changed in a workspace that began with `start` over the layers. Raises SandboxError."""
    if not isinstance(workspace, Layered):
        raise SandboxError("the sandbox does not show layers")
    found = Taken()
    for path, change in workspace.changes().items():
        content = None if change is None else change[0]
        if path in start and start[path] == content:
            continue
        aside = path.startswith((".", PLACE)) or any(
            fnmatch.fnmatchcase(part, pattern) for part in path.split("/") for pattern in bench.language.caches
        )
        if aside:
            continue
        if bench.language.steers(repo.layout, path):
            found.left_out.append(path)
        else:
            found.sources[path] = content
    found.restored = {path for path in start.keys() - workspace.changes().keys() if start[path] is not None}
    return found


def grade(task: SweTask, repo: Repo, bench: Bench, broken: Mapping[str, bytes], changes: Taken) -> Outcome:
    """1 if every test of the task passes. Raises SandboxError: nothing is known."""
    meddled = _meddled(bench, changes, broken)
    if meddled:
        return Outcome(0.0, {}, meddled)
    tests = (*task.fail_to_pass, *task.pass_to_pass(repo))
    space = bench.sandbox.workspace({})
    try:
        _lay(space, {**{path: broken[path] for path in broken if path not in changes.restored}, **changes.sources})
        run = bench.run(space, tests, max(LEAST_S, SLOWER * repo.suite_s))
    except PolicyError as fault:
        return Outcome(0.0, {}, f"the changes do not fit together: {fault}")
    finally:
        space.close()
    asked = {"fail_to_pass": task.fail_to_pass, "pass_to_pass": task.pass_to_pass(repo)}
    parts = {
        name: sum(run.status.get(test) == "pass" for test in tests) / len(tests)
        for name, tests in asked.items()
        if tests
    }
    if run.cut:
        return Outcome(0.0, parts, f"the tests did not end: {run.cut}")
    doubted = _twice(run, repo) | _unended(run, bench, task, repo)
    failing = [test for test in tests if run.status.get(test) != "pass" or test in doubted]
    return Outcome(float(not failing), parts, _reason(failing, len(tests), changes))


def _twice(run: Run, repo: Repo) -> set[str]:
    """Tests that were reported once more than on the sound tree: a runner numbers those of one name."""
    known = {*repo.tests, *(test for test, _ in repo.left_out)}
    more = (_NUMBERED.fullmatch(test) for test in run.status if test not in known)
    return {found[1] for found in more if found is not None}


def _unended(run: Run, bench: Bench, task: SweTask, repo: Repo) -> set[str]:
    """Tests in programs that did not end as where all tests pass, unless another test was to fail in there."""
    language = bench.language
    if run.ended is None or not isinstance(language, Ending):
        return set()
    asked = (*task.fail_to_pass, *task.pass_to_pass(repo))
    units = {language.unit(test) for test in asked}
    others = [*task.unsure, *(test for test, _ in repo.left_out)]
    excused = {language.program(test) for test in others if language.unit(test) in units}
    excused |= set(json.loads(repo.layout.fact(UNENDED, "[]")))
    programs = {test: language.program(test) for test in asked}
    return {test for test, name in programs.items() if name not in excused and not run.ended.get(name, False)}


def _lay(space: Workspace, files: Mapping[str, bytes | None]) -> None:
    assert isinstance(space, Layered)
    for path, content in files.items():
        if content is None:
            space.remove(path)
    for path, content in files.items():
        if content is not None:
            space.write(path, content.decode("utf-8", "surrogateescape"))


def _meddled(bench: Bench, changes: Taken, broken: Mapping[str, bytes]) -> str:
    language = bench.language
    if not isinstance(language, Wary):
        return ""
    base = bench.sandbox.workspace({})
    try:
        for path, content in changes.sources.items():
            if content is None or not path.endswith(language.watched):
                continue
            if not path.endswith(language.suffixes) and not _named(path, bench, changes, base):
                continue
            before = _text(base, path) + broken.get(path, b"").decode("utf-8", "replace")
            found = language.tampers(before, content.decode("utf-8", "replace"))
            if found:
                return f"{path} reaches for what runs the tests: {found}"
    finally:
        base.close()
    return ""


def _named(path: str, bench: Bench, changes: Taken, base: Workspace) -> bool:
    """Whether a source, or another file that was changed, names one that is no source, and so may take it in."""
    name = path.rpartition("/")[2]
    others = (data for each, data in changes.sources.items() if data is not None and each != path)
    new = (data.decode("utf-8", "replace") for data in others)
    return any(name in text for text in new) or any(name in _text(base, each) for each in bench.layout.sources)


def _text(base: Workspace, path: str) -> str:
    try:
        return base.read(path)
    except PolicyError:
        return ""


def _reason(failing: list[str], total: int, changes: Taken) -> str:
    if not failing:
        return ""
    said = f"{len(failing)} of {total} tests fail: {', '.join(failing[:SHOWN])}"
    if changes.left_out:
        said += f"; changes to {', '.join(changes.left_out[:SHOWN])} do not count"
    return said
