"""The environment in which these tests run is the one that `requirements-ecosystem.lock` names, without CUDA."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

pytest.importorskip("inspect_evals", reason="inspect-evals is not installed: run `make test-ecosystem`")

LOCK = Path(__file__).parents[2] / "requirements-ecosystem.lock"


def test_the_versions_of_the_lock_are_installed() -> None:
    pins = [line.split("==") for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
    assert len({name.lower() for name, _ in pins}) == len(pins) > 150
    other = {name: metadata.version(name) for name, version in pins if metadata.version(name).split("+")[0] != version}
    assert other == {}


def test_torch_is_the_build_without_cuda() -> None:
    import torch

    assert torch.version.cuda is None
    assert not [each.name for each in metadata.distributions() if each.name.lower().startswith(("nvidia-", "triton"))]
