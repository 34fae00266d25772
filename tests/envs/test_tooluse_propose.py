"""Domains that a model proposes: what is read, what is dropped and why, and the command with a scripted server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from talking import Talker, talking
from typer.testing import CliRunner

from noria.cli import app
from noria.cli_make import server_of
from noria.core.codec import read_json_lines, to_json
from noria.core.errors import EngineError, UserError
from noria.envs.tooluse import Config, build
from noria.envs.tooluse.candidates import Refused
from noria.envs.tooluse.folder import load_domains
from noria.envs.tooluse.propose import STRANGE, UNREADABLE, _plain, example, read, strange_in, system, topic_of
from noria.envs.tooluse.sample import draw_domain
from noria.envs.tooluse.spec import Domain
from noria.envs.tooluse.typing_rules import faults_in

SEED = 3


def small(seed: int, count: int) -> list[Domain]:
    """The shortest of the first sound domains of a seed."""
    sound = [d for n in range(30) if not faults_in(d := draw_domain(seed, n))]
    return sorted(sound, key=lambda d: len(d.operations))[:count]


def said(domain: Domain, **changes: Any) -> str:
    return json.dumps(_plain(to_json(domain), Domain) | changes)


def operations(domain: Domain, number: int, **changes: Any) -> list[dict[str, Any]]:
    """The operations of a domain, one of them changed."""
    found: list[dict[str, Any]] = _plain(to_json(domain), Domain)["operations"]
    found[number] = found[number] | changes
    return found


@pytest.fixture
def server() -> Iterator[Talker]:
    with talking() as model:
        model.says = []
        yield model


def test_a_drawn_domain_said_as_json_is_read_as_it_is() -> None:
    for number in range(20):
        domain = draw_domain(SEED, number)
        assert not list(strange_in(domain))
        again = read(f"<think>{{ hm }}</think>Here it is:\n{said(domain)}\nDone.", "proposed-0-1")
        assert (again.schema, again.title, again.name) == (domain.schema, domain.title, "proposed-0-1")


@pytest.mark.parametrize(
    ("text", "reason", "case"),
    [
        ("I cannot.", UNREADABLE, "no JSON object"),
        ("{'title': 1}", UNREADABLE, "property name"),
        ("[1]}{", UNREADABLE, "no JSON object"),
        ('{"a": ' * 5000 + "}", UNREADABLE, ""),
        ("{" + " " * 70_000 + "}", UNREADABLE, "no JSON object in 70002 characters"),
        ({"code": "import os"}, UNREADABLE, "code"),
        ({"tables": 3}, UNREADABLE, ""),
        ({"tables": [{"name": "books"}]}, UNREADABLE, ""),
        ({"title": 'x"""; import os'}, STRANGE, "title"),
        ({"title": "x\n\n# y"}, STRANGE, "title"),
        ({"tables": []}, STRANGE, "0 tables"),
        ({"packs": [{"table": "a", "field": "b", "unit": "c", "pack": "d'", "size": 4}]}, STRANGE, "small letters"),
        ({"limits": [{"table": "a", "ref": "b", "owner": "c", "cap": "__import__('os')"}]}, STRANGE, "small letters"),
    ],
)
def test_what_is_no_specification_is_refused(text: Any, reason: str, case: str) -> None:
    whole = text if isinstance(text, str) else said(small(SEED, 1)[0], **text)
    with pytest.raises(Refused) as fault:
        read(whole, "x")
    assert fault.value.reason == reason and case in fault.value.case and fault.value.case.isascii()


@pytest.mark.parametrize(
    ("change", "case"),
    [
        ({"name": "fly_book"}, "does not say the kind"),
        ({"kind": "exec"}, "does not say the kind"),
        ({"params": [{"name": "a'", "kind": "id", "table": "x"}]}, "small letters"),
        ({"params": [{"name": "a", "kind": "text"}]}, "is of the kind 'text'"),
        ({"params": [{"name": "a", "kind": "int", "low": 5, "high": 10**9}]}, "must lie in"),
        ({"params": [{"name": "a", "kind": "enum", "values": ["b", "b"]}]}, "each once"),
        ({"effects": ["a.b = 1"]}, "without checks and effects"),
        ({"params": [{"name": n, "kind": "int"} for n in "abcde"]}, "more than 4 parameters"),
    ],
)
def test_an_odd_operation_is_refused(change: dict[str, Any], case: str) -> None:
    domain = small(SEED, 1)[0]
    assert domain.operations[0].kind == "list"
    with pytest.raises(Refused) as fault:
        read(said(domain, operations=operations(domain, 0, **change)), "x")
    assert fault.value.reason == STRANGE and case in fault.value.case


def test_the_instructions_show_a_sound_example_and_topics_differ() -> None:
    shown = read(example(), "x")
    assert not faults_in(shown) and example() in system() and "assign: assign, lend" in system()
    assert len({topic_of(0, number) for number in range(40)}) > 30 and topic_of(0, 1) == topic_of(0, 1)


def test_the_command_keeps_what_holds_and_says_why_it_drops_the_rest(tmp_path: Path, server: Talker) -> None:
    first, second = small(SEED, 2)
    checked = next(n for n, op in enumerate(first.operations) if op.checks)
    badly = operations(first, checked, checks=[{"test": "nothing.here == 1", "says": "no"}])
    never = operations(first, checked, checks=[{"test": "1 == 2", "says": "never"}])
    finds = {"name": "find_it", "kind": "find", "doc": "x", "table": first.tables[0].name,
             "params": [{"name": "nowhere", "kind": "enum", "values": ["a", "b"]}]}  # fmt: skip
    server.says = [
        "No.", said(first), said(first), said(first, operations=badly), said(first, operations=never),
        said(first, operations=[*operations(first, 0), finds]),
    ]  # fmt: skip
    out = tmp_path / "made"
    command = ["tasks", "make", "tooluse", "--domains", "2", "--out", str(out), "--seed", str(SEED), "--json",
               "--propose", server.url, "--sandbox", "process"]  # fmt: skip
    stopped = CliRunner().invoke(app, [*command, "--model", "m"])
    assert isinstance(stopped.exception, EngineError) and "status 400" in str(stopped.exception)
    server.says = [said(second)]
    asked = len(server.asked)
    done = CliRunner().invoke(app, [*command, "--model", "m"])
    report = json.loads(done.stdout)
    assert len(server.asked) == asked + 1  # what was looked at is not asked for again
    lines = read_json_lines(out / "candidates.jsonl")
    assert [line["name"] for line in lines] == [f"proposed-{SEED}-{number}" for number in range(7)]
    assert [line.get("reason", "kept") for line in lines] == [
        UNREADABLE, "kept", "same schema", "badly typed or sized", "inexecutable tool", "cannot be built", "kept",
    ]  # fmt: skip
    assert report["proposed_by"] == "m" and report["domains"] == 2 and sum(report["dropped"].values()) == 5
    assert report["goals"] >= 8 and report["tools"] == len(first.operations) + len(second.operations)
    messages = [request["messages"] for request in server.asked]
    assert messages[0][0]["content"] == system() and messages[0][1]["content"] == topic_of(SEED, 0)
    assert [domain.schema for domain in load_domains(out)] == [first.schema, second.schema]
    other = CliRunner().invoke(app, [*command, "--model", "another"])
    assert isinstance(other.exception, UserError) and "same seed, version and model" in str(other.exception)
    world = build(Config(folder=str(out)), None)
    split = "unseen" if lines[1]["unseen"] else "train"
    (task,) = world.tasks(split, 1, 0)  # type: ignore[arg-type]
    episode = world.open(task)
    for message in world.reference(task):
        episode.act(message)
    assert episode.grade().reward == 1.0


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    assert server_of(None, None, None) is None
    for given, words in (
        ((None, "m", None), "must go with --propose"),
        (("http://127.0.0.1:1/v1", None, None), "--model must name the model"),
        (("ftp://x", "m", None), "--propose must be an http address"),
        (("http://a:b@x/v1", "m", None), "must hold no user"),
    ):
        with pytest.raises(UserError, match=words):
            server_of(*given)
    alone = ["tasks", "make", "ledger", "--out", str(tmp_path / "x.jsonl"), "--propose", "http://127.0.0.1:1/v1"]
    refused = CliRunner().invoke(app, [*alone, "--model", "m"])
    assert "--propose must go with --domains" in str(refused.exception)
