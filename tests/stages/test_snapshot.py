"""A saved state: the same tensors after a round trip, and no file that was cut or changed is read."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.errors import UserError
from noria.stages.snapshot import load_state, save_state

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool, torch.uint8)
SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)


@settings(deadline=None, max_examples=60)
@given(dtype=st.sampled_from(DTYPES), shape=SHAPES, seed=st.integers(0, 99), turned=st.booleans())
def test_tensors_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, dtype: torch.dtype, shape: tuple[int, ...], seed: int, turned: bool
) -> None:
    torch.manual_seed(seed)
    tensor = (torch.randn(shape) * 3).to(dtype)
    tensor = tensor.transpose(0, -1) if turned and len(shape) > 1 else tensor
    path = tmp_path_factory.mktemp("state") / "state.pt"
    save_state(path, {"a": [tensor, tensor], "step": 3, "nested": {1: (tensor, None)}, "array": np.arange(3.0)})
    found = load_state(path)
    assert found is not None and found["step"] == 3 and found["array"].tolist() == [0.0, 1.0, 2.0]
    for back in (*found["a"], found["nested"][1][0]):
        assert back.dtype == dtype and back.shape == tensor.shape and torch.equal(back, tensor)
    back = found["a"][0]
    if back.numel() and dtype is torch.float32:
        back += 1  # it may be trained on
        assert not torch.equal(back, tensor)
    assert found["a"][0] is found["a"][1], "what was one tensor is one again"


def test_an_optimiser_goes_on_alike(tmp_path: Path) -> None:
    def made() -> tuple[torch.nn.Linear, torch.optim.AdamW]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(model: torch.nn.Linear, optimiser: torch.optim.AdamW) -> None:
        optimiser.zero_grad()
        model(torch.ones(1, 3)).pow(2).sum().backward()
        optimiser.step()

    one, two = made(), made()
    step(*one)
    save_state(tmp_path / "s", {"model": one[0].state_dict(), "optimiser": one[1].state_dict()})
    found: Any = load_state(tmp_path / "s")
    two[0].load_state_dict(found["model"])
    two[1].load_state_dict(found["optimiser"])
    step(*one)
    step(*two)
    assert torch.equal(one[0].weight, two[0].weight)


@pytest.mark.parametrize("seed", range(20))
def test_a_file_that_was_cut_or_changed_is_refused(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "state.pt"
    save_state(path, {"step": 1, "weights": torch.arange(50.0)})
    whole, rng = path.read_bytes(), random.Random(seed)
    at = rng.randrange(20, len(whole))
    for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], whole + b"x", b""):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"must be a whole state: .* delete .*state.pt to begin this phase anew"):
            load_state(path)


def test_a_file_of_another_version_is_told(tmp_path: Path) -> None:
    path, older = tmp_path / "state.pt", io.BytesIO()
    torch.save({"format": 3}, older)
    save_state(path, {})
    for data, got in (
        (older.getvalue(), "an older one"), (path.read_bytes().replace(b"noria-state 4", b"noria-state 9"), "9")
    ):  # fmt: skip
        path.write_bytes(data)
        with pytest.raises(UserError, match=rf"must be of this version \(format 4\): got {got} - delete"):
            load_state(path)
