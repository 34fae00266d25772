"""The world of Harbor's folders, in the sandbox: grading, steps, deceit, and folders of another world."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sandboxes"))

from hostile import bwrap_reason
from world_contract import SEED, TASKS, WorldContract

from noria.cli_formats import packer_of
from noria.cli_worlds import ProvableWorld, draw, opened, prove
from noria.core.errors import UserError
from noria.core.protocols import Episode
from noria.core.types import Outcome, Task
from noria.envs.harbor.folder import File, Folder, StepFolder, write_folder
from noria.envs.harbor.packing import folder_of
from noria.envs.harbor.samples import sample
from noria.envs.harbor.schema import read_sheet
from noria.envs.harbor.solving import bash
from noria.envs.harbor.world import Config, Harbor, build
from noria.sandboxes import bwrap
from noria.tokens.calls import render_call

pytestmark = pytest.mark.skipif(bwrap_reason() is not None, reason=str(bwrap_reason()))
DOCKER = File(b"FROM debian:12\nWORKDIR /app\nCOPY a.txt .\n")
Opener = Callable[..., Episode]


@pytest.fixture(scope="module")
def box() -> Iterator[bwrap.BwrapSandbox]:
    sandbox = bwrap.build(bwrap.Config(type="bwrap", servers=1, disk_mb=4))
    yield sandbox
    sandbox.close()


@pytest.fixture
def opener(box: bwrap.BwrapSandbox, tmp_path: Path) -> Iterator[Opener]:
    """Opens the episode of a folder."""
    worlds: list[Harbor] = []

    def opened_folder(folder: Folder, **options: object) -> Episode:
        write_folder(folder, tmp_path / "task")
        world = build(Config.model_validate({"path": str(tmp_path), "heldout": 0.0, **options}), box)
        worlds.append(world)
        (task,) = world.tasks("train", 1, 0)
        return world.open(task)

    yield opened_folder
    for world in worlds:
        world.close()


def single(test: str, sheet: str = "", **environment: str) -> Folder:
    files = {"Dockerfile": DOCKER, "a.txt": File(b"start\n")}
    files |= {name: File(text.encode()) for name, text in environment.items()}
    tests = {"test.sh": File(f"#!/bin/bash\n{test}\n".encode(), True)}
    return Folder("t", read_sheet(sheet, "t"), "Do it.\n", files, tests, {})


def graded(episode: Episode, *messages: str) -> Outcome:
    for message in messages:
        if episode.act(message).done:
            break
    outcome = episode.grade()
    assert episode.grade() == outcome
    return outcome


def test_a_command_sees_the_paths_of_the_task(opener: Opener) -> None:
    sheet = '[environment]\nenv = { GREETING = "hi ${WHO:-you}" }'
    episode = opener(single("echo 1 > /logs/verifier/reward.txt", sheet))
    seen = episode.act(bash("pwd; cat /app/a.txt; echo $GREETING; ls -d /logs/*; ls /tests /solution; echo x > ~/kept"))
    text = "/app\nstart\nhi you\n/logs/agent\n/logs/artifacts\n/logs/verifier\n/solution:\n\n/tests:"
    assert (seen.text, seen.done) == (text, False)
    assert episode.act(bash("cat ~/kept; exit 3")).text == "x\n[exit code 3]"
    assert episode.act(render_call("bash", command=" ")).text.startswith("error: command must not be empty")
    assert "no tool" in episode.act(render_call("python", code="1")).text
    assert episode.act("Done.").done
    episode.close()


@pytest.mark.parametrize(
    ("test", "reward", "said"),
    [
        ("echo 0.25 > /logs/verifier/reward.txt", 0.25, ""),
        ('echo 0 > /logs/verifier/reward.txt; echo \'{"reward": 1, "x": 0.5}\' > /logs/verifier/reward.json', 1.0, ""),
        ('echo \'{"a": 1, "b": 0}\' > /logs/verifier/reward.json', 0.5, ""),
        ("exit 1", None, "left no reward"),
        (": > /logs/verifier/reward.txt", None, "no number"),
        ("echo nan > /logs/verifier/reward.txt", None, "not finite"),
        ("echo 7 > /logs/verifier/reward.txt", None, "from 0 to 1"),
        ("sleep 20; echo 1 > /logs/verifier/reward.txt", None, "more than 0.5 s"),
        ("echo 1 > /logs/verifier/reward.txt; exit 1", 1.0, ""),
    ],
)
def test_what_the_verifier_says_is_the_reward(opener: Opener, test: str, reward: float | None, said: str) -> None:
    outcome = graded(opener(single(test, "[verifier]\ntimeout_sec = 0.5")), bash("true"), "Done.")
    assert outcome.reward == reward and said in outcome.reason


def test_stale_rewards_and_planted_tests_do_not_count(opener: Opener) -> None:
    outcome = graded(
        opener(single("ls /tests /logs/verifier > /app/seen; grep -c . /app/seen | sed 's/.*/0/' > /logs/verifier/x")),
        bash("mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; echo 1 > /tests/conftest.py"),
        "Done.",
    )
    assert outcome.reward is None and "left no reward" in outcome.reason


def test_what_the_policy_breaks_does_not_hide_a_zero(opener: Opener) -> None:
    test = "grep -q done /app/a.txt 2>/dev/null && r=1 || r=0; echo $r > /logs/verifier/reward.txt"
    episode = opener(single(test))
    for command in (
        "rm -rf /workspace/.root; ln -s /tmp /workspace/.root",
        "rm -rf /workspace/.root/logs; echo x > /workspace/.root/logs",
        "head -c 4193000 /dev/zero > /app/big",
        "echo done > a.txt",
    ):
        fork = episode.fork()
        assert graded(fork, bash(command)).reward == float("done" in command), command
        fork.close()
    episode.close()


def test_a_separate_verifier_gets_artefacts_alone(opener: Opener) -> None:
    test = (
        '[ "$(cat /app/out.txt)" = good ] && [ ! -e /app/hidden ] && [ "$(cat /app/a.txt)" = start ] && '
        '[ "$(cat /logs/artifacts/n)" = 1 ] && r=1 || r=0; echo $r > /logs/verifier/reward.txt'
    )
    sheet = 'artifacts = ["/app/out.txt"]\n[verifier]\nenvironment_mode = "separate"\n'
    sheet += '[[verifier.collect]]\ncommand = "echo 1 > /logs/artifacts/n"\n'
    episode = opener(single(test, sheet))
    command = "echo good > out.txt; echo x > hidden; echo changed > a.txt"
    assert graded(episode, bash(command), "Done.") == Outcome(1.0, {"reward": 1.0}, "")


def test_limits_of_the_task_hold(opener: Opener) -> None:
    episode = opener(single("echo 0 > /logs/verifier/reward.txt", "[agent]\ntimeout_sec = 0.4"), command_s=0.3)
    assert episode.act(bash("echo a; sleep 9")).text == "a\n[stopped after 0.3 s]"
    episode.act(bash("sleep 9"))
    assert "time for commands is used up" in episode.act(bash("echo b")).text


def test_a_failing_healthcheck_leaves_the_outcome_unknown(opener: Opener) -> None:
    sheet = '[environment.healthcheck]\ncommand = "echo not up; exit 1"'
    outcome = opener(single("echo 1 > /logs/verifier/reward.txt", sheet)).grade()
    assert outcome.reward is None and "healthcheck failed: not up" in outcome.reason


def stepped(sheet: str) -> Folder:
    steps = {}
    for name in ("one", "two", "three"):
        test = f"#!/bin/bash\nsource /tests/common.sh {name}\n"
        steps[name] = StepFolder(f"Do {name}.\n", {"test.sh": File(test.encode(), True)}, {}, {})
    setup = File(b"[ -e /tests/common.sh ] && exit 9\ncp a.txt b.txt\n")
    steps["two"] = StepFolder(steps["two"].instruction, steps["two"].tests, {}, {"setup.sh": setup})
    common = "cat /app/$1 > /logs/verifier/reward.txt 2>/dev/null || echo 0 > /logs/verifier/reward.txt"
    files = {"Dockerfile": DOCKER, "a.txt": File(b"start\n")}
    return Folder("t", read_sheet(sheet, "t"), "", files, {"common.sh": File(common.encode())}, {}, steps)


STEPS = '[[steps]]\nname = "one"\nmin_reward = 0.5\n[[steps]]\nname = "two"\n[[steps]]\nname = "three"\n'


@pytest.mark.parametrize(
    ("sheet", "said", "reward"),
    [
        (STEPS, ["echo 1 > one", "", "cat b.txt > x; echo 0.5 > two", "", "echo 1 > three", ""], 2.5 / 3),
        ('multi_step_reward_strategy = "final"\n' + STEPS, ["echo 1 > one", "", "", "echo 1 > three", ""], 1.0),
        (STEPS, ["echo 0.4 > one", "", "echo 1 > two", "", "echo 1 > three", ""], 0.4),
        (STEPS, ["echo 1 > one"], 1 / 3),
        ('multi_step_reward_strategy = "final"\n' + STEPS, ["echo 1 > one"], 0.0),
        (STEPS, ["echo nan > one", ""], None),
    ],
)
def test_steps(opener: Opener, sheet: str, said: list[str], reward: float | None) -> None:
    episode = opener(stepped(sheet))
    outcome = graded(episode, *(bash(text) if text else "Done." for text in said))
    assert outcome.reward == (None if reward is None else pytest.approx(reward))
    episode.close()


def test_the_next_step_is_told_and_keeps_the_files(opener: Opener) -> None:
    episode = opener(stepped(STEPS))
    episode.act(bash("echo 1 > one"))
    seen = episode.act("Done.")
    assert (seen.text, seen.done) == ("Do two.", False)
    assert episode.act(bash("cat one b.txt; ls /tests /logs/verifier")).text == "1\nstart\n/logs/verifier:\n\n/tests:"
    other = episode.fork()
    assert other.act("Done.").text == "Do three." and other.act("Done.").done
    assert episode.act(bash("echo 1 > two")).text == ""
    assert episode.act("Done.").text == "Do three."
    assert episode.act("Done.").done
    assert episode.grade().parts == {"one/reward": 1.0, "two/reward": 1.0, "three/reward": 0.0}


def test_own_tasks_keep_the_promises_of_worlds() -> None:
    with opened("harbor", "bwrap") as world:
        tasks = [next(task for task in draw(world, "train", 12, 1) if kind in task.id) for kind in ("total", "words")]
        assert prove(world, tasks) == []
        for expert in world.experts:
            policy, episode = world.policy(tasks[1], expert, 0), world.open(tasks[1])
            assert graded(episode, *scripted(policy)).reward == 1.0
        assert {world.kind(message) for message in world.reference(tasks[0])} == {"write", "answer"}
        assert set(world.remedies.values()) <= set(world.advice)


def scripted(policy: Callable[..., str]) -> list[str]:
    from noria.core.types import Message

    said: list[str] = []
    for _ in range(8):
        said.append(policy([Message("assistant", text) for text in said]))
    return said


def test_deceit_of_own_tasks_is_not_paid() -> None:
    with opened("harbor", "bwrap") as world:
        (task,) = draw(world, "train", 1, 0)
        assert isinstance(world, Harbor)
        for said in world.forgeries(task):
            assert graded(world.open(task), *said).reward == 0.0, said


def test_folders_of_microswe_are_graded_as_the_world_does(box: bwrap.BwrapSandbox, tmp_path: Path) -> None:
    with opened("microswe", "process") as own:
        tasks = draw(own, "train", 1, 5)
        for task in tasks:
            write_folder(folder_of(task, packer_of("microswe")(task)), tmp_path / task.id)
        world = build(Config(path=str(tmp_path), heldout=0.0), box)
        try:
            for folder in world.tasks("train", 9, 0):
                task = next(task for task in tasks if task.id in str(folder.data["name"]))
                compare(own, task, world, folder)
        finally:
            world.close()


def compare(own: ProvableWorld, task: Task, world: Harbor, folder: Task) -> None:
    """Each text of the file is worth the same in both worlds; deceit that only a process could do as well."""
    assert task.world == "microswe"
    app, line = str(task.data["app"]), int(task.data["line"])
    for text in (str(task.data["gold"]), app, replaced(app, line, "return None")):
        calls = [
            render_call("edit", line=str(number), new=new.strip())
            for number, (old, new) in enumerate(zip(app.split("\n"), text.split("\n"), strict=True), 1)
            if old != new
        ]
        want = graded(own.open(task), *calls).reward
        command = f"cat > app.py <<'END'\n{text}END"
        assert graded(world.open(folder), bash(command), "Done.").reward == want, text
    for deceit in ("import os; os._exit(0)", "print('pass'); raise SystemExit(0)"):
        assert graded(world.open(folder), bash(f"printf %s {deceit!r} > app.py"), "Done.").reward == 0.0


def replaced(text: str, line: int, new: str) -> str:
    lines = text.split("\n")
    lines[line - 1] = lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())] + new
    return "\n".join(lines)


@pytest.fixture(scope="module")
def world() -> Iterator[ProvableWorld]:
    with opened("harbor", "bwrap") as made:
        yield made


@pytest.mark.slow
class TestOwnTasks(WorldContract):
    """Every promise of a world, on its own small tasks."""

    def drawn(self, world: ProvableWorld, split: str) -> tuple[Task, ...]:
        return tuple(draw(world, split, TASKS, SEED))


def test_options_that_cannot_be_right(tmp_path: Path, box: bwrap.BwrapSandbox) -> None:
    with pytest.raises(UserError, match="found no task.toml"):
        build(Config(path=str(tmp_path)), box)
    write_folder(sample("total-5"), tmp_path / "a")
    write_folder(sample("total-5"), tmp_path / "b")
    with pytest.raises(UserError, match="twice"):
        build(Config(path=str(tmp_path)), box)
    world = build(Config(path=str(tmp_path / "a"), heldout=0.0), None)
    (task,) = world.tasks("train", 5, 0)
    with pytest.raises(UserError, match="bwrap"):
        world.open(task).act(bash("true"))
    (tmp_path / "a/instruction.md").write_text("Another.\n")
    with pytest.raises(UserError, match="has changed"):
        build(Config(path=str(tmp_path / "a"), heldout=0.0), None).open(task)
    with pytest.raises(UserError, match="for heldout"):
        world.tasks("heldout", 1, 0)
