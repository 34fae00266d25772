"""A full disk is told in one way, whichever library ran into it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from noria.core.disk import DiskFull, roomy


def _write() -> None:
    with Path("/dev/full").open("wb") as file:
        file.write(b"x" * 100_000)


def _save_tensors() -> None:
    with Path("/dev/full").open("wb") as file:
        torch.save({"a": torch.zeros(100_000)}, file)


def _fail_as_safetensors_does() -> None:
    raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize("work", [_write, _save_tensors, _fail_as_safetensors_does])
def test_a_full_disk_is_told_with_the_way_on(tmp_path: Path, work) -> None:
    with (
        pytest.raises(DiskFull, match=r"disk must have room: .*MiB free.* - make room, then go on"),
        roomy(tmp_path / "not" / "made", "go on"),
    ):
        work()


@pytest.mark.parametrize("fault", [OSError(13, "denied"), ValueError("error 28"), KeyboardInterrupt()])
def test_other_faults_pass(tmp_path: Path, fault: BaseException) -> None:
    with pytest.raises(type(fault)) as found, roomy(tmp_path, "go on"):
        raise fault
    assert found.value is fault
