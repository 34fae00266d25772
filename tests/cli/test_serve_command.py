"""What `noria serve` makes of its arguments before it serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from noria.cli import app
from noria.cli_serve import find_model, promoted, read_key
from noria.core.errors import UserError
from noria.core.recipe import load
from noria.core.store import Run

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "quickstart.toml"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run folder without a round."""
    return Run.create(tmp_path, load([str(RECIPE)], []))


def decide(run: Run, number: int, yes: bool) -> Path:
    """Leave a verdict; returns where the round's last model lies."""
    gate = run.path / f"round-{number}" / "gate"
    gate.mkdir(parents=True)
    (gate / "verdict.json").write_text(json.dumps({"promoted": yes, "reason": "said so"}))
    return run.path / f"round-{number}" / "efficiency"


def test_of_a_run_the_last_promoted_model_is_meant(run: Run) -> None:
    with pytest.raises(UserError, match="MODEL must be a run that promoted a model"):
        promoted(run)
    decide(run, 1, yes=False)
    with pytest.raises(UserError, match="MODEL must be a run that promoted a model"):
        promoted(run)
    second = decide(run, 2, yes=True)
    decide(run, 10, yes=False)
    assert find_model(str(run.path)) == second
    assert find_model(str(run.path)) != decide(run, 11, yes=True) == find_model(str(run.path))


def test_other_names_are_checkpoints(tiny_folder: Path, tmp_path: Path) -> None:
    assert find_model("builtin:tiny") == tiny_folder == find_model(str(tiny_folder))
    with pytest.raises(UserError, match="lacks config.json"):
        find_model(str(tmp_path))


def test_the_key_comes_from_the_named_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORIA_TEST_KEY", " k-1 ")
    assert (read_key("NORIA_TEST_KEY"), read_key(None)) == ("k-1", "")
    monkeypatch.delenv("NORIA_TEST_KEY")
    with pytest.raises(UserError, match="--api-key-env must name a variable .*NORIA_TEST_KEY is not set"):
        read_key("NORIA_TEST_KEY")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--host", "0.0.0.0"], "--host must be this machine's own loopback without a key"),
        (["--max-model-len", "5000"], "--max-model-len must not exceed the model's 1024 positions: got 5000"),
        (["--dtype", "int4"], "--dtype must be float32 or bfloat16: got 'int4'"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], told: str) -> None:
    found = CliRunner().invoke(app, ["serve", "builtin:tiny", *arguments])
    assert isinstance(found.exception, UserError) and told in str(found.exception)


def test_a_port_that_is_taken_is_said() -> None:
    from noria.server.run import Address

    with Address("127.0.0.1", 0).bind() as taken, pytest.raises(UserError, match="choose another port"):
        Address("127.0.0.1", taken.getsockname()[1]).bind()
