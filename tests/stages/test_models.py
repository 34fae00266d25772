"""Names of models: what is refused before anything runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from noria.core.errors import UserError
from noria.stages.models import resolve_model


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(resolve_model("builtin:tiny"), tmp_path / "model"))


def test_a_whole_folder_is_taken_as_it_is(copy: Path) -> None:
    assert resolve_model(str(copy)) == copy


@pytest.mark.parametrize("left", [0, 5, 100, 2_000_000])
def test_cut_weights_are_refused_with_their_size(copy: Path, left: int) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:left])
    with pytest.raises(UserError, match=rf"student\.model must be whole: .*model\.safetensors' has {left:,} bytes"):
        resolve_model(str(copy), "student.model")


def test_weights_that_are_longer_than_they_say_are_refused(copy: Path) -> None:
    with (copy / "model.safetensors").open("ab") as file:
        file.write(b"more")
    with pytest.raises(UserError, match="its header promises"):
        resolve_model(str(copy))


@pytest.mark.parametrize("junk", [b"\x08\0\0\0\0\0\0\0notjson!", b"\x02\0\0\0\0\0\0\0[]", b"\xff" * 40])
def test_what_is_no_header_is_refused(copy: Path, junk: bytes) -> None:
    (copy / "model.safetensors").write_bytes(junk)
    with pytest.raises(UserError, match="its header cannot be read"):
        resolve_model(str(copy))


def test_a_missing_file_is_named(copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"lacks tokenizer\.json"):
        resolve_model(str(copy))
    with pytest.raises(UserError, match="there is builtin:.*builtin:tiny"):
        resolve_model("builtin:huge")
