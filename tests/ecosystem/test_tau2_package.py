"""The world `tau2` with the package `inspect-evals`: every task of its domains, conversations, and its own scorers."""

from __future__ import annotations

import copy
import random
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from world_contract import WorldContract

from noria.bases.package import Package
from noria.cli_worlds import ProvableWorld, opened, prove
from noria.core.errors import PolicyError, UserError
from noria.envs.tau2.desk import Desk
from noria.envs.tau2.sharing import differ
from noria.envs.tau2.user import DID
from noria.envs.tau2.world import DESKS

pytest.importorskip("inspect_evals.tau2", reason="inspect-evals is not installed: run `make test-ecosystem`")

SIZES = {"airline": (50, 30, 20), "retail": (114, 74, 40), "telecom": (114, 74, 40)}
#: Every so many tasks are proved where proving all takes minutes; `noria tasks validate` proves all.
STEPS = {"airline": 1, "retail": 2, "telecom": 3, "banking": 3}
#: Tasks that are refused, and why, by domain.
REFUSED: dict[str, set[str]] = {}


@pytest.fixture(scope="module")
def desks() -> dict[str, Desk]:
    package = Package("inspect_evals", "inspect-evals", "")
    return {name: kind(package) for name, kind in DESKS.items()}


@pytest.fixture(scope="module")
def world() -> Iterator[ProvableWorld]:
    with opened("tau2", "process", ['domains=["retail", "telecom"]', "heldout=test"]) as made:
        yield made


class TestTau2Contract(WorldContract):
    """Retail and telecom with their published splits."""

    experts = 1


@pytest.mark.parametrize("domain", STEPS)
def test_the_actions_of_a_task_solve_it_and_nothing_does_not(domain: str) -> None:
    with opened("tau2", "process", [f'domains=["{domain}"]']) as made:
        assert made.splits == ("heldout",)
        tasks = made.tasks("heldout", SIZES.get(domain, (97,))[0], 0)[:: STEPS[domain]]
        refused = {refusal.id for refusal in prove(made, tasks)}
        assert refused == {task.id for task in tasks} & REFUSED.get(domain, set())
        with pytest.raises(UserError, match="split must be one of heldout"):
            made.tasks("train", 1, 0)


def test_the_published_split_is_kept() -> None:
    for domain, (all_of_it, train, held) in SIZES.items():
        with opened("tau2", "process", [f'domains=["{domain}"]', "heldout=test"]) as made:
            ids = [{task.id for task in made.tasks(split, n, 0)} for split, n in (("train", train), ("heldout", held))]
            assert len(ids[0] | ids[1]) == all_of_it
            with pytest.raises(UserError, match=f"at most {held} of"):
                made.tasks("heldout", held + 1, 0)
    with pytest.raises(UserError, match='heldout must be "base" with banking'):
        opened("tau2", "process", ['domains=["banking"]', "heldout=test"]).__enter__()


@pytest.mark.parametrize("domain", ["airline", "retail", "banking"])
def test_the_state_that_is_wanted_is_the_one_of_the_packages_scorer(domain: str, desks: dict[str, Desk]) -> None:
    """Their scorer loads the database anew and copies it whole; the hash of ours with shared rows is the same."""
    common = Package("inspect_evals", "", "").module("tau2.common.scorer")
    data = Package("inspect_evals", "", "").module("tau2.data_model.tasks")
    banking = Package("inspect_evals", "", "").module("tau2.banking.scorer")
    desk = desks[domain]
    for number in desk.ids["base"][::9]:
        task = data.Task.model_validate(copy.deepcopy(desk.tasks[number]))  # theirs changes the rows that it brings
        if domain == "banking":
            theirs = banking._build_expected_db(task.evaluation_criteria.actions or [], task.initial_state)
        else:
            theirs = common.get_expected_db(domain, task.evaluation_criteria.actions or []).db
        ours = desk.expected(desk.tasks[number]).agent.db
        assert ours.get_hash() == theirs.get_hash()


@pytest.mark.parametrize("domain", ["airline", "retail", "banking"])
def test_databases_are_compared_as_their_hashes_are(domain: str, desks: dict[str, Desk]) -> None:
    """Random parts of a task's actions lead to states that are equal by rows where their hashes are."""
    desk, rng, seen = desks[domain], random.Random(3), {True: 0, False: 0}
    first = desk.state({"id": "none"}).agent.db.get_hash()
    for number in rng.sample(sorted(desk.ids["base"]), 6):
        task = desk.tasks[number]
        state = desk.state(task)
        for action in (task["evaluation_criteria"] or {}).get("actions") or ():
            other = desk.copied(state)
            if rng.random() < 0.7:
                _try(desk, state, action)
            is_same = state.agent.db.get_hash() == other.agent.db.get_hash()
            assert (differ(state.agent.db, other.agent.db) == "") is is_same
            seen[is_same] += 1
    assert min(seen.values()) > 0
    assert desk.state({"id": "none"}).agent.db.get_hash() == first


def _try(desk: Desk, state: Any, action: dict[str, Any]) -> None:
    try:
        desk.call(state, action.get("requestor") or "assistant", action["name"], action["arguments"])
    except PolicyError:
        pass


def test_a_change_that_nobody_wanted_fails_and_a_fork_has_its_own_database() -> None:
    with opened("tau2", "process", ['domains=["retail"]']) as made:
        task = next(t for t in made.tasks("heldout", 114, 0) if any("cancel" in m for m in made.reference(t)))
        episode = made.open(task)
        messages = made.reference(task)
        for message in messages[:-3]:  # the last three only end the conversation
            episode.act(message)
        other = episode.fork()
        address = "<address1>1 A St</address1><address2></address2><city>X</city><state>CA</state>"
        user = next(iter(other._state.agent.db.users))  # type: ignore[attr-defined]
        address += "<country>US</country><zip>1</zip>"
        wrong = f'<call name="modify_user_address"><user_id>{user}</user_id>{address}</call>'
        other.act(wrong)
        assert other.grade().reward == 0.0 and "database" in other.grade().reason
        assert any(episode.act(message).done for message in messages[-3:])
        assert episode.grade().reward == 1.0


def test_a_user_with_a_phone_does_what_is_asked_and_a_fork_has_its_own_phone() -> None:
    with opened("tau2", "process", ['domains=["telecom"]']) as made:
        tasks = made.tasks("heldout", 114, 0)
        task = next(t for t in tasks if any("toggle_airplane_mode" in m for m in made.reference(t)))
        assert "check_status_bar(): " in task.system and not any(t.name == "check_status_bar" for t in task.tools)
        episode = made.open(task)
        other = episode.fork()
        seen = episode.act("Please toggle_airplane_mode.").text
        assert seen.startswith(f"{DID}\ntoggle_airplane_mode: ") and "OFF" in seen
        assert "ON" in other.act("toggle_airplane_mode, then toggle_airplane_mode").text
        assert "cannot be done" in episode.act("grant_app_permission").text
        assert episode.grade().reward == 0.0


def test_the_desk_of_the_bank_finds_documents_and_hidden_tools_stay_hidden() -> None:
    with opened("tau2", "process", ['domains=["banking"]']) as made:
        episode = made.open(made.tasks("heldout", 1, 0)[0])
        found = episode.act('<call name="banking_grep"><pattern>dispute|chargeback</pattern></call>').text
        assert found.startswith("1. ") and "   Content: " in found
        slow = episode.act(f'<call name="banking_grep"><pattern>{"(.|a)*" * 12}b{"z" * 9}</pattern></call>').text
        assert "takes too long" in slow or "No matches" in slow
        assert "500 characters" in episode.act(f'<call name="banking_grep"><pattern>{"a" * 501}</pattern></call>').text
        for name in ("close_bank_account_7392", "banking_close_bank_account_7392", "initialize", "banking_initialize"):
            assert "no tool" in episode.act(f'<call name="{name}"></call>').text
        locked = '<call name="banking_call_discoverable_agent_tool"><agent_tool_name>close_bank_account_7392'
        assert "not been unlocked" in episode.act(f"{locked}</agent_tool_name></call>").text


def test_tools_refuse_in_words() -> None:
    with opened("tau2", "process", ['domains=["airline"]']) as made:
        episode = made.open(made.tasks("heldout", 1, 0)[0])
        for call, said in (
            ('<call name="get_user_details"><user_id>nobody</user_id></call>', "User nobody not found"),
            ('<call name="get_user_details"></call>', "missing"),
            ('<call name="fly"></call>', "no tool fly"),
            ('<call name="_get_user"><user_id>x</user_id></call>', "no tool"),
            ('<call name="calculate"><expression>2 * (3 + 4)</expression></call>', "14.0"),
            ('<call name="calculate"><expression>9**9**9</expression></call>', "error"),
            ('<call name="send_certificate"><user_id>x</user_id><amount>many</amount></call>', "must be of type"),
        ):
            assert said in episode.act(call).text
        assert episode.act('<call name="transfer_to_human_agents"><summary>x</summary></call>').done


def test_a_wheel_is_refused_with_the_command_that_unpacks_it(tmp_path: Any) -> None:
    wheel = tmp_path / "inspect_evals-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("inspect_evals/__init__.py", "")
    with pytest.raises(UserError, match="python -m zipfile -e"), opened("tau2", "process", [f"path={wheel}"]):
        pass
