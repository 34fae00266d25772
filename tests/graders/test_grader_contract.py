"""What every grader promises, held to every file of `noria/graders`: a new one is covered unasked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from judging import (
    BrokenJudge,
    BrokenSandbox,
    JudgeServer,
    StuckJudge,
    StuckSandbox,
    broken_children,
    stuck_children,
)  # fmt: skip
from pydantic import ValidationError

from noria.core import registry
from noria.core.config import Checked
from noria.core.errors import UserError
from noria.core.types import Message, Outcome
from noria.graders._children import Children
from noria.graders.base import Case, Given
from noria.graders.router import Router
from noria.graders.types import TaskType
from noria.sandboxes import process

GRADERS = registry.names("graders")
GARBAGE = (
    "", " ", "\x00", "{", "[" * 200, "((((", "<call name=", "```", "\\boxed{", "ü" * 500, "1" * 500, "\ud800", "9^9^9",
    "-", "=", "\n\n\n", "nan", "1e999", "%s%n{}",
)  # fmt: skip


class Bench:
    """One event loop with a sandbox, children and a judge on a server, for all tests of the module."""

    def __init__(self) -> None:
        self.reply = "verdict: no"
        self.runner = asyncio.Runner()
        self.server = JudgeServer(lambda messages: self.reply)
        self.judge = self.server.client()
        self.sandbox = process.build(process.Config(type="process", servers=1))
        self.given = Given(self.sandbox, self.judge, Children(1))

    def grade(self, module: ModuleType, *cases: Case) -> list[Outcome]:
        """What the grader with its default settings says to each."""

        async def all_of_them() -> list[Outcome]:
            grader = module.build(module.Config(), self.given)
            try:
                return [await grader.grade(case) for case in cases]
            finally:
                await grader.close()

        return self.runner.run(all_of_them())

    def close(self) -> None:
        assert self.given.children is not None
        self.runner.run(self.given.children.close())
        self.runner.run(self.judge.close())
        self.runner.close()
        self.server.close()
        self.sandbox.close()


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.fixture(params=GRADERS)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return registry.resolve("graders", request.param)


@cache
def examples(name: str) -> list[tuple[Case, bool, str]]:
    """Cases, whether they are right, and what the judge says to them."""
    found = []
    for example in registry.resolve("graders", name).EXAMPLES:
        cases = list(example.cases(name))
        replies = example.judge or ("",) * len(cases)
        found += [(case, good, reply) for (case, good), reply in zip(cases, replies, strict=True)]
    return found


def of(module: ModuleType) -> list[tuple[Case, bool, str]]:
    return examples(module.__name__.rpartition(".")[2])


def routed(module: ModuleType, given: Given, timeout_s: float, case: Case) -> Outcome:
    """What a router with these parts says."""

    async def once() -> Outcome:
        kind = TaskType(module.__name__.rpartition(".")[2], "", timeout_s=timeout_s, retries=1, wait_s=0.01)
        router = Router(given, {case.type: kind})
        try:
            return await router.grade(case)
        finally:
            await router.close()
            if given.children is not None:
                await given.children.close()

    return asyncio.run(once())


def test_it_shows_what_it_is(module: ModuleType) -> None:
    assert issubclass(module.Config, Checked) and issubclass(module.Spec, Checked)
    assert set(module.NEEDS) <= {"sandbox", "judge", "children"}
    kinds = [good for _, good, _ in of(module)]
    assert any(kinds) and not all(kinds)


def test_right_work_earns_1_and_wrong_work_less_each_time_alike(module: ModuleType, bench: Bench) -> None:
    for case, good, reply in of(module):
        bench.reply = reply
        first, again = bench.grade(module, case, case)
        assert first == again
        assert first.reward is not None, (case, first.reason)
        assert (first.reward == 1.0) is good, (case, first)
        assert 0 <= first.reward <= 1 and all(isinstance(value, float) for value in first.parts.values())


def test_garbage_earns_less_than_1_and_never_raises(module: ModuleType, bench: Bench) -> None:
    case, _, reply = next(each for each in of(module) if not each[1])
    bench.reply = reply
    messages = (Message("assistant", '<call name="'), Message("tool", "\x00"))
    odd = [replace(case, answer=text, state={}, files={}, transcript=()) for text in GARBAGE]
    odd += [replace(case, transcript=messages, state={"": None}, files={"a\x00": "", "/x": "\ud800"})]
    if "sandbox" in module.NEEDS:
        odd = odd[3::4]
    for each, found in zip(odd, bench.grade(module, *odd), strict=True):
        assert found.reward != 1.0, (each.answer, found)


def test_a_spec_that_does_not_fit_is_the_users_fault(module: ModuleType, bench: Bench) -> None:
    case = of(module)[0][0]
    with pytest.raises(UserError, match="spec"):
        bench.grade(module, replace(case, spec={**case.spec, "surprise": 1}))
    with pytest.raises(ValidationError):
        module.Config(surprise=1)


def test_broken_parts_make_the_outcome_unknown(module: ModuleType) -> None:
    if not module.NEEDS:
        pytest.skip("it needs nothing that could break")
    parts = {"sandbox": BrokenSandbox(), "judge": BrokenJudge(), "children": broken_children()}
    found = routed(module, Given(**parts), 20.0, of(module)[0][0])
    assert found.reward is None and ("Error" in found.reason), found


def test_parts_that_hang_make_the_outcome_unknown(module: ModuleType) -> None:
    if not module.NEEDS:
        pytest.skip("it waits for nothing")
    sandbox = StuckSandbox()
    parts: dict[str, Any] = {"sandbox": sandbox, "judge": StuckJudge(), "children": stuck_children()}
    try:
        found = routed(module, Given(**parts), 0.3, of(module)[0][0])
    finally:
        sandbox.close()
    assert found.reward is None and "within 0.3 s" in found.reason


def test_without_what_it_needs_it_says_what_is_missing(module: ModuleType) -> None:
    for part in module.NEEDS:
        word = {"sandbox": "a sandbox", "judge": "a judge", "children": "child processes"}[part]
        parts: dict[str, Any] = {"sandbox": BrokenSandbox(), "judge": BrokenJudge(), "children": broken_children()}
        with pytest.raises(UserError, match=word):
            module.build(module.Config(), Given(**(parts | {part: None})))
