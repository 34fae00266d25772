"""A task's files in a workspace, and commands that see them at their absolute paths."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from noria.core.errors import PolicyError, SandboxError
from noria.core.files import Entry
from noria.core.protocols import ExecResult, Refilled, Sandbox, Workspace
from noria.envs.harbor.admission import Plan
from noria.envs.harbor.folder import File, Files
from noria.envs.harbor.places import AGENT, ARTIFACTS, HIDDEN, HOME, LOGS, SOLUTION, TESTS, USER, VERIFIER, inside

#: A single argument of a program holds 128 KiB at most.
MAX_COMMAND = 120_000
_TASKSET = "/usr/bin/taskset"


class Box:
    """The workspace of one task. Raises SandboxError where the sandbox fails."""

    def __init__(self, plan: Plan, workspace: Workspace) -> None:
        self._plan, self._workspace = plan, workspace

    @classmethod
    def build(cls, plan: Plan, sandbox: Sandbox) -> Box:
        """What the image holds. Raises SandboxError where it does not fit into the sandbox."""
        try:
            box = cls(plan, sandbox.workspace({inside(path): _text(file) for path, file in plan.image.files.items()}))
        except PolicyError as fault:
            raise SandboxError(f"the task's files do not fit into the sandbox: {fault}") from fault
        box._make_executable(plan.image.files)
        return box

    def put(self, files: Mapping[str, File]) -> bool:
        """Write files at absolute paths. False where the policy left no room or no folder for them."""
        try:
            for path, file in files.items():
                self._workspace.write(inside(path), _text(file))
        except PolicyError:
            return False
        self._make_executable(files)
        return True

    def read(self, path: str) -> str | None:
        """Text of a file, None where there is none."""
        try:
            return self._workspace.read(inside(path))
        except PolicyError:
            return None

    def bash(self, command: str, timeout_s: float, env: Mapping[str, str] | None = None) -> ExecResult:
        """Run a command in the working folder, both streams as one; every process of it is dead when this returns.

        Raises:
            PolicyError: it is too long, or has a NUL.
        """
        if len(command.encode("utf-8", "surrogateescape")) > MAX_COMMAND:
            raise PolicyError(f"a command has at most {MAX_COMMAND} bytes: write long files in parts")
        workdir = self._plan.image.workdir
        # An empty folder does not outlive a command, so those that a task may count on are made each time.
        paths = [TESTS, SOLUTION, AGENT, VERIFIER, ARTIFACTS, "/app", "/root", *([workdir] if workdir != "/" else [])]
        made = " ".join(shlex.quote(f"./{inside(path)}") for path in paths)
        script = f"cd {HOME} && mkdir -p {made} 2>/dev/null; cd {shlex.quote(workdir)} || exit 126; "
        script += 'exec 2>&1; exec bash -c "$1"'
        variables = {"HOME": USER, **self._plan.env, **(env or {})}
        words = ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items())]
        return self._workspace.run(
            [*_affinity(self._plan.cpus), *words, "bash", "-c", script, "sh", command], timeout_s
        )

    def files(self) -> dict[str, Entry]:
        """All files and links, by their paths below the root of the task's machine."""
        found = {}
        for path, entry in self._whole().files().items():
            found[path.removeprefix(f"{HIDDEN}/") if path.startswith(f"{HIDDEN}/") else f"{HOME[1:]}/{path}"] = entry
        return found

    def refill(self, files: Mapping[str, Entry]) -> None:
        """Replace all files; what lies where a task may have nothing is passed over.

        Raises:
            PolicyError: they are more than the sandbox holds.
        """
        fresh = {}
        for path, entry in files.items():
            with suppress(PolicyError):
                fresh[inside(f"/{path}")] = entry
        self._whole().refill(fresh)

    def _whole(self) -> Refilled:
        if not isinstance(self._workspace, Refilled):
            raise SandboxError(f"{type(self._workspace).__name__} does not give its files all at once")
        return self._workspace

    def clear_for_tests(self) -> None:
        """Remove what lies where the tests and their rewards will be, whatever it is, or in the place of a folder."""
        workdir = self._plan.image.workdir
        parts = [] if workdir == "/" else inside(workdir).split("/")
        above = " ".join(shlex.quote("./" + "/".join(parts[: end + 1])) for end in range(len(parts)))
        self._do(
            f"cd {HOME} && for d in {above}; do [ -d $d ] || {{ rm -f -- $d; mkdir $d; }}; done; "
            f"for d in {HIDDEN} {HIDDEN}{LOGS}; do "
            "if [ -L $d ] || { [ -e $d ] && [ ! -d $d ]; }; then rm -f -- $d; fi; done; "
            f"rm -rf -- {HIDDEN}{TESTS} {HIDDEN}{SOLUTION} {HIDDEN}{VERIFIER}"
        )

    def keep_only(self, paths: Sequence[str]) -> None:
        """Remove everything but these files and folders: what a separate verifier gets."""
        words = " ".join(shlex.quote(inside(path)) for path in paths)
        self._do(
            f"cd {HOME} && mkdir -p .kept && for p in {words}; do [ ! -e $p ] || cp -a --parents $p .kept; done; "
            f"find . -mindepth 1 -maxdepth 1 ! -name .kept -exec rm -rf -- {{}} +; cp -a .kept/. . ; rm -rf .kept",
        )

    def fork(self) -> Box:
        """An independent copy."""
        return Box(self._plan, self._workspace.fork())

    def close(self) -> None:
        """Forget the files."""
        self._workspace.close()

    def _make_executable(self, files: Files) -> None:
        names = [shlex.quote(inside(path)) for path, file in files.items() if file.executable]
        for start in range(0, len(names), 200):
            self._do(f"cd {HOME} && chmod 755 {' '.join(names[start : start + 200])}")

    def _do(self, script: str) -> None:
        done = self._workspace.run(["/bin/sh", "-c", script], 30.0)
        if done.code != 0 or done.killed:
            raise SandboxError(f"the task's files could not be laid out: {done.stderr[:200] or done.killed}")


def _text(file: File) -> str:
    """As a workspace takes bytes."""
    return file.data.decode("utf-8", "surrogateescape")


def _affinity(cpus: float | None) -> list[str]:
    """Words that keep a command to so many cores, where there are more."""
    cores = sorted(os.sched_getaffinity(0))
    if cpus is None or math.ceil(cpus) >= len(cores) or not Path(_TASKSET).exists():
        return []
    return [_TASKSET, "-c", ",".join(str(core) for core in cores[-math.ceil(cpus) :])]
