"""The model-simulated world by rules: terms, checked transitions, the verdict, policies, what is recorded."""

from __future__ import annotations

import json
import multiprocessing
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from noria.bases.play import play, said
from noria.core.errors import SandboxError, UserError
from noria.core.types import Message, Task
from noria.envs.simulated import Config, build
from noria.envs.simulated.card import Args
from noria.envs.simulated.checking import Answer, Invalid, checked, read
from noria.envs.simulated.domains import DOMAINS
from noria.envs.simulated.episode import MOST_CALLS
from noria.envs.simulated.goals import goal_of, judged
from noria.envs.simulated.habits import EXPERTS, HABITS
from noria.envs.simulated.paths import Change, PatchError, State, differing, found, matches, patched
from noria.envs.simulated.question import Question
from noria.envs.simulated.recorded import InFile, InMemory, RecordConfig
from noria.envs.simulated.recorded import build as recorded
from noria.envs.simulated.schema import Many, Record, Ref, Table, Text, Whole, Word
from noria.envs.simulated.scripted import Scripted, acted
from noria.envs.simulated.tasks import asked_of, planned
from noria.envs.simulated.terms import TermError, filled, holds, value
from noria.envs.simulated.transition import Transitions
from noria.tokens.calls import render_call

DESK: State = {
    "agents": {"Ann": {"skill": "billing"}, "Bo": {"skill": "login"}},
    "tickets": {
        "T1": {"topic": "billing", "state": "new", "agent": "", "replies": [], "mood": "cross"},
        "T2": {"topic": "login", "state": "open", "agent": "Bo", "replies": ["question"], "mood": "calm"},
    },
}


def answered(domain: str, state: State, tool: str, args: Args, answer: Answer) -> State:
    return checked(DOMAINS[domain], state, DOMAINS[domain].by_name[tool], args, answer)


def sets(path: str, value: Any) -> Change:
    return Change("set", path, value)


def desk_task(asks: list[tuple[str, dict[str, Any]]], question: int = 0, which: int = 0) -> Task:
    """A task on `DESK`, written by hand."""
    domain = DOMAINS["tickets"]
    goal = goal_of([(domain.asks[name], params) for name, params in asks], question, which)
    tools = tuple(action.tool for action in domain.actions)
    data = {"domain": "tickets", "level": "easy", "state": DESK, "asks": [list(ask) for ask in asks], "goal": goal}
    return Task("simulated-train-0", "simulated", "", "", tools, data)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    world = build(Config(), None)
    return [*world.tasks("train", 15, 3), *world.tasks("unseen", 3, 3)]


def test_terms_say_what_they_say() -> None:
    names = {**DESK, "ticket": "T2", "was": {"n": 3}}
    assert value("tickets[ticket].agent", names) == value("tickets.T2['agent']", names) == "Bo"
    assert holds("count(tickets[t].agent == 'Bo' for t in tickets) == 1 and was.n < 4", names)
    assert value("first(t for t in tickets if tickets[t].mood == 'calm')", names) == "T2"
    assert filled("{ticket} {none(tickets.T1.agent)}; {join(f'{a}!' for a in agents)}", names) == "T2 none; Ann!; Bo!"
    assert filled("plain", names) == "plain" and value("{'a': [1, -was.n]}", names) == {"a": [1, -3]}


@pytest.mark.parametrize(
    "term",
    [
        "__import__('os')", "().__class__", "[].append(1)", "lambda: 1", "(x := 1)", "open('f')", "1 ** 9", "a.b.c",
        "missing", "tickets.T9", "f'{ticket!r:>{9}}' if", "sum(x=1)", "[t for t in tickets]", "ticket()", "exec('1')",
    ],
)  # fmt: skip
def test_terms_reach_nothing_else(term: str) -> None:
    with pytest.raises(TermError):
        value(term, {**DESK, "ticket": "T1"})


def test_a_condition_is_true_or_false() -> None:
    with pytest.raises(TermError, match="must be true or false: got 'T1'"):
        holds("ticket", {"ticket": "T1"})


def test_schemas_refuse_what_does_not_fit() -> None:
    row = Record({"n": Whole(0, 5), "who": Ref("rows", optional=True), "words": Many(Word(("a", "b")), 2)})
    table, good = Table(row, 2), {"n": 5, "who": "", "words": ["a", "b"]}
    state = {"rows": {"R1": good}}
    faults: list[tuple[Any, str]] = [
        ({"R1": good}, ""),
        ({"R1": {**good, "who": "R1"}}, ""),
        ({"R1": {**good, "n": True}}, "R1 n must be a whole number 0 to 5"),
        ({"R1": {**good, "n": 6}}, "R1 n must be a whole number 0 to 5"),
        ({"R1": {**good, "who": "R2"}}, 'R1 who must be a key of rows or ""'),
        ({"R1": {**good, "words": ["a", "c"]}}, "R1 words [1] must be one of a, b"),
        ({"R1": {**good, "more": 1}}, "R1 must be an object of n, who, words"),
        ({"R/1": good}, "has a key that is no short word: 'R/1'"),
        ({f"R{n}": good for n in range(3)}, "must be an object of at most 2 rows"),
    ]
    for value_, fault in faults:
        assert table.fault(value_, state) == fault
    assert Text(3).fault("a\nb", {}) and not Text(3).fault("abc", {}) and Text(3).fault("ü", {})
    assert table.described()["additionalProperties"]["properties"]["n"] == {
        "type": "integer", "minimum": 0, "maximum": 5
    }  # fmt: skip


def test_patches_change_a_copy() -> None:
    start: State = {"a": {"x": {"n": 1, "l": [1]}}, "m": "on"}
    after = patched(start, [sets("a/x/n", 2), Change("append", "a/x/l", 2), sets("a/y", {"n": 0, "l": []})])
    assert after == {"a": {"x": {"n": 2, "l": [1, 2]}, "y": {"n": 0, "l": []}}, "m": "on"}
    assert start == {"a": {"x": {"n": 1, "l": [1]}}, "m": "on"}
    assert patched(start, [Change("delete", "a/x")])["a"] == {}
    assert list(differing(start, after)) == ["a/x/l", "a/x/n", "a/y"]
    for bad in (sets("b/x", 1), Change("delete", "a/z"), Change("append", "m", 1), sets("a/x/l/0", 1), sets("m/x", 1)):
        with pytest.raises(PatchError):
            patched(start, [bad])
    deep = json.loads("[" * 700 + "]" * 700)
    for bad in (sets("m", deep), Change("append", "a/x/l", deep)):
        with pytest.raises(PatchError, match="nested too deeply"):
            patched(start, [bad])
    assert matches("a/*/n", "a/x/n", start) == "x" and matches("a/*/n", "a/z/n", start) is None
    assert matches("a/?", "a/z", start) == "z" and matches("a/?", "a/x", start) is None
    assert matches("m", "m", start) == "" and matches("m", "m/x", start) is None
    assert found("a/*/n", start) == [("a/x/n", "x")] and found("a/q", start) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        ("Sure! {}", "no JSON"),
        ('```json\n{"observation": "a", "state_patch": []}\n```', "no JSON"),
        ('{"observation": "a"}', "one JSON object of observation and state_patch alone"),
        ('{"observation": "a", "state_patch": [], "note": 1}', "one JSON object of observation"),
        ('{"observation": "a", "observation": "b", "state_patch": []}', "given twice"),
        ('{"observation": "", "state_patch": []}', "observation must be a text"),
        ('{"observation": "\\ud800", "state_patch": []}', "observation must be a text"),
        ('{"observation": "a", "state_patch": {}}', "state_patch must be a list"),
        ('{"observation": "a", "state_patch": [{"op": "set", "path": "a"}]}', "a change is"),
        ('{"observation": "a", "state_patch": [{"op": "move", "path": "a", "value": 1}]}', "a change is"),
        ('{"observation": "a", "state_patch": [{"op": "delete", "path": "a", "value": 1}]}', "a change is"),
        ('{"observation": "a", "state_patch": [{"op": "set", "path": "a", "value": NaN}]}', "NaN is no number"),
        ("[" * 9000, "no JSON"),
        ('{"observation": "' + "a" * 20_000 + '", "state_patch": []}', "one JSON object"),
    ],
)
def test_answers_are_read_strictly(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        read(text)


def test_an_answer_is_read_as_it_was_written() -> None:
    answer = Answer("T1 agent Ann", (sets("tickets/T1/agent", "Ann"), Change("delete", "x/y")))
    assert read(answer.text()) == answer


def test_a_sound_transition_counts() -> None:
    changes = (sets("tickets/T1/agent", "Ann"), sets("tickets/T1/state", "open"))
    after = answered("tickets", DESK, "assign", {"ticket": "T1", "agent": "Ann"}, Answer("It is Ann's now.", changes))
    assert after["tickets"]["T1"] == {**DESK["tickets"]["T1"], "agent": "Ann", "state": "open"}
    assert after["tickets"]["T2"] == DESK["tickets"]["T2"] and DESK["tickets"]["T1"]["agent"] == ""
    told = Answer("error: Bo has it", ())
    assert answered("tickets", DESK, "assign", {"ticket": "T2", "agent": "Bo"}, told) == DESK


@pytest.mark.parametrize(
    ("tool", "args", "said", "changes", "why"),
    [
        ("close", {"ticket": "T2"}, "T2 closed", [sets("tickets/T2/state", "closed")], "must be refused"),
        ("close", {"ticket": "T2"}, "error: no", [sets("tickets/T2/state", "closed")], "must change nothing"),
        ("assign", {"ticket": "T1", "agent": "Ann"}, "error: not today", [], "must go through"),
        ("assign", {"ticket": "T1", "agent": "Ann"}, "Ann", [sets("tickets/T1/agent", "Ann")], "must set tickets/T1"),
        ("assign", {"ticket": "T1", "agent": "Ann"}, "Bo", [sets("tickets/T1/agent", "Bo"),
         sets("tickets/T1/state", "open")], "must set tickets/T1/agent \"Ann\""),
        ("assign", {"ticket": "T1", "agent": "Ann"}, "Ann", [sets("tickets/T1/agent", "Ann"),
         sets("tickets/T1/state", "open"), sets("tickets/T2/state", "closed")], "may not set 'tickets/T2/state'"),
        ("assign", {"ticket": "T1", "agent": "Ann"}, "done", [sets("tickets/T1/agent", "Ann"),
         sets("tickets/T1/state", "open")], "must say that tickets/T1/agent is Ann"),
        ("hand_out", {"ticket": "T1"}, "Bo", [sets("tickets/T1/agent", "Bo"), sets("tickets/T1/state", "open")],
         "it must hold that"),
        ("hand_out", {"ticket": "T1"}, "Zed", [sets("tickets/T1/agent", "Zed"), sets("tickets/T1/state", "open")],
         "does not fit the schema: tickets T1 agent must be a key of agents"),
        ("hand_out", {"ticket": "T1"}, "Ann", [sets("tickets/T1/state", "open")], "it must hold that"),
        ("reply", {"ticket": "T2", "text": "answer"}, "T2 solved, calm", [sets("tickets/T2/replies", ["answer"]),
         sets("tickets/T2/state", "solved")], "may not set 'tickets/T2/replies'"),
        ("reply", {"ticket": "T2", "text": "answer"}, "T2 solved, calm", [sets("tickets/T2/state", "solved"),
         Change("append", "tickets/T2/replies", "apology")], "must append"),
        ("list_tickets", {}, "T1 is billing", [], "must say that tickets/\\*|must say that tickets/T2/topic is login"),
        ("list_agents", {}, "Ann login; Bo billing", [], "must say that agents/Ann/skill is billing"),
        ("list_agents", {}, "Ann billing; Bo login", [Change("delete", "agents/Ann")], "may not delete"),
    ],
)  # fmt: skip
def test_a_transition_that_breaks_the_card_does_not_count(
    tool: str, args: Args, said: str, changes: list[Change], why: str
) -> None:
    with pytest.raises(Invalid, match=why):
        answered("tickets", DESK, tool, args, Answer(said, tuple(changes)))


def test_a_new_row_is_one_and_as_it_was_asked_for() -> None:
    people = {"Ann": {"start": 9, "end": 12}, "Bo": {"start": 8, "end": 12}}
    state: State = {"people": people, "meetings": {"M1": {"title": "plan", "day": "mon", "hour": 9, "who": ["Ann"]}}}
    args = {"person": "Ann", "other": "Bo", "day": "mon"}
    talk = {"title": "talk", "day": "mon", "hour": 11, "who": ["Ann", "Bo"]}

    def meet(*changes: Change) -> State:
        return answered("calendar", state, "meet", args, Answer("M7 mon at 11 with Ann and Bo", changes))

    assert meet(sets("meetings/M7", talk))["meetings"]["M7"] == talk
    bad: list[tuple[tuple[Change, ...], str]] = [
        ((), "must set one new row"),
        ((sets("meetings/M7", talk), sets("meetings/M8", talk)), "one new row, not several"),
        ((sets("meetings/M1", talk),), "may not set"),
        ((sets("meetings/M7", {**talk, "hour": 9}),), "must hold"),  # Ann is in M1 then
        ((sets("meetings/M7", {**talk, "hour": 8}),), "must hold"),  # Ann is not there yet
        ((sets("meetings/M7", {**talk, "who": ["Ann"]}),), "must hold"),
        ((sets("meetings/M7", {**talk, "title": "x"}),), "schema"),
    ]
    for changes, why in bad:
        with pytest.raises(Invalid, match=why):
            meet(*changes)


def test_rooms_warm_only_as_far_and_as_fast_as_they_may() -> None:
    hall = {"temp": 15, "target": 19, "window": "shut"}
    state: State = {"mode": "eco", "hour": 8, "rooms": {"hall": hall, "attic": {**hall, "window": "open"}}}

    def waited(temp: int, attic: int = 15) -> State:
        changes = (sets("hour", 10), sets("rooms/hall/temp", temp), sets("rooms/attic/temp", attic))
        return answered("home", state, "wait", {"hours": 2}, Answer(f"hour 10; hall {temp}; attic {attic}", changes))

    assert [waited(temp)["rooms"]["hall"]["temp"] for temp in (17, 18, 19)] == [17, 18, 19]
    for temp, attic in ((16, 15), (20, 15), (14, 15), (17, 16)):
        with pytest.raises(Invalid, match="it must hold"):
            waited(temp, attic)


def test_rules_keep_to_every_card_whatever_is_called(tasks: list[Task]) -> None:
    """What the rules answer passes the check, and is what the check settles: calls at random on every domain."""
    rng, went = random.Random(0), dict.fromkeys(DOMAINS, 0)
    for task in tasks:
        domain, state = DOMAINS[task.data["domain"]], dict(task.data["state"])
        for _ in range(25):
            action = rng.choice(domain.actions)
            args: dict[str, Any] = {}
            for key, kind in action.params.items():
                choices = list(state[kind.table]) if isinstance(kind, Ref) else []
                if isinstance(kind, Whole):
                    choices = list(range(kind.low, kind.high + 1))
                elif isinstance(kind, Word):
                    choices = list(kind.values)
                args[key] = rng.choice(choices or [""])
            if "" in args.values():
                continue
            answer = acted(state, action, args, 5)
            assert acted(state, action, args, 5) == answer == read(answer.text())
            after = checked(domain, state, action, args, answer)
            went[domain.name] += after != state
            state = after
    assert all(went.values()), went


def test_experts_go_two_ways_and_habits_go_wrong(tasks: list[Task]) -> None:
    world = build(Config(), None)
    ways = [[sorted(map(str, planned(task, task.data["state"], way, 0))) for way in (0, 1)] for task in tasks]
    assert sum(first != second for first, second in ways) >= len(tasks) // 3
    solved, tasks = dict.fromkeys(HABITS, 0), tasks[::2]
    for task in tasks:
        for name in HABITS:
            episode = world.open(task)
            play(episode, world.policy(task, name, 0), world.max_turns)
            outcome = episode.grade()
            assert outcome.known and set(outcome.parts) == {"goal", "kept", "answer", "protocol"}
            solved[name] += outcome.solved
    assert all(solved[name] == len(tasks) for name in (*EXPERTS, "checker"))
    assert solved["claim"] == solved["quit"] == solved["misreport"] == solved["extra"] == 0
    assert all(solved[name] < len(tasks) / 2 for name in ("early", "wrong_id", "stubborn"))


def test_the_verdict_is_the_state_s_and_the_answer_must_agree() -> None:
    task = desk_task([("skilled", {"ticket": "T1"})])
    right = patched(DESK, [sets("tickets/T1/agent", "Ann"), sets("tickets/T1/state", "open")])

    def reward(state: State, answer: str, well: int = 1, is_strict: bool = False) -> tuple[float | None, str]:
        outcome = judged(task, state, answer, 1, well, is_strict)
        return outcome.reward, outcome.reason

    assert [reward(right, text)[0] for text in ("Ann", " ann. ", "Bo", "Ann or Bo", "")] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert reward(DESK, "none") == (
        0.0,
        "not so: tickets.T1.agent != '' and agents[tickets.T1.agent].skill == tickets.T1.topic",
    )
    assert reward(patched(right, [sets("tickets/T2/mood", "cross")]), "Ann") == (
        0.0,
        "changed beside what was asked: tickets/T2/mood",
    )
    assert reward(patched(right, [Change("delete", "tickets/T1")]), "Ann")[0] == 0.0
    assert reward(right, "Ann", 0)[0] == 1.0 and reward(right, "Ann", 0, True) == (0.0, "a call was not well made")


def test_an_episode_reads_calls_before_anybody_is_asked() -> None:
    world = build(Config(calls=3), None)
    episode = world.open(desk_task([("calm", {"ticket": "T1"})], which=1))
    for message, line in (
        (render_call("fly"), "error: no tool 'fly': there are list_tickets"),
        (render_call("close"), "error: close needs the argument 'ticket'"),
        (render_call("close", ticket="T9"), "error: ticket must be a key of tickets"),
        (render_call("reply", ticket="T1", text="hello"), "error: text must be one of answer, apology, question"),
        (render_call("list_agents") * (MOST_CALLS + 1), f"error: at most {MOST_CALLS} calls in one message"),
    ):
        assert episode.act(message).text.startswith(line)
    assert (episode.state, episode.well, episode.calls, episode.talk) == (DESK, 0, 17, ())
    refused = "error: T1 has no agent"
    assert episode.act(render_call("reply", ticket="T1", text="apology")).text == refused
    other = episode.fork()
    seen = episode.act(render_call("hand_out", ticket="T1") + render_call("reply", ticket="T1", text="apology"))
    assert seen.text == "[1 hand_out] T1 agent Ann\n[2 reply] T1 open, calm"
    assert episode.act(render_call("list_agents")).text == "error: no more calls: say the answer"
    assert other.state == DESK and [said for _, said in other.talk] == [refused]
    assert episode.act("1").done and episode.grade().solved and episode.grade().parts["protocol"] == 4 / 21
    assert other.act("1").done and other.grade().reward == 0.0


def test_an_expert_takes_over_where_another_stopped(tasks: list[Task]) -> None:
    world = build(Config(), None)
    for task in tasks[::4]:
        episode, begun = world.open(task), list[Message]()
        for message in said(play(world.open(task), world.policy(task, "early", 0), 24))[:-1]:
            begun += [Message("assistant", message), Message("tool", episode.act(message).text)]
        play(episode, world.policy(task, "survey", 0), 24, begun)
        assert episode.grade().solved, task.id


def test_levels_and_seeds_and_names(tasks: list[Task]) -> None:
    world = build(Config(levels=("hard",)), None)
    hard = world.tasks("train", 2, 0)
    assert {len(asked_of(task)) for task in hard} == {3} and {task.data["level"] for task in hard} == {"hard"}
    assert world.tasks("train", 1, 0) == hard[:1] and world.tasks("train", 1, 1) != hard[:1]
    assert {task.data["domain"] for task in tasks} == set(DOMAINS) and tasks[-1].data["domain"] == "lab"
    with pytest.raises(UserError, match="strategy must be one of stepper"):
        world.policy(hard[0], "lazy", 0)
    with pytest.raises(UserError, match="split must be one of train, heldout, unseen"):
        world.tasks("dev", 1, 0)  # type: ignore[arg-type]
    chosen = {acted(DESK_OF_THREE, DOMAINS["tickets"].by_name["hand_out"], {"ticket": "T1"}, s) for s in range(20)}
    assert {answer.observation for answer in chosen} == {"T1 agent Ann", "T1 agent Cy"}


DESK_OF_THREE: State = {**DESK, "agents": {**DESK["agents"], "Cy": {"skill": "billing"}}}


class Fickle:
    """Chooses another agent each time it is asked; counts."""

    identity = "fickle"

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, question: Question, faults: object, seed: int) -> str:
        self.asked += 1
        agent = ("Ann", "Cy")[self.asked % 2]
        changes = (sets("tickets/T1/agent", agent), sets("tickets/T1/state", "open"))
        return Answer(f"{agent} has it", changes).text()

    def close(self) -> None:
        """Nothing is held."""


def hand_out(state: State = DESK_OF_THREE) -> Question:
    domain = DOMAINS["tickets"]
    return Question(domain, state, domain.by_name["hand_out"], {"ticket": "T1"})


def test_siblings_and_a_run_that_goes_on_see_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run" / "answers.sqlite"
    for record in (InMemory(10), InFile(path, 10)):
        simulator = Fickle()
        steps = [Transitions(simulator, record, 1).step(hand_out()) for _ in range(3)]
        assert steps[0] == steps[1] == steps[2] and steps[0].observation == "Cy has it" and simulator.asked == 1
    offline = Transitions(Fickle(), recorded(RecordConfig(path=str(path), replay=True)), 1, replay=True)
    assert offline.step(hand_out()).observation == "Cy has it"
    calm = patched(DESK_OF_THREE, [sets("tickets/T2/mood", "cross")])
    with pytest.raises(SandboxError, match="no answer to hand_out is recorded for this state"):
        offline.step(hand_out(calm))
    talked = Question(hand_out().domain, DESK_OF_THREE, hand_out().action, {"ticket": "T1"}, (("list_agents()", "…"),))
    keys = {hand_out().key("a"), hand_out().key("b"), hand_out(calm).key("a"), talked.key("a")}
    assert len(keys) == 4 and hand_out().key("a") in keys


def keep(path: Path, answer: str) -> None:
    InFile(path, 10).put("key", answer)


def test_the_first_answer_is_everybody_s_and_records_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    context = multiprocessing.get_context("fork")
    rivals = [context.Process(target=keep, args=(path, f"answer {n}")) for n in range(3)]
    for rival in rivals:
        rival.start()
    for rival in rivals:
        rival.join(60)
    first = InFile(path, 10).get("key")
    assert first in {f"answer {n}" for n in range(3)} and InFile(path, 10).put("key", "late") == first
    full = InFile(path, 1)
    assert full.put("other", "b") == "b" and full.get("other") is None
    small = InMemory(2)
    assert [small.put(key, key) for key in "abc"] == ["a", "b", "c"]
    assert small.get("a") is None and small.get("b") == "b" and small.put("b", "z") == "b"


def test_a_record_that_is_none_is_refused_and_a_forged_one_is_checked(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database " * 100)
    with sqlite3.connect(tmp_path / "other") as file:
        file.execute("CREATE TABLE answers (question TEXT, said TEXT)")
    for config in (
        RecordConfig(path=str(tmp_path / "text")),
        RecordConfig(path=str(tmp_path / "other")),
        RecordConfig(path=str(tmp_path)),
        RecordConfig(path=str(tmp_path / "a\0b")),
        RecordConfig(path=str(tmp_path / "none"), replay=True),
        RecordConfig(replay=True),
    ):
        with pytest.raises(UserError, match=r"record\.path must be a file"):
            recorded(config)
    path = tmp_path / "forged"
    record = InFile(path, 10)
    closed = Answer("T1 closed by Ann", (sets("tickets/T1/state", "closed"), sets("tickets/T1/agent", "Ann")))
    record.put(hand_out().key("fickle"), closed.text())
    with pytest.raises(SandboxError, match="a recorded answer is not valid: hand_out must set"):
        Transitions(Fickle(), record, 1).step(hand_out())
    with sqlite3.connect(path) as file:
        file.execute("DROP TABLE answers")
    with pytest.raises(SandboxError, match="the record of answers cannot be read"):
        Transitions(Fickle(), record, 1).step(hand_out())


def test_what_a_simulator_is_told_holds_state_call_and_what_is_settled() -> None:
    data = json.loads(json.dumps(hand_out().data()))
    assert data["state"] == DESK_OF_THREE and data["call"] == {"tool": "hand_out", "arguments": {"ticket": "T1"}}
    assert data["must_be_refused_because"] == "" and data["may_change"] == ["set tickets/T1/agent"]
    assert data["must_change"] == [{"op": "set", "path": "tickets/T1/state", "value": "open"}]
    assert Scripted(3).ask(hand_out(), (), 0) == acted(DESK_OF_THREE, hand_out().action, {"ticket": "T1"}, 3).text()
