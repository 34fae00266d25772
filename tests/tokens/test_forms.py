"""Every form of calls: arguments survive the way there and back, and a bad call costs its neighbours nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.errors import PolicyError, UserError
from noria.core.types import Tool
from noria.tokens.calls import Call, Malformed, hear, parse, parts, render_call, rendered
from noria.tokens.forms import XML, canonical, form_named, written
from noria.tokens.tools import described, shown_well

FORMS = ("xml", "hermes", "qwen")
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)
KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
NASTY = st.sampled_from(
    [
        "</new>", "<new>", "</call>", '<call name="x">', "<think>", "</think>", "<tool_call>", "</tool_call>",
        "<function=a>", "</function>", "<parameter=b>", "</parameter>", '"', "\\", "\n", "\n\n", "\r\n", "\t",
        "'", "{", "}", '{"a": [1, null, {"b": "c"}]}', "\\u003c", "é", "\U0001f600", "\u2028", "日本", "\x00",
        "3", "true", "null", " ",
        '" enc="json">', "<call error>x</call>",
    ]
)  # fmt: skip
VALUES = st.lists(NASTY | st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=6).map("".join)
CALLS = st.builds(Call, NAMES, st.dictionaries(KEYS | st.just("new"), VALUES, max_size=4))
WORDS = st.text("abc .!?=42\n", max_size=12)


@pytest.mark.parametrize("name", FORMS)
@given(made=st.lists(CALLS, max_size=3), answer=WORDS, thought=st.text("abc <>&=/", max_size=12))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_arguments_survive_the_way_there_and_back(name: str, made: list[Call], answer: str, thought: str) -> None:
    form = form_named(name)
    house = f"<think>{thought}</think>{answer}" + "".join(rendered(call.name, call.args) for call in made)
    model = written(form, house)
    assert (form.opens in model) == bool(made) or name == "xml"
    parsed = parse(canonical(form, model))
    assert list(parsed.calls) == made
    assert (parsed.think, parsed.answer) == (thought.strip(), answer.strip())
    assert hear(canonical(form, model)).calls == tuple(made)


@pytest.mark.parametrize("name", FORMS)
@given(pieces=st.lists(NASTY, max_size=12))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_whatever_a_model_writes_is_taken_apart(name: str, pieces: list[str]) -> None:
    house = canonical(form_named(name), "".join(pieces))
    heard = hear(house)
    try:
        calls = parse(house).calls
    except PolicyError:
        assert any(isinstance(call, Malformed) for call in heard.calls) or "</call>" in house
    else:
        assert calls == heard.calls


def test_types_of_a_tool_decide_how_hermes_writes_an_argument() -> None:
    tool = Tool("add", "", {"n": ("integer", ""), "word": ("string", ""), "xs": ("array", ""), "odd": ("integer", "")})
    house = render_call("add", n="3", word="3", xs='["a", null]', odd="03")
    text = written(form_named("hermes"), house, [tool])
    assert text == (
        '<tool_call>\n{"name": "add", "arguments": {"n": 3, "word": "3", "xs": ["a", null], "odd": "03"}}\n</tool_call>'
    )
    assert canonical(form_named("hermes"), text) == house


def test_qwens_form_is_raw_text() -> None:
    text = written(form_named("qwen"), "ok" + render_call("edit", line=3, new="if a<b:\n  pass"))
    assert text == (
        "ok\n<tool_call>\n<function=edit>\n<parameter=line>\n3\n</parameter>\n<parameter=new>\nif a<b:\n  pass\n"
        "</parameter>\n</function>\n</tool_call>"
    )
    assert canonical(form_named("qwen"), text) == "ok" + render_call("edit", line=3, new="if a<b:\n  pass")


BAD = {
    "hermes": [
        ('<tool_call>{"name": "a", "arguments": {"x": 1</tool_call>', "must be JSON"),
        ('<tool_call>{"name": "a"}{"name": "b"}</tool_call>', "must end with </tool_call>"),
        ('<tool_call>{"name": "a", "arguments": {"x": 1, "x": 2}}</tool_call>', "given twice"),
        ('<tool_call>{"name": "a", "arguments": [1]}</tool_call>', "must be a JSON object"),
        ('<tool_call>{"arguments": {}}</tool_call>', '"name"'),
        ('<tool_call>{"name": "a", "arguments": {"x": NaN}}</tool_call>', "NaN"),
        ('<tool_call>{"name": "a", "arguments": {"x": "\\ud800"}}</tool_call>', "surrogate"),
        ('<tool_call>{"name": "a b", "arguments": {}}</tool_call>', "must have a name"),
        ('<tool_call>{"name": "a", "arguments": {"": 1}}</tool_call>', "must be named"),
        ('<tool_call>{"name": "a", "arguments": {}}', "must end with </tool_call>"),
        ('<call name="a"></call>', "malformed call: write <tool_call>"),
    ],
    "qwen": [
        ("<tool_call>\n{}\n</tool_call>", "must begin with <function=NAME>"),
        ("<tool_call><function=a><parameter=x>1</function></tool_call>", "not closed"),
        ("<tool_call><function=a><parameter=x>1</parameter></tool_call>", "not closed"),
        ("<tool_call><function=a></function>", "must end with </function> and </tool_call>"),
        ("<tool_call><function=a b></function></tool_call>", "must have a name"),
        ("<tool_call><function=a><parameter=x>1</parameter><parameter=x>2</parameter></function></tool_call>", "twice"),
    ],
    "xml": [('<call name="a"><x>1</call>', "</x>"), ("<call name=a></call>", "malformed call")],
}


@pytest.mark.parametrize(("name", "text", "told"), [(name, *each) for name, many in BAD.items() for each in many])
def test_a_bad_call_is_told_and_the_others_are_heard(name: str, text: str, told: str) -> None:
    form = form_named(name)
    first, last = form.write(Call("one", {"a": "1"}), None), form.write(Call("two"), None)
    heard = hear(canonical(form, f"{first}\n{text}\n{last}"))
    (bad,) = [call for call in heard.calls if isinstance(call, Malformed)][:1]
    assert told in bad.why
    assert heard.calls[0] == Call("one", {"a": "1"}) and heard.calls[-1] == Call("two")
    with pytest.raises(PolicyError):  # a world that takes a message whole refuses it whole
        parse(canonical(form, f"{first}\n{text}\n{last}"))


def test_arguments_that_are_null_are_left_out_and_json_in_a_string_is_read() -> None:
    form = form_named("hermes")
    said = '<tool_call>{"name": "a", "arguments": "{\\"x\\": null, \\"y\\": {\\"k\\": [1.5, \\"é\\"]}}"}</tool_call>'
    assert parse(canonical(form, said)).calls == (Call("a", {"y": '{"k": [1.5, "é"]}'}),)


def test_a_call_inside_a_thought_or_an_argument_is_text() -> None:
    form = form_named("hermes")
    inner = form.write(Call("inner"), None)
    outer = form.write(Call("outer", {"x": f"<think>{inner}</think>"}), None)
    house = canonical(form, f"<think>{inner}</think>{outer}")
    assert parse(house).calls == (Call("outer", {"x": f"<think>{inner}</think>"}),)


def test_parts_are_the_message() -> None:
    house = f"<think>{render_call('no')}</think>a" + render_call("yes", x="1") + "b<call name="
    assert parts(house) == [f"<think>{render_call('no')}</think>a", Call("yes", {"x": "1"}), "b<call name="]


@pytest.mark.parametrize(
    ("shown", "name"),
    [("omega", "xml"), ("omega <tool_call>{}", "hermes"), ("omega <tool_call><function=x>", "qwen"), ("", "xml")],
)
def test_auto_reads_the_form_from_the_template(shown: str, name: str) -> None:
    form = form_named("auto", shown)
    assert form.name == name
    assert shown_well(shown, form) == bool(shown) and (name == "xml" or not shown_well(shown))


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(UserError, match="call_form must be one of auto, xml, hermes, qwen: got 'json'"):
        form_named("json")


@pytest.mark.parametrize("name", FORMS)
def test_tools_are_described_in_the_form(name: str) -> None:
    form = form_named(name)
    text = described([Tool("get", "reads", {"id": ("string", "which")})], form)
    assert parse(canonical(form, text)).calls == (Call("get", {"id": "…"}),)
    assert canonical(XML, text) == text
