"""Foreign harnesses as processes: their calls become trajectories of the policy as it is, graded by the world."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from safetensors.torch import load

from noria.core.errors import PolicyError
from noria.core.files import read_plain
from noria.core.types import Task, Trajectory
from noria.engines.embedded import Config as EngineConfig
from noria.envs import arithmetic, microswe
from noria.harnesses import command
from noria.harnesses._process import sweep
from noria.harnesses._rollouts import Policy, Rollouts
from noria.models.weights import read
from noria.sandboxes import process
from noria.stages import rows
from noria.stages.roller import Job, Limits
from noria.tokens.renderer import Renderer
from noria.trainers import local

LIMITS = Limits(max_turns=4, max_new_tokens=24, max_tokens=448)
ASK = """
    import json, os, sys, urllib.request
    url, model, task_file, answer_file = sys.argv[1:5]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    def ask(messages, **more):
        body = json.dumps({"model": model, "messages": messages, **more}).encode()
        request = urllib.request.Request(url + "/chat/completions", body, {"content-type": "application/json"})
        return json.load(opener.open(request))["choices"][0]["message"]["content"]
    messages = [{"role": "user", "content": open(task_file).read()}]
"""
#: Two calls, the second after the first; the answer is the task's number from a file that only the test knows.
TWICE = """
    first = ask(messages, temperature=0)
    second = ask([*messages, {"role": "assistant", "content": first}, {"role": "user", "content": "sure?"}])
    open(answer_file, "w").write(os.environ.get("SAYS") or second)
"""
MEND = """
    ask(messages)
    gold = json.load(open(os.environ["GOLD"]))
    text = open("app.py").read()
    open("app.py", "w").write(gold[text])
"""
LINK = """
    os.remove("app.py")
    os.symlink("/etc/passwd", "app.py")
"""
FORGE = """
    open("app.py", "a").write("import os")
"""
SLEEP = """
    ask(messages)
    import subprocess, time
    subprocess.Popen(["sh", "-c", "sleep 4711 & sleep 4711"], start_new_session=True)
    open("/etc/noria-was-here", "w") if os.environ.get("WRITE") else time.sleep(600)
"""
CRASH = """
    ask(messages)
    sys.exit("it went wrong")
"""
HOST = """
    ask(messages)
    os.path.exists(os.environ["SEES"]) or sys.exit("it is hidden")
"""
FILL = """
    for k in range(21000):
        open(str(k), "w")
"""
HOG = """
    ask(messages)
    kept = []
    while True:
        kept.append(bytearray(1 << 20))
"""
MANY = """
    for _ in range(9):
        ask(messages)
"""


@pytest.fixture(scope="module")
def worlds() -> Iterator[dict[str, Any]]:
    sandbox = process.build(process.Config(type="process", servers=1))
    yield {
        "arithmetic": arithmetic.build(arithmetic.Config(type="arithmetic"), None),
        "microswe": microswe.build(microswe.Config(type="microswe"), sandbox),
    }
    sandbox.close()


@pytest.fixture(scope="module")
def policy(tiny_folder: Path, renderer: Renderer) -> Iterator[Policy]:
    made = Policy(tiny_folder, EngineConfig(slots=4, max_tokens=448), renderer, "xml")
    yield made
    made.close()


@pytest.fixture
def play(worlds: dict[str, Any], policy: Policy, renderer: Renderer, tmp_path: Path) -> Iterator[Any]:
    """Makes a player of a script, and gives what it makes of jobs."""
    players = []

    def begin(script: str, **options: Any) -> Any:
        path = tmp_path / f"harness{len(players)}.py"
        path.write_text(textwrap.dedent(ASK) + textwrap.dedent(script))
        words = ("{python}", str(path), "{base_url}", "{model}", "{task_file}", "{answer_file}")
        config = command.Config(type="command", command=words, **options)
        player = command.Player(config, worlds, (), policy, renderer)
        players.append(player)
        return Rollouts(policy, player, 4, worlds, renderer, LIMITS), player

    yield begin
    for player in players:
        player.close()


def tasks(worlds: dict[str, Any], world: str, n: int) -> list[Task]:
    return list(worlds[world].tasks("train", n, 3))


def ended(rollouts: Rollouts, jobs: list[Job]) -> dict[str, Trajectory]:
    rollouts.submit(jobs)
    found: dict[str, Trajectory] = {}
    for _ in range(3000):
        found |= {each.id: each for each in rollouts.step()}
        if not rollouts.pending:
            return found
    raise AssertionError("rollouts did not end")


def sleepers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if b"4711" in words:
            found.append(str(path))
    return found


def test_calls_become_trajectories_that_the_trainer_finds_as_it_would_sample(
    play: Any, worlds: dict[str, Any], policy: Policy, tiny_folder: Path
) -> None:
    rollouts, player = play(TWICE)
    rollouts.load(load(read(tiny_folder)), 3)
    chosen = tasks(worlds, "arithmetic", 2)
    jobs = [Job(f"g{k}/{i}", task, seed=k) for i, task in enumerate(chosen) for k in range(2)]
    found = ended(rollouts, jobs)
    assert set(found) == {job.id for job in jobs} and not list(player.root.iterdir())
    made = [row for each in found.values() for row in rows.by_branch(each, lambda part: rows.sampled(part, 0))]
    for each in found.values():
        assert each.outcome.known and each.stop == "done" and len(each.turns) == 2 and each.branches == ()
        assert each.version == 3 and set(each.record.versions) == {-1, 3}
        assert each.turns[0].observation == "sure?" and each.task in chosen
    for row, logp in zip(made, local.build(local.Config(), tiny_folder).score(made), strict=True):
        assert logp[row.mask].tolist() == pytest.approx(row.logp_mu[row.mask].tolist(), abs=1e-4)
    again = ended(rollouts, jobs)
    assert {id: each.record.ids for id, each in again.items()} == {id: each.record.ids for id, each in found.items()}
    assert again["g0/0"].record.ids != again["g1/0"].record.ids


def test_an_answer_in_its_file_is_graded(play: Any, worlds: dict[str, Any]) -> None:
    (task,) = tasks(worlds, "arithmetic", 1)
    policy = worlds["arithmetic"].policy(task, worlds["arithmetic"].experts[0], 0)
    rollouts, _ = play(TWICE, env={"SAYS": policy([]).replace("{", "{{").replace("}", "}}")})
    assert ended(rollouts, [Job("a", task, 0)])["a"].outcome.reward == 1.0
    rollouts, _ = play(TWICE, env={"SAYS": "nothing"})
    assert ended(rollouts, [Job("a", task, 0)])["a"].outcome.reward == 0.0


def test_files_that_it_leaves_are_graded_by_the_world(play: Any, worlds: dict[str, Any], tmp_path: Path) -> None:
    chosen = tasks(worlds, "microswe", 2)
    gold = tmp_path / "gold.json"
    gold.write_text(json.dumps({task.data["app"]: task.data["gold"] for task in chosen}))
    rollouts, _ = play(MEND, env={"GOLD": str(gold)}, readonly=(str(gold),))
    found = ended(rollouts, [Job(task.id, task, 0) for task in chosen])
    assert [each.outcome.reward for each in found.values()] == [1.0, 1.0]
    assert all(each.action_tokens > 0 for each in found.values())
    rollouts, _ = play(LINK)
    (refused,) = ended(rollouts, [Job("l", chosen[0], 0)]).values()
    assert refused.outcome.reward == 0.0 and refused.outcome.reason.startswith("refused: app.py must be a plain file")
    (forged,) = ended(play(FORGE)[0], [Job("f", chosen[0], 0)]).values()
    assert (forged.outcome.reward, forged.outcome.reason) == (
        0.0,
        "refused: app.py must hold plain code of the function",
    )
    assert refused.turns == () and not any(refused.record.mask)
    rollouts, _ = play("pass")
    assert ended(rollouts, [Job("n", chosen[0], 0)])["n"].outcome.reward == 0.0


def test_what_takes_too_long_is_killed_with_all_that_it_started(play: Any, worlds: dict[str, Any]) -> None:
    (task,) = tasks(worlds, "arithmetic", 1)
    rollouts, _ = play(SLEEP, timeout_s=15.0)
    rollouts.submit([Job("a", task, 0)])
    for _ in range(600):
        done = rollouts.step()
        if done or sleepers():
            break
    assert sleepers()
    while not done:
        done = rollouts.step()
    assert (done[0].stop, done[0].outcome.known, len(done[0].turns)) == ("time_limit", True, 1)
    assert not sleepers()
    rollouts, player = play(SLEEP)
    rollouts.submit([Job(f"a{k}", task, 0) for k in range(6)])
    while not sleepers():
        rollouts.step()
    rollouts.clear()
    assert rollouts.pending == 0 and not sleepers() and not list(player.root.iterdir())
    rollouts, _ = play(SLEEP, env={"WRITE": "1"})
    assert "Read-only file system" in ended(rollouts, [Job("w", task, 0)])["w"].outcome.reason
    assert not sleepers() and not Path("/etc/noria-was-here").exists()


def test_a_crash_is_unknown_and_a_limit_is_not(play: Any, worlds: dict[str, Any]) -> None:
    (task,) = tasks(worlds, "arithmetic", 1)
    crashed = ended(play(CRASH)[0], [Job("a", task, 0)])["a"]
    assert crashed.outcome.reward is None and "code 1: it went wrong" in crashed.outcome.reason
    assert (crashed.stop, len(crashed.turns)) == ("sandbox", 1)
    assert ended(play(CRASH, ok_codes=(0, 1))[0], [Job("a", task, 0)])["a"].outcome.known
    limited = ended(play(MANY)[0], [Job("a", task, 0)])["a"]
    assert (limited.stop, limited.outcome.known, len(limited.turns)) == ("turn_limit", True, 4)
    missing, _ = play(MANY)
    missing._player.config = command.Config(type="command", command=("no-such-program",))
    assert "code 127: " in ended(missing, [Job("a", task, 0)])["a"].outcome.reason


def test_without_isolation_it_is_warned_and_only_processes_are_kept_together(
    play: Any, worlds: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (task,) = tasks(worlds, "arithmetic", 1)
    with pytest.warns(UserWarning, match="isolation = .none.: its program has the host's network"):
        rollouts, player = play(HOST, isolation="none", env={"SEES": __file__})
    assert ended(rollouts, [Job("a", task, 0)])["a"].outcome.known
    assert player._program and not list(player.root.iterdir())
    player._program, player.config = "", command.Config(type="command", command=("no-such-program",), isolation="none")
    assert "did not start" in ended(rollouts, [Job("a", task, 0)])["a"].outcome.reason
    rollouts, _ = play(HOST, env={"SEES": __file__})
    assert "it is hidden" in ended(rollouts, [Job("a", task, 0)])["a"].outcome.reason


def test_too_many_files_are_no_work_and_too_much_memory_is_unknown(play: Any, worlds: dict[str, Any]) -> None:
    (task,) = tasks(worlds, "microswe", 1)
    filled = ended(play(FILL)[0], [Job("a", task, 0)])["a"]
    assert (filled.outcome.reward, "not be filled" in filled.outcome.reason) == (0.0, True)
    hog = ended(play(HOG, memory_mb=64)[0], [Job("a", task, 0)])["a"]
    assert hog.outcome.reward is None and len(hog.turns) == 1


def test_scripted_policies_play_as_everywhere(play: Any, worlds: dict[str, Any]) -> None:
    (task,) = tasks(worlds, "arithmetic", 1)
    rollouts, _ = play(CRASH)
    found = ended(rollouts, [Job("t", task, 0, strategy=worlds["arithmetic"].experts[0], source="teacher:x")])["t"]
    assert found.solved and found.source == "teacher:x"
    middle = ended(rollouts, [Job("m", task, 0, start=found)])["m"]
    assert "middle of a rollout" in middle.outcome.reason


def test_a_config_refuses_names_that_nobody_fills() -> None:
    with pytest.raises(pydantic.ValidationError, match="names in braces must be of base_url"):
        command.Config(type="command", command=("x", "{url}"))
    assert command.Config(type="command", command=("x", "{{url}}")).command[1].format_map({}) == "{url}"


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "d").mkdir()
    assert read_plain(tmp_path / "a") == "x" and read_plain(tmp_path / "none") is None
    for name, most in (("b", 10), ("d", 10), ("a", 0)):
        with pytest.raises(PolicyError, match="must be a plain file"):
            read_plain(tmp_path / name, most)


def test_folders_of_dead_processes_are_swept(tmp_path: Path) -> None:
    (tmp_path / "p-999999999-x" / "a" / "b").mkdir(parents=True)
    (tmp_path / "p-999999999-x" / "a" / "l").symlink_to(tmp_path / "kept")
    (tmp_path / "p-999999999-x" / "a" / "b").chmod(0)
    for name in (f"p-{os.getpid()}-y", "p-no-number", "kept"):
        (tmp_path / name).mkdir(mode=0o755)
    sweep(tmp_path, "p-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", f"p-{os.getpid()}-y", "p-no-number"]
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o755
