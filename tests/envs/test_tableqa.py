"""The world of tables: questions against a reference written anew, tools, evidence, grading, and the two stages."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from noria.core.errors import PolicyError, UserError
from noria.core.protocols import Answers
from noria.core.recipe import load
from noria.core.types import Message, Outcome, Task
from noria.envs.tableqa import Config, build
from noria.envs.tableqa.facts import established, parts_of, right_answer
from noria.envs.tableqa.questions import TEMPLATES, UNSEEN
from noria.envs.tableqa.store import Evidence, Store
from noria.envs.tableqa.world import TableWorld
from noria.signals.base import VALIDATED, Played
from noria.signals.two_stage import Config as TwoStageConfig
from noria.signals.two_stage import TwoStage
from noria.tokens.calls import render_call

ROOT = Path(__file__).resolve().parents[2]
TABLES: dict[str, Any] = {
    "players": {
        "columns": [["player", "text"], ["team", "text"], ["goals", "int"]],
        "rows": [["Ana", "Reds", 7], ["Ben", "Blues", 12], ["Cleo", "Reds", 3]],
    },
    "teams": {"columns": [["team", "text"], ["city", "text"]], "rows": [["Reds", "Oslo"], ["Blues", "Rome"]]},
}
FACTS = [
    {"table": "players", "columns": ["player", "team"]},
    {"any": [["Reds"]]},
    {"table": "teams", "columns": ["team", "city"]},
    {"any": [["Oslo"]]},
]
CITY = Task(
    "t", "tableqa", "", "What is the city of the team of Ana?",
    data={"tables": TABLES, "facts": FACTS, "answer": ["Oslo"], "form": "text", "off": 0.0},
)  # fmt: skip


@pytest.fixture(scope="module")
def world() -> TableWorld:
    return build(Config(), None)


def play(world: TableWorld, task: Task, strategy: str) -> tuple[Outcome, int]:
    """What a policy earns, and its messages."""
    episode, policy, heard = world.open(task), world.policy(task, strategy, 3), list[Message]()
    for _ in range(12):
        heard.append(Message("assistant", policy(heard)))
        seen = episode.act(heard[-1].content)
        if seen.done:
            outcome = episode.grade()
            episode.close()
            return outcome, sum(message.role == "assistant" for message in heard)
        heard.append(Message("tool", seen.text))
    raise AssertionError(f"{strategy} did not end on {task.prompt}")


def test_answers_agree_with_another_engine_and_no_slip_is_the_question(world: TableWorld) -> None:
    """The answer is computed from rows in Python; SQLite, asked outside of the world, must say the same."""
    seen: set[str] = set()
    for split in world.splits:
        for task in world.tasks(split, 40, 0):
            data = task.data
            seen.add(data["template"])
            with sqlite3.connect(":memory:") as plain:
                for name, table in data["tables"].items():
                    plain.execute(f"create table {name} ({', '.join(column for column, _ in table['columns'])})")
                    marks = ", ".join("?" for _ in table["columns"])
                    plain.executemany(f"insert into {name} values ({marks})", table["rows"])
                found = [str(row[0]) for row in plain.execute(data["query"])]
            assert right_answer(", ".join(found), data), (task.prompt, found, data["answer"])
            assert (data["template"] in UNSEEN) == (split == "unseen")
    assert seen == set(TEMPLATES) and len(TEMPLATES) >= 15


def test_right_ways_establish_every_fact_and_wrong_ones_earn_a_part(world: TableWorld) -> None:
    solved: dict[str, list[float]] = {name: [] for name in world.strategies}
    process: dict[str, list[float]] = {name: [] for name in world.strategies}
    for task in [*world.tasks("train", 16, 5), *world.tasks("unseen", 4, 5)]:
        for name in world.strategies:
            outcome, turns = play(world, task, name)
            assert outcome.reward is not None and turns <= 8
            solved[name].append(outcome.reward)
            process[name].append(outcome.parts["process"])
            assert outcome.parts["outcome"] == outcome.reward
            if name in ("careful", "direct", "checked"):
                assert outcome.parts["process"] == outcome.reward == 1.0, (task.prompt, name, outcome)
    share = {name: sum(found) / len(found) for name, found in solved.items()}
    mixture = sum(weight * share[name] for name, weight in world.strategies.items()) / sum(world.strategies.values())
    assert 0.2 <= mixture <= 0.45
    means = {name: sum(found) / len(found) for name, found in process.items()}
    assert means["guess"] == means["early"] == 0.0
    assert means["slip"] < means["half"] and 0.5 < means["misread"] < 1.0


def test_a_list_is_a_prefix_and_templates_can_be_chosen(world: TableWorld) -> None:
    assert world.tasks("train", 9, 1)[:4] == world.tasks("train", 4, 1)
    contents = [
        {(task.prompt, repr(task.data["tables"])) for task in world.tasks(split, 80, seed)}
        for split, seed in (("train", 0), ("heldout", 0), ("heldout", 1))
    ]
    assert not contents[0] & (contents[1] | contents[2])
    few = build(Config(templates=("lookup", "mates")), None)
    assert {task.data["template"] for task in few.tasks("train", 5, 0)} == {"lookup"}
    with pytest.raises(UserError, match="templates must hold one of the split unseen"):
        build(Config(templates=("lookup",)), None).tasks("unseen", 1, 0)
    with pytest.raises(ValueError, match="did you mean"):
        Config(templates=("lookupp",))
    with pytest.raises(ValueError, match="rows must be two numbers"):
        Config(rows=(9, 6))


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("columns", {"table": "teams"}, "team text, city text; 2 rows"),
        ("columns", {"table": "none"}, "error: no table 'none': there are players, teams"),
        ("filter", {"table": "players", "column": "goals", "op": ">", "value": "3", "show": "player"}, "Ana\nBen"),
        ("filter", {"table": "players", "column": "player", "op": "in", "value": "Ana|X"}, "Ana,Reds,7"),
        ("filter", {"table": "players", "column": "goals", "op": ">", "value": "99"}, "no rows"),
        ("filter", {"table": "players", "column": "goals", "op": "~", "value": "1"}, "error: no op '~': use one of"),
        ("filter", {"table": "players", "column": "goals", "op": "=", "value": "x"}, "error: value must be a number"),
        ("filter", {"table": "players", "column": "goals; drop", "op": "=", "value": "1"}, "error: no column"),
        ("aggregate", {"table": "players", "fn": "avg", "column": "goals"}, "7.3333"),
        ("aggregate", {"table": "players", "fn": "sum", "column": "goals", "by": "team"}, "Blues,12\nReds,10"),
        ("aggregate", {"table": "players", "fn": "median", "column": "goals"}, "error: no fn 'median'"),
        ("sql", {"query": "select city from teams where team = 'Reds'"}, "Oslo"),
        ("sql", {"query": "select null"}, "null"),
    ],
)  # fmt: skip
def test_tools_answer(world: TableWorld, name: str, args: dict[str, str], text: str) -> None:
    seen = world.open(CITY).act(render_call(name, **args))
    assert seen.text.startswith(text) and not seen.done
    if not text.startswith("error"):
        assert seen.text == text


@pytest.mark.parametrize(
    "query",
    [
        "insert into teams values ('x', 'y')", "update players set goals = 1", "drop table teams", "attach 'a.db' as a",
        "pragma table_info(teams)", "select * from sqlite_master", "select randomblob(9)", "select load_extension('x')",
        "select writefile('x', 'y')", "vacuum", "begin", "select 1; select 2", "", "nonsense", "select '\x00",
        "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n",
        "select count(*) from players a, players b, players c, players d, players e, players f, players g, players h, "
        "players i, players j, players k, players l, players m, players n",
        "select a.player from players a, players b, players c, players d",
    ],
)  # fmt: skip
def test_a_query_can_do_nothing_but_read(query: str) -> None:
    store = Store(TABLES)
    with pytest.raises(PolicyError):
        store.ask(query)
    assert store.ask("select count(*) from teams")[1] == Evidence(frozenset(), ((2,),))
    assert store.ask("select goals from players where player = 'Ben'")[1].rows == ((12,),)
    store.close()


def test_evidence_is_what_a_query_read_and_the_same_query_reads_again() -> None:
    store = Store(TABLES)
    for _ in range(2):
        _, found = store.ask("select city from players p join teams t on p.team = t.team where player = 'Ana'")
        assert found == Evidence(
            frozenset({"players.player", "players.team", "teams.team", "teams.city"}), (("Oslo",),)
        )
        assert store.ask("select count(*) from players where goals > 5")[1].read == {"players.goals"}
    store.close()


def test_facts_follow_from_later_ones_and_a_dump_establishes_no_value() -> None:
    all_read = frozenset({"players.player", "players.team", "teams.team", "teams.city"})
    first = Evidence(frozenset({"players.player", "players.team"}), (("Reds",),))
    dump = Evidence(all_read, (("Reds", "Oslo"), ("Blues", "Rome")))
    one = Evidence(frozenset(), (("Oslo",),))
    assert established(FACTS, []) == [False] * 4
    assert established(FACTS, [first]) == [True, True, False, False]
    assert established(FACTS, [dump]) == [True, False, True, False]
    assert established(FACTS, [one]) == [True] * 4
    assert established(FACTS, [Evidence(frozenset(), ())]) == [False] * 4
    want = {"process": 3 / 5, "outcome": 1.0, "columns": 1.0, "partial": 0.0}
    assert parts_of(FACTS, [dump], right=True) == want
    unordered = [{"any": [[2, 1.004, "x"]]}]
    assert established(unordered, [Evidence(frozenset(), ((1.0, 0), ("x", 1), (2, 2)))]) == [True]
    assert established(unordered, [Evidence(frozenset(), ((1.0, 0), ("x", 1)))]) == [False]


@pytest.mark.parametrize(
    ("form", "answer", "off", "right", "wrong"),
    [
        ("number", ["1250"], 0.0, ["1250", "1,250.0", "Answer: 1250."], ["1251", "1250 or 3", "9" * 5000 + "/7", ""]),
        ("number", ["12.33"], 0.006, ["12.33", "12.3333"], ["12.3", "12.4"]),
        ("number", ["40.1"], 0.06, ["40.1", "40.1%", "40.1 percent", "40.12"], ["40.3", "0.401"]),
        ("text", ["Oslo"], 0.0, ["Oslo", "oslo.", "Answer: Oslo", "the Oslo"], ["Rome", "Oslo, Rome", "not Oslo"]),
        ("list", ["Ana", "Ben"], 0.0, ["ana, ben", "Ben and Ana", '["Ana", "Ben"]'], ["Ana", "Ana, Ben, Cleo", ""]),
    ],
)  # fmt: skip
def test_answers_compare_by_what_they_mean(
    form: str, answer: list[str], off: float, right: list[str], wrong: list[str]
) -> None:
    want = {"form": form, "answer": answer, "off": off}
    assert [text for text in right if not right_answer(text, want)] == []
    assert [text for text in wrong if right_answer(text, want)] == []


def test_a_fork_keeps_what_was_established(world: TableWorld) -> None:
    episode = world.open(CITY)
    episode.act(render_call("filter", table="players", column="player", op="=", value="Ana", show="team"))
    other = episode.fork()
    other.act(render_call("filter", table="teams", column="team", op="=", value="Reds", show="city"))
    assert other.act("Oslo").done
    assert other.grade() == Outcome(1.0, {"process": 1.0, "outcome": 1.0, "columns": 1.0, "partial": 1.0})
    assert episode.grade().parts == {"process": 0.4, "outcome": 0.0, "columns": 0.5, "partial": 0.5}
    assert episode.grade().reason == "answered nothing, right is Oslo"


def test_final_messages_can_be_compared(world: TableWorld) -> None:
    assert isinstance(world, Answers)
    assert world.answer("<think>so</think>Oslo") == "Oslo"
    assert world.answer(render_call("columns", table="teams")) is None
    assert world.answer("<think>so") is None and world.answer("") is None


def test_the_page_s_recipe_goes_from_process_to_outcome(tmp_path: Path) -> None:
    """The overlay of the page is a valid recipe, and its reward pays the way first and the answer later."""
    page = (ROOT / "docs" / "worlds" / "tableqa.md").read_text()
    (snippet,) = [block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "two_stage" in block]
    overlay = tmp_path / "two.toml"
    overlay.write_text(snippet)
    recipe = load([ROOT / "recipes" / "quickstart.toml", overlay])
    options = recipe.phase["experts"].use["two_stage"].options
    staged = TwoStage(TwoStageConfig(**options))
    lost = Played(length=9, truncated=False, parts={"process": 0.6, "outcome": 0.0})
    assert staged.shape([0.0], [lost]) == [0.6]
    staged.observe({VALIDATED: options["threshold"]})
    assert staged.shape([0.0], [lost]) == [0.0]
