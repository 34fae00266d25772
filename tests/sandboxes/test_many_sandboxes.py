"""Many sandboxes at once, three in ten episodes lose theirs: nothing is left, and statistics of groups stay true."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2] / "bench"))

import many_sandboxes
from hostile import bwrap_reason

pytestmark = pytest.mark.skipif(bwrap_reason() is not None, reason=str(bwrap_reason()))


def test_deaths_are_unknown_and_leave_nothing() -> None:
    found = many_sandboxes.measure(20, 64, 0.3, 0)
    assert found["faults"] == []
    assert (found["unknown"], found["left"]) == (19, {"undisturbed": {}, "with deaths": {}})
    assert found["kills"] >= 19 * 2 + 19
    assert all("server died" in reason for reason in found["reasons"]), found["reasons"]
    assert found["statistics"]["undisturbed"]["known"] == 64
    means = {name: row["mean reward"] for name, row in found["statistics"].items()}
    assert means["deaths as 0"] < means["undisturbed"]


def test_differences_find_a_bias() -> None:
    """Half of each group is solved: unknown at random leaves no difference, counted as 0 a clear one."""
    full = [1.0, 0.0] * 80
    unknown: list[float | None] = [None if at % 8 in (0, 5) else one for at, one in enumerate(full)]
    zeros = [one or 0.0 for one in unknown]
    assert many_sandboxes.differences(full, unknown)["mean reward"] == (0.0, 0.0, 0.0)
    assert many_sandboxes.differences(full, zeros)["mean reward"][0] == pytest.approx(-1 / 8)
    assert many_sandboxes.differences(full, unknown)["advantage towards success"][0] == pytest.approx(0.6 - 4 / 7)
