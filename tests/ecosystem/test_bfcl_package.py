"""BFCL against `bfcl-eval` itself: its checker and ours on every shipped answer, and on answers made wrong."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from world_contract import WorldContract

from noria.bases.package import Package
from noria.cli_worlds import ProvableWorld, opened, prove
from noria.core.errors import UserError, boundary
from noria.envs.bfcl.data import CALLS, CATEGORIES, FORMATS, Data, Entry
from noria.envs.bfcl.matching import fault_of
from noria.envs.bfcl.packaged import converter, own_checker

pytest.importorskip("bfcl_eval", reason="the package bfcl-eval is not installed: run `make test-ecosystem`")

#: Entries whose shipped answer the reference does not match; `test_the_seven_…` says why for each.
UNSOLVABLE = {
    "simple_java_36", "simple_java_64", "simple_java_65", "live_simple_106-63-0", "live_simple_112-68-0",
    "live_multiple_862-181-3", "live_multiple_964-207-0",
}  # fmt: skip
CONTRACT = [name for name in CATEGORIES if "irrelevance" not in name and "relevance" not in name and "java" not in name]


@pytest.fixture(scope="module")
def package() -> Package:
    return Package("bfcl_eval", "bfcl-eval", "")


@pytest.fixture(scope="module")
def theirs(package: Package) -> Iterator[Any]:
    """The package's checker. Its table of models imports a client of every provider; a table of one stands for it."""
    table = ModuleType("bfcl_eval.constants.model_config")
    table.__file__ = str(package.root / "bfcl_eval" / "constants" / "model_config.py")
    vars(table)["MODEL_CONFIG_MAPPING"] = {"any": SimpleNamespace(underscore_to_dot=False)}
    sys.modules[table.__name__] = table
    yield own_checker(package)
    del sys.modules[table.__name__]


@pytest.fixture(scope="module")
def world() -> Iterator[ProvableWorld]:
    with opened("bfcl", "process", [f"categories={CONTRACT}".replace("'", '"')]) as made:
        yield made


class TestBfclContract(WorldContract):
    """The world with the installed package."""

    experts = 1


@pytest.mark.parametrize("category", [name for name in CATEGORIES if name not in FORMATS])
def test_the_ground_truth_solves_and_nothing_does_not(category: str) -> None:
    with opened("bfcl", "process", [f'categories=["{category}"]']) as made:
        tasks = made.tasks("heldout", len(Data(Package("bfcl_eval", "", "")).entries(category)), 0)
        refused = {refusal.id.removeprefix("bfcl-") for refusal in prove(made, tasks)}
        assert refused == {task.data["id"] for task in tasks} & UNSOLVABLE


def obstacle(entry: Entry) -> str:
    """Why no call can match an answer of one call, "" where nothing of these is in the way."""
    (want,) = entry.answer
    ((name, options),) = want.items()
    described = entry.described(name)["parameters"]
    required = described.get("required", ())
    for key in required:
        if key not in options:
            return "it needs an argument that the answer does not know"
        if not options[key]:
            return "it needs an argument of which no value is right"
    for key, allowed in options.items():
        kind = described["properties"].get(key)
        if kind is None and "" not in allowed:
            return "the answer wants an argument that the function does not have"
        is_any = kind is not None and entry.language == "Java" and kind.get("items", {}).get("type") == "any"
        if is_any and all(any(not isinstance(item, str) for item in value) for value in allowed):
            return "items of any type are read as texts, and the answer has others"
    return ""


JAVA_LISTS = (
    "new ArrayList<>(Arrays.asList({}))", "new ArrayList<Object>() {{{{ add({}); }}}}", "new Object[]{{{}}}", "[{}]",
    "new ArrayList<Object>()", "Arrays.asList({})", "{}",
)  # fmt: skip
JAVA_ITEMS = (
    "true",
    "42",
    "42L",
    "1.5",
    "null",
    '"a"',
    "'a'",
    "a, true, 3",
    "new Integer(42)",
    "",
    "x(1), Boolean.TRUE",
)


def test_the_seven_are_unsolvable_each_for_a_reason_but_one_that_only_nonsense_solves(
    package: Package, theirs: Any
) -> None:
    data, found = Data(package), {}
    for category in CALLS:
        for entry in data.entries(category).values():
            if len(entry.answer) == 1 and (why := obstacle(entry)):
                found[entry.id] = why
    texts = "items of any type are read as texts, and the answer has others"
    none = "it needs an argument of which no value is right"
    assert found == {
        "simple_java_36": texts, "simple_java_65": texts, "live_simple_106-63-0": none, "live_simple_112-68-0": none,
        "live_multiple_862-181-3": "the answer wants an argument that the function does not have",
        "live_multiple_964-207-0": "it needs an argument that the answer does not know",
    }  # fmt: skip
    assert UNSOLVABLE - set(found) == {"simple_java_64"}
    java = converter(package, "Java")
    assert java is not None
    for form, item in itertools.product(JAVA_LISTS, JAVA_ITEMS):
        value = java(form.format(item), "ArrayList", "any")
        assert isinstance(value, str) or all(isinstance(each, str) for each in value)
    entry = data.entries("simple_java")["simple_java_64"]
    ((name, options),) = entry.answer[0].items()
    given = {key: str(allowed[0]) for key, allowed in options.items()}
    for value, is_right in (("epoch_millis", False), ("e", True)):
        call = [(name, {**given, "meta": f'new HashMap<String, Object>() {{{{ put("format", "{value}"); }}}}'})]
        assert (not fault_of(entry, call, java)) is is_right is (not theirs(entry, call))


def chosen(entry: Entry, rng: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """Calls with values of the answer, each drawn among those that are right."""
    calls = []
    for want in entry.answer:
        ((name, options),) = want.items()
        given = {key: settled(rng.choice(allowed), rng) for key, allowed in options.items() if allowed}
        calls.append((name, {key: value for key, value in given.items() if value != ""}))
    return calls


def settled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        return {k: settled(rng.choice(v), rng) if isinstance(v, list) and v else v for k, v in value.items()}
    if isinstance(value, list):
        return [settled(each, rng) if isinstance(each, dict) else each for each in value]
    return value


def spoilt(value: Any, rng: random.Random) -> Any:
    """Another value, of the same or another type, or one that only looks different."""
    ways: list[Any] = [None, "", 7, 7.5, True, [], {}, [value], {"a": value}, str(value)]
    if isinstance(value, str):
        ways += [value.upper(), value + "!", f" {value}-", value[:-1], value.replace(" ", "_")]
    if isinstance(value, int | float):
        ways += [value + 1, float(value), int(value), -value]
    if isinstance(value, list):
        ways += [value[::-1], value[1:], value + value, [str(each) for each in value]]
    if isinstance(value, dict):
        ways += [{**value, "more": 1}, dict(list(value.items())[1:])]
    return rng.choice(ways)


def variants(entry: Entry, seed: int) -> Iterator[Sequence[tuple[str, Mapping[str, Any]]]]:
    rng = random.Random(seed)
    calls = chosen(entry, rng)
    yield calls
    yield calls[::-1]
    yield calls[:-1]
    yield [*calls, calls[0]]
    yield [(name + "x", arguments) for name, arguments in calls]
    for _ in range(6):
        wrong = [(name, dict(arguments)) for name, arguments in chosen(entry, rng)]
        _, arguments = rng.choice(wrong)
        if arguments and rng.random() < 0.2:
            del arguments[rng.choice(sorted(arguments))]
        elif arguments and rng.random() < 0.9:
            key = rng.choice(sorted(arguments))
            arguments[key] = spoilt(arguments[key], rng)
        else:
            arguments["surplus"] = 1
        yield wrong


def test_every_form_of_every_question_is_solved_by_its_ground_truth() -> None:
    with opened("bfcl", "process", ['categories=["format_sensitivity"]']) as made:
        tasks = made.tasks("heldout", 5200, 0)
        with pytest.raises(UserError, match="at most 5200"):
            made.tasks("heldout", 5201, 0)
        assert [refusal.id for refusal in prove(made, tasks[::13])] == []
        system = next(task.system for task in tasks if ":ret_fmt=json&tool_call_tag=True" in task.data["id"])
        assert "<TOOLCALL>" in system and '"function":"func_name1"' in system


@pytest.mark.parametrize("category", CALLS)
def test_our_matching_says_what_the_packages_checker_says(category: str, package: Package, theirs: Any) -> None:
    data = Data(package)
    seen = {True: 0, False: 0}
    for number, entry in enumerate(data.entries(category).values()):
        convert = converter(package, entry.language)
        for calls in variants(entry, number):
            said = boundary(lambda e=entry, c=calls: not theirs(e, c), lambda fault: None)  # type: ignore[misc]
            if said is None:
                continue  # their checker raises on some values; a fault of the tool settles nothing
            assert (not fault_of(entry, calls, convert)) == said, (entry.id, calls, theirs(entry, calls))
            seen[said] += 1
    assert min(seen.values()) >= len(data.entries(category))
