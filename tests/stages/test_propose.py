"""The model variant of the supervisor: prompts, parsing, questions to a real server, and marks by replay alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from noria.core.codec import from_json, to_json
from noria.core.errors import PolicyError, UserError
from noria.core.recipe import load
from noria.core.types import Outcome, Pair, Task, TokenRecord, Trajectory, Turn
from noria.engines.openai import Config, build
from noria.engines.scripted import Reply, ScriptedServer
from noria.stages import analyze, propose
from noria.stages.analyze import Point, Value

pytest.importorskip("openai")

SOON = {"retry-after-ms": "5"}
GOOD = json.dumps([{"side": "wrong", "turn": 2, "why": "guesses"}, {"side": "right", "turn": 1, "why": "looks"}])
RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "quickstart.toml"


def trajectory(name: str, messages: list[str], reward: float) -> Trajectory:
    """Each turn is two tokens of action and one of observation, after a prompt of three tokens."""
    turns = tuple(Turn(m, f"seen {i}", 3 + 3 * i, 5 + 3 * i) for i, m in enumerate(messages))
    n = 3 + 3 * len(messages)
    ids = tuple(hash_of(messages, i) for i in range(n))
    record = TokenRecord(ids, ("answer",) * n, (0,) * n, ("student",) * n, (1,) * n, (0.0,) * n, (0,) * n)
    task = Task("box-1", "box", "", "Open the box.")
    return Trajectory(name, task, "student", turns, record, Outcome(reward))


def hash_of(messages: list[str], position: int) -> int:
    turn = (position - 3) // 3
    return position if turn < 0 else sum(map(ord, messages[turn])) + position


@pytest.fixture
def pair() -> Pair:
    right = trajectory("right-1", ["look", "read", "open"], 1.0)
    wrong = trajectory("wrong-1", ["look", "guess", "poke", "pull"], 0.0)
    return Pair(right.task, right, wrong)


def context(url: str = "http://127.0.0.1:9/v1", **supervisor: object) -> SimpleNamespace:
    """What `points`, `mark` and `proposals` read of a context; the world names an action by its first letter."""
    recipe = load(
        [RECIPE],
        [
            f'supervisor={{type = "model", continuations = 4, replay_budget = {supervisor.get("budget", 16)}, engine = '
            f'{{type = "openai", base_url = "{url}", model = "m", max_retries = {supervisor.get("retries", 1)}, '
            "concurrency = 3}}",
        ],
    )
    world = SimpleNamespace(kind=lambda message: message[0])
    renderer = SimpleNamespace(decode=lambda ids: " ".join(map(str, ids)))
    return SimpleNamespace(recipe=recipe, worlds={"box": world}, renderer=renderer)


def ask(replies: list[str | Reply], pair: Pair, retries: int = 2) -> tuple[propose.Proposal, list[dict]]:
    with ScriptedServer(replies) as server:
        config = Config(base_url=server.url, model="m", max_retries=retries)
        chat = build(config)
        found = propose.propose(chat, pair, 3, config)
        chat.close()
    return found, server.requests


def test_a_good_answer_is_taken_at_once(pair: Pair) -> None:
    found, requests = ask([GOOD], pair)
    assert found.reasons("wrong") == {1: "guesses"} and found.reasons("right") == {0: "looks"}
    assert (found.asked, found.fault, len(requests)) == (1, "", 1)
    said = requests[0]["messages"][0]["content"]
    assert "2. did: guess" in said and "3. did: open" in said and "Open the box." in said
    assert from_json(propose.Proposal, to_json(found)) == found


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("I think turn two.", "no JSON list"),
        ("[]", "names no action"),
        ('[{"side": "wrong", "turn": 2', "no JSON list"),
        ('[{"side": "wrong", "turn": 5}]', "from 1 to 4 in the wrong attempt: got 5"),
        ('[{"side": "right", "turn": 0}]', "from 1 to 3 in the right attempt: got 0"),
        ('[{"side": "left", "turn": 1}]', "side must be"),
        ('[{"side": "wrong", "turn": true}]', "whole number"),
        ('[{"side": "wrong", "turn": "2"}]', "whole number"),
        ('[{"side": ["wrong"], "turn": 1, "why": 3}]', "side must be"),
        ("[" * 40_000, "no JSON list"),
        ('[{"side": "wrong", "turn": ' + "9" * 5_000 + "}]", "no JSON list"),
    ],
    ids=lambda text: text[:24],
)
def test_a_useless_answer_is_refused_with_the_reason(pair: Pair, bad: str, told: str) -> None:
    with pytest.raises(PolicyError, match=told.replace("(", r"\(")):
        propose.parse(bad, pair, 3)


def test_after_a_useless_answer_the_model_is_told_why(pair: Pair) -> None:
    found, requests = ask(['[{"side": "wrong", "turn": 9}]', Reply(text=None, refusal="I'd rather not"), GOOD], pair)
    assert found.asked == 3 and len(found.actions) == 2
    assert "from 1 to 4" in requests[1]["messages"][-1]["content"]
    assert [m["role"] for m in requests[2]["messages"]] == ["user", "assistant", "user"]
    assert requests[2]["messages"][1]["content"] == "I'd rather not"


def test_useless_answers_end_with_the_budget(pair: Pair) -> None:
    found, requests = ask(["no"], pair, retries=2)
    assert found.actions == () and found.asked == 3 == len(requests)
    assert "no JSON list" in found.fault


def test_a_rate_limit_passes(pair: Pair) -> None:
    found, requests = ask([Reply(status=429, headers=SOON), GOOD], pair)
    assert len(found.actions) == 2 and (found.asked, len(requests)) == (1, 2)


@pytest.mark.parametrize(
    "reply", [Reply(status=500, headers=SOON), Reply(status=400), Reply(body="<html>")], ids=["500", "400", "html"]
)
def test_a_server_that_fails_for_good_gives_no_proposal(pair: Pair, reply: Reply) -> None:
    found, _ = ask([reply], pair, retries=1)
    assert found.actions == () and found.fault


def test_a_server_that_never_answers_gives_no_proposal(pair: Pair) -> None:
    with ScriptedServer([Reply(GOOD, delay_s=60)]) as server:
        config = Config(base_url=server.url, model="m", max_retries=0, timeout_s=0.2)
        found = propose.propose(build(config), pair, 3, config)
    assert found.actions == () and "Timeout" in found.fault


def test_lists_are_found_in_prose_fences_and_thoughts(pair: Pair) -> None:
    wrapped = f'<think>[1] maybe [{{"side": "wrong", "turn": 4}}]</think>\n```json\n{GOOD}\n```\nas in [].'
    assert [a.turn for a in propose.parse(wrapped, pair, 3)] == [1, 0]
    assert propose.parse(json.dumps({"actions": json.loads(GOOD)}), pair, 3) == propose.parse(GOOD, pair, 3)


def test_each_turn_counts_once_and_at_most_so_many_per_side(pair: Pair) -> None:
    named = [{"side": "wrong", "turn": t, "why": str(i)} for i, t in enumerate([3, 3, 1, 2, 4])]
    found = propose.parse(json.dumps(named), pair, 3)
    assert [(a.turn, a.why) for a in found] == [(2, "0"), (0, "2"), (1, "3")]


def test_reasons_are_one_printable_line(pair: Pair) -> None:
    dirty = '[{"side": "wrong", "turn": 1, "why": "a\\n\\ud800 b\\u0000c ' + "x" * 500 + '"}]'
    (action,) = propose.parse(dirty, pair, 3)
    assert action.why.startswith("a b c xxx") and len(action.why) == propose.WHY_CHARS
    action.why.encode("utf-8")


def test_a_long_attempt_keeps_to_its_share_of_the_prompt(pair: Pair) -> None:
    long = trajectory("long", ["m" * 9_000] * 40, 0.0)
    text = "\n".join(propose.listing(long))
    assert len(text) < 2 * propose.ATTEMPT_CHARS and text.count("did:") == 40


def test_pairs_are_asked_about_together_and_each_gets_its_own(pair: Pair) -> None:
    pairs = [replace(pair, task=replace(pair.task, id=f"box-{i}", prompt=f"Open box {i}.")) for i in range(7)]

    def answer(request: dict) -> str:
        number = int(request["messages"][0]["content"].split("Open box ")[1].split(".")[0])
        return "no idea" if number == 5 else json.dumps([{"side": "wrong", "turn": number % 4 + 1, "why": str(number)}])

    with ScriptedServer(answer) as server:
        found = propose.proposals(context(server.url), pairs)
    assert list(found) == [p.task.id for p in pairs]
    told = {task_id: p.reasons("wrong") for task_id, p in found.items()}
    assert told == {f"box-{i}": {} if i == 5 else {i % 4: str(i)} for i in range(7)}
    assert found["box-5"].asked == 2


def test_a_refused_key_ends_the_stage(pair: Pair) -> None:
    with ScriptedServer([Reply(status=401)]) as server, pytest.raises(UserError, match="api_key_env"):
        propose.proposals(context(server.url), [pair] * 5)


def test_points_are_those_around_the_proposed_turns_within_the_budget(pair: Pair) -> None:
    turns = [Point(k, 3 + 3 * k) for k in range(4)]
    four, two = context(budget=16), context(budget=8)
    assert analyze.points(four, pair.wrong, pair) == turns
    assert analyze.points(four, pair.wrong, pair, {1: ""}) == turns[1:3]
    assert analyze.points(four, pair.wrong, pair, {3: "", 0: ""}) == [turns[0], turns[1], turns[3]]
    assert analyze.points(two, pair.wrong, pair, {2: "", 0: ""}) == turns[2:4]
    assert analyze.points(four, pair.wrong, pair, {}) == []


def test_only_proposed_actions_with_both_neighbours_replayed_are_measured(pair: Pair) -> None:
    ctx = context()
    rates = {0: 4, 1: 3, 2: 0, 3: 0}
    values = {("wrong-1", 3 + 3 * k): Value(solved, 4) for k, solved in rates.items()}
    every = analyze.mark(ctx, pair.wrong, analyze.points(ctx, pair.wrong, pair), values)
    assert [(m.turn, m.shift) for m in every] == [(0, -0.25), (1, -0.75), (2, 0.0), (3, 0.0)]
    wanted = {3: "late", 1: "guesses"}
    plan = [Point(1, 6), Point(2, 9), Point(3, 12)]
    found = analyze.mark(ctx, pair.wrong, plan, values, wanted)
    assert [(m.turn, m.shift) for m in found] == [(1, -0.75), (3, 0.0)]
    assert found[0].why.endswith("from 3/4 to 0/4; the model's reason: guesses")
    gap = analyze.mark(ctx, pair.wrong, [Point(0, 3), Point(2, 9)], values, {0: "", 2: ""})
    assert gap == []


def test_a_proposal_that_replay_refutes_is_no_mark_but_is_reported(pair: Pair) -> None:
    ctx = context()
    proposal = propose.Proposal("box-1", propose.parse(GOOD, pair, 3), 1)
    told = {"box-1": proposal}
    plans = {t.id: analyze.points(ctx, t, pair, analyze.reasons(told, pair, t)) for t in (pair.right, pair.wrong)}
    values = {("wrong-1", 6): Value(3, 4), ("wrong-1", 9): Value(0, 4)}
    values |= {("right-1", 3): Value(2, 4), ("right-1", 6): Value(2, 4)}
    found = analyze.analyse(ctx, pair, plans, values, told)
    assert [(m.trajectory_id, m.turn) for m in found.marks] == [("wrong-1", 1)]
    assert (found.replays, found.budget) == (16, 32)
    assert "| wrong | 2 | guesses | 3/4 → 0/4 | marked |" in found.report
    assert "| right | 1 | looks | 2/4 → 2/4 | not confirmed |" in found.report


def test_without_a_proposal_there_is_neither_replay_nor_mark(pair: Pair) -> None:
    ctx = context()
    told = {"box-1": propose.Proposal("box-1", (), 2, "no JSON list")}
    plans = {t.id: analyze.points(ctx, t, pair, analyze.reasons(told, pair, t)) for t in (pair.right, pair.wrong)}
    found = analyze.analyse(ctx, pair, plans, {}, told)
    assert found.marks == () and found.replays == 0
    assert "Nothing usable in 2 answer(s): no JSON list." in found.report


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ('supervisor={type = "model", engine = {type = "embedded"}}', "must be an engine that chats: got 'embedded'"),
        ('supervisor={type = "model", engine = {}}', "expected 'openai'"),
        ('student.engine={type = "openai"}', "must be an engine that samples tokens: got 'openai'"),
    ],
)
def test_engines_are_checked_for_what_they_can_do(change: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        load([RECIPE], [change])
