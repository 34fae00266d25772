"""The repair world: its tasks, its episodes, its verdicts."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core import protocols
from noria.core.errors import PolicyError, SandboxError, UserError
from noria.core.protocols import Workspace
from noria.core.types import Split, Task
from noria.envs.microswe import Config, build
from noria.envs.microswe.edits import Edit, apply, follow, repair
from noria.envs.microswe.families import POOLS, registry
from noria.envs.microswe.mutations import KINDS, mutants
from noria.envs.microswe.plain import plain
from noria.envs.microswe.suites import suite
from noria.envs.microswe.tasks import APP, TESTS, UNSEEN, code, combinations, draw_tasks
from noria.envs.microswe.trusted import TrustedRunner
from noria.envs.microswe.world import MicroSwe
from noria.sandboxes import process
from noria.tokens.calls import render_call

SPLITS: tuple[Split, ...] = ("train", "heldout", "unseen")


@pytest.fixture(scope="module")
def world() -> MicroSwe:
    return build(Config(type="microswe"), TrustedRunner())


def say(line: object, new: str) -> str:
    return render_call("edit", line=line, new=new)


def mended(task: Task) -> str:
    edit = repair(task.data["app"], task.data["gold"])
    assert edit is not None
    return say(edit.line, edit.new)


def test_the_world_is_as_wide_as_promised() -> None:
    used = {one.kind for key in registry() for one in mutants(key)}
    assert len(registry()) >= 72
    assert len(UNSEEN) == 8 and set(registry()) >= UNSEEN
    assert len(KINDS) >= 50 and used == set(KINDS)
    letters = [name for pool in POOLS.values() for name in pool]
    assert len(letters) == len(set(letters))


def test_every_bug_fails_a_test_and_one_short_edit_mends_it() -> None:
    texts: set[tuple[str, str]] = set()
    for key, family in registry().items():
        names = {letter: POOLS[letter][0] for letter in family.letters} | {"F": family.names[0]}
        assert len(mutants(key)) >= 6 or len(family.lines) <= 5
        for values in itertools.product(*(sorted({low, high}) for low, high in family.consts.values())):
            consts = dict(zip(family.consts, values, strict=True))
            tests = suite(key, tuple(sorted(consts.items())))
            assert 3 <= len(tests.calls) <= 5 and len(tests.killed) >= 5
            gold = code({"names": names, "consts": consts}, family.lines)
            for site in tests.killed:
                text = code({"names": names, "consts": consts}, mutants(key)[site].lines)
                edit = repair(text, gold)
                assert edit is not None and len(edit.new) <= 60
                lines, wanted = text.split("\n"), gold.split("\n")
                assert lines[edit.line - 1] != wanted[edit.line - 1] and wanted[edit.line - 1].strip() == edit.new
                assert follow(text, edit) == gold and plain(text)
                assert (key, text) not in texts
                texts.add((key, text))
    assert len(texts) > 1000


def test_families_are_short_and_say_what_they_mean(world: MicroSwe) -> None:
    for task in world.tasks("train", 300, 5):
        lines = task.data["gold"].rstrip("\n").split("\n")
        assert 3 <= len(lines) <= 8
        assert lines[0].startswith(f"def {task.prompt.split()[1]}(") and lines[1].startswith(' """')
        for value in task.data["consts"].values():
            assert str(value) in lines[1]
        assert task.data["gold"].isascii() and len(task.system.split()) <= 8


@pytest.mark.parametrize("split", SPLITS)
def test_tasks_are_deterministic_distinct_and_prefixes_agree(world: MicroSwe, split: Split) -> None:
    many = world.tasks(split, 300, 7)
    assert [task.id for task in world.tasks(split, 50, 7)] == [task.id for task in many[:50]]
    assert world.tasks(split, 300, 7) == many
    assert len({task.id for task in many}) == len({task.data["app"] + task.data["tests"] for task in many}) == 300
    assert [task.id for task in world.tasks(split, 50, 8)] != [task.id for task in many[:50]]
    assert all(task.id.startswith(f"microswe-{split}-") and task.split == split for task in many)


def test_tasks_do_not_depend_on_the_hash_seed() -> None:
    script = "from noria.envs.microswe.tasks import draw_tasks as d; print([t.id for t in d('heldout', 40, 3)])"
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(said) == 1 and len(said.pop()) > 100


def test_no_held_out_combination_is_ever_trained_on(world: MicroSwe) -> None:
    train, heldout, unseen = (set(combinations(split)) for split in SPLITS)
    assert not train & heldout and not (train | heldout) & unseen
    assert 0.12 <= len(heldout) / (len(train) + len(heldout)) <= 0.18
    assert {key for key, _ in heldout} <= {key for key, _ in train}
    assert {kind for _, kind in heldout} <= {kind for _, kind in train}
    assert {key for key, _ in unseen} == UNSEEN
    drawn = {split: [task for seed in range(3) for task in world.tasks(split, 250, seed)] for split in SPLITS}
    for split, pairs in zip(SPLITS, (train, heldout, unseen), strict=True):
        assert {(task.data["family"], task.data["kind"]) for task in drawn[split]} <= pairs
    texts = {split: {task.data["app"] for task in drawn[split]} for split in SPLITS}
    assert not texts["train"] & texts["heldout"] and not texts["train"] & texts["unseen"]


@pytest.mark.parametrize("split", SPLITS)
def test_gold_scores_one_and_handing_in_at_once_does_not(world: MicroSwe, split: Split) -> None:
    for task in world.tasks(split, 250, 11):
        gold, idle = world.open(task), world.open(task)
        done = [gold.act(message).done for message in world.reference(task)]
        assert done == [False] * (len(done) - 1) + [True]
        assert gold.grade().reward == 1.0 and gold.text == task.data["gold"]
        assert idle.act(render_call("submit")).done
        outcome = idle.grade()
        assert outcome.reward == 0.0 and outcome.parts["tests"] < 1.0 and outcome.reason.startswith("fail ")
        assert idle.grade() == outcome


def test_unknown_split_and_impossible_counts_are_refused(world: MicroSwe) -> None:
    with pytest.raises(UserError, match="train, heldout or unseen"):
        world.tasks("dev", 1, 0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="ask for fewer"):
        draw_tasks("unseen", 200, 0, pairs=(("smaller", "lt_gt"),))
    assert world.tasks("train", 0, 0) == []


def clamp_task(world: MicroSwe) -> Task:
    for task in world.tasks("train", 2000, 0):
        if task.data["family"] == "clamp" and task.data["kind"] == "lt_gt":
            return task
    raise AssertionError("no clamp among 2000 tasks")


def test_an_episode_reads_as_documented(world: MicroSwe) -> None:
    task = clamp_task(world)
    episode = world.open(task)
    view = episode.act(render_call("view")).text
    assert view == "\n".join(f"{i} {line}" for i, line in enumerate(task.data["app"].splitlines(), 1))
    before = episode.act(render_call("test")).text
    name = task.data["names"]["F"]
    assert before.startswith("fail ") and f": {name}(" in before and " want " in before
    edit = repair(task.data["app"], task.data["gold"])
    assert edit is not None and edit.line == 3
    assert edit.new == task.data["app"].split("\n")[2].strip().replace(">", "<", 1)
    assert episode.act(mended(task)).text == "ok"
    total = len(task.data["calls"])
    assert episode.act(render_call("test")).text == f"pass {total}/{total}"
    last = episode.act(render_call("test") + render_call("submit") + render_call("view"))
    assert last.done and last.text == f"pass {total}/{total}\nsubmitted"
    assert episode.act(render_call("view")).done
    assert episode.grade().reward == 1.0


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("the answer", "error: call a tool"),
        ('<call name="veiw"></call>', "error: no tool veiw: use view, edit, test, submit"),
        ('<call name="view"><line>1</line></call>', "error: view takes no arguments"),
        ('<call name="edit"><line>1</line></call>', "error: edit takes line, new"),
        (say("x", "b"), "error: line must be a number"),
        (say(99, "b"), "error: no line 99"),
        (say(0, "b"), "error: no line 0"),
        (say(1, "  DEF "), "error: line 1 says that already"),
        (say(3, ""), "error: new must not be empty"),
        (say(3, "  "), "error: new must not be empty"),
        (say(3, "a\nb"), "error: new must be one short line of plain text"),
        (say(3, "é"), "error: new must be one short line of plain text"),
        (say(3, "x" * 121), "error: new must be one short line of plain text"),
        (say(3, "if exit():"), "error: new must be plain code of the function"),
        (say(1, "def f(x, y, z, g=locals()):"), "error: new must be plain code of the function"),
        ('<call name="edit"><line>3</line>', "error: call of 'edit' is not closed: end it with </call>"),
    ],
)
def test_a_wrong_message_is_told_what_to_do_and_changes_nothing(world: MicroSwe, message: str, said: str) -> None:
    task = clamp_task(world)
    episode = world.open(task)
    message = message.replace("DEF", task.data["app"].split("\n")[0])
    assert episode.act(message).text == said
    assert not episode.act(message).done and episode.text == task.data["app"]


def test_a_faulty_call_costs_its_neighbours_nothing(world: MicroSwe) -> None:
    task = clamp_task(world)
    episode = world.open(task)
    seen = episode.act(mended(task) + say(99, "b") + '<call name="test"' + render_call("test"))
    assert seen.text.split("\n")[:2] == ["ok", "error: no line 99"] and not seen.done
    assert seen.text.split("\n")[2].startswith("error: malformed call") and seen.text.endswith("\npass 4/4")
    seen = episode.act(say(99, "b") + render_call("submit"))
    assert seen.text == "error: no line 99\nsubmitted" and seen.done
    assert episode.grade().reward == 1.0


_PIECES = st.sampled_from(
    ['<call name="', "edit", "view", "test", "submit", '">', "</call>", "<line>", "</line>", "<new>", "</new>",
     "<think>", "</think>", "1", "3", "-1", "9" * 5000, "if", " ", "\n", "\x00", "\ud800", "²", "total", "<", ">"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(_PIECES, max_size=14).map("".join)))
def test_no_message_of_a_model_raises(message: str) -> None:
    world = build(Config(type="microswe"), TrustedRunner())
    episode = world.open(world.tasks("train", 1, 0)[0])
    assert isinstance(episode.act(message).text, str)
    assert episode.grade().known
    assert world.kind(message) in ("view", "edit", "test", "submit", "answer", "malformed")


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("def f(x):", "return x.__class__"),
        ("def f(x):", "return [type(x)]"),
        ("def f(x):", "return (lambda: x)()"),
        ("def f(x, u=locals()):", "return u"),
        ("def f(x, _=0):", "return x"),
        ("def f(x):", "return '{0.a}'.format(x)"),
        ("def f(x):", "return (i for i in x).gi_frame"),
        ("def f(x):", "return max(*x, **x)"),
        ("def f(x):", "x.y = 1"),
        ("def f(x):", "return ..."),
        ("def f(x):", "raise SystemExit"),
        ("def f(x):", "return x; import os"),
        ("def f(x):", "exit()"),
        ("def f(x):", "global len"),
        ("def f(x):", "yield x"),
        ("def print(x):", "return x"),
        ("f = len", ""),
        ("# coding: utf-7 +AAo-def f(x):", "return +AF8AXw-import+AF8AXw-(x)"),
        ("def f(x):", "return 1 \\"),
    ],
)
def test_only_plain_code_can_be_written(head: str, line: str) -> None:
    assert not plain(f"{head}\n {line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "return sum(n for n in x if n > 3 and not n % 2)",
        "for i, n in enumerate(x): x[i] = n if n > 0 else -n",
        "while x and x[-1] == 0: x.pop()",
        "return sorted(x, reverse=True)[:2] + list(range(len(x)))",
        "return 'import' if x == \"type\" else None",
        "return x +",
    ],
)
def test_code_that_computes_may_be_written(line: str) -> None:
    assert plain(f"def f(x):\n {line}\n")


def test_answers_by_heart_pass_the_tests_and_are_worth_nothing(world: MicroSwe) -> None:
    passed = 0
    for task in world.tasks("train", 120, 5):
        by_heart = next(script for script in world.forgeries(task) if " if [" in script[0])
        episode = world.open(task)
        said = [episode.act(message).text for message in by_heart]
        outcome = episode.grade()
        assert outcome.reward == 0.0, (task.data["app"], by_heart, said)
        passed += outcome.parts["tests"] == 1.0
        if outcome.parts["tests"] == 1.0:
            assert outcome.reason == "passes the tests that it sees alone"
    assert passed > 30


@pytest.mark.parametrize("split", SPLITS)
def test_unseen_calls_are_other_calls(world: MicroSwe, split: Split) -> None:
    for task in world.tasks(split, 200, 3):
        shown = set(task.data["calls"])
        unseen = [line.strip() for line in task.data["unseen_tests"].splitlines() if line.strip().startswith("got = ")]
        assert 1 <= len(unseen) <= 12
        assert not shown & {line.removeprefix("got = ") for line in unseen}


def test_builtins_reached_through_a_default_value_do_not_pass_the_tests() -> None:
    sandbox = process.build(process.Config(type="process"))
    try:
        real = build(Config(type="microswe"), sandbox)
        task = next(one for one in real.tasks("train", 99, 0) if one.data["names"]["F"] == "weighted")
        episode = real.open(task)
        for call in (
            say(1, f"def {task.data['names']['F']}(*a, u=locals()):"),
            say(3, 'return u["_"+"_builtins_"+"_"]["_"+"_im"+"port_"+"_"]("unittest.mock").mock.ANY'),
        ):
            episode.act(call)
        assert episode.grade().reward == 0.0
    finally:
        sandbox.close()


@settings(max_examples=150, deadline=None)
@given(
    st.text(alphabet=" ", max_size=3),
    st.text(alphabet="ab 1+<=()[]", max_size=14),
    st.text(alphabet="ab 1+<", max_size=14),
)
def test_a_line_is_written_anew_and_keeps_its_indentation(indent: str, before: str, after: str) -> None:
    text = f"def f():\n{indent}a{before}\n"
    made = text.replace(f"{indent}a{before}", f"{indent}{after.strip()}")
    if not after.strip() or made == text:
        with pytest.raises(PolicyError):
            apply(text, Edit(2, after))
    else:
        assert apply(text, Edit(2, after)) == made
        assert repair(text, made) == Edit(2, after.strip())


def test_a_fork_is_independent(world: MicroSwe) -> None:
    episode = world.open(clamp_task(world))
    twin = episode.fork()
    twin.act(mended(clamp_task(world)))
    assert (episode.grade().reward, twin.grade().reward) == (0.0, 1.0)
    episode.act(render_call("submit"))
    assert episode.act("x").done and not twin.act("x").done


class BrokenSandbox:
    """A sandbox that fails, for what then must happen."""

    def workspace(self, files: Mapping[str, str]) -> Workspace:
        raise SandboxError("gone")

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> protocols.TestReport:
        raise SandboxError("gone")

    def close(self) -> None:
        return None


def test_a_failed_sandbox_leaves_the_outcome_unknown() -> None:
    world = build(Config(type="microswe"), BrokenSandbox())
    episode = world.open(world.tasks("train", 1, 0)[0])
    outcome = episode.grade()
    assert outcome.reward is None and outcome.reason == "sandbox: gone"
    with pytest.raises(SandboxError):
        episode.act(render_call("test"))
    assert episode.act(render_call("view")).text.startswith("1 def ")


def test_without_a_sandbox_tests_are_refused_with_the_fix() -> None:
    world = build(Config(type="microswe"), None)
    with pytest.raises(UserError, match=r"add a \[sandbox\] table"):
        world.open(world.tasks("train", 1, 0)[0]).grade()


def test_each_content_is_run_once() -> None:
    class Counting(TrustedRunner):
        runs = 0

        def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> protocols.TestReport:
            self.runs += 1
            return super().test(files, test_path, timeout_s)

    runner = Counting()
    world = build(Config(type="microswe"), runner)
    task = world.tasks("train", 1, 0)[0]
    for _ in range(3):
        episode = world.open(task)
        for message in world.reference(task):
            episode.act(message)
        episode.grade()
    assert runner.runs == 2  # the tests, and the calls that they do not show


def test_a_real_process_says_the_same_as_the_trusted_runner(world: MicroSwe) -> None:
    sandbox = process.build(process.Config(type="process"))
    try:
        real = build(Config(type="microswe", test_timeout_s=60), sandbox)
        for number, task in enumerate(world.tasks("train", 24, 21)):
            other = mutants(task.data["family"])[number % 5]
            broken = task.data["app"].replace("return", "return )", 1)
            for text in (task.data["app"], task.data["gold"], code(task.data, other.lines), broken):
                one, two = real.open(task), world.open(task)
                one._text = two._text = text
                assert one.act(render_call("test")) == two.act(render_call("test"))
                assert one.grade() == two.grade()
    finally:
        sandbox.close()


def test_the_trusted_runner_stops_an_endless_loop() -> None:
    files = {
        APP: "def f(x):\n while True:\n  x += 1\n",
        TESTS: "from app import f\ndef test_1():\n    assert f(1) == 1\ndef test_2():\n    assert 1 == 1\n",
    }
    report = TrustedRunner().test(files, TESTS, 1.0)
    assert report.results == {"test_1": "timeout: too many lines", "test_2": "pass"} and not report.passed
