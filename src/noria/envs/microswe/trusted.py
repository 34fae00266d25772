"""Runs tests in this very process, for code that this world generated itself.

For building transcripts of scripted policies at speed: their edits come from the same table as the bugs, so
no text of a model ever runs here. Never give it to a rollout of a model: nothing is isolated.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from types import FrameType, ModuleType
from typing import Any

from noria.core.errors import PolicyError
from noria.core.protocols import TestReport, Workspace

_MAX_LINES = 20_000
#: What a mutant of this world can raise.
_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError)


class _LoopGuard(Exception):
    """More lines were run than any right function of this world needs."""


class TrustedRunner:
    """The `test` half of the `Sandbox` protocol by `exec`, limited in executed lines instead of seconds."""

    def workspace(self, files: Mapping[str, str]) -> Workspace:
        """Refused: there is no place apart from this process.

        Raises:
            PolicyError: always.
        """
        raise PolicyError("the trusted runner has no workspaces: use a sandbox")

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        """Run the `test_*` functions of `test_path`; `timeout_s` is not used."""
        modules: dict[str, ModuleType] = {}

        def load(name: str, *rest: Any) -> ModuleType:
            if name not in modules:
                modules[name] = module = ModuleType(name)
                module.__dict__["__builtins__"] = space
                exec(compile(files[f"{name}.py"], f"{name}.py", "exec"), module.__dict__)
            return modules[name]

        space = dict(vars(builtins)) | {"__import__": load}
        try:
            module = load(test_path.removesuffix(".py"))
        except (SyntaxError, NameError, TypeError, ImportError) as fault:
            return TestReport(error=_describe(fault))
        tests = {name: run for name, run in vars(module).items() if name.startswith("test_")}
        return TestReport({name: _one(run) for name, run in tests.items()})

    def close(self) -> None:
        """Nothing to free."""


def _one(run: Any) -> str:
    count = 0

    def step(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += 1
        if count > _MAX_LINES:
            raise _LoopGuard("too many lines")
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        run()
    except _FAULTS as fault:
        return _describe(fault)
    except _LoopGuard:
        return "timeout: too many lines"
    finally:
        sys.settrace(before)
    return "pass"


def _describe(fault: BaseException) -> str:
    if isinstance(fault, AssertionError) and str(fault):
        return str(fault)
    return f"{type(fault).__name__}: {fault}"
