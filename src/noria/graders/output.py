"""Programs in the sandbox: what a program prints for each input is what is wanted."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import PolicyError
from noria.core.protocols import ExecResult, Sandbox
from noria.core.types import Outcome
from noria.graders.base import ByBlank, Case, Example, Given, need_sandbox, outcome, spec_of
from noria.graders.tests import laid_over

NEEDS = ("sandbox",)
_PROGRAM = "main.py"
#: Runs the program with its input from a file: a workspace's commands have no standard input.
_STARTER = "import runpy, sys; sys.stdin = open(sys.argv[1]); runpy.run_path(sys.argv[2], run_name='__main__')"


class Config(Checked):
    """How programs are run and compared."""

    timeout_s: float = Field(default=4.0, gt=0, le=600, description="wall clock of one input in seconds")
    total_s: float = Field(
        default=30.0, gt=0, le=3600, description="wall clock of all inputs together; what has not run then is wrong"
    )
    reward: Literal["all", "share"] = Field(
        default="all", description="all = 1 if all are right; share = the share that is"
    )
    rel_tol: float = Field(default=0.0, ge=0, le=1, description="relative error of numbers; 0 = texts are compared")
    concurrency: int = Field(default=8, ge=1, le=256, description="programs at once at most")


class Pair(Checked):
    """An input and its output."""

    stdin: str = ""
    stdout: str


class Spec(Checked):
    """What a right program does."""

    pairs: tuple[Pair, ...] = Field(min_length=1, max_length=200, description="inputs and the outputs wanted")
    files: dict[str, str] = Field(default_factory=dict, description="files that the program may read")


EXAMPLES = (
    Example(
        {"pairs": [{"stdin": "2 3\n", "stdout": "5\n"}, {"stdin": "-1 1\n", "stdout": "0"}]},
        ("a, b = map(int, input().split())\nprint(a + b)", "```python\nprint(sum(map(int, input().split())))\n```"),
        ("print(5)", "", "print(", "import sys\nsys.exit(0)"),
    ),
)


class Output(ByBlank):
    """See the module."""

    def __init__(self, config: Config, sandbox: Sandbox) -> None:
        self._config, self._sandbox = config, sandbox
        self._threads = ThreadPoolExecutor(config.concurrency, thread_name_prefix="noria-output")

    async def grade(self, case: Case) -> Outcome:
        """The reward; the part `outputs` is the share of outputs that are right.

        Raises:
            SandboxError: the sandbox failed.
        """
        spec = spec_of(Spec, case)
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._threads, self._run, case, spec)
        except PolicyError as fault:
            return outcome(False, str(fault)[:200], {"outputs": 0.0})
        right = [self._same(result, pair.stdout) for result, pair in zip(results, spec.pairs, strict=True)]
        share = sum(right) / len(right)
        reason = "" if share == 1 else _reason(results[right.index(False)], right.index(False) + 1)
        return Outcome(share if self._config.reward == "share" else float(share == 1), {"outputs": share}, reason)

    async def close(self) -> None:
        """Let go of the threads; runs under way end within their limits."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, case: Case, spec: Spec) -> list[ExecResult]:
        """One run for each input, each in a fresh copy of the files; no input gives away another."""
        files = laid_over(case, _PROGRAM, spec.files)
        results = []
        deadline = time.monotonic() + self._config.total_s
        for pair in spec.pairs:
            left_s = min(self._config.timeout_s, deadline - time.monotonic())
            if left_s <= 0:
                results.append(ExecResult(0, "", "", 0.0, timed_out=True))
                continue
            name = f"input-{hashlib.sha256(pair.stdin.encode()).hexdigest()[:8]}.txt"
            workspace = self._sandbox.workspace({**files, name: pair.stdin})
            try:
                results.append(workspace.run(["python3", "-c", _STARTER, name, _PROGRAM], left_s))
            finally:
                workspace.close()
        return results

    def _same(self, result: ExecResult, wanted: str) -> bool:
        if result.code != 0 or result.timed_out or result.killed:
            return False
        given_lines, wanted_lines = _lines(result.stdout), _lines(wanted)
        if not self._config.rel_tol:
            return given_lines == wanted_lines
        given, right = " ".join(given_lines).split(), " ".join(wanted_lines).split()
        return len(given) == len(right) and all(
            _close(a, b, self._config.rel_tol) for a, b in zip(given, right, strict=True)
        )


def _lines(text: str) -> list[str]:
    """Lines without spaces at their ends, and without empty ones at the end."""
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _close(a: str, b: str, rel_tol: float) -> bool:
    try:
        return a == b or math.isclose(float(a), float(b), rel_tol=rel_tol, abs_tol=1e-12)
    except ValueError:
        return False


def _reason(result: ExecResult, number: int) -> str:
    if result.timed_out:
        return f"input {number}: too slow"
    if result.code:
        return f"input {number}: ends with {result.code}: {result.stderr.strip().rpartition(chr(10))[2][:120]}"
    return f"input {number}: another output"


def build(config: Config, given: Given) -> Output:
    """A grader. Raises UserError where no sandbox is given."""
    return Output(config, need_sandbox(given, "output"))
