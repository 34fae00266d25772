"""Makes `loss_batches` importable under every pytest import mode; one fixture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from loss_batches import Batch, global_batch


@pytest.fixture
def batch() -> Batch:
    return global_batch()
