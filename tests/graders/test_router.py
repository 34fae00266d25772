"""The router: many types at once, each within its limits, and unknown where there is no verdict."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from judging import JudgeServer
from probes.counting import SEEN

from noria.core import registry
from noria.core.errors import SandboxError, UserError
from noria.core.protocols import TestReport, Workspace
from noria.core.types import Outcome
from noria.graders._children import Children, TooSlow
from noria.graders.base import Case, Given
from noria.graders.blocking import BlockingRouter, at_once
from noria.graders.router import Limits, Router
from noria.graders.tests import code_of
from noria.graders.types import TYPES, TaskType
from noria.sandboxes import process

DOCS = Path(__file__).resolve().parents[2] / "docs" / "grading.md"
#: Graders to which the judge of these tests says nothing that they understand.
OTHER_VERDICTS = {"rubric", "pairwise", "reward_model"}
PROBE = TaskType("probes.counting", "", concurrency=2, timeout_s=20.0, retries=2, wait_s=0.001)


@pytest.fixture(autouse=True)
def _forget() -> None:
    SEEN.clear()


def probe(name: str, **spec: Any) -> Case:
    return Case("probe", answer=name, spec=spec)


def graded(cases: list[Case], kind: TaskType = PROBE, limits: Limits | None = None) -> tuple[list[Outcome], Any]:
    async def work() -> tuple[list[Outcome], Any]:
        router = Router(types={"probe": kind}, limits=limits)
        try:
            return await router.grade_all(cases), router.stats()["probe"]
        finally:
            await router.close()

    return asyncio.run(work())


def test_a_type_has_no_more_cases_in_flight_than_it_may() -> None:
    found, stats = graded([probe(str(n), sleep_s=0.002, reward=n % 2) for n in range(20)])
    assert [outcome.reward for outcome in found] == [0.0, 1.0] * 10
    assert SEEN["most"] == 2 and stats.most_waiting == 18 and SEEN["closed"] == 1
    assert (stats.graded, stats.unknown, stats.reward, stats.retries) == (20, 0, 0.5, 0)


def test_faults_of_the_sandbox_are_tried_again_and_bugs_are_not() -> None:
    found, stats = graded([probe("a", fails=2), probe("b", fails=3), probe("c", bug=True)])
    assert [outcome.reward for outcome in found] == [1.0, None, None]
    assert found[1].reason == "SandboxError: not yet" and "ZeroDivisionError" in found[2].reason
    assert (SEEN["tries a"], SEEN["tries b"], SEEN["tries c"]) == (3, 3, 1)
    assert (stats.unknown, stats.retries, stats.reward) == (2, 4, 1.0) and stats.unknown_share == 2 / 3


def test_what_takes_too_long_is_unknown_and_gives_its_place_back() -> None:
    kind = replace(PROBE, concurrency=1, timeout_s=0.05)
    found, stats = graded([probe("slow", sleep_s=60), probe("next")], kind)
    assert found[0].reason == "not graded within 0.05 s" and found[1].reward == 1.0
    assert stats.timeouts == 1 and stats.unknown == 1


def test_the_queue_is_bounded_in_length_and_in_time() -> None:
    kind = replace(PROBE, concurrency=1, timeout_s=60.0)
    found, _ = graded([probe("a", sleep_s=0.05), probe("b"), probe("c")], kind, Limits(waiting=1))
    assert [outcome.reward for outcome in found] == [1.0, 1.0, None] and "queue of 1 is full" in found[2].reason
    found, _ = graded([probe("a", sleep_s=0.5), probe("b")], kind, Limits(waiting_s=0.02))
    assert [outcome.reward for outcome in found] == [1.0, None] and "no place within 0.02 s" in found[1].reason


def test_a_case_that_is_cancelled_leaves_its_place_to_the_next() -> None:
    async def work() -> Outcome:
        router = Router(types={"probe": replace(PROBE, concurrency=1)})
        held = asyncio.ensure_future(router.grade(probe("held", sleep_s=60)))
        queued = asyncio.ensure_future(router.grade(probe("queued")))
        await asyncio.sleep(0.02)
        for task in (queued, held):
            task.cancel()
        await asyncio.wait({held, queued})
        assert held.cancelled() and queued.cancelled() and not SEEN["tries queued"]
        try:
            return await asyncio.wait_for(router.grade(probe("next")), 20)
        finally:
            await router.close()

    assert asyncio.run(work()).reward == 1.0


def test_a_stream_holds_only_so_many_and_keeps_the_order() -> None:
    drawn = list[int]()

    def source() -> Iterator[Case]:
        for n in range(12):
            drawn.append(n)
            yield probe(str(n), sleep_s=0.001 * (n % 3))

    async def work() -> list[tuple[str, int]]:
        router = Router(types={"probe": PROBE})
        try:
            return [(case.answer, len(drawn)) async for case, _ in router.stream(source(), ahead=4)]
        finally:
            await router.close()

    seen = asyncio.run(work())
    assert [name for name, _ in seen] == [str(n) for n in range(12)]
    assert all(most <= int(name) + 4 for name, most in seen)


def test_what_is_no_type_or_no_spec_is_the_users_fault() -> None:
    async def work(case: Case) -> None:
        router = Router()
        try:
            await router.grade(case)
        finally:
            await router.close()

    with pytest.raises(UserError, match=r"got 'math.expresion', did you mean 'math.expression'"):
        asyncio.run(work(Case("math.expresion")))
    with pytest.raises(UserError, match="spec.accepted"):
        asyncio.run(work(Case("search.short", spec={"accepted": []})))
    with pytest.raises(UserError, match="must be given a sandbox"):
        asyncio.run(work(Case("code.tests")))


def test_a_child_that_hangs_is_killed_and_one_that_is_left_in_the_middle_too() -> None:
    async def work() -> None:
        children = Children(1)
        evil = {"patterns": [r"(a+)+$"], "text": "a" * 60 + "b", "flags": 0, "whole": False}
        try:
            with pytest.raises(TooSlow, match="processor time"):
                await children.run("_patterns", evil, 0.3)
            left = asyncio.ensure_future(children.run("_patterns", evil, 30.0))
            while children.started < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            left.cancel()
            await asyncio.wait({left})
            assert await children.run("_patterns", evil | {"text": "aaa"}, 5.0) == [1]
            assert children.started == 3
        finally:
            await children.close()

    before = {child.pid for child in psutil.Process().children()}
    asyncio.run(work())
    assert not [child for child in psutil.Process().children() if child.pid not in before and child.is_running()]


def test_a_child_refuses_to_do_what_no_grading_does() -> None:
    async def work(answer: str) -> Outcome:
        entry = {"question": "", "answer": "x", "metadata": {}}
        router = Router()
        try:
            spec = {"dataset": "polynomial_multiplication", "entry": entry}
            return await router.grade(Case("reasoning.gym", answer=answer, spec=spec))
        finally:
            await router.close()

    found = asyncio.run(work("__import__('os').system('true')"))
    assert found.reward == 0.0 and "cannot read" in found.reason


class Flaky:
    """A sandbox of which every third use fails."""

    def __init__(self, inner: process.ProcessSandbox) -> None:
        self._inner, self._uses, self._lock = inner, 0, threading.Lock()

    def _use(self) -> None:
        with self._lock:
            self._uses += 1
            if self._uses % 3 == 0:
                raise SandboxError("it died")

    def workspace(self, files: Mapping[str, str]) -> Workspace:
        self._use()
        return self._inner.workspace(files)

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        self._use()
        return self._inner.test(files, test_path, timeout_s)

    def close(self) -> None:
        self._inner.close()


def cases_of_all_types() -> list[Case]:
    """Ten cases of each type, right and wrong ones in turn, as the examples of its grader have them."""
    found = []
    for name, kind in TYPES.items():
        examples = registry.resolve("graders", kind.grader).EXAMPLES
        every = [case for example in examples for case, _ in example.cases(name)]
        every = sorted(
            every[: 2 if "sandbox" in registry.resolve("graders", kind.grader).NEEDS else 10],
            key=lambda case: case.answer,
        )
        found += [every[n % len(every)] for n in range(10)]
    return found


def test_all_types_at_once_say_what_they_say_one_by_one() -> None:
    cases = cases_of_all_types()
    server = JudgeServer(lambda messages: f"verdict: {'yes' if len(str(messages)) % 2 else 'no'}")
    sandbox = Flaky(process.build(process.Config(type="process", servers=2, timeout_s=120.0)))
    # Seconds of wall clock mean little on a busy machine, and no case here is slow.
    patient = {
        name: replace(
            kind, retries=0 if kind.grader in OTHER_VERDICTS else 8, wait_s=0.001, timeout_s=600.0,
            settings={**kind.settings, **({"timeout_s": 120.0} if kind.grader in ("tests", "calls", "output") else {})},
        )
        for name, kind in TYPES.items()
    }  # fmt: skip

    async def work(at_once: bool) -> list[Outcome]:
        judge = server.client()
        router = Router(Given(sandbox, judge), patient)
        try:
            if at_once:
                return await router.grade_all(cases)
            known: dict[str, Outcome] = {}
            for case in cases:
                if repr(case) not in known:
                    known[repr(case)] = await router.grade(case)
            return [known[repr(case)] for case in cases]
        finally:
            await router.close()
            await judge.close()

    try:
        alone, together = asyncio.run(work(False)), asyncio.run(work(True))
    finally:
        sandbox.close()
        server.close()
    assert len(cases) >= 200 and {case.type for case in cases} == set(TYPES)
    different = [
        (case.type, case.answer, a, b)
        for case, a, b in zip(cases, alone, together, strict=True)
        if (a.reward, a.parts) != (b.reward, b.parts)
    ]
    assert different == []
    unknown = {TYPES[case.type].grader for case, outcome in zip(cases, together, strict=True) if not outcome.known}
    assert unknown <= OTHER_VERDICTS and {outcome.reward for outcome in together} >= {0.0, 1.0}


def test_threads_share_a_blocking_router_and_nothing_is_left_of_it() -> None:
    router = BlockingRouter(
        types={"probe": PROBE, "math.set": TYPES["math.set"], "format.pattern": TYPES["format.pattern"]}
    )
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(router.grade, [probe(str(n), sleep_s=0.002) for n in range(12)]))
    assert [outcome.reward for outcome in found] == [1.0] * 12 and SEEN["most"] == 2
    cases = [Case("format.pattern", answer=text, spec={"form": "a+"}) for text in ("aa", "b")]
    assert [outcome.reward for outcome in router.grade_all(cases)] == [1.0, 0.0]
    assert router.stats()["probe"].graded == 12
    ours = [child for child in psutil.Process().children() if "noria.graders._child" in child.cmdline()]
    assert ours
    router.close()
    router.close()
    assert not [child for child in ours if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    with pytest.raises(UserError, match="did you mean"):
        router.grade(Case("format.patern"))
    router.close()


def test_what_needs_nothing_is_graded_at_once_and_as_a_router_does() -> None:
    cases = [
        Case("table.number", answer=text, spec={"value": 25.0, "rel_tol": 1e-9})
        for text in ("25 percent", "25%", "25 km", "25 people", "26", "x = 25")
    ]
    assert [at_once(case).reward for case in cases] == [1.0, 1.0, 1.0, 0.0, 0.0, 1.0]
    names = {"accepted": ["New York", "1250"], "unit": "km"}
    cases += [
        Case("search.entity", answer=text, spec=names) for text in ("the new-york!", "1,250 km", "12.50", "", "km")
    ]
    assert [at_once(case).reward for case in cases[6:]] == [1.0, 1.0, 0.0, 0.0, 0.0]
    cases += [
        Case("table.list", answer=text, spec={"items": ["a b", "C"]}) for text in ("c; The A-B", "a b, c", "c, c")
    ]
    assert [at_once(case).reward for case in cases[11:]] == [0.0, 1.0, 0.0]
    cases += [Case("table.text", answer=text, spec={"accepted": ["Oslo"]}) for text in ("Answer: the Oslo.", "Os lo")]
    router = BlockingRouter()
    try:
        assert router.grade_all(cases) == [at_once(case) for case in cases]
    finally:
        router.close()
    for kind in ("math.expression", "no.such"):
        with pytest.raises(UserError, match="whose grader needs nothing"):
            at_once(Case(kind))


def test_every_type_can_be_built_and_is_in_the_page() -> None:
    page = DOCS.read_text(encoding="utf-8")
    assert len(TYPES) > 20
    for name, kind in TYPES.items():
        registry.resolve("graders", kind.grader).Config(**kind.settings)
        assert re.search(rf"\| `{re.escape(name)}` \| `{kind.grader}` \|", page), f"{name} is missing in {DOCS.name}"
    for grader in registry.names("graders"):
        assert f"`{grader}`" in page, f"grader {grader} is missing in {DOCS.name}"


def test_answers_made_to_take_long_are_read_in_no_time() -> None:
    """Patterns that go back over a text would take hours for these."""
    long = 200_000
    texts = [
        "```" + "\n" * long,
        "```json" + " " * long,
        " " * long + "x",
        "a," + " " * long + "b",
        "\\boxed{" * (long // 7),
    ]
    types = ("math.set", "format.json", "stem.choice", "stem.quantity", "search.short", "agent.calls")
    specs: dict[str, Any] = {
        "math.set": {"items": ["1"]}, "format.json": {"value": 1}, "stem.quantity": {"value": 1},
        "stem.choice": {"options": ["1", "2"], "right": ["A"]}, "search.short": {"accepted": ["1"]},
        "agent.calls": {"calls": [{"name": "f"}]},
    }  # fmt: skip

    async def work() -> list[Outcome]:
        router = Router()
        try:
            return await router.grade_all(
                [Case(kind, answer=text, spec=specs[kind]) for kind in types for text in texts]
            )
        finally:
            await router.close()

    assert {outcome.reward for outcome in asyncio.run(work())} == {0.0}
    assert code_of("\ud800 = 1") == "? = 1\n"
    assert code_of("a\n```py\nx = 1\n```\n```sh\nls\n```\n```\nopen") == "x = 1\n"


def test_no_module_here_hides_one_of_python() -> None:
    assert not {name for name in registry.names("graders") if name in sys.stdlib_module_names}
