"""The factory: what it writes, that a kill loses nothing, what it refuses, and worlds over its folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.core.errors import SandboxError, UserError
from noria.core.protocols import Sandbox, TestReport, Workspace
from noria.envs.tooluse import Config, build, factory, make
from noria.envs.tooluse.candidates import Drawn
from noria.envs.tooluse.folder import load_domains
from noria.sandboxes import bwrap

COUNT, SEED = 2, 5
PROGRAM = f"""
from pathlib import Path
from noria.envs.tooluse import make
from noria.sandboxes import bwrap
import sys
sandbox = bwrap.build(bwrap.Config(type="bwrap", servers=1))
make(Path(sys.argv[1]), {COUNT}, {SEED}, sandbox)
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    opened = bwrap.build(bwrap.Config(type="bwrap", servers=1))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, sandbox: Sandbox) -> Path:
    out = tmp_path_factory.mktemp("made") / "whole"
    told: list[int] = []
    make(out, COUNT, SEED, sandbox, told.append)
    assert told[0] == 0 and told[-1] == COUNT and told == sorted(told)
    return out


def contents(out: Path) -> dict[str, bytes]:
    """Every file of a folder, without the lock."""
    files = (path for path in out.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def test_a_folder_holds_what_the_report_says(whole: Path) -> None:
    report = json.loads((whole / "report.json").read_text())
    domains = load_domains(whole)
    assert report["domains"] == len(domains) == COUNT == report["distinct_schemas"]
    assert report["tools"] == sum(len(domain.operations) for domain in domains)
    assert report["candidates"] == COUNT + sum(report["dropped"].values())
    assert report["tests"]["positive"] >= report["tools"] and report["tests"]["negative"] > report["tools"] / 2
    goals = 0
    for domain in domains:
        folder = whole / "domains" / domain.name
        tools = json.loads((folder / "tools.json").read_text())
        assert [tool["function"]["name"] for tool in tools] == [op.name for op in domain.operations]
        assert all(tool["function"]["parameters"]["additionalProperties"] is False for tool in tools)
        goals += len((folder / "goals.jsonl").read_text().splitlines())
    assert goals == report["goals"] == sum(report["goals_by_length"].values())


def test_the_emitted_tests_fail_on_another_backend(whole: Path, sandbox: Sandbox) -> None:
    name = next(domain.name for domain in load_domains(whole) if domain.limits and "int" in str(domain.writes))
    folder = whole / "domains" / name
    text, tests = (folder / "backend.py").read_text(), (folder / "test_backend.py").read_text()
    assert sandbox.test({"backend.py": text, "test_backend.py": tests}, "test_backend.py", 5.0).passed
    for old, new in (
        ("if not (", "if ("), ('return "ok "', 'return "OK "'), ("if used > row[cap]", "if False"),
        ("not low <= int(text)", "not 0 <= int(text)"), ("<= int(text) <= high", "<= int(text)"),
    ):  # fmt: skip
        assert old in text
        files = {"backend.py": text.replace(old, new), "test_backend.py": tests}
        assert not sandbox.test(files, "test_backend.py", 5.0).passed, old


def test_a_killed_factory_goes_on_and_ends_with_the_same_folder(whole: Path, tmp_path: Path, sandbox: Sandbox) -> None:
    out = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(out)], env={**os.environ, "OMP_NUM_THREADS": "1"})
    for _ in range(3000):
        if (out / "candidates.jsonl").exists() or process.poll() is not None:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    lines = (out / "candidates.jsonl").read_bytes()
    # What a kill may leave besides: a torn line, a folder half written, and a whole one whose line was lost.
    (out / "candidates.jsonl").write_bytes(lines + b'{"number": 1, "na')
    (out / "domains" / "library-5-9.partial").mkdir()
    make(out, COUNT, SEED, sandbox)
    assert contents(out) == contents(whole)


def test_a_folder_grows_and_keeps_to_its_seed(whole: Path, tmp_path: Path, sandbox: Sandbox) -> None:
    out = tmp_path / "grown"
    assert make(out, 1, SEED, sandbox)["domains"] == 1
    assert make(out, COUNT, SEED, sandbox) == json.loads((whole / "report.json").read_text())
    assert contents(out) == contents(whole)
    with pytest.raises(UserError, match="--out must be a new folder or one that was begun with the same seed"):
        make(out, COUNT, SEED + 1, sandbox)


class Failing:
    """A sandbox whose every run ends in the same way."""

    def __init__(self, report: TestReport | None) -> None:
        self.report = report

    def workspace(self, files: object) -> Workspace:
        raise AssertionError("not used")

    def test(self, files: object, test_path: str, timeout_s: float) -> TestReport:
        if self.report is None:
            raise SandboxError("it died")
        return self.report

    def close(self) -> None:
        """Nothing is held."""


def test_a_backend_that_fails_its_tests_is_dropped_and_a_dead_sandbox_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(SandboxError):
        make(tmp_path / "dead", 1, SEED, Failing(None))
    assert not (tmp_path / "dead" / "candidates.jsonl").exists()
    wrong = Failing(TestReport({"test_positive": "says something else"}))
    line = factory._candidate(tmp_path, SEED, 0, wrong, factory.Options(), {}, Drawn())
    assert (line["kept"], line["reason"]) == (False, "backend is not as specified")


def test_a_domain_that_is_there_already_is_dropped(whole: Path, tmp_path: Path, sandbox: Sandbox) -> None:
    kept = [json.loads(line) for line in (whole / "candidates.jsonl").read_text().splitlines()]
    first = next(line for line in kept if line["kept"])
    seen = {first["shape"]: "x"}
    line = factory._candidate(tmp_path, SEED, first["number"], sandbox, factory.Options(), seen, Drawn())
    assert (line["reason"], line["case"]) == ("same schema", "as x")


def test_a_world_draws_from_the_folder_and_refuses_a_changed_one(whole: Path, tmp_path: Path, sandbox: Sandbox) -> None:
    world = build(Config(folder=str(whole)), None)
    tasks = world.tasks("train", 4, 0)
    names = {path.name for path in (whole / "domains").iterdir()}
    assert {task.data["domain"] for task in tasks} <= names
    for task in tasks:
        episode = world.open(task)
        for message in world.reference(task):
            episode.act(message)
        assert episode.grade().solved
    with pytest.raises(UserError, match="folder must hold made domains"):
        build(Config(folder=str(tmp_path)), None)
    spec = tmp_path / "changed" / "domains" / "a"
    spec.mkdir(parents=True)
    source = next((whole / "domains").iterdir())
    (spec / "spec.json").write_text((source / "spec.json").read_text())
    (spec / "backend.py").write_text((source / "backend.py").read_text() + "\nimport os\n")
    with pytest.raises(UserError, match=r"backend\.py is not what spec\.json emits"):
        build(Config(folder=str(tmp_path / "changed")), None)
    (spec / "spec.json").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        load_domains(tmp_path / "changed" / ".")
