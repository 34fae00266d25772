"""Tests in the sandbox: the policy's files with hidden test files laid over them.

What the spec brings replaces what the policy wrote under the same path, and files that Python or a test runner would
load by themselves are left out, so edits never reach the tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.errors import PolicyError
from noria.core.protocols import Sandbox, TestReport
from noria.core.types import Outcome
from noria.graders._fences import last_block, whole
from noria.graders.base import ByBlank, Case, Example, Given, need_sandbox, outcome, spec_of

NEEDS = ("sandbox",)
#: Files that run without being asked for.
_SELF_RUNNING = frozenset({"conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.ini", "tox.ini", "setup.cfg"})


class Config(Checked):
    """How tests are run and what some of them earn."""

    timeout_s: float = Field(
        5.0, gt=0, le=3600, description="wall clock of the test run in seconds, within the sandbox's"
    )
    reward: Literal["all", "share"] = Field(
        default="all", description="all = 1 if all pass; share = the share that passes"
    )
    concurrency: int = Field(default=8, ge=1, le=256, description="test runs at once at most")


class Spec(Checked):
    """What is tested, and how."""

    tests: str = Field(min_length=1, description="text of the test file: plain functions test_*")
    path: str = Field(default="test_hidden.py", description="where the test file is put")
    answer_path: str = Field(
        default="", description='path that the answer, or its last fenced block, is written to; "" = none'
    )
    files: dict[str, str] = Field(default_factory=dict, description="files that replace the policy's own")


_TESTS = "from app import f\n\n\ndef test_a():\n    assert f(2) == 4\n\n\ndef test_b():\n    assert f(-1) == 1\n"
EXAMPLES = (
    Example(
        {"tests": _TESTS, "answer_path": "app.py"},
        ("def f(x):\n    return x * x\n", "Here:\n```python\ndef f(x):\n    return x ** 2\n```\n"),
        (
            "def f(x):\n    return x + 3\n", "", "def f(x", "import os\nos._exit(0)\n", "raise SystemExit\n",
            {"answer": "f = None", "files": {"test_hidden.py": "def test_a():\n    pass\n"}},
        ),
    ),
    Example(
        {"tests": _TESTS},
        ({"files": {"app.py": "f = lambda x: x * x\n"}},),
        (
            {"files": {"app.py": "f = abs\n"}}, {"files": {}},
            {"files": {"app.py": "f = abs\n", "conftest.py": "raise SystemExit(0)\n"}},
            {"files": {"app.py": "f = abs\n", "../x": ""}},
        ),
    ),
)  # fmt: skip


class Tests(ByBlank):
    """See the module."""

    #: pytest must not take the class for a test
    __test__ = False

    def __init__(self, config: Config, sandbox: Sandbox) -> None:
        self._config, self._sandbox = config, sandbox
        self._threads = ThreadPoolExecutor(config.concurrency, thread_name_prefix="noria-tests")

    async def grade(self, case: Case) -> Outcome:
        """The reward; the part `tests` is the share that passes.

        Raises:
            SandboxError: the sandbox failed.
        """
        spec = spec_of(Spec, case)
        files = laid_over(case, spec.answer_path, {**spec.files, spec.path: spec.tests})
        loop = asyncio.get_running_loop()
        run = self._sandbox.test
        try:
            report = await loop.run_in_executor(self._threads, run, files, spec.path, self._config.timeout_s)
        except PolicyError as fault:
            return outcome(False, str(fault)[:200], {"tests": 0.0})
        share = passed_share(report)
        parts = {"tests": share, **{name: float(said == "pass") for name, said in report.results.items()}}
        reason = report.error or next(
            (f"{name}: {said}" for name, said in report.results.items() if said != "pass"), ""
        )
        return Outcome(share if self._config.reward == "share" else float(share == 1), parts, reason[:200])

    async def close(self) -> None:
        """Let go of the threads; runs under way end within their limits."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def passed_share(report: TestReport) -> float:
    """The share of tests that pass; 0 where the report cannot be trusted."""
    if report.error or not report.results:
        return 0.0
    return sum(said == "pass" for said in report.results.values()) / len(report.results)


def laid_over(case: Case, answer_path: str, ours: Mapping[str, str]) -> dict[str, str]:
    """The policy's files without those that run by themselves, its answer, and over them our own."""
    files = {whole(path): whole(text) for path, text in case.files.items() if not _runs_itself(path)}
    if answer_path:
        files[answer_path] = code_of(case.answer)
    shadowed = {PurePosixPath(path).as_posix() for path in ours}
    kept = {path: text for path, text in files.items() if PurePosixPath(path).as_posix() not in shadowed}
    return {**kept, **ours}


def code_of(answer: str) -> str:
    """The last fenced block of an answer, else all of it."""
    block = last_block(answer, ("python", "py"))
    return whole(answer.strip("\n") if block is None else block) + "\n"


def _runs_itself(path: str) -> bool:
    name = PurePosixPath(path).name.lower()
    return name in _SELF_RUNNING or name.endswith((".pth", ".so"))


def build(config: Config, given: Given) -> Tests:
    """A grader. Raises UserError where no sandbox is given."""
    return Tests(config, need_sandbox(given, "tests"))
