"""What `docker` is called with. No daemon is part of this: a stand-in takes the arguments apart."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    listed, started, killed = (json.loads(line) for line in log.read_text().splitlines())
    assert listed[:2] == ["ps", "--all"] and listed[-1] == '{{.ID}} {{.Label "noria.owner"}}'
    pairs = list(itertools.pairwise(started))
    for pair in [
        ("--network", "none"), ("--cap-drop", "ALL"), ("--security-opt", "no-new-privileges"), ("--user", "1000:1000"),
        ("--memory", "128m"), ("--memory-swap", "128m"), ("--cpus", "0.5"), ("--pids-limit", "10"),
        ("--runtime", "runsc"), ("--pull", "never"), ("--entrypoint", "python3"), ("--shm-size", "3m"),
        ("--tmpfs", "/workspace:rw,exec,nosuid,nodev,mode=1777,size=3m"), ("--label", f"noria.owner={os.getpid()}"),
        ("--label", f"noria.space={docker.space()}"),
    ]:  # fmt: skip
        assert pair in pairs, pair
    assert {"--rm", "--interactive", "--read-only"} <= set(started)
    assert started[started.index("py:1") + 1 :][-2] == "/opt/noria/_forkserver.py"
    assert "--privileged" not in started
    assert killed == ["kill", started[started.index("--name") + 1]]


def test_containers_of_a_process_that_was_killed_are_swept_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    monkeypatch.setenv("DOCKER_HOLDS", "1")
    program = (
        "from noria.sandboxes import docker\nsandbox = docker.build(docker.Config(servers=1))\n"
        "print('begins', flush=True)\ninput()"
    )
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as host:
        assert host.stdout is not None and host.stdout.readline() == b"begins\n"
        os.kill(host.pid, signal.SIGKILL)
        host.wait()
    (orphan,) = described(tmp_path)
    assert orphan["labels"] == {"noria.owner": str(host.pid), "noria.space": docker.space()}
    assert Path(f"/proc/{orphan['pid']}").exists()
    # Those of another machine that shares the daemon, and of somebody else, have owners that are not to be seen here.
    for name, labels in {"far": {"noria.owner": "999999999", "noria.space": "far"}, "none": {}}.items():
        about = {"id": name, "name": name, "labels": labels, "pid": 999999999}
        (tmp_path / f"container-{name}.json").write_text(json.dumps(about))
    sandbox = docker.build(docker.Config(servers=1))
    ours = {each["id"] for each in described(tmp_path)} - {"far", "none"}
    assert orphan["id"] not in ours and len(ours) == 1 and {"far", "none"} < {e["id"] for e in described(tmp_path)}
    assert not alive(int(orphan["pid"]))
    docker.build(docker.Config(servers=1)).close()
    assert ours < {each["id"] for each in described(tmp_path)}  # its owner lives
    sandbox.close()
    assert {each["id"] for each in described(tmp_path)} == {"far", "none"}


def described(folder: Path) -> list[dict[str, Any]]:
    """The containers that the stand-in has."""
    return [json.loads(path.read_text()) for path in folder.glob("container-*.json")]


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="without the program docker"):
        docker.build(docker.Config())
    program = tmp_path / "docker"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('Cannot connect to the Docker daemon')\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match="Cannot connect to the Docker daemon"):
        docker.build(docker.Config())
