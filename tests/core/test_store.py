"""Run folders: manifests last, killed attempts, locks, events."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from noria.core.codec import read_json_lines
from noria.core.errors import UserError
from noria.core.recipe import Recipe
from noria.core.store import Run, write_atomically


@pytest.fixture
def run(tmp_path: Path) -> Run:
    recipe = Recipe.model_validate({"name": "test", "env": {"ledger": {"type": "ledger"}}})
    return Run.create(tmp_path / "runs", recipe)


def make(run: Run, name: str, text: str = "content", **arguments: object) -> None:
    with run.artifact(name, **arguments) as work:  # type: ignore[arg-type]
        (work.path / "data.txt").write_text(text)


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A process of the same interpreter that says something on stdout and waits on stdin."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_run_folder_is_named_by_recipe_and_time_and_holds_the_recipe(run: Run) -> None:
    stem, date, time = run.name.split("-")[:3]
    assert stem == "test" and len(date) == 8 and len(time) == 6 and (date + time).isdigit()
    assert run.recipe().env["ledger"].type == "ledger"
    about = json.loads((run.path / "run.json").read_text())
    raw = Recipe.model_validate_json((run.path / "recipe.json").read_text())
    assert about["fingerprint"] == raw.fingerprint()


def test_runs_of_one_second_get_different_folders(run: Run) -> None:
    recipe = run.recipe()
    paths = {Run.create(run.path.parent, recipe).path for _ in range(4)}
    assert len(paths | {run.path}) == 5


def test_a_runs_dir_that_cannot_be_made_is_named(run: Run) -> None:
    with pytest.raises(UserError, match="runs_dir must be a folder.*run.json"):
        Run.create(run.path / "run.json", run.recipe())


def test_open_refuses_what_is_not_a_run_and_names_those_beside_it(run: Run) -> None:
    assert Run.open(run.path).name == run.name
    with pytest.raises(UserError, match=run.name):
        Run.open(run.path.parent / "other")
    with pytest.raises(UserError, match="runs lie under runs/"):
        Run.open("/nowhere/at/all")


@pytest.mark.parametrize("text", [None, "", '{"name": "cu', "\x00"])
def test_a_run_without_a_whole_recipe_says_so(run: Run, text: str | None) -> None:
    path = run.path / "recipe.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(UserError, match=r"RUN must hold its recipe: .*recipe\.json' is (missing|damaged)"):
        Run.open(run.path).recipe()


def test_a_finished_artifact_has_a_manifest_that_tells_its_content(run: Run) -> None:
    make(run, "round-1/tasks")
    with run.artifact("round-1/rollout", inputs=["round-1/tasks"], seed=7) as work:
        (work.path / "deep").mkdir()
        (work.path / "deep" / "a.txt").write_text("abc")
        work.count_in(tasks=3)
        work.count_out(right=2, wrong=1)
    manifest = run.manifest("round-1/rollout")
    assert manifest["files"] == {"deep/a.txt": {"sha256": hashlib.sha256(b"abc").hexdigest(), "bytes": 3}}
    assert manifest["counts"] == {"in": {"tasks": 3}, "out": {"right": 2, "wrong": 1}}
    before = (run.folder("round-1/tasks") / "manifest.json").read_bytes()
    assert manifest["inputs"] == {"round-1/tasks": hashlib.sha256(before).hexdigest()}
    assert manifest["seed"] == 7 and manifest["seconds"] >= 0
    assert run.done("round-1/rollout")
    assert not (run.path / "round-1" / "rollout.partial").exists()


def test_an_artifact_that_failed_is_not_done_and_starts_afresh(run: Run) -> None:
    with pytest.raises(RuntimeError, match="half way"), run.artifact("round-1/pair") as work:
        (work.path / "old.txt").write_text("x")
        raise RuntimeError("half way")
    assert not run.done("round-1/pair") and not run.folder("round-1/pair").exists()
    with run.artifact("round-1/pair") as work:
        assert not work.resumed and list(work.path.iterdir()) == []


def test_a_resumable_stage_finds_what_a_killed_attempt_left(run: Run) -> None:
    with pytest.raises(RuntimeError), run.artifact("round-1/sft", resumable=True) as work:
        assert not work.resumed
        (work.path / "step-3").write_text("x")
        raise RuntimeError
    with run.artifact("round-1/sft", resumable=True) as work:
        assert work.resumed and (work.path / "step-3").exists()
    assert list(run.manifest("round-1/sft")["files"]) == ["step-3"]


def test_done_needs_every_file_at_its_size(run: Run) -> None:
    make(run, "round-1/a", "12345")
    file = run.folder("round-1/a") / "data.txt"
    file.write_text("1234")
    assert not run.done("round-1/a")
    file.write_text("12346")
    assert run.done("round-1/a") and run.damaged("round-1/a") == ["data.txt"]
    file.unlink()
    assert not run.done("round-1/a")
    make(run, "round-1/a", "new")  # the damaged folder gives way
    assert run.done("round-1/a") and run.damaged("round-1/a") == []


@pytest.mark.parametrize("text", ["", "{", "{}"])
def test_a_broken_manifest_is_no_manifest(run: Run, text: str) -> None:
    make(run, "round-1/a")
    (run.folder("round-1/a") / "manifest.json").write_text(text)
    assert not run.done("round-1/a")


def test_a_finished_artifact_is_not_made_twice(run: Run) -> None:
    make(run, "round-1/a")
    with pytest.raises(ValueError, match="round-1/a is done already"):
        make(run, "round-1/a")


def test_a_process_killed_at_work_leaves_no_artifact(run: Run) -> None:
    child = python(
        """
        import sys
        from pathlib import Path
        from noria.core.store import Run
        with Run.open(sys.argv[1]).artifact("round-1/a") as work:
            (work.path / "data.txt").write_text("half")
            print("ready", flush=True)
            sys.stdin.read()
        """,
        str(run.path),
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not run.done("round-1/a")
    make(run, "round-1/a", "whole")
    assert (run.folder("round-1/a") / "data.txt").read_text() == "whole"
    kinds = [(event["event"], event["stage"]) for event in run.events()]
    assert kinds == [("stage_start", "round-1/a")] * 2 + [("stage_end", "round-1/a")]


def test_a_lock_keeps_a_living_process_out_and_gives_way_when_it_is_dead(run: Run) -> None:
    child = python(
        """
        import sys
        from noria.core.store import Run
        with Run.open(sys.argv[1]).lock():
            print("locked", flush=True)
            sys.stdin.read()
        """,
        str(run.path),
    )
    assert child.stdout is not None and child.stdout.readline() == "locked\n"
    with pytest.raises(UserError, match=f"process {child.pid} is at it"), run.lock():
        pass
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, its number still taken
    with run.lock():
        holder = json.loads((run.path / "lock").read_text())
        assert holder["pid"] == os.getpid()
    child.wait()
    assert (run.path / "lock").read_text() == ""
    with run.lock():
        pass


def test_a_number_that_another_process_took_over_does_not_hold_the_lock(run: Run) -> None:
    lock = run.path / "lock"
    with run.lock():
        holder = json.loads(lock.read_text())
    lock.write_text(json.dumps({**holder, "started": "1"}))
    with run.lock():
        pass
    lock.write_text(json.dumps({**holder, "host": "elsewhere"}))
    with pytest.raises(UserError, match="of elsewhere.*delete"), run.lock():
        pass
    lock.write_text('{"pid": 1')  # cut short
    with run.lock():
        pass


def test_events_and_metrics_are_lines_in_order(run: Run) -> None:
    run.event("note", text="a")
    with (run.path / "events.jsonl").open("a") as file:
        file.write('{"torn')
    run.event("note", text="b")
    assert [event["text"] for event in run.events()] == ["a", "b"]
    run.metrics({"phase": "sft", "step": 1, "loss/ce": 0.5})
    row = json.loads((run.path / "metrics.jsonl").read_text())
    assert (row["phase"], row["step"], row["loss/ce"]) == ("sft", 1, 0.5)


def test_progress_is_thinned_and_the_last_always_told(run: Run) -> None:
    with run.artifact("round-1/a") as work:
        for i in range(1, 1001):
            work.progress(i, 1000, solved=i // 2)
    told = [event for event in run.events() if event["event"] == "progress"]
    assert len(told) < 500
    assert (told[-1]["done"], told[-1]["total"], told[-1]["solved"]) == (1000, 1000, 500)


def test_an_atomic_write_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_atomically(path, "old")
    write_atomically(path, "new")
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_a_run_is_held_to_what_it_began_with(tmp_path) -> None:
    run = Run(tmp_path)
    run.pin("student.model", "m", "aaaa")
    run.pin("student.model", "m", "aaaa")
    with pytest.raises(UserError, match="student.model must be what this run began with: 'm' has other files now"):
        run.pin("student.model", "m", "bbbb")


def test_metrics_of_steps_that_will_be_made_again_are_taken_back(tmp_path) -> None:
    run = Run(tmp_path)
    run.rewind_metrics("a", 0)
    assert not (tmp_path / "metrics.jsonl").exists()
    for phase, step in [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)]:
        run.metrics({"phase": phase, "step": step, "x": 0.1 * step})
    run.rewind_metrics("a", 2, {"phase": "a", "step": 2, "x": 9.0})
    rows = [(row["phase"], row["step"], row["x"]) for row in read_json_lines(tmp_path / "metrics.jsonl")]
    assert rows == [("a", 1, 0.1), ("b", 1, 0.1), ("a", 2, 0.2), ("b", 2, 0.2)]
    run.rewind_metrics("b", 3, {"phase": "b", "step": 3, "x": 9.0})
    assert read_json_lines(tmp_path / "metrics.jsonl")[-1]["x"] == 9.0
    run.rewind_metrics("b", 0)
    assert {row["phase"] for row in read_json_lines(tmp_path / "metrics.jsonl")} == {"a"}


def test_scratch_is_kept_until_the_artifact_is_whole_and_no_part_of_it(tmp_path) -> None:
    run = Run(tmp_path)
    with run.artifact("phase", resumable=True, scratch=("state.pt",)) as work:
        (work.path / "state.pt").write_text("half")
        (work.path / "weights").write_text("all")
    assert list(run.manifest("phase")["files"]) == ["weights"]
    assert sorted(path.name for path in run.folder("phase").iterdir()) == ["manifest.json", "weights"]


def test_artifacts_keep_their_order_when_the_clock_is_set_back(run: Run) -> None:
    make(run, "round-1/a")
    path = run.folder("round-1/a") / "manifest.json"
    future = "2999-12-31T23:59:59.999999+00:00"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"created": future}))
    make(run, "round-1/b")
    make(run, "round-2/c")
    found = [run.manifest(name)["created"] for name in ("round-1/b", "round-2/c")]
    assert found == ["3000-01-01T00:00:00+00:00".replace("00+", "00.000000+"), "3000-01-01T00:00:00.000001+00:00"]


def test_a_folder_that_cannot_be_written_is_told_of(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="runs_dir must be a folder that can be written: got '/proc/self' .* - name"):
        Run.create("/proc/self", run.recipe())
    (run.path / "lock").mkdir()  # as good as a folder without permission, for root too
    with (
        pytest.raises(UserError, match="run test-.* must be in a folder that can be written: .*lock' cannot"),
        run.lock(),
    ):
        raise AssertionError("it has the lock")


def test_a_run_behind_a_link_is_the_same_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "läuft").symlink_to(run.path, target_is_directory=True)
    linked = Run.open(tmp_path / "läuft")
    make(linked, "round-1/a")
    assert run.done("round-1/a") and linked.recipe() == run.recipe()
    with run.lock(), pytest.raises(UserError, match=f"process {os.getpid()} is at it"), linked.lock():
        raise AssertionError("two have the lock")
