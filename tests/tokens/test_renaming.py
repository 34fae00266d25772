"""Tools under other names: exact calls there and back, what is refused, and no call whose meaning is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.codec import from_json, to_json
from noria.core.errors import PolicyError
from noria.core.types import Tool
from noria.tokens import retold
from noria.tokens.calls import Call, parse, render_call
from noria.tokens.renaming import ArgumentMap, Renaming, ToolMap, Unmapped, plain

SEND = ToolMap(
    "transfer",
    "sendMoney",
    "move money",
    (
        ArgumentMap("amount", "units", "string", "how much"),
        ArgumentMap("src", "origin", "string", "account"),
        ArgumentMap("kind", "how", "string", "one of FAST, SLOW", (("fast", "FAST"), ("slow", "SLOW")), "slow"),
    ),
)
GET = ToolMap(
    "get", "desk", "read one", (ArgumentMap("id", "ref", "string", "account"),), choice="action", value="look"
)
END = ToolMap("submit", "desk", "end", choice="action", value="hand_in")
SET = ToolMap(
    "set", "put", "set a limit", (ArgumentMap("id", "ref", "string", ""), ArgumentMap("n", "cap", "integer", "")), "box"
)
RENAMING = Renaming((SEND, GET, SET, END))

PAIRS = [
    (Call("get", {"id": "H9"}), Call("desk", {"action": "look", "ref": "H9"})),
    (Call("submit"), Call("desk", {"action": "hand_in"})),
    (Call("set", {"id": "7", "n": "7"}), Call("put", {"box": '{"ref": "7", "cap": 7}'})),
    (Call("set", {"n": " 7"}), Call("put", {"box": '{"cap": " 7"}'})),
    (Call("set"), Call("put")),
    (
        Call("transfer", {"src": "A", "amount": "3", "kind": "fast"}),
        Call("sendMoney", {"units": "3", "origin": "A", "how": "FAST"}),
    ),
    (Call("nothing", {"id": "1"}), Call("nothing", {"id": "1"})),
    (Call("get", {"odd": "1"}), Call("desk", {"action": "look", "odd": "1"})),
]


@pytest.mark.parametrize(("call", "shown"), PAIRS)
def test_a_call_there_and_back(call: Call, shown: Call) -> None:
    said = RENAMING.said(call)
    assert said == shown and list(said.args) == list(shown.args)
    assert RENAMING.meant(shown) == call


def test_a_default_that_was_left_out_is_stated() -> None:
    said = RENAMING.said(Call("transfer", {"src": "A", "amount": "3"}))
    assert said == Call("sendMoney", {"units": "3", "origin": "A", "how": "SLOW"})
    assert RENAMING.meant(said) == Call("transfer", {"src": "A", "amount": "3", "kind": "slow"})


def test_the_schemas_as_shown() -> None:
    send, desk, put = RENAMING.schemas
    assert send.parameters == {
        "units": ("string", "how much"), "origin": ("string", "account"), "how": ("string", "one of FAST, SLOW"),
    }  # fmt: skip
    assert desk == Tool(
        "desk",
        "look: read one; hand_in: end",
        {"action": ("string", "one of look, hand_in"), "ref": ("string", "account")},
    )
    assert put.parameters == {"box": ("object", "ref: string; cap: integer")}


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (Call("get", {"id": "H9"}), "no tool of this name: there are sendMoney, desk, put"),
        (Call("desk", {"ref": "H9"}), "desk needs action: one of look, hand_in"),
        (Call("desk", {"action": "get"}), "desk needs action: one of look, hand_in"),
        (Call("put", {"ref": "H9"}), "put takes box, an object"),
        (Call("put", {"box": "[1]"}), "box must be a JSON object: got '[1]'"),
        (Call("sendMoney", {"src": "A"}), "sendMoney has no such argument: it takes units, origin, how"),
        (Call("sendMoney", {"how": "fast"}), "how must be one of FAST, SLOW"),
    ],
)
def test_a_call_in_the_worlds_own_words_is_refused(call: Call, why: str) -> None:
    with pytest.raises(PolicyError) as fault:
        RENAMING.meant(call)
    assert str(fault.value) == why


@pytest.mark.parametrize(
    "call",
    [Call("desk"), Call("get", {"ref": "1"}), Call("get", {"action": "1"}), Call("transfer", {"kind": "FAST"})],
)
def test_what_would_mean_something_else_cannot_be_said(call: Call) -> None:
    with pytest.raises(Unmapped):
        RENAMING.said(call)


@pytest.mark.parametrize(
    "tools",
    [
        (ToolMap("a", "x", ""), ToolMap("b", "x", "")),
        (ToolMap("a", "x", "", choice="k", value="v"), ToolMap("b", "x", "", choice="k", value="v")),
        (ToolMap("a", "x", "", choice="k", value="v"), ToolMap("b", "x", "", choice="l", value="w")),
        (ToolMap("a", "b", ""), ToolMap("b", "c", "")),
        (ToolMap("a", "no name", ""),),
        (ToolMap("a", "x", "", (ArgumentMap("p", "q", "string", ""), ArgumentMap("r", "q", "string", ""))),),
        (ToolMap("a", "x", "", (ArgumentMap("p", "q", "string", "", (("1", "A"), ("2", "A"))),)),),
        (ToolMap("a", "x", "", (ArgumentMap("p", "q", "string", ""),), "q"),),
    ],
)
def test_names_that_could_mean_two_things_are_no_renaming(tools: tuple[ToolMap, ...]) -> None:
    with pytest.raises(ValueError, match="must|names of their own"):
        Renaming(tools)


_KEYS = ("id", "n", "amount", "src", "kind", "other", "ref", "units", "action", "box")
_VALUES = st.one_of(
    st.sampled_from(["fast", "SLOW", "7", "-1.50", "true", "null", '"q"', '{"a": 1}', "[1, 2]", "", "</call>"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["get", "set", "submit", "transfer", "desk", "put", "unknown"]),
    st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=4),
)
def test_no_call_loses_its_meaning(name: str, args: dict[str, str]) -> None:
    call = Call(name, args)
    try:
        shown = RENAMING.said(call)
    except Unmapped:
        return
    # As text, too: a value may hold tags, quotes and braces.
    (heard,) = parse(render_call(shown.name, **shown.args)).calls
    wanted = {"kind": "slow", **args} if name == "transfer" else args
    assert RENAMING.meant(heard) == Call(name, wanted)


def test_a_renaming_is_kept_as_json() -> None:
    assert from_json(Renaming, to_json(RENAMING)) == RENAMING


def test_the_plain_one_changes_nothing() -> None:
    tools = (Tool("get", "read", {"id": ("string", "account")}), Tool("submit", "end"))
    same = plain(tools)
    assert same.schemas == tools
    assert same.said(Call("get", {"id": "1", "x": "2"})) == Call("get", {"id": "1", "x": "2"})


TEXTS = [
    ("end with `submit`, not 'get'", "end with `desk.hand_in`, not 'desk.look'"),
    ("then submit it and get home", "then submit it and get home"),
    ("transfer first", "transfer first"),
    ("call get, then look; use set(1)", "call desk.look, then look; use put(1)"),
    ("no tool 'x': there are get, set and submit", "no tool 'x': there are desk.look, put and desk.hand_in"),
    ("get takes id", "desk.look takes id"),
]


@pytest.mark.parametrize(("text", "shown"), TEXTS)
def test_where_a_word_is_a_tools_name(text: str, shown: str) -> None:
    names = {tool.name: tool.quoted for tool in RENAMING.tools}
    assert retold.retold(text, names) == shown
    assert retold.retold(shown, {new: old for old, new in names.items()}) == text


def test_a_name_that_is_no_word_is_a_name_everywhere() -> None:
    assert retold.retold("list_rooms shows my_list_rooms, list_rooms.", {"list_rooms": "showAll"}) == (
        "showAll shows my_list_rooms, showAll."
    )


def test_a_prompt_must_say_itself_that_it_names_a_tool() -> None:
    text = '`list_rooms` of rooms.py is wrong; call list_rooms or get, not <call name="set">'
    shown = retold.retold(text, {"list_rooms": "showAll", "get": "look", "set": "put"}, marked=True)
    assert shown == '`list_rooms` of rooms.py is wrong; call showAll or look, not <call name="put">'


def test_a_message_as_shown() -> None:
    said = retold.said(RENAMING, '<think>first `get` it</think>So: <call name="get"><id>H9</id></call> get')
    assert said == (
        '<think>first `desk.look` it</think>So: <call name="desk"><action>look</action><ref>H9</ref></call> get'
    )
    assert retold.meant(RENAMING, said).endswith('So: <call name="get"><id>H9</id></call> get')
    assert retold.meant(RENAMING, '<call name="get"></call>') == (
        "<call error>no tool of this name: there are sendMoney, desk, put</call>"
    )
    with pytest.raises(Unmapped):
        retold.said(RENAMING, '<call name="get"><id>H9</call>')


TWO = '<call name="get"><id>H9</id></call><call name="set"><n>7</n></call>'
SEEN = [
    # Heads and errors are about calls, what a tool showed is not, whatever it looks like.
    (
        TWO,
        "[1 get] call get\n[2 get] x\nerror: call get\n[3 set] y",
        "[1 desk.look] call get\n[2 get] x\nerror: call desk.look\n[3 set] y",
    ),
    (
        TWO,
        "[1 get] call get\n[2 set] error: n must be 9, call get",
        "[1 desk.look] call get\n[2 put] error: cap must be 9, call desk.look",
    ),
    (TWO, "H9 get\nerror: set takes id and n", "H9 get\nerror: put takes ref and cap"),
    ('<call name="get"><id>H9</id></call>', "error: no account H9; call get", "error: no account H9; call desk.look"),
    ('<call name="get"><id>H9</id></call>', "file:\nerror: call get", "file:\nerror: call get"),
    ("done", "error: call get", "error: call get"),
]


@pytest.mark.parametrize(("message", "text", "shown"), SEEN)
def test_an_observation_as_shown(message: str, text: str, shown: str) -> None:
    assert retold.seen(RENAMING, message, text) == shown
    assert retold.unseen(RENAMING, message, shown) == text
