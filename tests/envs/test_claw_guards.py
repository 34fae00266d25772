"""The verifier of `claw` under attack, and what its check-list means line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noria.core.types import Outcome
from noria.envs.claw import Config, build, items
from noria.envs.claw.checks import Found, answers, check, equal, progress
from noria.envs.claw.episode import ClawEpisode
from noria.envs.claw.job import Item
from noria.envs.claw.world import ClawWorld
from noria.sandboxes import bwrap, process
from noria.tokens.calls import render_call

REASON = bwrap.probe(bwrap.Config(type="bwrap"))
Box = bwrap.BwrapSandbox | process.ProcessSandbox


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    made = process.build(process.Config(type="process")) if REASON else bwrap.build(bwrap.Config(type="bwrap"))
    yield made
    made.close()


def opened(box: Box, family: str) -> tuple[ClawWorld, ClawEpisode, list[str]]:
    """A world, an open episode of a family, and the messages that solve it."""
    world = build(Config(level="easy", shell_share=0.0, families=(family,)), box)
    task = world.tasks("train", 1, 1)[0]
    return world, world.open(task), world.reference(task)


def after(box: Box, family: str, command: str, solve: bool) -> Outcome:
    """What is earned when a command is run, after the work or instead of it."""
    _, episode, said = opened(box, family)
    for message in said[:-1] if solve else ():
        episode.act(message)
    episode.act(render_call("sh", command=command))
    episode.act(said[-1])
    try:
        return episode.grade()
    finally:
        episode.close()


PLANTS = (
    "for m in sqlite3 json os subprocess sitecustomize usercustomize conftest; do echo 'raise SystemExit' > $m.py; done"
)


@pytest.mark.parametrize("family", ["mend_city", "fix_function"])
def test_planted_modules_neither_help_nor_hurt(box: Box, family: str) -> None:
    assert after(box, family, PLANTS, solve=False).reward == 0.0
    assert after(box, family, PLANTS, solve=True).reward == 1.0


def test_a_process_that_would_act_later_is_dead_when_its_command_ends(box: Box) -> None:
    _, episode, said = opened(box, "redact")
    episode.act(render_call("sh", command="setsid nohup sh -c 'sleep 0.4; echo > memo.txt' > /dev/null 2>&1 &"))
    assert "sleep" not in episode.act(render_call("sh", command="cat /proc/[0-9]*/comm; sleep 0.6")).text or REASON
    for message in said:
        episode.act(message)
    assert episode.grade().reward == 1.0
    episode.close()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("rm shop.db; ln -s /etc/passwd shop.db", "no database"),
        ("rm shop.db; mkdir shop.db", "no database"),
        ("head -c 4096 /dev/urandom > shop.db", "file is not a database"),
        ("head -c 9000000 /dev/zero > shop.db", "no database"),
        (
            "python3 -c \"import sqlite3; c = sqlite3.connect('shop.db'); c.execute('alter table orders rename to o'); "
            "c.execute('create view orders as select * from o'); c.commit()\"",
            "view",
        ),
        (
            "python3 -c \"import sqlite3; c = sqlite3.connect('shop.db'); "
            "c.execute('update orders set name = hex(zeroblob(30000))'); c.commit()\"",
            "more than was asked for",
        ),
    ],
)  # fmt: skip
def test_a_hostile_database_is_worth_nothing_and_known(box: Box, command: str, why: str) -> None:
    outcome = after(box, "mend_city", command, solve=True)
    assert outcome.reward == 0.0 and why in outcome.reason


@pytest.mark.parametrize(
    "body",
    [
        "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
        "import os; open(f'/proc/{os.getppid()}/fd/1', 'w').write('[\"1\", \"1\"]'); os.kill(os.getppid(), 9)",
        "while True: print('7' * 999)",
        "print(open('/proc/self/environ').read(), open(f'/proc/{__import__(\"os\").getppid()}/cmdline').read())",
        "raise SystemExit(0)",
    ],
)
def test_a_hostile_program_is_worth_nothing_and_known(box: Box, body: str) -> None:
    _, episode, _ = opened(box, "fix_crash")
    (path,) = [name for name in episode._task.data["files"] if name.endswith(".py")]
    episode.act(render_call("write", path=path, text=body + "\n"))
    episode.act("done")
    outcome = episode.grade()
    assert outcome.reward == 0.0 and f"{path} is right: 2 of 2 cases fail" in outcome.reason
    episode.close()


def test_what_must_stay_is_a_guard_and_links_out_are_no_files(box: Box) -> None:
    broken = after(box, "fix_function", "echo \"print('ok')\" > test.py", solve=True)
    assert broken.reward == broken.parts["progress"] == 0.0 and "was changed" in broken.reason
    linked = after(box, "count_errors", "ln -sf /etc/hostname errors.txt", solve=True)
    assert linked.reward == 0.0 and "no file errors.txt" in linked.reason


def test_a_list_is_told_line_by_line(box: Box) -> None:
    workspace = box.workspace({
        "a.txt": "one  \ntwo\n\n", "b.csv": "n,x\n1,2.50\n", "c.json": '{"k": [1, {"b": true}]}',
        "d.ini": "[s]\nk = 1\n", "e.json": "[[[", "f.ini": "k = 1\n",
    })  # fmt: skip
    lines: list[tuple[Item, float]] = [
        (items.text("a.txt", "one\ntwo\n"), 1.0), (items.text("a.txt", "two\none\n"), 0.0),
        (items.same("a.txt", "one\ntwo\n"), 0.0), (items.text("none", ""), 0.0), (items.gone("none"), 1.0),
        (items.gone("a.txt"), 0.0), (items.rows("b.csv", [["n", "x"], ["1", "2.5"]]), 1.0),
        (items.rows("b.csv", [["1", "2.5"]]), 0.0), (items.value("c.json", {"k": [1.0, {"b": True}]}), 1.0),
        (items.value("c.json", {"k": [1, {"b": 1}]}), 0.0), (items.value("e.json", []), 0.0),
        (items.ini("d.ini", {"s": {"k": "1"}}), 1.0), (items.ini("d.ini", {"s": {"k": "2"}}), 0.0),
        (items.ini("f.ini", {}), 0.0), (items.has("a.txt", "t.o", "has"), 1.0),
        (items.lacks("a.txt", "two", "lacks"), 0.0), (items.lacks("none", "two", "lacks"), 0.0),
        (items.answer("7", True), 1.0), (items.answer("7", True, 0, 2), 0.0),
    ]  # fmt: skip
    found = check([item for item, _ in lines], workspace, box, "It is \\boxed{7}")
    assert [each.share for each in found] == [share for _, share in lines]
    workspace.close()


def test_progress_weighs_goals_and_a_broken_guard_takes_all() -> None:
    listed = [items.text("a", ""), items.text("b", "") | {"weight": 3.0}, items.same("c", "")]
    assert progress(listed, [Found(1.0), Found(0.0), Found(1.0)]) == 0.25
    assert progress(listed, [Found(0.0), Found(0.5), Found(1.0)]) == 0.375
    assert progress(listed, [Found(1.0), Found(1.0), Found(0.0)]) == 0.0


@pytest.mark.parametrize(
    ("said", "want", "numeric", "right"),
    [
        ("12", "12", True, True), ("The answer is 12.", "12", True, True), ("12.0", "12", True, True),
        ("12 or 13", "12", True, False), ("1" * 5000 + "/7", "12", True, False),
        ("120", "12", True, False), ("", "12", True, False),
        ("Ana", "ana", False, True), ("answer: ana", "ana", False, True), ("ana, ben", "ana", False, False),
    ],
)  # fmt: skip
def test_answers_are_one_number_or_the_words(said: str, want: str, numeric: bool, right: bool) -> None:
    assert answers(said, want, numeric) is right


@pytest.mark.parametrize(
    ("have", "want", "strict", "same"),
    [
        (1, 1.0, True, True), ("1", 1, True, False), ("1.0", "1", False, True), ("nan", "nan", False, True),
        ("inf", "1", False, False), (True, 1, True, False), ([1, 2], [2, 1], True, False), ({"a": 1}, {}, True, False),
        (None, "", True, False),
        (10**400, 1, True, False), (10**400, "1", False, False), ({"a": [1]}, {"a": [1.0]}, True, True),
        ("x" * 9, "1e999", False, False),
    ],
)  # fmt: skip
def test_values_are_equal_by_what_they_are(have: Any, want: Any, strict: bool, same: bool) -> None:
    assert equal(have, want, strict) is same
