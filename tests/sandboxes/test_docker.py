"""What `docker` is called with. No daemon is part of this: a stand-in takes the arguments apart."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from elsewhere import stand_in

from noria.core.errors import UserError
from noria.sandboxes import docker


def test_containers_get_limits_and_no_rights_and_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = stand_in(tmp_path, monkeypatch)
    config = docker.Config(image="py:1", runtime="runsc", memory_mb=128, cpus=0.5, pids=9, disk_mb=3, servers=1)
    sandbox = docker.build(config)
    files = {"test_a.py": "def test_a():\n    assert True\n"}
    assert sandbox.test(files, "test_a.py", 5.0).passed
    sandbox.close()
    started, killed = (json.loads(line) for line in log.read_text().splitlines())
    pairs = list(itertools.pairwise(started))
    for pair in [
        ("--network", "none"), ("--cap-drop", "ALL"), ("--security-opt", "no-new-privileges"), ("--user", "1000:1000"),
        ("--memory", "128m"), ("--memory-swap", "128m"), ("--cpus", "0.5"), ("--pids-limit", "10"),
        ("--runtime", "runsc"), ("--pull", "never"), ("--entrypoint", "python3"), ("--shm-size", "3m"),
        ("--tmpfs", "/workspace:rw,exec,nosuid,nodev,mode=1777,size=3m"),
    ]:  # fmt: skip
        assert pair in pairs, pair
    assert {"--rm", "--interactive", "--read-only"} <= set(started)
    assert started[started.index("py:1") + 1 :][-2] == "/opt/noria/_forkserver.py"
    assert "--privileged" not in started
    assert killed == ["kill", started[started.index("--name") + 1]]


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="without the program docker"):
        docker.build(docker.Config())
    program = tmp_path / "docker"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('Cannot connect to the Docker daemon')\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match="Cannot connect to the Docker daemon"):
        docker.build(docker.Config())
