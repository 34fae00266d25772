"""A key that is missing is told before anything runs; a server on this machine needs none."""

from __future__ import annotations

from pathlib import Path

import pytest

from noria.core import recipe as recipes
from noria.core.store import Run

RECIPE = """
name = "keyed"
env = { ledger = { type = "ledger", tasks = 2 } }

[supervisor]
type = "model"
engine = { type = "openai", base_url = "https://models.example/v1", model = "m", api_key_env = "NORIA_TEST_KEY" }
"""
LOCAL = "supervisor.engine.base_url=http://127.0.0.1:8000/v1"


@pytest.fixture
def keyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NORIA_TEST_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "keyed.toml"
    file.write_text(RECIPE, encoding="utf-8")
    return file


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_missing_key_is_refused_at_once(noria, keyed: Path, command: str) -> None:
    result = noria(command, str(keyed))
    assert result.code == 2
    for words in ("supervisor.engine.api_key_env must", "NORIA_TEST_KEY is not set", "export NORIA_TEST_KEY="):
        assert words in result.err
    assert not (keyed.parent / "runs").exists()


def test_a_run_that_has_still_to_ask_is_not_resumed_without_the_key(noria, keyed: Path) -> None:
    run = Run.create(keyed.parent / "runs", recipes.load([keyed]))
    result = noria("resume", str(run.path))
    assert result.code == 2 and "supervisor.engine.api_key_env must" in result.err
    assert noria("show", str(run.path)).code == 0


def test_with_the_key_or_without_need_of_it_nothing_is_refused(
    noria, keyed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert noria("check", str(keyed), LOCAL).code == 0
    assert noria("check", str(keyed), "supervisor.type=counterfactual").code == 0  # the engine is not asked
    monkeypatch.setenv("NORIA_TEST_KEY", " ")
    assert noria("check", str(keyed)).code == 2
    monkeypatch.setenv("NORIA_TEST_KEY", "k")
    assert noria("check", str(keyed)).code == 0
