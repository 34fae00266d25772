"""Each language end to end: a tiny repository, the real toolchain, the real sandbox, proven tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.core import registry
from noria.core.errors import UserError
from noria.core.protocols import Sandbox
from noria.envs.swe.records import Dataset
from noria.factory.make import Plan, make
from noria.languages.base import Language
from noria.sandboxes import bwrap

FIXTURES = Path(__file__).parent / "fixtures"
#: Language -> tests of its fixture.
TESTS = {
    "javascript": {
        "test/clamp.test.js::clamp > keeps what lies between",
        "test/clamp.test.js::clamp > cuts at both ends",
        "test/clamp.test.js::clamp > refuses a turned range",
        "test/total.js::whole",
    },
    "c": {"tap::pop of nothing", "tap::push", "tap::sum", "tap::pop gives the last", "tap::push onto a full one"},
    "rust": {
        "ladder::tests::steepest_of_few",
        "ladder::tests::steepest_goes_down_too",
        "tests/rising.rs::rises_are_counted",
    },
    "java": {
        f"src/test/java/till/TillTest.java::{name}" for name in ("totals", "findsTheDearest", "refusesWhatIsNegative")
    },
    "typescript": {f"test/ring.test.ts::{name}" for name in ("keeps the newest", "knows the newest", "has room")},
    "go": {
        f"example.org/purse::{name}"
        for name in ("TestTotal", "TestPut", "TestPut/good", "TestPut/worthless", "TestPut/negative")
    },
    "cpp": {"mean::whole", "largest::whole", "empty::whole"},
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = bwrap.build(bwrap.Config(type="bwrap", memory_mb=1024, disk_mb=256, pids=256, servers=1))
    yield made
    made.close()


#: Those that fetch more, or compile for longer.
SLOW = {"cpp", "go", "java", "typescript"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in sorted(TESTS)]
)
def test_a_tiny_repository_gives_proven_tasks(name: str, sandbox: Sandbox, tmp_path: Path) -> None:
    language: Language = registry.resolve("languages", name).build()
    lacking = language.missing()
    if lacking is not None:
        pytest.skip(lacking)
    plan = Plan((str(FIXTURES / name),), tmp_path / "out", 2, seed=1, workers=1, repeats=2, combined=0.0)
    try:
        report = make(plan, sandbox)
    except UserError as fault:
        if "install: " in str(fault):
            pytest.skip(f"what the tests need cannot be fetched here: {fault}")
        raise
    assert report["tasks"] == 2, json.dumps(report)
    dataset = Dataset(plan.out)
    (repo,) = dataset.repos.values()
    assert repo.layout.language == name and set(repo.tests) == TESTS[name]
    for task in dataset.tasks.values():
        assert task.fail_to_pass and set(task.fail_to_pass) < TESTS[name]
        assert all(edit.path in repo.layout.sources for edit in task.bug)
