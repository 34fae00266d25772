"""Five kinds of fault, each attributed once: user, environment, policy, engine, bug.

A fault of the environment or the engine makes an outcome *unknown*; a fault of the policy goes back to the
model as an observation; a fault of the user ends with exit code 2 and one message that names the field and
the fix; a bug propagates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NoriaError(Exception):
    """Base of the faults that Noria raises on purpose."""


class UserError(NoriaError, ValueError):
    """The user's input cannot be right. The message names the field and the fix; the command exits with 2."""


class SandboxError(NoriaError):
    """The sandbox itself failed: nothing is known about the model's work."""


class EngineError(NoriaError):
    """The inference engine failed; retried within a budget, then it fails the run."""


class Halted(NoriaError):
    """The engine cannot go on, and no other worker's could: not retried, it fails the run."""


class PolicyError(NoriaError):
    """The model's message cannot be executed; the text is what the model is told."""


def boundary(run: Callable[[], T], otherwise: Callable[[BaseException], T]) -> T:
    """Run `run`; hand any ordinary exception to `otherwise`. The one place that may catch everything.

    Used where one bad rollout must become data instead of ending the run. `KeyboardInterrupt`, `SystemExit`
    and `UserError` always propagate.
    """
    try:
        return run()
    except UserError:
        raise
    except Exception as fault:
        return otherwise(fault)
