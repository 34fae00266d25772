"""Calls of a function in the sandbox, whose results are compared outside of it.

The sandbox is given the calls and never the results that are wanted, so code that looks around in there, replaces what
compares or leaves early finds nothing to copy: it must compute.
"""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from pydantic import Field, field_validator

from noria.core.config import Checked
from noria.core.errors import PolicyError
from noria.core.protocols import Sandbox, TestReport
from noria.core.syntax import literal, parse
from noria.core.types import Outcome
from noria.graders import _shown
from noria.graders.base import ByBlank, Case, Example, Given, need_sandbox, outcome, spec_of
from noria.graders.tests import code_of

NEEDS = ("sandbox",)
SOLUTION, TESTS = "solution.py", "test_calls.py"


class Config(Checked):
    """How calls are run and what some right ones earn."""

    timeout_s: float = Field(default=5.0, gt=0, le=600, description="wall clock of all calls, within the sandbox's")
    reward: Literal["all", "share"] = Field(default="all", description="all = 1 if all are right; share = their share")
    concurrency: int = Field(default=8, ge=1, le=256, description="runs at once at most")
    max_chars: int = Field(default=20_000, ge=1, description="longer code is wrong unread")


class Wanted(Checked):
    """A call and its result."""

    call: str = Field(min_length=1, max_length=2000, description="an expression, as f([1, 2])")
    wanted: str = Field(min_length=1, max_length=20_000, description="its value as a Python literal")

    @field_validator("call")
    @classmethod
    def _is_expression(cls, text: str) -> str:
        try:
            parse(text, "eval")
        except SyntaxError as fault:
            raise ValueError(f"call must be an expression: got {text[:60]!r}") from fault
        return text

    @field_validator("wanted")
    @classmethod
    def _is_literal(cls, text: str) -> str:
        try:
            literal(text)
        except (ValueError, SyntaxError) as fault:
            raise ValueError(f"wanted must be a literal: got {text[:60]!r}") from fault
        return text


class Spec(Checked):
    """What a right function does."""

    function: str = Field(pattern=r"^[A-Za-z]\w*$", description="name of the function")
    calls: tuple[Wanted, ...] = Field(min_length=1, max_length=200, description="calls and their results")


_CALLS = [{"call": "f([3, 1])", "wanted": "{'low': 1, 'all': [1, 3]}"}, {"call": "f([])", "wanted": "None"}]
_RIGHT = "def f(x):\n    return {'all': sorted(x), 'low': min(x)} if x else None\n"
EXAMPLES = (
    Example(
        {"function": "f", "calls": _CALLS},
        (_RIGHT, f"It sorts.\n```python\n{_RIGHT}```\n"),
        (
            "def f(x):\n    return {'all': sorted(x), 'low': min(x)}\n", "", "def f(x", "f = None",
            "raise SystemExit(0)",
            "import os\nos._exit(0)\n", "def f(x):\n    raise AssertionError('=None')\n",
            "class E:\n    __eq__ = lambda a, b: True\n    __repr__ = lambda a: 'None'\ndef f(x):\n    return E()\n",
        ),
    ),
)  # fmt: skip


class Calls(ByBlank):
    """See the module."""

    def __init__(self, config: Config, sandbox: Sandbox) -> None:
        self._config, self._sandbox = config, sandbox
        self._threads = ThreadPoolExecutor(config.concurrency, thread_name_prefix="noria-calls")

    async def grade(self, case: Case) -> Outcome:
        """The reward; the part `calls` is the share of results that are right.

        Raises:
            SandboxError: the sandbox failed.
        """
        spec, config = spec_of(Spec, case), self._config
        if len(case.answer) > config.max_chars:
            return outcome(False, f"longer than {config.max_chars} characters", {"calls": 0.0})
        files = {SOLUTION: code_of(case.answer), TESTS: calls_file(spec.function, [each.call for each in spec.calls])}
        loop = asyncio.get_running_loop()
        try:
            report = await loop.run_in_executor(self._threads, self._sandbox.test, files, TESTS, config.timeout_s)
        except PolicyError as fault:
            return outcome(False, str(fault)[:200], {"calls": 0.0})
        said = results(report, len(spec.calls))
        right = [text == _shown.show(literal(each.wanted)) for text, each in zip(said, spec.calls, strict=True)]
        share = sum(right) / len(right)
        reason = "" if share == 1 else f"{right.count(False)} of {len(right)} calls are wrong"
        return Outcome(share if config.reward == "share" else float(share == 1), {"calls": share}, reason)

    async def close(self) -> None:
        """Let go of the threads; runs under way end within their limits."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def calls_file(function: str, calls: list[str]) -> str:
    """A test file in which each test says what one call gave."""
    lines = [inspect.getsource(_shown), f"from {SOLUTION.removesuffix('.py')} import {function}\n"]
    for number, call in enumerate(calls, 1):
        lines.append(f"def test_{number}():\n    raise AssertionError('=' + show({call}))\n")
    return "\n\n".join(lines)


def results(report: TestReport, count: int) -> list[str | None]:
    """What each call gave as `_shown.show` writes it, None for one that raised, hung or was not reached."""
    if report.error:
        return [None] * count
    said = [report.results.get(f"test_{number}", "") for number in range(1, count + 1)]
    return [text[1:] if text.startswith("=") else None for text in said]


def build(config: Config, given: Given) -> Calls:
    """A grader. Raises UserError where no sandbox is given."""
    return Calls(config, need_sandbox(given, "calls"))
