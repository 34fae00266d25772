"""The world `tau2` with the package `inspect-evals`: every task of both domains, and conversations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from world_contract import WorldContract

from noria.cli_worlds import ProvableWorld, opened, prove
from noria.core.errors import UserError

pytest.importorskip("inspect_evals.tau2", reason="inspect-evals is not installed: run `make test-ecosystem`")

SIZES = {"airline": (50, 30, 20), "retail": (114, 74, 40)}


@pytest.fixture(scope="module")
def world() -> Iterator[ProvableWorld]:
    with opened("tau2", "process", ['domains=["retail"]', "heldout=test"]) as made:
        yield made


class TestTau2Contract(WorldContract):
    """Retail with its published split."""

    experts = 1


@pytest.mark.parametrize("domain", SIZES)
def test_the_actions_of_every_task_solve_it_and_nothing_does_not(domain: str) -> None:
    with opened("tau2", "process", [f'domains=["{domain}"]']) as made:
        assert made.splits == ("heldout",)
        tasks = made.tasks("heldout", SIZES[domain][0], 0)
        assert not prove(made, tasks)
        with pytest.raises(UserError, match="split must be one of heldout"):
            made.tasks("train", 1, 0)


def test_the_published_split_is_kept() -> None:
    for domain, (all_of_it, train, held) in SIZES.items():
        with opened("tau2", "process", [f'domains=["{domain}"]', "heldout=test"]) as made:
            ids = [{task.id for task in made.tasks(split, n, 0)} for split, n in (("train", train), ("heldout", held))]
            assert len(ids[0] | ids[1]) == all_of_it
            with pytest.raises(UserError, match=f"at most {held} of"):
                made.tasks("heldout", held + 1, 0)


def test_a_change_that_nobody_wanted_fails_and_a_fork_has_its_own_database() -> None:
    with opened("tau2", "process", ['domains=["retail"]']) as made:
        task = next(t for t in made.tasks("heldout", 114, 0) if any("cancel" in m for m in made.reference(t)))
        episode = made.open(task)
        *before, last = made.reference(task)
        for message in before:
            episode.act(message)
        other = episode.fork()
        address = "<address1>1 A St</address1><address2></address2><city>X</city><state>CA</state>"
        user = next(iter(other._state.db.users))
        address += "<country>US</country><zip>1</zip>"
        wrong = f'<call name="modify_user_address"><user_id>{user}</user_id>{address}</call>'
        other.act(wrong)
        assert other.grade().reward == 0.0 and "database" in other.grade().reason
        episode.act(last)
        assert episode.grade().reward == 1.0


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
