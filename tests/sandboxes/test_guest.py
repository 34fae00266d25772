"""Programs of others in a sandbox: one way out, nothing of the host, limits, and nothing that stays."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import noria
from noria.core.errors import SandboxError, UserError
from noria.core.files import Entry
from noria.sandboxes import bwrap
from noria.sandboxes.guest import Guests, Left, Limits, places

WORK, ROOT = "/workspace/work", "/workspace"


class Shout(socketserver.BaseRequestHandler):
    """Answers each line in capitals."""

    def handle(self) -> None:
        with self.request.makefile("rwb") as stream:
            for line in stream:
                stream.write(line.upper())
                stream.flush()


class Shouting(socketserver.ThreadingTCPServer):
    """Serves many at once."""

    daemon_threads, allow_reuse_address = True, True


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with Shouting(("127.0.0.1", 0), Shout) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield "127.0.0.1", server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def guests() -> Iterator[Guests]:
    made = Guests(Limits(memory_mb=128, pids=24, disk_mb=8, output_kb=8), ())
    yield made
    made.close()


def run(
    guests: Guests, address: tuple[str, int], folder: Path, script: str, files: dict[str, Entry] | None = None,
    timeout_s: float = 60.0, given_up: threading.Event | None = None,
) -> Left:  # fmt: skip
    given = {"work/run.py": Entry(textwrap.dedent(script).encode()), **(files or {})}
    argv = ["python3", "run.py", str(address[1])]
    environment = {"PATH": f"{os.path.dirname(os.path.realpath(sys.executable))}:/usr/bin:/bin", "HOME": "/tmp/home"}
    folders, door = [WORK, "/tmp/home"], folder / "door"
    return guests.run(given, argv, environment, folders, address, door, timeout_s, given_up or threading.Event())


def told(left: Left) -> Any:
    assert left.code == 0, left.log
    return json.loads(left.log.splitlines()[-1])


LOOK = """
    import json, os, socket, subprocess, sys
    port, other, secret, home = int(sys.argv[1]), *open("asked").read().split()
    def reach(where, family=socket.AF_INET):
        with socket.socket(family) as client:
            client.settimeout(3)
            try:
                client.connect(where)
                client.sendall(b"hello\\n")
                return client.recv(99).decode()
            except OSError as fault:
                return type(fault).__name__
    found = {
        "door": [reach(("127.0.0.1", port)) for _ in range(3)], "other": reach(("127.0.0.1", int(other))),
        "outside": reach(("192.0.2.1", 80)), "secret": os.path.exists(secret), "home": os.path.exists(home),
        "interfaces": sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else ["lo"],
        "processes": sum(name.isdigit() for name in os.listdir("/proc")), "env": sorted(os.environ),
        "abstract": reach("\\0noria-test-abstract", socket.AF_UNIX), "root": os.access("/", os.W_OK),
    }
    open("new\\nname", "w").write("x")
    os.symlink("/etc/passwd", "link")
    os.mkfifo("pipe")
    os.remove("gone")
    print(json.dumps(found))
"""


def test_what_one_guest_alone_sees(guests: Guests, address: tuple[str, int], tmp_path: Path) -> None:
    (tmp_path / "layer").mkdir(mode=0o755)
    (tmp_path / "layer" / "tool").write_text("hello")
    (tmp_path / "layer" / "tool").chmod(0o644)

    def looked(door: str, around: list[tuple[str, str]]) -> str:
        argv, over = ["sh", "-c", "cat /deps/tool; touch /deps/new || echo read only"], threading.Event()
        environment = {"PATH": "/usr/bin:/bin"}
        return guests.run({}, argv, environment, [WORK], address, tmp_path / door, 60.0, over, around).log

    seen = looked("one", [("/deps", str(tmp_path / "layer"))])
    assert seen.startswith("hello") and "read only" in seen
    assert "hello" not in looked("two", [])
    for door, wrong in (("three", ("/proc/x", str(tmp_path))), ("four", ("/deps", str(tmp_path / "none")))):
        with pytest.raises(SandboxError, match="cannot be shown at"):
            looked(door, [wrong])


def test_one_way_out_and_nothing_of_the_host(
    guests: Guests, address: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("x")
    monkeypatch.setenv("SECRET_KEY", "x")
    with socket.create_server(("127.0.0.1", 0)) as other, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0noria-test-abstract")
        abstract.listen()
        asked = f"{other.getsockname()[1]} {tmp_path / 'secret'} {Path(__file__).resolve()}".encode()
        left = run(guests, address, tmp_path, LOOK, {"work/asked": Entry(asked), "work/gone": Entry(b"x")})
    found = told(left)
    assert found["door"] == ["HELLO\n"] * 3
    assert found["other"] == found["abstract"] == "ConnectionRefusedError" and found["outside"] != "HELLO\n"
    assert (found["secret"], found["home"], found["root"], found["interfaces"]) == (False, False, False, ["lo"])
    assert set(found["env"]) <= {"HOME", "PATH", "LC_CTYPE"} and found["processes"] <= 4
    assert left.files is not None and set(left.files) == {"work/run.py", "work/asked", "work/new\nname", "work/link"}
    assert left.files["work/link"].link == "/etc/passwd" and left.files["work/new\nname"].data == b"x"
    assert (tmp_path / "door").exists()


ATTACKS = {
    "memory": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "processes": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "disk": "for k in range(99): open(f'f{k}', 'wb').write(bytes(1 << 20))",
    "sparse": "open('f', 'wb').truncate(1 << 40)",
    "files": "import os\nfor k in range(30000): open(str(k), 'w')",
    "output": "import sys\nwhile True: sys.stdout.write('x' * 65536)",
    "daemon": "import os\nif os.fork() == 0:\n    os.setsid()\n    os.execlp('sleep', 'sleep', '4713')",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_held(guests: Guests, address: tuple[str, int], tmp_path: Path, name: str) -> None:
    endless = name in ("processes", "output")
    left = run(guests, address, tmp_path, ATTACKS[name], timeout_s=3.0 if endless else 60.0)
    assert left.timed_out == endless and len(left.log) < 9000
    if name == "memory":
        assert left.code != 0 and (left.out_of_memory or "MemoryError" in left.log)
    elif name in ("disk", "sparse"):
        assert left.code != 0 and "Error" in left.log
    elif name == "files":
        assert left.files is None
    elif name == "daemon":
        assert left.code == 0
    assert not running(b"4713")


def test_a_guest_is_stopped_at_once_where_it_is_given_up(
    guests: Guests, address: tuple[str, int], tmp_path: Path
) -> None:
    given_up = threading.Event()
    given_up.set()
    left = run(guests, address, tmp_path, "import time; time.sleep(4714)", timeout_s=600.0, given_up=given_up)
    assert (left.timed_out, left.files) == (True, None)


def test_what_is_shown_is_read_only_and_named_by_path(address: tuple[str, int], tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir(mode=0o755)
    (tmp_path / "lib" / "tool.py").write_text("WORD = 'found'\n")
    (tmp_path / "hidden").write_text("x")
    made = Guests(Limits(memory_mb=128, pids=24, disk_mb=8), [str(tmp_path / "lib"), str(tmp_path / "lib" / "tool.py")])
    script = f"""
        import json, os, sys
        sys.path.insert(0, {str(tmp_path / "lib")!r})
        import tool
        try:
            open({str(tmp_path / "lib" / "new")!r}, "w")
            wrote = True
        except OSError:
            wrote = False
        print(json.dumps([tool.WORD, wrote, os.path.exists({str(tmp_path / "hidden")!r})]))
    """
    try:
        assert told(run(made, address, tmp_path, script)) == ["found", False, False]
    finally:
        made.close()
    for path in ("relative", str(tmp_path / "none"), "/", "/proc", "/tmp", "/workspace/x"):
        with pytest.raises(UserError, match="readonly must"):
            places([path])
    if os.geteuid() == 0:
        (tmp_path / "closed").mkdir(mode=0o700)
        with pytest.raises(UserError, match="readable for all"):
            Guests(Limits(), [str(tmp_path / "closed")])


def test_packages_that_know_answers_are_empty(address: tuple[str, int], tmp_path: Path) -> None:
    source = Path(noria.__file__).resolve().parents[1]
    script = """
        import json, os, sys
        print(json.dumps([len(os.listdir(place)) for place in open("asked").read().split()]))
    """
    site = [importlib.util.find_spec(name) for name in ("reasoning_gym", "pydantic")]
    folders = [source / "noria", *(Path(str(spec.origin)).resolve().parent for spec in site if spec is not None)]
    known = Guests(Limits(memory_mb=128, pids=24, disk_mb=8, output_kb=8), (str(source),))
    try:
        files = {"work/asked": Entry(" ".join(map(str, folders)).encode())}
        noria_files, puzzles, others = told(run(known, address, tmp_path, script, files))
    finally:
        known.close()
    assert (noria_files, puzzles) == (0, 0) and others > 10


def test_a_door_that_cannot_be_made_is_a_fault_of_ours(
    guests: Guests, address: tuple[str, int], tmp_path: Path
) -> None:
    with pytest.raises(SandboxError):
        run(guests, address, tmp_path / "none", "pass")


def test_nothing_is_left_of_a_process_that_was_killed(tmp_path: Path) -> None:
    program = """
        import sys, threading
        from pathlib import Path
        from noria.core.files import Entry
        from noria.sandboxes.guest import Guests, Limits
        guests = Guests(Limits(memory_mb=128, pids=24, disk_mb=8), ())
        print("begins", flush=True)
        script = "import time; time.sleep(4715)"
        guests.run({"work/a": Entry(b"x")}, ["/usr/bin/env", "python3", "-c", script], {"PATH": "/usr/bin:/bin"},
                   ["/workspace/work"], ("127.0.0.1", 8099), Path(sys.argv[1]) / "door", 600.0, threading.Event())
    """
    words = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as host:
        assert host.stdout is not None and host.stdout.readline() == b"begins\n"
        assert waited(lambda: bool(running(b"4715")))
        os.kill(host.pid, signal.SIGKILL)
        host.wait()
        assert waited(lambda: not running(b"4715"))
        Guests(Limits(), ()).close()  # sweeps
        label = f"{bwrap._label()}{host.pid}-"
        places_ = [Path("/run"), Path("/tmp"), *Path("/sys/fs/cgroup").glob("*"), Path("/sys/fs/cgroup")]
        assert not [path for place in places_ if place.is_dir() for path in place.glob(f"{label}*")]


def running(word: bytes) -> list[str]:
    """Processes of the host that were started with this word in their last argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().rstrip(b"\0").split(b"\0")
        except OSError:
            continue
        if word in words[-1] and len(words[-1]) < 50:
            found.append(str(path))
    return found


def waited(what: object) -> bool:
    """Whether something comes about within a minute."""
    assert callable(what)
    for _ in range(600):
        if what():
            return True
        time.sleep(0.1)
    return False
