"""The folder is the registry."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from noria.core import registry
from noria.core.errors import UserError


def test_resolve_imports_the_module_of_that_name() -> None:
    assert registry.resolve("envs", "ledger").__name__ == "noria.envs.ledger"
    assert registry.resolve("signals", "hmpo").__name__ == "noria.signals.hmpo"


def test_entries_are_the_modules_that_build_with_their_first_line() -> None:
    found = {entry.name: entry for entry in registry.entries("losses")}
    assert {"ce", "clipped", "entropy", "kl_ref"} <= found.keys()
    assert "base" not in found and "logprobs" not in found  # shared code, nothing to build
    assert all(entry.doc and entry.source.is_file() for entry in found.values())


@pytest.mark.parametrize(
    ("part", "some"),
    [
        ("advantages", "rloo"), ("weights", "icepop"), ("rewards", "overlong"), ("controllers", "latch"),
        ("transforms", "dynamic"), ("rollouts", "tcod"), ("views", "dropout"), ("takeovers", "dtdd"),
        ("rewrites", "srcl"),
    ],
)  # fmt: skip
def test_parts_of_the_signals_are_listed_with_meaning_and_source(part: str, some: str) -> None:
    found = {entry.name: entry for entry in registry.entries(part)}
    assert some in found and set(found) < set(registry.names("signals"))
    assert all(entry.doc and entry.origin for entry in found.values())


@pytest.mark.parametrize("folder", ["losses", "signals", "aggregates", "sources"])
def test_every_method_says_where_it_is_from(folder: str) -> None:
    assert [entry.name for entry in registry.entries(folder) if not entry.origin] == []


#: Kinds that no recipe names, so that nothing of them is configured.
UNTYPED = {"languages", "mutations"}


@pytest.mark.parametrize("folder", registry.FOLDERS)
def test_every_kind_has_plugins(folder: str) -> None:
    assert registry.entries(folder)


def test_every_folder_of_operators_and_languages_is_listed() -> None:
    assert {"boolean_negated", "loop_removed"} < set(registry.names("mutations"))
    assert registry.names("languages")


@pytest.mark.parametrize("folder", registry.FOLDERS)
def test_every_plugin_has_a_docstring(folder: str) -> None:
    assert [entry.name for entry in registry.entries(folder) if not entry.doc] == []


def test_an_unknown_name_lists_what_exists_and_the_nearest() -> None:
    listed = ", ".join(registry.names("envs"))
    with pytest.raises(UserError, match=f"got 'ledgr'.*{listed}.*did you mean 'ledger'"):
        registry.resolve("envs", "ledgr")
    with pytest.raises(UserError, match=r"did you mean 'losses'"):
        registry.entries("loses")
    with pytest.raises(UserError, match="Python cannot find"):
        registry.resolve("envs", "no.such.module")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("mine", "mine.world"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder / "world.py"


def test_a_dotted_name_is_the_users_own_module(module: Path) -> None:
    module.write_text('"""Mine."""\nSCORES_TOKENS = True\nCOUNT: int = 3\nvalue = object()\n')
    assert registry.source("envs", "mine.world") == module
    assert registry.constant("envs", "mine.world", "SCORES_TOKENS") is True
    assert registry.constant("envs", "mine.world", "COUNT") == 3
    assert registry.constant("envs", "mine.world", "value") is None  # not a literal
    assert registry.constant("envs", "mine.world", "absent") is None


def test_a_missing_package_is_named(module: Path) -> None:
    module.write_text("import a_package_that_nobody_has\n")
    with pytest.raises(UserError, match="'a_package_that_nobody_has', which is missing"):
        registry.resolve("envs", "mine.world")


def test_a_module_that_is_not_python_is_named_with_the_line(module: Path) -> None:
    module.write_text("x = 1\ndef :\n")
    with pytest.raises(UserError, match=r"world.py must be valid Python: line 2"):
        registry.is_light("envs", "mine.world")


@pytest.mark.parametrize(
    ("text", "light"),
    [
        ("import json\nfrom noria.core import types\n", True),
        ("import torch.nn as nn\n", False),
        ("from transformers import AutoTokenizer\n", False),
        ("from noria.engines import embedded\n", False),
        ("from noria.engines.embedded import Config\n", False),
        ("def build():\n    import torch\n", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n", True),
    ],
)
def test_light_modules_import_nothing_heavy_at_the_top(module: Path, text: str, light: bool) -> None:
    module.write_text(text)
    assert registry.is_light("envs", "mine.world") is light


def test_config_fields_are_read_from_the_source(module: Path) -> None:
    module.write_text(
        "import torch\nfrom pydantic import BaseModel\n"
        "class Config(BaseModel):\n    model_config = {}\n    a: int = 1\n    b: str\n    def f(self): ...\n"
    )
    assert registry.config_fields("envs", "mine.world") == ["a", "b"]
    module.write_text("class Config(Other):\n    a: int = 1\n")
    assert registry.config_fields("envs", "mine.world") is None
    module.write_text("from noria.losses.base import LossConfig as Base\nclass Config(Base):\n    more: int = 1\n")
    found = registry.config_fields("envs", "mine.world")
    assert found is not None and {"aggregate", "balance"} < set(found) and found[-1] == "more"


@pytest.mark.parametrize("folder", sorted({*registry.FOLDERS} - UNTYPED))
def test_fields_read_from_the_source_are_those_of_the_class(folder: str) -> None:
    for name in registry.names(folder):
        kind = vars(registry.resolve(folder, name))["Config"]
        assert registry.config_fields(folder, name) == list(kind.model_fields), f"{folder}/{name}"
