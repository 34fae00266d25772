"""What a grader is: it holds what a policy left behind against what is wanted, and says how good it is.

A grader is a file of this folder with

    Config      its settings (`Checked`); every field has a default or `examples`
    Spec        what `Case.spec` must hold (`Checked`)
    NEEDS       names of what it cannot do without: "sandbox", "judge", "children"; () for none
    EXAMPLES    right and wrong work, with which the contract tests hold it to its word
    build       (config, given) -> Grader

A built grader also has `control` (see `Controlled`), mostly from `ByBlank` or `ByAnswer`: without it, work that
defeats the grading is unknown instead of a failure. It knows no task type: `graders/types.py` maps those to graders
and settings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from pydantic import ValidationError

from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.protocols import Sandbox
from noria.core.types import Message, Outcome
from noria.graders._children import Children

S = TypeVar("S", bound=Checked)


@dataclass(frozen=True, slots=True)
class Case:
    """One piece of work to be graded. All of it is plain data and travels as JSON.

    type        the task type, which chooses the grader
    prompt      what was asked for
    answer      text of the final answer; "" where none was given
    spec        what a right answer is; its keys are those of the grader's `Spec`
    transcript  the assistant and tool messages after the prompt, for graders that look at how it was done
    state       what the world holds at the end, for graders of states
    files       path -> text of the workspace at the end, for graders of files
    seed        for graders that draw: the same seed gives the same outcome
    """

    type: str
    prompt: str = ""
    answer: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    transcript: tuple[Message, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0


class Judge(Protocol):
    """A model that is asked for its opinion."""

    async def ask(self, messages: Sequence[Message], seed: int) -> str:
        """The text of its answer. Raises EngineError where there is none."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Given:
    """What graders may use and do not own: whoever made it closes it. `children` run what can hang."""

    sandbox: Sandbox | None = None
    judge: Judge | None = None
    children: Children | None = None


class Grader(Protocol):
    """A built grader. Several cases may be graded at the same time, all in one event loop."""

    async def grade(self, case: Case) -> Outcome:
        """How good the work is; `Outcome.unknown` where no repetition would tell.

        Whatever the policy left behind (`answer`, `transcript`, `state`, `files`) is graded and never raises.

        Raises:
            SandboxError, EngineError: the sandbox or the judge failed; a repetition may tell.
            UserError: `case.spec` is not what `Spec` asks for.
        """
        ...

    async def close(self) -> None:
        """Give back what the grader itself started."""
        ...


@runtime_checkable
class Controlled(Protocol):
    """A grader that can tell whether it is itself well: what defeats it alone is then the policy's own failure.

    `control` grades harmless work for the same spec, and by the same means (child process, sandbox, judge) as work that
    came as far as possible. A known outcome, whatever the reward, says that the grading gets through.
    """

    async def control(self, case: Case) -> Outcome:
        """Raises as `Grader.grade` does."""
        ...


class ByBlank(ABC):
    """A grader that treats nothing at all as it treats anything else: its control run is that."""

    @abstractmethod
    async def grade(self, case: Case) -> Outcome:
        """See `Grader.grade`."""

    async def control(self, case: Case) -> Outcome:
        """The outcome of nothing."""
        return await self.grade(replace(case, answer="", transcript=(), state={}, files={}))


class ByAnswer(ByBlank):
    """A grader that looks at nothing but an answer, and at no empty one: `harmless` is one that it does look at."""

    def harmless(self, case: Case) -> str:
        """An answer that is sure to be read: a right one where the spec tells one."""
        return "I do not know."

    async def control(self, case: Case) -> Outcome:
        """The outcome of the harmless answer."""
        return await self.grade(replace(case, answer=self.harmless(case), transcript=(), state={}, files={}))


@dataclass(frozen=True, slots=True)
class Example:
    """Work that the contract tests grade. An entry of `right` and `wrong` is an answer, or fields of `Case`.

    `right` must earn 1 and `wrong` less than 1, with `spec` and the grader's default settings.
    `judge` holds what the judge says to each entry, first of `right`, then of `wrong`, for graders that need one.
    """

    spec: Mapping[str, Any]
    right: tuple[str | Mapping[str, Any], ...]
    wrong: tuple[str | Mapping[str, Any], ...]
    prompt: str = ""
    judge: tuple[str, ...] = ()

    def cases(self, type: str) -> Iterator[tuple[Case, bool]]:
        """Each case, and whether it is right."""
        for entries, good in ((self.right, True), (self.wrong, False)):
            for entry in entries:
                work = {"answer": entry} if isinstance(entry, str) else dict(entry)
                yield Case(type, self.prompt, spec=self.spec, **work), good


def spec_of(kind: type[S], case: Case) -> S:
    """`case.spec` as the grader's `Spec`.

    Raises:
        UserError: it is not what the grader asks for.
    """
    try:
        return kind.model_validate(case.spec)
    except ValidationError as fault:
        first = fault.errors(include_url=False)[0]
        where = ".".join(["spec", *(str(part) for part in first["loc"])])
        raise UserError(
            f"{where} must fit the task type {case.type!r}: {first['msg']}, got {first['input']!r:.60} - "
            f"give {', '.join(kind.model_fields)}"
        ) from fault


def outcome(right: bool, reason: str, parts: Mapping[str, float] | None = None) -> Outcome:
    """1 or 0, with the reason."""
    return Outcome(float(right), dict(parts) if parts else {"answer": float(right)}, reason)


async def control_of(grader: Grader, case: Case) -> Outcome:
    """What a grader's control run says; unknown where it has none. Raises as `Grader.grade` does."""
    if not isinstance(grader, Controlled):
        return Outcome.unknown("the grader has no control run")
    return await grader.control(case)


def need_sandbox(given: Given, grader: str) -> Sandbox:
    """The sandbox. Raises UserError where none was given."""
    if given.sandbox is None:
        raise UserError(f"grader {grader!r} must be given a sandbox: got none - set sandbox in the recipe")
    return given.sandbox


def need_judge(given: Given, grader: str) -> Judge:
    """The judge. Raises UserError where none was given."""
    if given.judge is None:
        raise UserError(f"grader {grader!r} must be given a judge: got none - set judge to a model on a server")
    return given.judge


def need_children(given: Given, grader: str) -> Children:
    """The child processes. Raises UserError where none were given."""
    if given.children is None:
        raise UserError(f"grader {grader!r} must be given child processes: got none - build it through a router")
    return given.children
