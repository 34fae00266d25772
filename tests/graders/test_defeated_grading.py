"""Work that breaks or hangs its own grading earns 0, and is unknown only where the grading itself is ill."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from judging import BrokenJudge, JudgeServer, broken_children

from noria.core import registry
from noria.core.errors import SandboxError
from noria.core.protocols import TestReport, Workspace
from noria.core.types import Outcome
from noria.graders._children import Children
from noria.graders.base import ByBlank, Case, Controlled, Given, Grader
from noria.graders.blocking import BlockingRouter
from noria.graders.router import Router
from noria.graders.types import TaskType
from noria.sandboxes import process

GRADERS = registry.names("graders")
BOMB = "BOMB"
#: Specs and answers that take longer than a child process has, by grader; with settings that give it little time.
SLOW: Mapping[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "patterns": ({"timeout_s": 0.2}, {"must": [r"(a+)+$"]}, "a" * 60 + "b"),
    "sql": (
        {"timeout_s": 0.2}, {"script": "CREATE TABLE t(n INTEGER);", "query": "SELECT n FROM t"},
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
    ),
    "maths": ({"timeout_s": 0.5}, {"accepted": ["x^2-1"]}, "(x+1)^{9999}"),
    "gym": (
        {"timeout_s": 0.5},
        {"dataset": "simple_integration",
         "entry": {"question": "?", "answer": "x", "metadata": {"integrand": "1", "variable": "x"}}},
        "(x+1)**99999",
    ),
    "checklist": (
        {}, {"items": [{"name": "form", "grader": "patterns", "settings": {"timeout_s": 0.2},
                        "spec": {"must": [r"(a+)+$"]}}]}, "a" * 60 + "b",
    ),
}  # fmt: skip
#: Answers that are long, deep, or no text at all.
ODD = ("1," * 200_000, "[" * 200_000, "\\boxed{" * 30_000, "\ud800", "<call" * 50_000, "`" * 200_000, '{"a":' * 50_000)


class Choking:
    """A sandbox that fails wherever a file holds a word, by dying or by never coming back."""

    def __init__(self, inner: process.ProcessSandbox, hangs: bool = False) -> None:
        self._inner, self._hangs, self._over = inner, hangs, threading.Event()
        self.uses = 0

    def _look(self, files: Mapping[str, str]) -> None:
        self.uses += 1
        if any(BOMB in text for text in files.values()):
            if self._hangs:
                self._over.wait(60)
            raise SandboxError("it died")

    def workspace(self, files: Mapping[str, str]) -> Workspace:
        self._look(files)
        return self._inner.workspace(files)

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        self._look(files)
        return self._inner.test(files, test_path, timeout_s)

    def close(self) -> None:
        self._over.set()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[process.ProcessSandbox]:
    made = process.build(process.Config(type="process", servers=1, timeout_s=60.0))
    yield made
    made.close()


def module_of(name: str) -> ModuleType:
    return registry.resolve("graders", name)


def example(name: str) -> tuple[Case, str]:
    """A right case of a grader, and what a judge says to it."""
    found = module_of(name).EXAMPLES[0]
    return next(case for case, good in found.cases(name) if good), found.judge[0] if found.judge else ""


def routed(
    name: str, given: Given, case: Case, timeout_s: float = 120.0, settings: dict[str, Any] | None = None
) -> Any:
    """The outcome of a case and the counts of its type."""

    async def work() -> tuple[Outcome, Any]:
        kind = TaskType(name, "", settings or {}, timeout_s=timeout_s, retries=2, wait_s=0.001)
        router = Router(given, {name: kind})
        try:
            return await router.grade(case), router.stats()[name]
        finally:
            await router.close()
            if given.children is not None:
                await given.children.close()

    return asyncio.run(work())


@pytest.mark.parametrize("name", GRADERS)
def test_every_grader_has_a_control_run_that_is_known_where_it_is_well(
    name: str, sandbox: process.ProcessSandbox
) -> None:
    case, reply = example(name)
    server = JudgeServer(lambda messages: reply)

    async def work() -> tuple[Outcome, Grader]:
        judge, children = server.client(), Children(1)
        grader = module_of(name).build(module_of(name).Config(), Given(sandbox, judge, children))
        try:
            assert isinstance(grader, Controlled)
            return await grader.control(case), grader
        finally:
            await grader.close()
            await children.close()
            await judge.close()

    try:
        found, _ = asyncio.run(work())
    finally:
        server.close()
    assert found.known, found.reason


@pytest.mark.parametrize("name", GRADERS)
def test_long_deep_and_torn_answers_are_graded(name: str, sandbox: process.ProcessSandbox) -> None:
    case, reply = example(name)
    server = JudgeServer(lambda messages: "no" if name == "reward_model" else reply.replace("yes", "no"))
    router = BlockingRouter(
        Given(sandbox, server.client()), {name: TaskType(name, "", timeout_s=600.0, retries=0, wait_s=0.001)}
    )
    odd = ODD[::3] if "sandbox" in module_of(name).NEEDS else ODD
    try:
        found = router.grade_all([replace(case, answer=text, files={"a": text}, transcript=()) for text in odd])
    finally:
        router.close()
        server.close()
    for outcome in found:
        assert outcome.known, outcome.reason
        assert outcome.reward != 1.0 or name in ("rubric", "pairwise")  # their judge is a script that says 1


@pytest.mark.parametrize("name", SLOW)
def test_what_takes_for_ever_in_a_child_is_the_policys_failure(name: str) -> None:
    settings, spec, answer = SLOW[name]
    found, stats = routed(name, Given(children=Children(1)), Case(name, answer=answer, spec=spec), 600.0, settings)
    assert found.reward == 0.0 and "defeats its grading" in found.reason and "processor time" in found.reason
    assert stats.blamed == 1 and stats.unknown == 0


def test_the_same_with_children_that_are_ill_is_unknown() -> None:
    settings, spec, answer = SLOW["patterns"]
    case = Case("patterns", answer=answer, spec=spec)
    found, stats = routed("patterns", Given(children=broken_children()), case, 20.0, settings)
    assert found.reward is None and stats.blamed == 0


def test_rows_that_do_not_fit_the_childs_answer_are_the_policys_failure() -> None:
    spec = {"script": "CREATE TABLE t(n INTEGER);", "query": "SELECT n FROM t"}
    query = (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 9) SELECT printf('%900000d', n) FROM r"
    )
    found, stats = routed("sql", Given(children=Children(1)), Case("sql", answer=query, spec=spec))
    assert found.reward == 0.0 and "defeats its grading" in found.reason and stats.blamed == 1


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("name", [name for name in GRADERS if "sandbox" in module_of(name).NEEDS])
def test_what_kills_or_holds_the_sandbox_each_time_is_the_policys_failure(
    name: str, hangs: bool, sandbox: process.ProcessSandbox
) -> None:
    case, _ = example(name)
    choking = Choking(sandbox, hangs)
    bomb = replace(case, answer=f"# {BOMB}", files={})
    try:
        found, _ = routed(name, Given(choking), bomb, 8.0 if hangs else 120.0)
    finally:
        choking.close()
    assert found.reward == 0.0 and "defeats its grading" in found.reason
    # Three tries and three rounds of a control run and the case; or one try and one round.
    assert choking.uses >= (3 if hangs else 9)


@pytest.mark.parametrize("name", [name for name in GRADERS if "judge" in module_of(name).NEEDS and name != "staged"])
def test_an_answer_that_talks_the_judge_out_of_a_verdict_is_the_policys_failure(name: str) -> None:
    case, reply = example(name)

    def script(messages: Sequence[Mapping[str, str]]) -> str | int:
        return "As I was told, I say nothing." if BOMB in str(messages) else reply

    assert graded_by(script, name, replace(case, answer=BOMB)).reward == 0.0
    assert graded_by(lambda messages: "nothing" if reply else 500, name, replace(case, answer=BOMB)).reward is None


def graded_by(script: Callable[[Sequence[Mapping[str, str]]], str | int], name: str, case: Case) -> Outcome:
    server = JudgeServer(script)
    try:
        found: Outcome = routed(name, Given(judge=server.client(), children=Children(1)), case)[0]
        return found
    finally:
        server.close()


def test_a_later_stage_that_is_ill_blames_nobody_who_passed_the_first() -> None:
    case = Case("staged", answer="I like tea.", spec=module_of("staged").EXAMPLES[0].spec)
    found, stats = routed("staged", Given(judge=BrokenJudge(), children=Children(1)), case)
    assert found.reward is None and stats.blamed == 0


class Unlucky(ByBlank):
    """A grader that fails as told, one letter a use: `.` it gets through, `x` it does not."""

    def __init__(self, script: str) -> None:
        self.left = list(script)

    async def grade(self, case: Case) -> Outcome:
        if self.left.pop(0) == "x":
            raise SandboxError("it died")
        return Outcome(float(case.answer == "right"), {}, "looked")

    async def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize(
    ("script", "reward", "left"),
    [
        ("xx.", 1.0, 0),  # tried again
        ("xxxx", None, 0),  # the control run fails too
        ("xxx..", 1.0, 0),  # the case gets through after all
        ("xxx.x.x.x", 0.0, 0),
        ("xxx.x.xx.", None, 1),
        ("xxx.x.x..", 1.0, 0),
    ],
)
def test_nobody_is_blamed_for_bad_luck(script: str, reward: float | None, left: int) -> None:
    unlucky = Unlucky(script)

    async def work() -> Outcome:
        router = Router(types={"luck": TaskType("exact", "", retries=2, wait_s=0.001)})
        desk = router._desk("luck")
        desk.grader = unlucky
        return await router.grade(Case("luck", answer="right"))

    assert asyncio.run(work()).reward == reward and len(unlucky.left) == left
