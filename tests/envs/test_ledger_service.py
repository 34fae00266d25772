"""The ledger's transitions and its judge: exact lines, conservation of money, independence of forks, fuzz."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.types import Task
from noria.envs.ledger import Config, build
from noria.envs.ledger.instances import SYSTEM, prompt, required
from noria.envs.ledger.service import MAX_AMOUNT, PARAMETERS, Account, Ledger
from noria.envs.ledger.world import LedgerEpisode
from noria.tokens.calls import render_call

WORLD = build(Config(), None)
START = {
    "A3": {"balance": 45, "status": "open", "limit": 50},
    "B1": {"balance": 30, "status": "frozen", "limit": 20},
    "K7": {"balance": 26, "status": "open", "limit": 20},
    "M2": {"balance": 0, "status": "closed", "limit": 50},
}
IDS = st.sampled_from([*START, "Z9", "a3", "", "A3 "])
AMOUNTS = st.one_of(st.integers(-5, 120).map(str), st.sampled_from(["ten", "", "1e1", "07", "٣", "9" * 400]))
SUBMIT = '<call name="submit"></call>'


def task_with(goals: list[list[object]]) -> Task:
    data = {"kind": "test", "accounts": START, "goals": goals}
    return Task("ledger-train-test", "ledger", SYSTEM, prompt(goals), data=data)


def opened(*goals: list[object]) -> LedgerEpisode:
    return WORLD.open(task_with(list(goals) or [["move", "A3", "K7", 25]]))


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """A tool of the service with arguments that are often right."""
    name = draw(st.sampled_from([tool for tool in PARAMETERS if tool != "submit"]))
    return name, {key: draw(AMOUNTS if key == "amount" else IDS) for key in PARAMETERS[name]}


@pytest.mark.parametrize(
    ("name", "args", "line"),
    [
        ("get", {"id": "A3"}, "A3 45 open limit 50"),
        ("list", {}, "A3 45 open; B1 30 frozen; K7 26 open; M2 0 closed"),
        ("transfer", {"src": "A3", "dst": "K7", "amount": 25}, "ok A3 20, K7 51"),
        ("transfer", {"src": "A3", "dst": "B1", "amount": 25}, "error: B1 is frozen; unfreeze it first"),
        ("transfer", {"src": "A3", "dst": "M2", "amount": 25}, "error: M2 is closed; open it first"),
        ("transfer", {"src": "A3", "dst": "A3", "amount": 25}, "error: src and dst must differ"),
        ("transfer", {"src": "K7", "dst": "A3", "amount": 21}, "error: K7 has limit 20; set it higher first"),
        ("withdraw", {"id": "A3", "amount": 45}, "ok A3 0"),
        ("withdraw", {"id": "A3", "amount": 46}, "error: A3 holds only 45"),
        ("deposit", {"id": "A3", "amount": 54}, "ok A3 99"),
        ("deposit", {"id": "A3", "amount": 55}, "error: A3 holds 45 of at most 99"),
        ("deposit", {"id": "A3", "amount": "ten"}, "error: amount must be a positive integer, got 'ten'"),
        ("deposit", {"id": "A3", "amount": "0"}, "error: amount must be a positive integer, got '0'"),
        ("deposit", {"id": "A3"}, "error: deposit takes id, amount"),
        ("list", {"id": "A3"}, "error: list takes no argument"),
        ("freeze", {"id": "A3"}, "ok A3 frozen"),
        ("freeze", {"id": "B1"}, "error: B1 is frozen, not open"),
        ("unfreeze", {"id": "B1"}, "ok B1 open"),
        ("unfreeze", {"id": "A3"}, "error: A3 is open, not frozen"),
        ("open", {"id": "M2"}, "ok M2 open"),
        ("open", {"id": "A3"}, "error: A3 is open, not closed"),
        ("close", {"id": "A3"}, "error: A3 holds 45; move it first"),
        ("close", {"id": "B1"}, "error: B1 is frozen; unfreeze it first"),
        ("set_limit", {"id": "A3", "amount": 80}, "ok A3 limit 80"),
        ("set_limit", {"id": "A3", "amount": 100}, "error: limit must be at most 99"),
        ("get", {"id": "Z9"}, "error: no account 'Z9'; call list"),
        ("submit", {"id": "A3"}, "error: submit takes no argument"),
    ],
)
def test_lines(name: str, args: dict[str, object], line: str) -> None:
    episode = opened()
    seen = episode.act(render_call(name, **args))
    assert (seen.text, seen.done) == (line, False)
    if line.startswith("error:"):
        assert episode.accounts == opened().accounts


def test_messages_that_cannot_run_are_observations() -> None:
    unclosed, unknown = '<call name="get"><id>A3</call>', '<call name="x"></call>'
    for message in ("", "hello", "<think>", unclosed, "</call>", unknown):
        seen = opened().act(message)
        assert seen.text.startswith("error:") and not seen.done


def test_calls_run_in_order_and_submit_ends_the_message() -> None:
    episode = opened()
    move = render_call("transfer", src="A3", dst="K7", amount=25)
    seen = episode.act(move + render_call("get", id="A3"))
    assert seen.text == "ok A3 20, K7 51\nA3 20 open limit 50"
    seen = episode.act(SUBMIT + move)
    assert (seen.text, seen.done) == ("", True)
    assert episode.act(move).done
    assert episode.accounts["A3"].balance == 20
    assert episode.grade().reward == 1.0


@pytest.mark.parametrize(
    ("goals", "paths"),
    [
        (
            [["move", "A3", "K7", 25]],
            [
                [("transfer", ("A3", "K7", 25))],
                [("withdraw", ("A3", 25)), ("deposit", ("K7", 25))],
                [("deposit", ("K7", 25)), ("withdraw", ("A3", 25))],
                [("transfer", ("A3", "K7", 20)), ("transfer", ("A3", "K7", 5))],
            ],
        ),
        (
            [["move", "A3", "B1", 25], ["freeze", "A3"]],
            [
                [
                    ("unfreeze", ("B1",)),
                    ("transfer", ("A3", "B1", 25)),
                    ("freeze", ("A3",)),
                    ("freeze", ("B1",)),
                ],
                [
                    ("unfreeze", ("B1",)),
                    ("transfer", ("A3", "B1", 25)),
                    ("freeze", ("B1",)),
                    ("freeze", ("A3",)),
                ],
            ],
        ),
        (
            [["target", "A3", 55]],
            [[("deposit", ("A3", 10))], [("withdraw", ("A3", 45)), ("deposit", ("A3", 55))]],
        ),
        (
            [["close", "A3", "K7"]],
            [
                [("transfer", ("A3", "K7", 45)), ("close", ("A3",))],
                [("withdraw", ("A3", 45)), ("close", ("A3",)), ("deposit", ("K7", 45))],
            ],
        ),
    ],
)
def test_every_valid_path_scores_and_its_parts_do_not(
    goals: list[list[object]], paths: list[list[tuple[str, tuple[object, ...]]]]
) -> None:
    for path in paths:
        episode = opened(*goals)
        for name, values in path:
            assert episode.grade().reward == 0.0
            seen = episode.act(render_call(name, **dict(zip(PARAMETERS[name], values, strict=True))))
            assert seen.text.startswith("ok")
        assert episode.grade().reward == 1.0


def test_a_touched_bystander_costs_the_reward() -> None:
    episode = opened(["move", "A3", "K7", 25])
    episode.act(render_call("transfer", src="A3", dst="K7", amount=25))
    assert episode.grade().parts == {"named": 1.0, "others": 1.0}
    episode.act(render_call("unfreeze", id="B1"))
    outcome = episode.grade()
    assert (outcome.reward, outcome.parts) == (0.0, {"named": 1.0, "others": 0.0})
    assert outcome.reason == "B1 is 30 open limit 20, required 30 frozen limit 20"


def test_goals_that_cannot_hold_are_a_fault_of_the_instance() -> None:
    accounts = {name: Account(**fields) for name, fields in START.items()}  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="goals must be reachable"):
        required(accounts, [["move", "A3", "K7", 46]])


@settings(max_examples=150, deadline=None)
@given(st.lists(calls(), max_size=25))
def test_money_is_conserved_and_bounds_hold(sequence: list[tuple[str, dict[str, str]]]) -> None:
    ledger = Ledger({name: Account(**fields) for name, fields in START.items()})  # type: ignore[arg-type]
    for name, args in sequence:
        before = dict(ledger.accounts)
        line = ledger.call(name, args)
        assert "\n" not in line and line.isascii()
        total = sum(a.balance for a in ledger.accounts.values()) - sum(a.balance for a in before.values())
        if line.startswith("ok") and name in ("deposit", "withdraw"):
            assert total == int(args["amount"]) * (1 if name == "deposit" else -1)
        else:
            assert total == 0
        changed = {key for key in before if ledger.accounts[key] != before[key]}
        if line.startswith("ok"):
            assert changed <= {value.strip() for value in args.values()}
        else:
            assert not changed
        for account in ledger.accounts.values():
            assert 0 <= account.balance <= MAX_AMOUNT and 1 <= account.limit <= MAX_AMOUNT
            assert account.status != "closed" or account.balance == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(calls(), max_size=8), st.lists(calls(), max_size=8), st.lists(calls(), max_size=8))
def test_forks_are_independent(
    prefix: list[tuple[str, dict[str, str]]],
    left: list[tuple[str, dict[str, str]]],
    right: list[tuple[str, dict[str, str]]],
) -> None:
    def run(episode: LedgerEpisode, sequence: list[tuple[str, dict[str, str]]]) -> list[str]:
        return [episode.act(render_call(name, **args)).text for name, args in sequence]

    trunk, straight = opened(), opened()
    run(trunk, prefix)
    branch = trunk.fork()
    left_lines, right_lines = run(trunk, left), run(branch, right)
    run(straight, prefix)
    other = opened()
    run(other, prefix)
    assert run(straight, left) == left_lines and run(other, right) == right_lines
    assert (straight.accounts, straight.grade()) == (trunk.accounts, trunk.grade())
    assert (other.accounts, other.grade()) == (branch.accounts, branch.grade())


FRAGMENTS = st.sampled_from(
    [
        "<think>", "</think>", '<call name="get">', '<call name="transfer">', '<call name="submit">',
        "</call>", "<id>", "</id>", "<src>", "</src>", "<dst>", "</dst>", "<amount>", "</amount>",
        "A3", "K7", "25", "-1", " ", "\n", "\0", "é", "<call", '<call name="list"></call>',
    ]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=30), st.lists(FRAGMENTS, max_size=12).map("".join)), max_size=6))
def test_no_message_raises(messages: list[str]) -> None:
    episode = opened()
    for message in messages:
        seen = episode.act(message)
        assert seen.text.isascii()
        assert seen.done or seen.text
        WORLD.kind(message)
        assert episode.grade().reward in (0.0, 1.0)


def test_errors_stay_short_whatever_a_model_writes() -> None:
    for message in (f'<call name="{"x" * 5000}">', f'<call name="get"><id>{"é" * 5000}</id></call>'):
        seen = opened().act(message)
        assert seen.text.startswith("error:") and seen.text.isascii()
        assert len(seen.text) <= 150
