"""Proves a bug: tests that fail with it and pass without it, each time, while others go on passing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noria.core.errors import PolicyError, SandboxError
from noria.core.protocols import Workspace
from noria.envs.swe.records import Repo
from noria.envs.swe.trial import Bench, Run

#: A run takes at most so many times what it takes on the sound tree, and so many seconds at least.
SLOWER, LEAST_S = 8.0, 20.0
#: A run that was cut is endless if the sound tree takes so many times less, just then; else it is tried so often.
_FAR, _WAITS = 4.0, 3
#: The covering tests are run first where they are at most this share of all.
SELECTED = 0.7
#: A bug that breaks more of the tests than this share says too little about where it is.
MOST_BROKEN = 0.9


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a candidate. `reason` is "" where it was proven; `seconds` of sandbox time.

    said    messages of tests that fail, by test
    """

    reason: str
    fail_to_pass: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    said: Mapping[str, str] | None = None
    seconds: float = 0.0


class _Cut(Exception):
    """A run said nothing of what was asked; it took `seconds`."""

    def __init__(self, why: str, seconds: float) -> None:
        super().__init__(why)
        self.seconds = seconds


class Prover:
    """Runs the tests of one repository against bugs. `repeats` runs must say the same, with and without the bug."""

    def __init__(self, bench: Bench, repo: Repo, repeats: int) -> None:
        self._bench, self._repo, self._repeats = bench, repo, repeats
        self._limit_s = max(LEAST_S, SLOWER * repo.suite_s)

    def prove(self, files: Mapping[str, bytes], covering: tuple[str, ...] | None) -> Verdict:
        """`files`: those that the bug changes. Raises SandboxError: nothing is known."""
        seconds = 0.0
        selected = covering if covering and len(covering) <= SELECTED * len(self._repo.tests) else None
        try:
            if selected is not None:
                run = self._run(files, selected)
                seconds += run.result.seconds
                if not self._failing(run, selected):
                    return Verdict("no test fails", seconds=seconds)
            whole = self._run(files, self._repo.tests)
            seconds += whole.result.seconds
            failing = self._failing(whole, self._repo.tests)
            reason = self._unfit(whole, failing)
            if reason:
                return Verdict(reason, seconds=seconds)
            sure = set(failing)
            for _ in range(self._repeats - 1):
                again = self._run(files, failing)
                seconds += again.result.seconds
                sure &= set(self._failing(again, failing))
        except _Cut as fault:
            return Verdict(str(fault), seconds=round(seconds + fault.seconds, 3))
        if not sure:
            return Verdict("no test fails each time", seconds=seconds)
        fail_to_pass = tuple(test for test in failing if test in sure)
        unsure = tuple(test for test in failing if test not in sure)
        return Verdict("", fail_to_pass, unsure, {t: whole.said.get(t, "") for t in fail_to_pass}, round(seconds, 3))

    def _run(self, files: Mapping[str, bytes], tests: tuple[str, ...]) -> Run:
        """A run that ended by itself. Where the sound tree takes long too, the machine is busy: it gets more time."""
        limit_s = self._limit_s
        for _ in range(_WAITS):
            run = self._once(files, tests, limit_s)
            if not run.cut:
                return run
            if not (run.result.timed_out or "longer" in run.cut):
                raise _Cut("the run was killed", run.result.seconds)
            sound = self._once({}, tests, limit_s)
            if not sound.cut and _FAR * sound.result.seconds <= limit_s:
                raise _Cut("a test does not end", run.result.seconds)
            limit_s = SLOWER * (limit_s if sound.cut else sound.result.seconds)
        raise SandboxError("the machine is so busy that the sound tree's tests do not end in time either")

    def _once(self, files: Mapping[str, bytes], tests: tuple[str, ...], limit_s: float) -> Run:
        space = self._bench.sandbox.workspace({})
        try:
            lay(space, files)
            return self._bench.run(space, tests, limit_s)
        except PolicyError as fault:
            raise SandboxError(f"the bug does not fit into the sandbox: {fault}") from fault
        finally:
            space.close()

    def _failing(self, run: Run, asked: tuple[str, ...]) -> tuple[str, ...]:
        """Tests that did not pass; one of which nothing is said stood in a file that could not be loaded."""
        return tuple(test for test in asked if run.status.get(test, "error") in ("fail", "error"))

    def _unfit(self, run: Run, failing: tuple[str, ...]) -> str:
        if not failing:
            return "no test fails"
        if not run.status:
            return "the sources cannot be loaded"
        if len(failing) > MOST_BROKEN * len(self._repo.tests):
            return "nearly all tests fail"
        if all(run.status.get(test) is None for test in failing):
            return "the sources cannot be loaded"
        return ""


def lay(space: Workspace, files: Mapping[str, bytes]) -> None:
    """Write files of a tree. Raises PolicyError: they do not fit."""
    for path, data in files.items():
        space.write(path, data.decode("utf-8", "surrogateescape"))
