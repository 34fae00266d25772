"""The E2B-compatible server, driven by the unmodified `e2b` SDK, and by hand where the SDK cannot be rude enough."""

from __future__ import annotations

import http.client
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sandboxes"))

e2b = pytest.importorskip("e2b")

from elsewhere import KEY, e2b_server  # noqa: E402
from hostile import bwrap_reason, leftovers  # noqa: E402

pytestmark = pytest.mark.skipif(bwrap_reason() is not None, reason=str(bwrap_reason()))
MOST = 3


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with e2b_server(most=MOST, disk_mb=4) as address:
        yield address
    label = f"noria-{Path('/proc/self/ns/pid').stat().st_ino}-{os.getpid()}-s"
    assert leftovers(label) == []


def options(url: str) -> dict[str, Any]:
    return {"api_key": KEY, "api_url": url, "sandbox_url": url, "http_version": "1.1", "retries": 0}


@pytest.fixture
def box(url: str) -> Iterator[Any]:
    made = e2b.Sandbox.create(timeout=120, envs={"WHO": "you"}, metadata={"run": "7"}, **options(url))
    yield made
    made.kill()


def test_commands_have_output_codes_and_an_environment(box: Any) -> None:
    done = box.commands.run("echo hi $WHO $MORE; pwd; echo warn >&2", envs={"MORE": "again"}, cwd="/tmp")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "hi you again\n/tmp\n", "warn\n")
    with pytest.raises(e2b.CommandExitException) as failed:
        box.commands.run("echo no >&2; exit 3")
    assert (failed.value.exit_code, failed.value.stderr) == (3, "no\n")
    assert len(box.commands.run("head -c 3000000 /dev/zero | tr '\\0' x").stdout) == 3_000_000
    with pytest.raises(e2b.SandboxException):
        box.commands.run("true", cwd="/nowhere")


def test_output_is_streamed_while_a_command_runs(box: Any) -> None:
    seen: list[tuple[str, bool]] = []
    command = "echo one; until [ -e go ]; do sleep 0.02; done; echo two"

    def heard(text: str) -> None:
        seen.append((text, box.files.exists("go")))
        if text == "one\n":
            box.files.write("go", "")

    assert box.commands.run(command, on_stdout=heard).stdout == "one\ntwo\n"
    assert seen == [("one\n", False), ("two\n", True)]


def test_input_background_processes_and_kills(box: Any) -> None:
    handle = box.commands.run("cat; echo end", background=True, stdin=True)
    assert [process.pid for process in box.commands.list()] == [handle.pid]
    box.commands.send_stdin(handle.pid, "a\n")
    box.commands.stream_input(handle.pid, ["b\n", b"c\n"])
    other = box.commands.connect(handle.pid)
    box.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "a\nb\nc\nend\n"
    assert other.wait().exit_code == 0
    sleeper = box.commands.run("sleep 99 & sleep 99", background=True)
    assert sleeper.kill()
    with pytest.raises(e2b.CommandExitException):
        sleeper.wait()
    assert not box.commands.kill(sleeper.pid)
    assert "sleep" not in box.commands.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout.replace("cat", "")
    with pytest.raises(e2b.NotFoundException):
        box.commands.send_stdin(4242, "x")


def test_a_command_ends_at_its_limit_though_its_client_went_away(box: Any) -> None:
    with pytest.raises(e2b.TimeoutException):
        box.commands.run("sleep 60", timeout=0.3)
    for _ in range(500):
        if not box.commands.list():
            return
        time.sleep(0.02)
    raise AssertionError(box.commands.list())


def test_files(box: Any) -> None:
    assert box.files.write("a/b.txt", "häl\r\nlo").path == "/home/user/a/b.txt"
    assert box.files.read("/home/user/a/b.txt") == "häl\r\nlo"
    data = bytes(range(256)) * 3 + b"\r\n--x\r\n"
    box.files.write_files([{"path": "bin", "data": data}, {"path": "/tmp/two", "data": "2"}])
    assert bytes(box.files.read("bin", format="bytes")) == data and box.files.read("/tmp/two") == "2"
    box.files.write("packed", "x" * 5000, gzip=True)
    assert box.files.read("packed") == "x" * 5000
    assert [(entry.name, entry.type.value, entry.size) for entry in box.files.list("a")] == [("b.txt", "file", 8)]
    assert {entry.path for entry in box.files.list("/home/user", depth=2)} >= {"/home/user/a/b.txt", "/home/user/bin"}
    assert (box.files.make_dir("new/dir"), box.files.make_dir("new/dir")) == (True, False)
    assert box.files.rename("a/b.txt", "new/dir/c").path == "/home/user/new/dir/c"
    assert not box.files.exists("a/b.txt") and box.files.exists("new")
    assert box.files.get_info("new/dir/c").permissions == "-rw-r--r--"
    box.files.remove("new")
    assert not box.files.exists("new")
    for path in ("nothing", "new/c"):
        with pytest.raises(e2b.NotFoundException):
            box.files.read(path)
    with pytest.raises(e2b.NotFoundException):
        box.files.list("nothing")
    box.commands.run("mkfifo pipe; ln -s /dev/zero zero")
    for path in ("/home/user", "pipe", "zero"):
        with pytest.raises(e2b.SandboxException):
            box.files.read(path)
    with pytest.raises(e2b.SandboxException):
        box.files.write("/usr/bin/new", "x")
    with pytest.raises(e2b.NotEnoughSpaceException):
        box.files.write("big", b"x" * (5 << 20))


def test_limits_hold_for_each_sandbox(box: Any) -> None:
    with pytest.raises(e2b.CommandExitException) as full:
        box.commands.run("head -c 9000000 /dev/zero > full")
    assert "No space" in full.value.stderr or "File size" in full.value.stderr
    box.files.remove("full")
    script = "for i in $(seq 200); do sleep 9 & done; jobs -p | wc -l"
    assert int(box.commands.run(f"({script}) 2>/dev/null || true").stdout or 0) < 200
    with pytest.raises(e2b.CommandExitException):
        box.commands.run("python3 -c 'x = bytearray(1 << 30)'")
    with pytest.raises(e2b.CommandExitException):
        box.commands.run("python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 53), 2)'")
    assert box.commands.run("echo alive").stdout == "alive\n"


def test_sandboxes_are_found_and_end_at_their_time(url: str, box: Any) -> None:
    again = e2b.Sandbox.connect(box.sandbox_id, **options(url))
    box.files.write("f", "shared")
    assert again.files.read("f") == "shared"
    query = e2b.SandboxQuery(metadata={"run": "7"})
    assert [each.sandbox_id for each in e2b.Sandbox.list(query=query, **options(url)).next_items()] == [box.sandbox_id]
    none = e2b.Sandbox.list(query=e2b.SandboxQuery(metadata={"run": "8"}), **options(url))
    assert none.next_items() == []
    info = box.get_info()
    assert (info.metadata, info.memory_mb, info.state.value) == ({"run": "7"}, 256, "running")
    assert box.is_running()
    box.set_timeout(1)
    for _ in range(500):
        if not box.is_running():
            break
        time.sleep(0.02)
    assert not box.is_running() and not again.kill()
    with pytest.raises(e2b.TimeoutException):
        box.commands.run("true")
    with pytest.raises(e2b.SandboxException):
        e2b.Sandbox.connect(box.sandbox_id, **options(url))


def test_there_are_so_many_and_a_killed_one_makes_room(url: str) -> None:
    made = [e2b.Sandbox.create(timeout=60, **options(url)) for _ in range(MOST)]
    pages = e2b.Sandbox.list(limit=2, **options(url))
    assert [len(pages.next_items()), pages.has_next, len(pages.next_items()), pages.has_next] == [2, True, 1, False]
    with pytest.raises(e2b.RateLimitException):
        e2b.Sandbox.create(timeout=60, **options(url))
    running = made[0].commands.run("sleep 99", background=True)
    assert made[0].kill()
    with pytest.raises((e2b.SandboxException, OSError)):
        running.wait()
    made[0] = e2b.Sandbox.create(timeout=60, **options(url))
    assert all(each.kill() for each in made)


def test_keys_are_checked(url: str, box: Any) -> None:
    with pytest.raises(e2b.AuthenticationException):
        e2b.Sandbox.create(**{**options(url), "api_key": "another"})
    assert raw(url, "GET", f"/sandboxes/{box.sandbox_id}", b"", {})[0] == 401
    headers = {"E2b-Sandbox-Id": box.sandbox_id, "X-Access-Token": "guessed", "Content-Type": "application/json"}
    for method, path in (("GET", "/health"), ("GET", "/files?path=f"), ("POST", "/process.Process/List")):
        assert raw(url, method, path, b"{}", headers)[0] == 401
        assert raw(url, method, path, b"{}", {"Content-Type": "application/json"})[0] in (204, 502)


def raw(url: str, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


BAD_SANDBOXES = (
    b"{", b"[]", b"\xff", b"[" * 100_000, b'{"timeout": "x"}', b'{"timeout": -1}', b'{"timeout": 1e9}',
    b'{"envVars": {"a=b": "c"}}', b'{"envVars": [1]}', b'{"metadata": {"a": 1}}', b'{"templateID": 7}',
)  # fmt: skip
BAD_CALLS = (
    ("/filesystem.Filesystem/Stat", b'{"path": 1}', 400),
    ("/filesystem.Filesystem/Stat", b'{"path": "a\\u0000"}', 400),
    ("/filesystem.Filesystem/ListDir", b'{"path": "/", "depth": -1}', 400),
    ("/filesystem.Filesystem/WatchDir", b"{}", 501),
    ("/process.Process/Update", b'{"process": {"pid": 1}}', 404),
    ("/process.Process/SendInput", b'{"process": 7}', 404),
    ("/else/Do", b"{}", 501),
)


def framed(flags: int, text: bytes, size: int | None = None) -> bytes:
    return struct.pack(">BI", flags, len(text) if size is None else size) + text


BAD_STREAMS = (
    b"", b"\x00", framed(0, b"", 1 << 31), framed(0, b"[]"), framed(1, b"{}"), framed(0, b"{}", 9),
    framed(0, b'{"process": {"cmd": "/bin/echo", "args": [1]}}'), framed(0, b'{"process": {"cmd": ""}}'),
    framed(0, b'{"process": {"cmd": "/bin/echo"}, "pty": {"size": {}}}'),
)  # fmt: skip


def test_bad_bodies_are_told_and_break_nothing(url: str, box: Any) -> None:
    api = {"X-API-Key": KEY, "Content-Type": "application/json"}
    for bad in BAD_SANDBOXES:
        assert raw(url, "POST", "/v2/sandboxes", bad, api)[0] == 400, bad
    assert raw(url, "POST", f"/sandboxes/{box.sandbox_id}/pause", b"{}", api)[0] == 501
    assert raw(url, "DELETE", "/sandboxes/none", b"", api)[0] == 404
    token = json.loads(raw(url, "GET", f"/sandboxes/{box.sandbox_id}", b"", api)[1])["envdAccessToken"]
    own = {"E2b-Sandbox-Id": box.sandbox_id, "X-Access-Token": token}
    for path, bad, status in BAD_CALLS:
        assert raw(url, "POST", path, bad, own | {"Content-Type": "application/json"})[0] == status, (path, bad)
    assert raw(url, "POST", "/process.Process/List", b"{}", own | {"Content-Type": "application/proto"})[0] == 415
    for bad in BAD_STREAMS:
        for name in ("Start", "StreamInput"):
            headers = own | {"Content-Type": "application/connect+json"}
            status, said = raw(url, "POST", f"/process.Process/{name}", bad, headers)
            assert status == 400 or b'"error"' in said or name == "StreamInput", (name, bad)
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x"):
        assert raw(url, "POST", "/files", b"--x\r\nno form", own | {"Content-Type": kind})[0] == 400
    gzip = own | {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
    assert raw(url, "POST", "/files?path=f", b"none", gzip)[0] == 400
    assert raw(url, "POST", "/files", b"no path", own | {"Content-Type": "application/octet-stream"})[0] == 400
    assert box.commands.run("echo well").stdout == "well\n"


def test_an_endless_writer_is_held_back_and_others_go_on(box: Any) -> None:
    flood = box.commands.run("yes", background=True)
    assert box.commands.run("echo on").stdout == "on\n"
    box.files.write("f", "x" * 2_000_000)
    assert len(box.files.read("f")) == 2_000_000 and flood.kill()


def below(pid: int) -> set[int]:
    """Processes that descend from one."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, grew = {pid}, True
    while grew:
        more = {child for child, parent in parents.items() if parent in found} - found
        found, grew = found | more, bool(more)
    return found - {pid}


def test_nothing_outlives_a_server_that_is_killed() -> None:
    command = [sys.executable, "-m", "noria", "sandbox", "serve", "--port", "0", "--json", "--disk-mb", "4"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        made = e2b.Sandbox.create(timeout=60, **{**options(told["url"]), "api_key": told["api_key"]})
        made.commands.run("setsid sleep 300 & sleep 300", background=True)
        for _ in range(1000):
            inside = below(server.pid)
            if sum(b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in inside) >= 2:
                break
            time.sleep(0.01)
        assert len(inside) >= 4
        server.kill()
        server.wait()
        for _ in range(1000):
            if not any(Path(f"/proc/{pid}").exists() for pid in inside):
                return
            time.sleep(0.01)
        raise AssertionError([Path(f"/proc/{pid}/cmdline").read_bytes() for pid in inside])
    finally:
        server.kill()
        server.wait()
