"""Runs the tests of a repository in a workspace over its layers, and reads what they report."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from noria.core import registry
from noria.core.errors import SandboxError, UserError
from noria.core.protocols import ExecResult, Layered, Sandbox, Shape, Workspace
from noria.envs.swe.records import Repo
from noria.languages.base import (
    DEPS,
    DIED,
    GIVEN,
    SLOW,
    WORKSPACE,
    Covering,
    Ending,
    Knowing,
    Language,
    Layout,
    Sealing,
    Showing,
    Status,
    Step,
    Telling,
    Warm,
)

#: Start of the folders that reports go to.
PLACE = ".noria-"
#: A file that makes a folder be there.
_MARK = ".here"


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of tests told. `said`: test or file -> message; `seconds`: by test; `known`: all that were found.

    ended   program of tests -> whether it ended well; None where the language has no such programs (`Ending`)
    """

    status: Mapping[str, Status]
    said: Mapping[str, str]
    seconds: Mapping[str, float]
    result: ExecResult
    reports: Mapping[str, bytes]
    known: tuple[str, ...] = ()
    ended: Mapping[str, bool] | None = None

    @property
    def cutting(self) -> Mapping[str, str]:
        """Tests, or files of tests, that a run ended at, and how."""
        return {test: said for test, said in self.said.items() if said in (SLOW, DIED)}

    @property
    def cut(self) -> str:
        """Why the run did not end by itself, "" where it did."""
        if self.result.timed_out:
            return "it ran out of time"
        if self.result.killed:
            return f"it was stopped: {self.result.killed}"
        return next((f"{test} {said}" for test, said in self.cutting.items()), "")


def shape(layers: Path, repo: Repo, built: bool, warm: tuple[str, ...] = ()) -> Shape:
    """The sandbox of a repository: for tests with what a build leaves, for a policy without: that would show the fix.

    `layers` is the folder of the dataset's layers. Raises UserError where the language's toolchain is missing.
    """
    language: Language = registry.resolve("languages", repo.layout.language).build()
    lacking = language.missing()
    if lacking is not None:
        raise UserError(f"the language of {repo.name} must be one that this machine can run: got {lacking}")
    deps = layers / repo.deps
    shown = [(WORKSPACE, str(layers / repo.tree)), (DEPS, str(deps)), *shown_by(language, deps)]
    if built and repo.built:
        shown.insert(1, (WORKSPACE, str(layers / repo.built)))
    return Shape(layers=tuple(shown), hidden=repo.layout.hidden, warm=warm)


def shown_by(language: Language, deps: Path) -> tuple[tuple[str, str], ...]:
    """What a language asks to be shown beside the layers."""
    return language.shows(deps) if isinstance(language, Showing) else ()


class Bench:
    """Tests of one repository. `sandbox` is in its shape. Thread-safe as far as the sandbox is.

    `warm`: runs start with the runner loaded, where the language can; the sandbox's shape must say so too. The layers'
    files are then in the memory of the process, so nothing that a policy wrote is run like that.
    """

    def __init__(self, sandbox: Sandbox, language: Language, layout: Layout, warm: bool = False) -> None:
        self.sandbox, self.language, self.layout = sandbox, language, layout
        self._warm = language if warm and isinstance(language, Warm) else None

    def run(self, workspace: Workspace, tests: Sequence[str] | None, timeout_s: float | None = None) -> Run:
        """Run these tests, or all. The workspace is as before afterwards, but for what the tests wrote.

        Raises:
            SandboxError: nothing is known.
        """
        place = f"{PLACE}{secrets.token_hex(8)}"
        return self._do(workspace, self.language.command(self.layout, tests, f"{WORKSPACE}/{place}"), place, timeout_s)

    def coverage(self, workspace: Workspace) -> Mapping[str, Mapping[str, frozenset[int]]] | None:
        """Test -> path -> lines, None where the language cannot tell."""
        if not isinstance(self.language, Covering):
            return None
        place = f"{PLACE}{secrets.token_hex(8)}"
        run = self._do(workspace, self.language.coverage(self.layout, f"{WORKSPACE}/{place}"), place, None)
        return self.language.read_coverage(run.reports) or None

    def _do(self, workspace: Workspace, step: Step, place: str, timeout_s: float | None) -> Run:
        limit_s = min(step.timeout_s, timeout_s or step.timeout_s)
        if not isinstance(workspace, Layered):
            raise SandboxError("the sandbox does not show layers")
        sealing = self.language if isinstance(self.language, Sealing) and self.language.seals(self.layout) else None
        key = secrets.token_hex(16)
        if sealing is not None:
            workspace.write(f"{place}/{sealing.key}", key)
        if step.given:
            workspace.write(f"{place}/{GIVEN}", step.given)
        if self._warm is None:
            result = workspace.run(argv(step, f"mkdir -p {place} && "), limit_s)
        else:
            workspace.write(f"{place}/{_MARK}", "")
            program, env = self._warm.warmed(self.layout, step)
            result = workspace.warm(program, env, limit_s)
        reports: dict[str, bytes] = {}
        for path, change in workspace.changes().items():
            if path.startswith(f"{place}/"):
                workspace.remove(path)
                if change is not None and not path.endswith((f"/{_MARK}", f"{place}/{GIVEN}")):
                    reports[path.removeprefix(f"{place}/")] = change[0]
        if sealing is not None:
            reports = dict(sealing.unsealed(reports, key.encode()))
        teller = self.language if isinstance(self.language, Telling) else None
        return Run(
            self.language.read(reports, result),
            teller.read_said(reports) if teller is not None else {},
            teller.read_seconds(reports) if teller is not None else {},
            result,
            reports,
            self.language.read_known(reports) if isinstance(self.language, Knowing) else (),
            self.language.read_ended(reports) if isinstance(self.language, Ending) else None,
        )


def argv(step: Step, before: str = "") -> list[str]:
    """The words that run an inside step from the root of the workspace."""
    env = [f"{name}={value}" for name, value in step.env]
    return [
        "/usr/bin/env",
        *env,
        "/bin/sh",
        "-c",
        f'{before}cd "$1" && shift && exec "$@"',
        "sh",
        step.folder,
        *step.argv,
    ]
