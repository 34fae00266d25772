"""One server for all tests of teachers over HTTP: its start is dearer than what they ask of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import Served


@pytest.fixture(scope="session")
def server() -> Iterator[Served]:
    """The built-in model; sequences of 320 tokens and the one to be scored."""
    with Served("builtin:tiny", "--max-model-len", "321", "--slots", "2") as running:
        yield running
