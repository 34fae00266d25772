"""The command line in this process, and a recipe on plug-ins that need nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from noria.cli import main

PLUGIN = '''"""A plug-in for tests."""
from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    tasks: int = 256


def build(config):
    return config
'''

RECIPE = """
name = "small"
rounds = 2

[student]
engine = { type = "cliplug" }
trainer = { type = "cliplug" }

[executor]
type = "local"

[teachers]
a = { type = "cliplug.plug" }
b = { type = "cliplug.plug" }

[env]
repair = { type = "cliplug.plug", tasks = 10 }
ledger = { type = "ledger", tasks = 20 }

[phase]
sft = { signal = "curated" }
experts = { signal = "group_mean", split_by = "env" }
distill = { signal = "teacher_k1", route = "experts" }
efficiency = { signal = "hmpo", envs = ["ledger"] }
"""


class Result(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


Noria = Callable[..., Result]


@pytest.fixture
def noria(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Noria:
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["noria", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as done:
            main()
        captured = capsys.readouterr()
        code = done.value.code
        return Result(code if isinstance(code, int) else 0, captured.out, captured.err)

    return call


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "cliplug"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "plug.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("cliplug", "cliplug.plug"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    file = tmp_path / "small.toml"
    file.write_text(RECIPE.replace('"cliplug"', '"cliplug.plug"'))
    return file
