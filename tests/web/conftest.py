"""Makes `fabricate` importable under every pytest import mode; a fabricated run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))

from fabricate import Maker

from noria.core.store import Run


@pytest.fixture(scope="session")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    """The built-in model's tokenizer."""
    return Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Run:
    """Two finished rounds."""
    return Maker(tmp_path_factory.mktemp("runs"), tokenizer).everything()


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Run:
    """Two finished rounds in which everything that a model writes is HTML."""
    return Maker(tmp_path_factory.mktemp("hostile"), tokenizer, hostile=True).everything()
