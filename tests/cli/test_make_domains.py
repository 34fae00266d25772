"""`noria tasks make WORLD` for every world that makes domains: a small folder, and the options that go with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noria.core import registry

MAKERS = [
    name for name in registry.names("envs")
    if "make" in vars(registry.resolve("envs", name))
]  # fmt: skip


def test_some_worlds_make_domains() -> None:
    assert {"tooluse", "safety"} <= set(MAKERS)


@pytest.mark.parametrize("world", MAKERS)
def test_a_folder_is_made_and_reported(noria, world: str, tmp_path: Path) -> None:
    made = noria(
        "tasks", "make", world, "--domains", "3", "--out", str(tmp_path / "out"), "--sandbox", "process", "--json"
    )
    assert made.code == 0, made.err
    assert json.loads(made.out) and any((tmp_path / "out").iterdir())


def test_proposals_for_a_world_that_takes_none_are_refused(noria, tmp_path: Path) -> None:
    asked = ("--propose", "http://127.0.0.1:9", "--model", "m")
    result = noria("tasks", "make", "safety", "--domains", "3", "--out", str(tmp_path / "out"), *asked)
    assert result.code == 2 and "--propose must go with a world that takes proposals" in result.err
