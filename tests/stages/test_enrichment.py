"""Enriched trajectories: what becomes of them exactly, that replay proves them, and that it finds what is wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from noria.bases.play import play
from noria.bases.renamed import RenamedWorld, parted, renamed
from noria.core.codec import from_json, write_jsonl
from noria.core.types import Message, Outcome, Task, Tool, Trajectory, Turn
from noria.envs import ledger, microswe, tableqa, tooluse
from noria.sandboxes import process
from noria.stages.datasets import load_rows
from noria.stages.enrichment import plan, refine, replay, samples
from noria.stages.enrichment.draw import draw
from noria.stages.enrichment.enrich import Options, Report, enrich
from noria.stages.enrichment.thoughts import leak, rest_of, rethought, thought_of
from noria.tokens.calls import Call
from noria.tokens.record import RecordBuilder
from noria.tokens.renaming import ArgumentMap, Renaming, ToolMap
from noria.tokens.tool_episode import ToolEpisode

EVERY = Options(share=1.0)


def played(world: Any, task: Task, strategy: str, name: str = "") -> Trajectory:
    """What a scripted policy does, as a trajectory."""
    episode = world.open(task)
    try:
        messages = play(episode, world.policy(task, strategy, 0), 24)
        outcome = episode.grade()
    finally:
        episode.close()
    seen = [*messages[1::2], Message("tool", "")]
    turns = tuple(Turn(a.content, b.content) for a, b in zip(messages[::2], seen, strict=False))
    return Trajectory(name or f"{strategy}/{task.id}", task, "expert", turns, RecordBuilder().freeze(), outcome)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Any]:
    box = process.build(process.Config(type="process"))
    yield box
    box.close()


@pytest.fixture(scope="module")
def places(sandbox: Any) -> dict[str, Any]:
    return {
        "ledger": ledger.build(ledger.Config(), None),
        "tooluse": tooluse.build(tooluse.Config(domains=2, budget=200), None),
        "microswe": microswe.build(microswe.Config(type="microswe"), sandbox),
        "tableqa": tableqa.build(tableqa.Config(), None),
    }


@pytest.fixture(scope="module")
def found(places: dict[str, Any]) -> dict[str, list[Trajectory]]:
    """Three trajectories of each world, of its experts in turn."""
    return {
        name: [
            played(world, task, world.experts[k % len(world.experts)])
            for k, task in enumerate(world.tasks("train", 3, 1))
        ]
        for name, world in places.items()
    }


def ledger_draft(places: dict[str, Any]) -> tuple[Any, Trajectory]:
    world = places["ledger"]
    task = next(t for t in world.tasks("train", 12, 3) if "move" in t.prompt)
    return world, played(world, task, "careful")


@pytest.mark.parametrize("name", ["ledger", "tooluse", "microswe", "tableqa"])
def test_every_sample_replays_and_shows_nothing_of_the_old_names(
    name: str, places: dict[str, Any], found: dict[str, list[Trajectory]]
) -> None:
    world, report = places[name], Report()
    lines = list(enrich(found[name], lambda _: world, EVERY, report))
    assert report.written == report.diversified == report.read == 3 and not report.dropped
    for trajectory, line in zip(found[name], lines, strict=True):
        held = line["enrichment"]
        renaming = from_json(Renaming, held["renaming"])
        shown = renamed(trajectory.task, renaming)
        said = [m["content"] for m in line["messages"] if m["role"] == "assistant"]
        # The task under its renaming is a task of the adapter world, and the sample is a script for it.
        episode = RenamedWorld(world, lambda task, r=renaming: r).open(shown)  # type: ignore[misc]
        try:
            seen = [episode.act(message) for message in said]
            assert episode.grade() == trajectory.outcome
        finally:
            episode.close()
        assert [m["content"] for m in line["messages"] if m["role"] == "tool"] == [o.text for o in seen if not o.done]
        assert [t["function"]["name"] for t in line["tools"]] == [tool.name for tool in shown.tools]
        for message, turn in zip(said, trajectory.turns, strict=True):
            for call in turn_calls(turn.message):
                assert f'<call name="{call.name}">' not in message


def turn_calls(message: str) -> list[Call]:
    from noria.tokens.calls import parse

    return list(parse(message).calls)


@pytest.mark.parametrize("name", ["ledger", "tooluse"])
def test_experts_solve_renamed_tasks(name: str, places: dict[str, Any]) -> None:
    inner = places[name]
    world = RenamedWorld(inner, lambda task: draw(task, (), {}, random.Random(task.id)))
    for k, task in enumerate(world.tasks("train", 6, 2)):
        own, _ = parted(task)
        assert own in inner.tasks("train", 6, 2) and task.tools != own.tools
        episode = world.open(task)
        play(episode, world.policy(task, world.experts[k % len(world.experts)], 0), 24)
        assert episode.grade().solved


def test_names_of_the_world_are_refused_under_a_renaming(places: dict[str, Any]) -> None:
    world, trajectory = ledger_draft(places)
    renaming = draw(trajectory.task, (), {}, random.Random(0))
    episode = RenamedWorld(world, lambda _: renaming).open(renamed(trajectory.task, renaming))
    answer = episode.act('<call name="list"></call>')
    assert answer.text.startswith("error: no tool of this name: there are ")
    assert not {tool.name for tool in trajectory.task.tools} & set(answer.text.replace(",", "").split())


def test_a_broken_renaming_is_found(places: dict[str, Any]) -> None:
    world, trajectory = ledger_draft(places)
    tools = []
    for t in trajectory.task.tools:
        arguments = tuple(ArgumentMap(key, f"a_{key}", *meaning) for key, meaning in t.parameters.items())
        tools.append(ToolMap(t.name, f"do_{t.name}", t.description, arguments))
    renaming = Renaming(tuple(tools))
    draft = samples.under(trajectory, renaming)
    assert replay.fault(world, draft) == ""

    def spoilt(name: str, **changes: Any) -> samples.Draft:
        tools = tuple(replace(t, **changes) if t.name == name else t for t in renaming.tools)
        return replace(draft, renaming=Renaming(tools))

    send = renaming.of("transfer")
    assert send is not None
    src, dst, amount = send.arguments
    crossed = (replace(src, name="dst"), replace(dst, name="src"), amount)
    assert replay.fault(world, spoilt("transfer", arguments=crossed)) == replay.DIFFERS
    lost = (replace(src, shown="from"), dst, amount)
    assert replay.fault(world, spoilt("transfer", arguments=lost)) == replay.DIFFERS
    assert replay.fault(world, spoilt("get", shown="fetch")) == replay.DIFFERS


def test_other_observations_outcomes_and_ends_are_found(places: dict[str, Any]) -> None:
    world, trajectory = ledger_draft(places)
    draft = samples.as_it_is(trajectory)
    assert replay.fault(world, draft) == ""
    assert replay.fault(world, replace(draft, wholes=("else", *draft.wholes[1:]))) == replay.DIFFERS
    other = replace(draft, trajectory=trajectory.with_outcome(Outcome(1.0, {"named": 0.0})))
    assert replay.fault(world, other) == replay.OUTCOME
    assert replay.fault(world, replace(draft, trajectory=replace(trajectory, stop="turn_limit"))) == replay.DIFFERS
    assert replay.fault(None, draft) == replay.FAILED


THINK = Turn('<think>hm</think><call name="get"><id>H9</id></call>', "H9 35 frozen limit 3")
TASK = Task(
    "t", "ledger", "Do it.", "Set limit of H9 to 90.",
    (
        Tool("get", "read one account", {"id": ("string", "account")}),
        Tool("unfreeze", "unfreeze an account", {"id": ("string", "")}),
        Tool("set_limit", "set the limit", {"id": ("string", ""), "amount": ("integer", "")}),
        Tool("submit", "end the work"),
    ),
)  # fmt: skip
TURNS = (
    THINK,
    Turn('<call name="set_limit"><id>H9</id><amount>90</amount></call>', "error: H9 is frozen; unfreeze it first"),
    Turn('<think>hm</think><call name="unfreeze"><id>H9</id></call>', "ok H9 open"),
    Turn(
        '<think>I call submit</think>\n<call name="set_limit"><id>H9</id><amount>90</amount></call>', "ok H9 limit 90"
    ),
    Turn('<think>the limit is as it should be</think><call name="submit"></call>', ""),
)
MADE = Trajectory("m", TASK, "student", TURNS, RecordBuilder().freeze(), Outcome(1.0))


class First(random.Random):
    """Chooses what stands first."""

    def choice(self, seq: Any) -> Any:
        return seq[0]


def test_a_plan_by_rules_exactly() -> None:
    draft = samples.as_it_is(MADE)
    assert plan.by_rules(draft, First()) == (
        "Plan:\n1. Start with get.\n2. Then set_limit.\n3. Once more set_limit, to see that it is as it should be.\n"
        "4. At the end submit.\nIf a call is refused, do first what it asks for."
    ).replace("3. Once more set_limit, to see that it is as it should be.\n4.", "3.")
    unasked = replace(MADE, turns=(THINK, Turn(TURNS[2].message, "ok"), *TURNS[3:]))
    assert "2. Where it turns out to be needed, unfreeze.\n" in plan.by_rules(samples.as_it_is(unasked), First())


def test_reasoning_before_a_lone_answer_is_no_plan() -> None:
    answer = replace(MADE, turns=(Turn("<think>2+2=4</think>4", ""),))
    assert not plan.is_fit(samples.as_it_is(answer)) and plan.is_fit(samples.as_it_is(MADE))


def test_which_reasoning_is_refined_and_how() -> None:
    draft = samples.as_it_is(MADE)
    assert refine.chosen(draft) == {1: refine.EMPTY, 2: refine.COPIED, 3: refine.CONTRADICTORY}
    assert [refine.by_rules(draft, k, First()) for k in (1, 2, 3)] == [
        "I see: H9 35 frozen limit 3. So now set_limit with H9, 90.",
        "The last call was refused: H9 is frozen; unfreeze it first. So now unfreeze with H9.",
        "I see: ok H9 open. So now set_limit with H9, 90.",
    ]
    copy = Turn('<think>ok H9 open and so on and so forth</think><call name="submit"></call>', "")
    copied = replace(MADE, turns=(*TURNS[:2], Turn(TURNS[2].message, "ok H9 open and so on and so forth"), copy))
    assert refine.chosen(samples.as_it_is(copied))[3] == refine.COPIED


def test_a_value_that_was_not_seen_is_not_quoted() -> None:
    turns = (THINK, Turn('<call name="set_limit"><id>H9</id><amount>77</amount></call>', "ok"), TURNS[-1])
    assert refine.by_rules(samples.as_it_is(replace(MADE, turns=turns)), 1, First()).endswith("set_limit with H9.")


@pytest.mark.parametrize(
    ("thought", "found"),
    [
        ("1. Start with get.\n35. Then submit.", ""),
        ("H9 has 35, so I unfreeze it.", "35"),
        ("It is of type gamma.", "gamma"),
        ("It was frozen a long time ago.", "frozen a long time"),
        ("It was frozen long ago, set it to 90.", ""),
    ],
)
def test_what_a_plan_could_not_know(thought: str, found: str) -> None:
    actions = ['<call name="find"><kind>gamma</kind><n>90</n></call>']
    assert leak(thought, ["Set limit of H9 to 90."], ["H9 35 frozen a long time"], actions) == found


def test_reasoning_is_exchanged_and_nothing_else() -> None:
    call = '<call name="get"><id>a</id></call>'
    assert rethought(f"<think>\nold\n</think>\n\n{call} ", "new") == f"<think>\nnew\n</think>\n\n{call} "
    assert rethought(call, "new") == f"<think>new</think>{call}"
    assert rethought(call, "new", ["x", f"<think>\no\n</think>\n\n{call}"]) == f"<think>\nnew\n</think>\n\n{call}"
    for bad in ("", "  ", "a</think>", '<call name="x">', "\ud800", "x" * 5000):
        assert rethought(call, bad) is None
    for odd in (f"{call}<think>late</think>", f"<think>a</think>{call}<think>b</think>", "<think>open"):
        assert rethought(odd, "new") is None
    assert thought_of("<think> a </think>b") == "a" and rest_of("<think> a </think>b") == "b"


def test_without_schemas_actions_stay_letter_by_letter(
    places: dict[str, Any], found: dict[str, list[Trajectory]]
) -> None:
    report = Report()
    options = replace(EVERY, schemas=False)
    lines = list(enrich(found["ledger"], lambda _: places["ledger"], options, report))
    assert report.as_json() == {
        "read": 3, "written": 3, "diversified": 0, "planned": 3, "refined": 3, "refined_turns": report.refined_turns,
        "by_model": 0, "dropped": {},
    }  # fmt: skip
    for trajectory, line in zip(found["ledger"], lines, strict=True):
        said = [m["content"] for m in line["messages"] if m["role"] == "assistant"]
        assert [rest_of(m) for m in said] == [rest_of(turn.message) for turn in trajectory.turns]
        assert line["enrichment"]["renaming"] is None and line["enrichment"]["rewritten"]["0"] == plan.WHY


def test_what_is_left_out_is_counted(places: dict[str, Any], found: dict[str, list[Trajectory]]) -> None:
    good, other, third = found["ledger"]
    torn = Turn('<call name="submit">', "")
    cases = [
        good,
        replace(good, id="again"),
        replace(other, outcome=Outcome(0.0)),
        replace(other, hint="think"),
        replace(other, task=replace(other.task, split="heldout")),
        replace(other, task=replace(other.task, world="none")),
        replace(other, turns=(*other.turns[:-1], torn)),
        replace(other, outcome=Outcome(1.0)),
        replace(third, turns=(replace(third.turns[0], observation="odd"), *third.turns[1:])),
    ]
    report = Report()
    assert len(list(enrich(cases, lambda name: places.get(name), EVERY, report))) == 1
    assert report.as_json()["dropped"] == {
        "duplicate": 1, "no_world": 1, "not_training": 1, "hinted": 1, "unsolved": 1, "unmapped": 1,
        replay.DIFFERS: 1, replay.OUTCOME: 1,
    }  # fmt: skip


def test_a_share_is_chosen_by_the_seed_alone(places: dict[str, Any], found: dict[str, list[Trajectory]]) -> None:
    many = [
        replace(found["ledger"][0], id=f"t{k}", task=replace(found["ledger"][0].task, id=f"k{k}")) for k in range(40)
    ]

    def ids(order: list[Trajectory], seed: int) -> set[str]:
        lines = enrich(order, lambda _: places["ledger"], Options(False, True, False, 0.3, seed), Report())
        return {line["enrichment"]["trajectory"] for line in lines}

    assert ids(many, 1) == ids(many[::-1], 1) != ids(many, 2)
    assert 5 <= len(ids(many, 1)) <= 20


def test_defaults_of_typed_tools_are_stated_and_prove_equal(places: dict[str, Any]) -> None:
    world = places["tableqa"]
    task, trajectory = next(
        (task, found)
        for task in world.tasks("train", 8, 0)
        if '<call name="aggregate"' in (found := played(world, task, world.experts[0])).turns[1].message
    )
    episode = world.open(task)
    assert isinstance(episode, ToolEpisode)
    defaults = episode.box.defaults
    assert defaults["aggregate"] == {"by": "", "where": "", "op": "=", "value": ""} and defaults["columns"] == {}
    (call,) = turn_calls(trajectory.turns[1].message)
    stated = 0
    for seed in range(8):
        renaming = draw(task, [call], defaults, random.Random(seed))
        back = renaming.meant(renaming.said(call))
        assert back.args in (call.args, {**defaults["aggregate"], **call.args})
        stated += len(back.args) > len(call.args)
        assert replay.fault(world, samples.under(trajectory, renaming)) == ""
    assert 0 < stated < 8


def test_words_of_an_enumeration_only_where_calls_show_them() -> None:
    tool = Tool("open", "open a page", {"page": ("string", "id or title"), "mode": ("string", "one of fast, slow")})
    task = Task("t", "w", "", "", (tool,))
    calls = [Call("open", {"page": "p7", "mode": "fast"})]
    drawn = [draw(task, calls, {}, random.Random(seed)) for seed in range(30)]
    pages = [each for renaming in drawn for each in renaming.tools[0].arguments if each.name == "page"]
    modes = [each for renaming in drawn for each in renaming.tools[0].arguments if each.name == "mode"]
    assert not any(each.spellings for each in pages)
    assert {each.spellings for each in modes} == {(), (("fast", "FAST"), ("slow", "SLOW"))}


def test_renamings_are_many_and_the_same_for_a_seed() -> None:
    drawn = [draw(TASK, (), {}, random.Random(seed)) for seed in range(30)]
    assert drawn[3] == draw(TASK, (), {}, random.Random(3))
    assert len({tool.shown for renaming in drawn for tool in renaming.tools if tool.name == "get"}) > 5
    assert any(tool.holder for renaming in drawn for tool in renaming.tools)
    assert any(tool.choice for renaming in drawn for tool in renaming.tools)
    assert len({tuple(tool.name for tool in renaming.tools) for renaming in drawn}) > 5


def test_the_supervised_phase_trains_on_what_the_assistant_said(
    places: dict[str, Any], found: dict[str, list[Trajectory]], renderer: Any, tmp_path: Path
) -> None:
    options = Options(True, False, False, 1.0)  # reasoning that is written anew quotes what was seen
    lines = list(enrich(found["ledger"][:1], lambda _: places["ledger"], options, Report()))
    file = tmp_path / "enriched.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (row,), dropped = load_rows([str(file)], renderer, 4096, mask_errors=False)
    assert not dropped
    said = renderer.decode([int(i) for i, m in zip(row.ids, row.mask, strict=True) if m])
    for message in lines[0]["messages"]:
        assert (message["content"] in said) == (message["role"] == "assistant")


def test_a_refused_turn_carries_no_loss(renderer: Any, tmp_path: Path) -> None:
    line = samples.line(samples.as_it_is(MADE), 0)
    said = [m for m in line["messages"] if m["role"] == "assistant"]
    assert [m.get("weight") for m in said] == [None, 0, None, None, None]
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps(line), encoding="utf-8")
    (row,), _ = load_rows([str(file)], renderer, 4096, mask_errors=True)
    text = renderer.decode([int(i) for i, m in zip(row.ids, row.mask, strict=True) if m])
    assert text.count('<call name="set_limit">') == 1 and text.count('<call name="unfreeze">') == 1
    file.write_text(json.dumps({"messages": [{"role": "assistant", "content": "a", "weight": 2}]}), encoding="utf-8")
    with pytest.raises(ValueError, match="weight 0 or 1"):
        load_rows([str(file)], renderer, 4096, mask_errors=True)


def test_the_command(
    places: dict[str, Any], found: dict[str, list[Trajectory]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from noria.cli import app

    file, out = tmp_path / "runs.jsonl", tmp_path / "enriched.jsonl"
    one, two, three = found["ledger"]
    write_jsonl(file, [one, two, replace(three, task=replace(three.task, world="bank"))])
    with file.open("a", encoding="utf-8") as more:
        more.write(json.dumps({"messages": [{"role": "user", "content": "hi"}]}) + "\n")
    command = ["enrich", str(file), "--out", str(out), "--share", "1", "--json", "--env", "bank=ledger"]
    app(command, standalone_mode=False)
    report = json.loads(capsys.readouterr().out)
    assert report["read"] == 4 and report["written"] == 3 and report["dropped"] == {"no_task": 1}
    assert len(out.read_text(encoding="utf-8").splitlines()) == 3
    first = out.read_bytes()
    out.unlink()
    app(command, standalone_mode=False)
    assert out.read_bytes() == first
    with pytest.raises(ValueError, match="--out must be new"):
        app(command, standalone_mode=False)
    for bad, why in (
        (["--share", "0"], "--share"),
        (["--stage", "x"], "--stage"),
        (["--model", "m"], "--propose"),
        (["--env", "a=b"], "--env"),
    ):
        with pytest.raises(ValueError, match=why):
            app(["enrich", str(file), "--out", str(tmp_path / "n.jsonl"), *bad], standalone_mode=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["enriched.jsonl", "runs.jsonl"]


def test_a_model_words_it_where_it_does_not_leak(places: dict[str, Any]) -> None:
    pytest.importorskip("openai")
    from noria.engines.openai import Config, build
    from noria.engines.scripted import ScriptedServer

    asked: list[str] = []

    def answer(request: Any) -> str:
        text = request["messages"][0]["content"]
        asked.append(text)
        if text.startswith("Write the plan"):
            return "I read first, since H9 has 35."  # a model that guesses what it was not shown
        return "It is frozen, so the limit has to wait."

    with ScriptedServer(answer) as server:
        client = build(Config(base_url=server.url, model="any"))

        def ask(messages: Any) -> str:
            return client.complete(messages, 100, 0.0)

        from noria.stages.enrichment.enrich import _thinking

        draft, by_model = _thinking(samples.as_it_is(MADE), replace(EVERY, ask=ask))
        client.close()
    assert thought_of(draft.messages[0]).splitlines()[1].startswith("1. ")  # the rules' plan
    assert by_model == 3 and thought_of(draft.messages[1]) == "It is frozen, so the limit has to wait."
    assert "35" not in asked[0] and "limit 90" not in asked[1] and "ok H9 open" not in asked[2]
