"""The world `bfcl` on a wheel of a few questions written here: reading, matching, turns with a service, faults."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from world_contract import WorldContract

from noria.bases.package import Package
from noria.cli_worlds import ProvableWorld, check_splits, opened, prove
from noria.core import recipe as recipes
from noria.core.errors import PolicyError, UserError
from noria.core.types import Task
from noria.envs.bfcl.data import Data, Entry
from noria.envs.bfcl.formats import Form
from noria.envs.bfcl.forms_read import read
from noria.envs.bfcl.matching import fault_of
from noria.envs.bfcl.services import taken_apart
from noria.tokens.calls import render_call

SERVICE = """
class TicketAPI:
    def __init__(self):
        self.tickets, self._log = {}, []

    def _load_scenario(self, scenario, long_context=False):
        self.tickets = dict(scenario["tickets"])

    def create(self, title, urgency=1.5):
        number = len(self.tickets) + 1
        self.tickets[str(number)] = [title, urgency]
        return {"number": number, "urgency": urgency}

    def close(self, number):
        self._log.append(number)
        return self.tickets.pop(str(number))[0]

    def count(self):
        return len(self.tickets)
"""


WORDS = """
PROMPT_STYLE_TEMPLATES = {
    style: {
        "persona": f"You call ({style}).", "task": " Call.", "tool_call_no_tag": "As {output_format}. {param_types}",
        "tool_call_with_tag": "In <TOOLCALL>{output_format}</TOOLCALL>. {param_types}", "multiturn_behavior": "Go on.",
        "available_tools": "In {format}:\\n{functions}",
    }
    for style in ("classic", "experimental")
}
OUTPUT_FORMAT_MAPPING = {"python": "[f(a=1)]", "json": "[{}]", "verbose_xml": "<x/>", "concise_xml": "<x/>"}
PARAM_TYPE_MAPPING = {"python": "", "json": "", "verbose_xml": "Say types.", "concise_xml": "Say types."}
PROMPT_TEMPLATE_MAPPING = {
    "plaintext": "{persona}{task} {tool_call_format} {multiturn_behavior} {available_tools}",
    "markdown": "# {persona}{task} {tool_call_format} {multiturn_behavior} {available_tools}",
}
"""


def function(name: str, required: list[str], **kinds: Any) -> dict[str, Any]:
    properties = {k: v if isinstance(v, dict) else {"type": v, "description": f"the {k}"} for k, v in kinds.items()}
    parameters = {"type": "dict", "properties": properties, "required": required}
    return {"name": name, "description": f"Does {name}.", "parameters": parameters}


PAINT = function("art.paint", ["colour"], colour="string", layers="integer", depth="float")
MIX = function("mix", ["parts"], parts={"type": "array", "items": {"type": "integer"}, "description": "how much"})
SEND = function("send", ["to"], to="dict", many={"type": "array", "items": {"type": "dict"}})
TICKETS = [
    function("create", ["title"], title="string", urgency="float"),
    function("close", ["number"], number="integer"),
    function("count", []),
]
SIMPLE = [
    {"art.paint": {"colour": ["dark red", "crimson"], "layers": [n, ""], "depth": [0.5, ""]}} for n in range(1, 9)
]
PARALLEL = [{"mix": {"parts": [[1, 2]]}}, {"mix": {"parts": [[2, 1], [3]]}}]


def wheel_of(folder: Path) -> Path:
    """A wheel with the files that the world reads."""
    ask = [[{"role": "user", "content": "Do it."}]]
    simple = [{"id": f"simple_python_{n}", "question": ask, "function": [PAINT]} for n in range(8)]
    multiple = [{"id": "multiple_0", "question": ask, "function": [PAINT, SEND]}]
    wants = [
        {"send": {"to": [{"name": ["Ann", "ann b."], "age": [5, ""]}], "many": [[{"x": [1]}, {"x": [2, ""]}], ""]}}
    ]
    turns = {
        "id": "multi_turn_miss_func_0",
        "question": [ask[0], [{"role": "user", "content": "And close 1."}], []],
        "initial_config": {"TicketAPI": {"tickets": {"1": ["old", 1]}}},
        "involved_classes": ["TicketAPI"],
        "missed_function": {"2": ["close"]},
    }
    truth = [["create(title='new', urgency=3)", "count()"], [], ["close(1)"]]
    rows = {
        "data/BFCL_v4_simple_python.json": simple,
        "data/possible_answer/BFCL_v4_simple_python.json": [
            {"id": row["id"], "ground_truth": [want]} for row, want in zip(simple, SIMPLE, strict=True)
        ],
        "data/BFCL_v4_multiple.json": multiple,
        "data/possible_answer/BFCL_v4_multiple.json": [{"id": "multiple_0", "ground_truth": wants}],
        "data/BFCL_v4_parallel.json": [{"id": "parallel_0", "question": ask, "function": [MIX]}],
        "data/possible_answer/BFCL_v4_parallel.json": [{"id": "parallel_0", "ground_truth": PARALLEL}],
        "data/BFCL_v4_irrelevance.json": [{"id": "irrelevance_0", "question": ask, "function": [PAINT]}],
        "data/BFCL_v4_live_relevance.json": [{"id": "live_relevance_0", "question": ask, "function": [PAINT]}],
        "data/BFCL_v4_multi_turn_miss_func.json": [turns],
        "data/possible_answer/BFCL_v4_multi_turn_miss_func.json": [{"id": turns["id"], "ground_truth": truth}],
        "data/multi_turn_func_doc/ticket_api.json": TICKETS,
        "data/BFCL_v4_format_sensitivity.json": [
            {"simple_python": ["simple_python_3"], "multiple": ["multiple_0"], "parallel": ["parallel_0"]}
        ],
    }
    file = folder / "bfcl_eval-0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as made:
        for name, lines in rows.items():
            made.writestr(f"bfcl_eval/{name}", "\n".join(json.dumps(line) for line in lines))
        code = "bfcl_eval/eval_checker/multi_turn_eval/func_source_code/"
        for part in ("bfcl_eval/", "bfcl_eval/eval_checker/", "bfcl_eval/eval_checker/multi_turn_eval/", code):
            made.writestr(f"{part}__init__.py", "")
        made.writestr(f"{code}ticket_api.py", SERVICE)
        made.writestr("bfcl_eval/constants/__init__.py", "")
        made.writestr("bfcl_eval/constants/default_prompts.py", WORDS)
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel_of(tmp_path_factory.mktemp("bfcl"))


def options(wheel: Path, *categories: str) -> list[str]:
    return [f"path={wheel}", f"categories={json.dumps(categories)}"]


@pytest.fixture(scope="module")
def world(wheel: Path) -> Iterator[ProvableWorld]:
    asked = ("simple_python", "parallel", "multi_turn_miss_func", "format_sensitivity")
    with opened("bfcl", "process", options(wheel, *asked)) as made:
        yield made


class TestBfclContractOfAWheel(WorldContract):
    """The world on a wheel, unpacked nowhere."""

    experts = 1


def entry_of(wheel: Path, category: str, number: int = 0) -> Entry:
    return list(Data(Package("bfcl_eval", "", str(wheel))).entries(category).values())[number]


@pytest.mark.parametrize(
    ("arguments", "is_right"),
    [
        ({"colour": "Dark-Red"}, True),
        ({"colour": "crimson", "layers": 1, "depth": 0.5}, True),
        ({"colour": "red"}, False),
        ({"colour": "crimson", "layers": 2}, False),
        ({"colour": "crimson", "layers": True}, False),
        ({"colour": "crimson", "layers": 1.0}, False),
        ({"colour": "crimson", "size": 1}, False),
        ({"layers": 1}, False),
        ({}, False),
    ],
)
def test_one_call_is_right_by_name_types_and_values(wheel: Path, arguments: dict[str, Any], is_right: bool) -> None:
    fault = fault_of(entry_of(wheel, "simple_python"), [("art.paint", arguments)])
    assert (fault == "") is is_right


def test_dicts_lists_of_dicts_and_lists_are_compared_part_by_part(wheel: Path) -> None:
    entry = entry_of(wheel, "multiple")
    right = [{"to": {"name": "ANN B", "age": 5}}, {"to": {"name": "Ann"}, "many": [{"x": 1}, {}]}]
    wrong = [
        {"to": {"name": "Bo"}},
        {"to": {"age": 5}},
        {"to": {"name": "Ann", "town": "x"}},
        {"to": "Ann"},
        {"to": {"name": "Ann"}, "many": [{"x": 2}, {}]},
        {"to": {"name": "Ann"}, "many": [{"x": 1}]},
    ]
    assert [fault_of(entry, [("send", each)]) for each in right] == ["", ""]
    assert all(fault_of(entry, [("send", each)]) for each in wrong)
    parallel = entry_of(wheel, "parallel")
    assert not fault_of(parallel, [("mix", {"parts": [3]}), ("mix", {"parts": [1, 2]})])
    assert fault_of(parallel, [("mix", {"parts": [1, 2]}), ("mix", {"parts": [1, 2]})])
    assert fault_of(parallel, [("mix", {"parts": [1, 2]})]) == "1 calls, expected 2"


def graded(world: ProvableWorld, task: Task, *messages: str) -> tuple[float | None, str]:
    episode = world.open(task)
    for message in messages:
        episode.act(message)
    outcome = episode.grade()
    return outcome.reward, outcome.reason


def test_abstention_is_right_where_nothing_fits_and_wrong_where_something_does(wheel: Path) -> None:
    with opened("bfcl", "process", options(wheel, "irrelevance")) as made:
        (task,) = made.tasks("heldout", 1, 0)
        assert made.reference(task) == ["None of these functions does that."]
        assert graded(made, task, "I cannot.")[0] == 1.0
        assert graded(made, task, render_call("art_paint", colour="x"))[0] == 0.0
        assert graded(made, task) == (0.0, "nothing was said")
    with opened("bfcl", "process", options(wheel, "live_relevance")) as made:
        (task,) = made.tasks("heldout", 1, 0)
        assert graded(made, task, "I cannot.")[0] == 0.0
        assert graded(made, task, render_call("art_paint", colour="x"))[0] == 1.0


def test_every_form_asks_in_its_words_and_reads_what_is_written_in_it(wheel: Path) -> None:
    with opened("bfcl", "process", options(wheel, "format_sensitivity")) as made:
        tasks = made.tasks("heldout", 26 * 3, 0)
        assert not prove(made, tasks) and not any(task.tools for task in tasks)
        by_form = {task.data["id"].split(":")[1]: task for task in tasks if task.data["id"].endswith("parallel_0")}
        assert len(by_form) == 26
        for name, task in by_form.items():
            (right,) = made.reference(task)
            assert ("<TOOLCALL>" in right) is ("tool_call_tag=True" in name) is ("<TOOLCALL>" in task.system)
            assert graded(made, task, f"<think>so</think>{right}")[0] == 1.0
            assert graded(made, task, right.replace("mix", "mixx"))[0] == 0.0
            assert graded(made, task, render_call("mix", parts=[1, 2]))[0] == 0.0
            for other, theirs in by_form.items():
                shown = ("ret_fmt=", "tool_call_tag=")
                alike = all(part in other for part in name.split("&") if part.startswith(shown))
                assert alike or graded(made, theirs, right)[0] == 0.0 or "tool_call_tag=False" in other
        xml = by_form["ret_fmt=concise_xml&tool_call_tag=False&func_doc_fmt=xml&prompt_fmt=plaintext&style=classic"]
        assert '<param name="parts" type="array[integer]" required="true">' in xml.system and "Say types." in xml.system
        words = by_form["ret_fmt=json&tool_call_tag=True&func_doc_fmt=python&prompt_fmt=plaintext&style=classic"]
        assert "parts (list[int]): how much" in words.system


@pytest.mark.parametrize(
    ("form", "text", "made"),
    [
        (Form(), "[a.b(x=-1, y=[1, 'z'], z=(1, 2)), c()]", [("a.b", {"x": -1, "y": [1, "z"], "z": (1, 2)}), ("c", {})]),
        (Form(), "```\na(x=name, y=f(z=1), z=2*3)\n```", [("a", {"x": "name", "y": {"f": {"z": 1}}, "z": 6})]),
        (Form(is_tagged=True), "so <TOOLCALL>[a()]</TOOLCALL>", [("a", {})]),
        (Form("json"), 'so [{"function": "a", "parameters": {"x": [1]}}] yes', [("a", {"x": [1]})]),
        (
            Form("verbose_xml"),
            '<functions><function name="a"><params><param name="x" value="2" type="integer"/></params></function>'
            '<function name="b"></function></functions>',
            [("a", {"x": 2}), ("b", {})],
        ),
        (
            Form("concise_xml"),
            'x<functions><function name="a"><param name="x" type="array">[1, "b"]</param>'
            '<param name="y" type="boolean">True</param><param name="z">w</param></function></functions>',
            [("a", {"x": [1, "b"], "y": True, "z": "w"})],
        ),
    ],
)
def test_an_answer_is_read_in_its_form(form: Form, text: str, made: Any) -> None:
    assert read(form, text) == made


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Form(), "I cannot."),
        (Form(), "[a(x=9**9**9)]["),
        (Form(), "[a(x=1/0)]"),
        (Form(), "[a(x=1e20*2)]"),
        (Form(), "(" * 5000),
        (Form(), "a"),
        (Form(is_tagged=True), "[a()]"),
        (Form("json"), "[{'function': 1}]"),
        (Form("json"), '[{"function": "a"}]'),
        (Form("json"), '{"function": "a", "parameters": {}}'),
        (Form("verbose_xml"), "<functions><function/></functions>"),
        (
            Form("concise_xml"),
            "<functions><function name='a'><param name='x' type='integer'>y</param></function></functions>",
        ),
        (Form("concise_xml"), "<!DOCTYPE a [<!ENTITY b 'c'>]><functions><function name='a'>&b;</function></functions>"),
        (Form("concise_xml"), "<functions>" * 4000),
        (Form("json"), "[{" * 20_000),
        (Form(is_tagged=True), "<TOOLCALL>" * 5000),
    ],
)
def test_what_is_in_no_form_is_refused(form: Form, text: str) -> None:
    with pytest.raises(PolicyError, match="calls must"):
        read(form, text)


def test_a_power_is_a_text_and_never_worked_out() -> None:
    assert read(Form(), "[a(x=9**9**9)]") == [("a", {"x": "9 ** 9 ** 9"})]


def test_turns_follow_the_user_the_service_and_the_functions_that_come_later(wheel: Path) -> None:
    with opened("bfcl", "process", options(wheel, "multi_turn_miss_func")) as made:
        (task,) = made.tasks("heldout", 1, 0)
        assert [tool.name for tool in task.tools] == ["create", "count"]
        episode = made.open(task)
        create = render_call("create", title="new", urgency="3")
        seen = episode.act(create + render_call("count"))
        assert seen.text == '[1] {"number": 2, "urgency": 3}\n[2] 2'
        assert episode.act("Done.").text == "And close 1."
        assert "close(number): Does close." in episode.act("I cannot close it.").text
        assert episode.act("<call name=").text.startswith("error: malformed call")
        assert episode.act(render_call("close", number=1)).text == "old"
        assert episode.act("Done.").done and episode.grade().reward == 1.0
        late = render_call("close", number=1)
        assert graded(made, task, create, "Done.", "No.", late, "Done.")[1] == "turn 0: '2' was never answered"
        assert graded(made, task, late, "Done.", "No.", late, "Done.")[1] == (
            "turn 0: TicketAPI.tickets is not as it should be"
        )
        assert graded(made, task, "Done.", "No.", "Done.")[1] == "turn 0: nothing was called"
        assert graded(made, task, create)[1] == "turn 0 of 3 was not ended"
        assert "more than 20 steps" in graded(made, task, *[render_call("count")] * 21)[1]


def test_only_public_methods_of_the_services_can_be_called(wheel: Path) -> None:
    with opened("bfcl", "process", options(wheel, "multi_turn_miss_func")) as made:
        (task,) = made.tasks("heldout", 1, 0)
        episode = made.open(task)
        for name in ("_load_scenario", "__init__", "tickets", "eval", "__class__"):
            assert "is not defined" in episode.act(render_call(name, scenario="{}")).text
        assert "Error during execution" in episode.act(render_call("close", number="[]")).text


def test_the_ground_truth_is_read_as_literals_alone() -> None:
    assert taken_apart("cp('a', to=['b', 2])") == ("cp", ["a"], {"to": ["b", 2]})
    for text in ("cp(open('x'))", "a.b()", "1", "cp("):
        with pytest.raises(UserError, match="is no call"):
            taken_apart(text)


@pytest.mark.parametrize(("category", "why"), [("web_search_base", "internet"), ("memory_kv", "wrote down")])
def test_a_category_that_is_not_asked_is_refused_with_the_reason(wheel: Path, category: str, why: str) -> None:
    with (
        pytest.raises(UserError, match=f"got '{category}'.*{why}"),
        opened("bfcl", "process", options(wheel, category)),
    ):
        pass


def test_a_recipe_cannot_train_on_what_only_measures(wheel: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "measured.toml"
    recipe.write_text('name = "m"\nrounds = 1\n[env]\nx = { type = "ledger" }\n', encoding="utf-8")
    check_splits(recipes.load([recipe], []))
    with pytest.raises(UserError, match=r"env\.x\.type must be a world with training tasks: got 'bfcl'.*noria eval"):
        check_splits(recipes.load([recipe], [f"env.x={{type='bfcl', path='{wheel}'}}"]))
    with pytest.raises(UserError, match=r"env\.x\.heldout must be 'test' where a recipe trains: got 'base'"):
        check_splits(recipes.load([recipe], ["env.x={type='tau2'}"]))
    check_splits(recipes.load([recipe], ["env.x={type='tau2', heldout='test'}"]))


def test_what_is_missing_is_said_with_the_command_that_gets_it(tmp_path: Path, wheel: Path) -> None:
    (tmp_path / "text").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as other:
        other.writestr("other/__init__.py", "")
    with pytest.raises(UserError, match="path must lead to the package no_such_one, which is missing"):
        Package("no_such_one", "none", "")
    for path in (str(tmp_path), str(tmp_path / "none"), str(tmp_path / "text"), str(tmp_path / "other.whl")):
        with (
            pytest.raises(UserError, match="pip download --no-deps -d wheels bfcl-eval==2026.3.23"),
            opened("bfcl", "process", [f"path={path}"]),
        ):
            pass
    with pytest.raises(UserError, match="must be of simple_python"), opened("bfcl", "process", options(wheel, "rest")):
        pass
    with opened("bfcl", "process", options(wheel, "simple_python")) as made:
        with pytest.raises(UserError, match="at most 8 of bfcl: got 9"):
            made.tasks("heldout", 9, 0)
        with pytest.raises(UserError, match="split must be one of heldout: got 'train'"):
            made.tasks("train", 1, 0)
    with (
        pytest.raises(UserError, match="must hold the file data"),
        opened("bfcl", "process", options(wheel, "live_simple")) as made,
    ):
        made.tasks("heldout", 1, 0)
