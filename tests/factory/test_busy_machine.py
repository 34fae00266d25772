"""A bug is endless only where the sound tree is not slow as well, just then."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from noria.core.errors import SandboxError
from noria.core.protocols import ExecResult
from noria.envs.swe.records import Repo
from noria.envs.swe.trial import Bench, Run
from noria.factory.proof import Prover

TESTS = ("a", "b", "c")


class Machine:
    """Runs of the sound tree take `sound` seconds in turn, those of the bug `broken`; both are cut at the limit."""

    def __init__(self, sound: list[float], broken: list[float]) -> None:
        self.left = {"sound": sound, "broken": broken}
        self.limits: list[tuple[str, float]] = []
        self.sandbox = self

    def workspace(self, files: Mapping[str, str]) -> Any:
        laid: dict[str, str] = {}
        return SimpleNamespace(write=laid.__setitem__, close=lambda: None, laid=laid)

    def run(self, space: Any, tests: tuple[str, ...], limit_s: float) -> Run:
        tree = "broken" if space.laid else "sound"
        self.limits.append((tree, limit_s))
        seconds = self.left[tree].pop(0)
        cut = seconds > limit_s
        failing = {} if cut else {test: "fail" if test == "a" and space.laid else "pass" for test in tests}
        done = ExecResult(0, "", "", min(seconds, limit_s), timed_out=cut)
        return Run(cast(Any, failing), {}, {}, done, {})


def prove(machine: Machine) -> tuple[str, tuple[str, ...]]:
    repo = SimpleNamespace(suite_s=1.0, tests=TESTS)
    verdict = Prover(cast(Bench, machine), cast(Repo, repo), 1).prove({"x.py": b"x"}, None)
    return verdict.reason, verdict.fail_to_pass


def test_an_endless_bug_is_refused_after_one_look_at_the_sound_tree() -> None:
    machine = Machine([1.0], [1e9])
    assert prove(machine) == ("a test does not end", ())
    assert machine.limits == [("broken", 20.0), ("sound", 20.0)]


@pytest.mark.parametrize(("sound", "then"), [(30.0, 160.0), (11.0, 88.0)])
def test_a_bug_that_was_cut_on_a_busy_machine_gets_more_time(sound: float, then: float) -> None:
    machine = Machine([sound], [21.0, 40.0])
    assert prove(machine) == ("", ("a",))
    assert machine.limits == [("broken", 20.0), ("sound", 20.0), ("broken", then)]


def test_nothing_is_known_where_the_machine_stays_busy() -> None:
    with pytest.raises(SandboxError, match="so busy"):
        prove(Machine([1e9] * 3, [1e9] * 3))
