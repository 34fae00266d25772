"""Which tests of a sound tree are asked: by what their runs say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from noria.core.protocols import ExecResult
from noria.envs.swe.trial import Run
from noria.factory.quarantine import Runs, Unsound, slow_of
from noria.languages import cpp, python
from noria.languages.base import Language, Status


def runs(*statuses: Mapping[str, Status], said: Mapping[str, str] | None = None, took_s: float = 0.1) -> Runs:
    """Whole runs that said this of each test."""
    made = Runs()
    for status in statuses:
        seconds = dict.fromkeys(status, took_s)
        made.done.append(Run(status, said or {}, seconds, ExecResult(0, "", "", took_s * len(status)), {}))
    return made


def test_tests_that_fail_or_are_flaky_are_named_with_the_reason() -> None:
    sound: dict[str, Status] = {f"a.py::t{n}": "pass" for n in range(4)}
    first: dict[str, Status] = {**sound, "a.py::bad": "fail", "a.py::odd": "pass", "a.py::not": "skip"}
    found = runs(first, {**first, "a.py::odd": "error"}, first, said={"b.py": "no module x"}).sound()
    assert found.tests == tuple(sound)
    assert found.left_out == {
        "a.py::bad": "it fails on the tree as it is",
        "a.py::odd": "it is flaky: it passes in some runs alone",
        "b.py": "it cannot be loaded",
    }
    assert found.suite_s == pytest.approx(0.7) and found.slowest_s == pytest.approx(0.1)


@pytest.mark.parametrize(("sound", "bad", "fit"), [(1, 1, True), (1, 2, False), (20, 100, True), (20, 200, False)])
def test_a_repository_is_refused_where_too_little_is_left(sound: int, bad: int, fit: bool) -> None:
    status: dict[str, Status] = {f"t{n}": "pass" if n < sound else "fail" for n in range(sound + bad)}
    if fit:
        assert len(runs(status, status).sound().tests) == sound
    else:
        with pytest.raises(Unsound, match=f"{bad} of its {sound + bad} tests do not pass on the tree as it is"):
            runs(status, status).sound()


def test_a_test_is_slow_above_a_limit_or_beside_all_others_together() -> None:
    quick = {f"t{n}": 0.1 for n in range(20)}
    assert slow_of(quick) == set()
    assert slow_of({**quick, "a": 0.9}) == set()
    assert slow_of({**quick, "a": 1.1, "b": 9.0}) == {"a", "b"}
    assert slow_of({**quick, "a": 1.1, "b": 1.1}) == set()
    assert slow_of({f"t{n}": 4.0 for n in range(5)}) == set()
    assert slow_of({f"t{n}": 11.0 for n in range(3)} | {"u": 1.0}) == {"t0", "t1", "t2"}
    assert slow_of({"only": 11.0}) == set()
    found = runs({**dict.fromkeys(quick, "pass")}, took_s=0.1)
    found.done[0].seconds["t3"] = 30.0  # type: ignore[index]
    assert found.sound().left_out == {"t3": "it is slow"}


def test_a_program_that_ends_badly_although_its_tests_pass_is_known() -> None:
    passing: dict[str, Status] = {"a::one": "pass", "b::one": "pass", "c::one": "pass", "c::two": "fail"}
    made = runs(passing, passing)
    made.done = [replace(run, ended={"a": True, "b": False, "c": False}) for run in made.done]
    assert made.unended(cast(Language, cpp.build())) == {"b"}
    assert made.unended(cast(Language, python.build())) == set()
