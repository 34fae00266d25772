"""The factory of software tasks, end to end on small repositories, and the world that plays them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_repos import AREAS, BAD, LEFT_OUT, MIXED, TESTS, lay, shapes

from noria.core.code import apply, diff
from noria.core.errors import UserError
from noria.core.protocols import Sandbox
from noria.core.types import Message, Task
from noria.envs.harbor.folder import read_folder
from noria.envs.swe import Config, build
from noria.envs.swe.records import Dataset
from noria.envs.swe.world import Swe
from noria.factory.audit import Asked, audit
from noria.factory.make import Plan, make
from noria.factory.writers import harbor, swe_bench, swe_smith
from noria.languages import python
from noria.sandboxes import bwrap
from noria.tokens.calls import render_call

N = 4


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = bwrap.build(bwrap.Config(type="bwrap", memory_mb=768, disk_mb=64, servers=1))
    yield made
    made.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("swe")


@pytest.fixture(scope="module")
def plan(place: Path) -> Plan:
    return Plan((shapes(place / "shapes"),), place / "out", N, seed=3, workers=1, repeats=2)


@pytest.fixture(scope="module")
def dataset(plan: Plan, sandbox: Sandbox) -> Dataset:
    report = make(plan, sandbox)
    assert report["tasks"] == N and report["tried"] >= report["proven"] >= N
    return Dataset(plan.out)


@pytest.fixture(scope="module")
def world(dataset: Dataset, sandbox: Sandbox) -> Iterator[Swe]:
    made = build(Config(path=str(dataset.root), heldout=0.0), sandbox)
    yield made
    made.close()


@pytest.fixture
def task(world: Swe) -> Task:
    return world.tasks("train", N, 0)[0]


def earned(world: Swe, task: Task, said: list[str]) -> tuple[float | None, str]:
    """The reward of some messages, and the reason."""
    episode = world.open(task)
    try:
        for message in said:
            episode.act(message)
        outcome = episode.grade()
        return outcome.reward, outcome.reason
    finally:
        episode.close()


def test_every_task_has_its_proof(dataset: Dataset) -> None:
    assert len(dataset.tasks) == N and len({task.patch for task in dataset.tasks.values()}) == N
    (repo,) = dataset.repos.values()
    assert len(repo.tests) == 8
    tree = dataset.layer(repo.tree)
    for task in dataset.tasks.values():
        sound = {path: (tree / path).read_bytes() for path in task.broken(tree)}
        assert task.patch == diff(task.broken(tree), sound) and task.patch.startswith("--- a/shapes/")
        assert apply(sound, task.bug) == task.broken(tree)
        assert task.fail_to_pass and set(task.fail_to_pass) < set(repo.tests)
        assert set(task.pass_to_pass(repo)) == set(repo.tests) - set(task.fail_to_pass) - set(task.unsure)
        assert "shapes" in task.statement and task.statement not in task.patch


def test_layers_hold_neither_history_nor_a_copy_of_the_package(dataset: Dataset) -> None:
    (repo,) = dataset.repos.values()
    names = {path.name for path in dataset.layer(repo.tree).rglob("*")}
    assert names == {"shapes", "__init__.py", "areas.py", "tests", "test_areas.py"}
    assert not any("areas" in path.name for path in dataset.layer(repo.deps).rglob("*"))
    sheet = json.loads((dataset.root / "layers" / f"{repo.deps}.json").read_text())
    assert sheet["digest"] == repo.deps and sheet["steps"][0]["place"] == "outside"


def test_a_killed_making_goes_on_and_ends_alike(plan: Plan, dataset: Dataset, sandbox: Sandbox) -> None:
    whole = (plan.out / "tasks.jsonl").read_bytes()
    journal = plan.out / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]) + lines[3][:20])
    (plan.out / "tasks.jsonl").unlink()
    make(plan, sandbox)
    assert (plan.out / "tasks.jsonl").read_bytes() == whole
    keys = [json.loads(line).get("key") for line in journal.read_bytes().splitlines()]
    assert len(keys) == len(set(keys)) == len(lines)
    with pytest.raises(UserError, match="seed must be as it was"):
        make(Plan(plan.sources, plan.out, N, seed=4, workers=1, repeats=2), sandbox)


def test_sources_that_cannot_be_used_say_why_and_stop_nothing(
    place: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python, "TEST_S", 1.5)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    bad = {name: lay(place / "bad" / name, files) for name, (files, _) in BAD.items()}
    good = lay(place / "good", {"thing.py": ONE_MORE, "test_thing.py": TEST_ONE_MORE})
    report = make(Plan((*bad.values(), "nothing:there", good), place / "bad-out", 1, workers=1, repeats=1), sandbox)
    assert report["tasks"] == 1
    for name, (_, reason) in BAD.items():
        assert reason in report["sources_refused"][bad[name]], name
    assert "names no kind of source" in report["sources_refused"]["nothing:there"]


def test_bad_tests_cost_no_repository(place: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "TEST_S", 1.5)
    plan = Plan((lay(place / "mixed", MIXED),), place / "mixed-out", 1, workers=1, repeats=1)
    assert make(plan, sandbox)["tasks"] == 1
    (repo,) = Dataset(plan.out).repos.values()
    assert set(repo.tests) == {f"test_thing.py::test_{name}" for name in ("one", "two", "both", "more", "same")}
    assert dict(repo.left_out) == LEFT_OUT
    head = json.loads((plan.out / "dataset.json").read_text())
    assert head["repos"]["mixed"]["left_out"] == LEFT_OUT
    lines = json.loads((plan.out / "repos" / "mixed.lines").read_text())
    assert set(lines) == {*repo.tests, "test_thing.py::test_wrong"}


ONE_MORE = "def more(n):\n    return n + 1\n\n\ndef less(n):\n    return n - 1\n"
TEST_ONE_MORE = (
    "from thing import less, more\n\n\ndef test_more():\n    assert more(2) == 3\n\n\n"
    "def test_less():\n    assert less(2) == 1\n"
)


def test_a_source_without_anything_to_break_says_so(place: Path, sandbox: Sandbox) -> None:
    names = "import names\n\n\ndef test_first():\n    assert names.ALL == []\n"
    source = lay(place / "bare ü", {"names.py": "ALL = []\n", "test_names.py": names})
    report = make(Plan((source,), place / "bare-out", 1, workers=1, repeats=1), sandbox)
    assert report["tasks"] == 0 and report["notes"] == {source: ["nothing in it can be broken"]}
    with pytest.raises(UserError, match="path must hold tasks: got .* which has none"):
        build(Config(path=str(place / "bare-out"), heldout=0.0), sandbox).tasks("train", 1, 0)


def test_nothing_but_bad_sources_is_the_users_fault(place: Path, sandbox: Sandbox) -> None:
    with pytest.raises(UserError, match="SOURCE must name a repository.*no folder"):
        make(Plan(("/no/such/folder",), place / "none", 1), sandbox)


def test_an_audit_goes_on_where_it_was_killed(dataset: Dataset, sandbox: Sandbox, tmp_path: Path) -> None:
    asked = Asked(dataset.root, tasks=2, repeats=2, attacks=1, workers=1, journal=tmp_path)
    first = audit(asked, sandbox)
    assert (first["tasks"], first["fresh"], first["unknown"], first["failed"]) == (2, 2, 0, {})
    journal = tmp_path / "audit.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    assert [json.loads(line).get("repo") for line in lines] == [None, "shapes", None, None]
    journal.write_bytes(b"".join(lines[:3]) + lines[3][:9])
    again = audit(asked, sandbox)
    assert (again["tasks"], again["fresh"], again["failed"]) == (2, 1, {})
    assert [json.loads(line)["task"] for line in journal.read_bytes().splitlines()[2:]] == [
        json.loads(line)["task"] for line in lines[2:]
    ]


def test_an_audit_sees_a_task_without_a_bug(dataset: Dataset, sandbox: Sandbox, tmp_path: Path) -> None:
    for name in ("layers", "repos"):
        (tmp_path / name).symlink_to(dataset.root / name)
    (tmp_path / "dataset.json").write_text((dataset.root / "dataset.json").read_text())
    task = next(iter(dataset.tasks.values())).to_json()
    (repo,) = dataset.repos.values()
    passing = [test for test in repo.tests if test not in task["fail_to_pass"]]
    said = task["patch"].split("\n")[-2].removeprefix("+")
    odd = {**task, "fail_to_pass": passing[:1], "unsure": task["fail_to_pass"], "statement": f"Write {said}"}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(odd, default=vars) + "\n")
    report = audit(Asked(tmp_path, repeats=2, attacks=1, workers=1), sandbox)
    assert report["failed"]["no-op"] == 1 and report["failed"]["forgery"] == 1


def test_experts_mend_and_habits_do_not(world: Swe, task: Task) -> None:
    for strategy in world.strategies:
        policy, heard = world.policy(task, strategy, 0), list[Message]()
        episode = world.open(task)
        for _ in range(8):
            heard.append(Message("assistant", policy(heard)))
            seen = episode.act(heard[-1].content)
            if seen.done:
                break
            heard.append(Message("tool", seen.text))
        assert episode.grade().reward == float(strategy in world.experts), strategy
        episode.close()


def test_a_mended_bug_counts_beside_bent_tests_and_those_alone_do_not(world: Swe, task: Task) -> None:
    bent = [
        render_call("write", path="tests/test_areas.py", text="def test_nothing():\n    pass\n"),
        render_call("write", path="conftest.py", text="import pytest\npytest.exit('all is well', 0)\n"),
        render_call("sh", command="echo raise SystemExit > sitecustomize.py; echo > pytest.ini '[pytest]'"),
    ]
    reward, reason = earned(world, task, bent)
    assert reward == 0.0 and "do not count" in reason
    assert earned(world, task, [*bent, *world.reference(task)]) == (1.0, "")


@pytest.mark.parametrize("number", [5, 6, 9, 10, 11, 12])
def test_forgeries_earn_nothing(world: Swe, task: Task, number: int) -> None:
    assert earned(world, task, world.forgeries(task)[number])[0] == 0.0


def test_honest_words_cost_nothing(world: Swe, task: Task) -> None:
    edit = render_call(
        "sh", command="(echo 'import atexit, sys'; cat shapes/areas.py; echo 'print(1, file=sys.stderr)') > /tmp/new; "
        "cp /tmp/new shapes/areas.py"
    )  # fmt: skip
    assert earned(world, task, [*world.reference(task)[:-1], edit]) == (1.0, "")
    assert earned(world, task, [edit])[0] == 0.0


def test_nothing_in_the_repository_tells_the_fix(world: Swe, task: Task) -> None:
    episode = world.open(task)
    look = "find . -name .git -prune -o -type f -print | sort; stat -c %Y $(find . -type f) | sort -u | wc -l; ls -a /"
    seen = episode.act(render_call("sh", command=look)).text
    assert seen.startswith("./shapes/__init__.py\n./shapes/areas.py\n1\n")
    look = "git status --short; git log --all --format=%s; git reflog; git fsck --no-progress; git ls-files"
    assert episode.act(render_call("sh", command=look)).text == "Start\nshapes/__init__.py\nshapes/areas.py"
    assert (
        "No module named"
        in episode.act(render_call("sh", command="cd /tmp && PYTHONPATH= python3 -c 'import numpy'")).text
    )
    copies = "grep -rl 'Three times the square' / --include=*.py --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr"
    found = episode.act(render_call("sh", command=f"{copies} 2>/dev/null; true")).text
    assert found == "/workspace/shapes/areas.py"
    episode.close()


def test_a_harness_of_somebody_else_gets_a_folder_and_gives_it_back(world: Swe, task: Task, tmp_path: Path) -> None:
    episode = world.open(task)
    said = episode.lay(tmp_path)
    assert task.prompt in said and (tmp_path / "shapes" / "areas.py").read_text() != AREAS
    assert "Its tests are run by `python -m pytest`." in said
    around = episode.equipment()
    (repo,) = world.dataset.repos.values()
    assert around.shown == (("/deps", str(world.dataset.layer(repo.deps))),) and around.path == ("/deps/bin",)
    assert around.variables == {"PYTEST_ADDOPTS": "-o addopts= -o required_plugins="}
    assert not (tmp_path / "tests").exists()
    assert episode.grade().reward == 0.0
    (tmp_path / "shapes" / "areas.py").write_text(AREAS)
    (tmp_path / "shapes" / "more.py").write_text("MORE = 1\n")
    episode.take(tmp_path, "mended")
    assert episode.grade().reward == 1.0
    episode.close()


def test_options_of_pytest_that_ask_for_plugins_stop_nobody(world: Swe, task: Task) -> None:
    assert "run by `python -m pytest`" in task.system
    episode = world.open(task)
    asking = "[pytest]\naddopts = --cov=shapes\nrequired_plugins = pytest-cov\n"
    episode.act(render_call("write", path="pytest.ini", text=asking))
    episode.act(render_call("write", path="test_new.py", text="def test_new():\n    assert True\n"))
    for command in ("python -m pytest -q test_new.py", "pytest -q test_new.py"):
        assert "1 passed" in episode.act(render_call("sh", command=command)).text
    episode.close()


def test_a_fork_goes_its_own_way(world: Swe, task: Task) -> None:
    episode = world.open(task)
    said = world.reference(task)
    episode.act(said[0])
    other = episode.fork()
    for message in said[1:]:
        other.act(message)
    assert (other.grade().reward, episode.grade().reward) == (1.0, 0.0)
    other.close()
    episode.close()


def test_rows_and_folders_of_others_hold_the_same_task(dataset: Dataset, tmp_path: Path) -> None:
    task = next(iter(dataset.tasks.values()))
    (repo,) = dataset.repos.values()
    bench, smith = swe_bench.row(dataset, task), swe_smith.row(dataset, task)
    assert bench["patch"] == task.patch and "+++ b/tests/test_areas.py" in bench["test_patch"]
    assert json.loads(bench["FAIL_TO_PASS"]) == smith["FAIL_TO_PASS"] == list(task.fail_to_pass)
    assert set(json.loads(bench["PASS_TO_PASS"])) == set(task.pass_to_pass(repo)) == set(smith["PASS_TO_PASS"])
    (path,) = task.broken(dataset.layer(repo.tree))
    assert smith["patch"].startswith(f"--- a/{path}\n+++ b/{path}\n") and smith["patch"] != task.patch
    harbor.write(dataset, task, tmp_path)
    folder = read_folder(tmp_path / task.id)
    assert "files/shapes/areas.py" in folder.environment and "files/tests/test_areas.py" not in folder.environment
    assert folder.tests["files/tests/test_areas.py"].data.decode() == TESTS
    sound = base64.b64decode(folder.solution["solve.sh"].data.decode().split("NORIA_END'\n")[1].split("NORIA_END")[0])
    assert sound.decode() == AREAS


def test_a_dataset_that_is_not_there_or_not_whole_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must be a folder that `noria tasks make swe` wrote"):
        build(Config(), None)
    with pytest.raises(UserError, match="must be a folder that `noria tasks make swe` wrote"):
        build(Config(path=str(tmp_path)), None)
    (tmp_path / "dataset.json").write_text('{"format": 0}')
    with pytest.raises(UserError, match="format 1"):
        build(Config(path=str(tmp_path)), None)
