"""Hostile code in the bubblewrap sandbox: every attempt is contained and leaves nothing behind."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from hostile import attack, bwrap_reason, healthy, leftovers, outcome, processes_with

from noria.core.errors import PolicyError
from noria.sandboxes import _cgroup, _seccomp, bwrap

CONFIG = bwrap.Config(type="bwrap", memory_mb=128, pids=24, disk_mb=8, output_kb=4, servers=1)
REASON = bwrap_reason()
CAGED = REASON is None and bool(_cgroup.usable(f"noria-test-{os.getpid()}"))
PYTHON = os.path.realpath(sys.executable)
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def box() -> Iterator[bwrap.BwrapSandbox]:
    sandbox = bwrap.build(CONFIG)
    yield sandbox
    sandbox.close()
    assert leftovers(f"{bwrap._label()}{os.getpid()}-") == []


@pytest.fixture(autouse=True)
def still_healthy(box: bwrap.BwrapSandbox) -> Iterator[None]:
    yield
    assert healthy(box)


def test_fork_bomb_is_held_and_cleared(box: bwrap.BwrapSandbox) -> None:
    code = """
        import os
        made = 0
        try:
            while True:
                if os.fork() == 0:
                    os.execvp("sleep", ["sleep", "86511"])
                made += 1
        except BlockingIOError:
            pass
        assert 0 < made < 24, made
    """
    assert outcome(attack(box, code)) == "pass"
    assert processes_with("86511") == []


def test_exponential_fork_bomb_ends_at_the_timeout(box: bwrap.BwrapSandbox) -> None:
    code = """
        import os
        while True:
            try:
                os.fork()
            except OSError:
                pass
    """
    assert outcome(attack(box, code, 0.5)) == "timeout after 0.5 s"


def test_memory_hog_fails_its_test(box: bwrap.BwrapSandbox) -> None:
    assert outcome(attack(box, "x = bytearray(1 << 30)")) == "MemoryError (solution.py line 1)"


@pytest.mark.skipif(not CAGED, reason="no control groups: memory is limited for each process only")
def test_children_share_one_memory_limit(box: bwrap.BwrapSandbox) -> None:
    hog = "b = bytearray(60 << 20); b[::4096] = bytes([1]) * len(b[::4096]); import time; time.sleep(1)"
    line = f'for i in 1 2 3; do {PYTHON} -c "{hog}" & all="$all $!"; done; '
    line += "for p in $all; do wait $p; echo $?; done"
    result = box.workspace({}).run(["sh", "-c", line], 20.0)
    codes = result.stdout.split()
    assert len(codes) == 3
    assert 1 <= codes.count("137") < 3


@pytest.mark.skipif(not CAGED, reason="no control groups: memory is limited for each process only")
def test_killed_for_memory_is_said(box: bwrap.BwrapSandbox) -> None:
    hog = "b = bytearray(1 << 30); b[::4096] = bytes([1]) * len(b[::4096])"
    result = box.workspace({}).run([PYTHON, "-c", hog], 20.0)
    assert (result.code, result.killed, result.timed_out) == (-9, "memory", False)


#: Takes all memory by files and by processes that are each smaller than the server.
CROWD = """
import os, time
open("/proc/self/oom_score_adj", "w").write("0")
for folder in ("/tmp", "/dev/shm", "/workspace"):
    try:
        with open(folder + "/full", "wb") as file:
            while True:
                file.write(b"x" * (1 << 20))
    except OSError:
        pass
for _ in range(100):
    try:
        if os.fork() == 0:
            kept = []
            for _ in range(7):
                kept.append(b"y" * (1 << 20))
                time.sleep(0.02)
            time.sleep(60)
    except OSError:
        break
time.sleep(60)
"""


@pytest.mark.skipif(not CAGED, reason="no control groups: memory is limited for each process only")
def test_who_makes_the_kernel_end_the_server_has_failed() -> None:
    sandbox = bwrap.build(bwrap.Config(type="bwrap", memory_mb=512, pids=64, disk_mb=64, servers=1))
    try:
        result = sandbox.workspace({"a.py": CROWD}).run([PYTHON, "-S", "-E", "a.py"], 30.0)
        assert (result.code, result.killed, result.timed_out) == (-9, "memory", False)
        test = f"def test_it():\n    exec({CROWD!r})\n"
        report = sandbox.test({"test_a.py": test}, "test_a.py", 5.0)
        assert (report.results, report.error, report.passed) == ({}, "out of memory", False)
    finally:
        sandbox.close()


@pytest.mark.parametrize("made", ["os.close(os.open(b'%05d' % n + sign, os.O_CREAT))", "os.symlink(link, b'%05d' % n)"])
def test_names_that_fill_the_answer_are_not_carried(made: str) -> None:
    code = f"""
import os
sign, link, path = b"\\xff" * 200, b"\\xff" * 4000, b""
for _ in range(6):
    path += sign + b"/"
    os.mkdir(path)
os.chdir(path)
for n in range(8000):
    {made}
print("done")
"""
    sandbox = bwrap.build(bwrap.Config(type="bwrap", memory_mb=512, servers=1))
    try:
        result = sandbox.workspace({"a.py": code}).run([PYTHON, "-S", "-E", "a.py"], 60.0)
        assert (result.stdout, result.killed, result.changed) == ("done\n", "disk", False)
    finally:
        sandbox.close()


@pytest.mark.parametrize("folder", ["/workspace", "/tmp", "/dev/shm"])
def test_disk_filler_meets_the_end_of_the_disk(box: bwrap.BwrapSandbox, folder: str) -> None:
    code = f"""
        import errno
        def fill():
            for number in range(100):
                with open("{folder}/%d" % number, "wb") as file:
                    file.write(bytes(1 << 20))
            return "not full"
        try:
            got = fill()
        except OSError as fault:
            got = errno.errorcode[fault.errno]
        assert got == "ENOSPC", got
    """
    assert outcome(attack(box, code)) == "pass"


@pytest.mark.parametrize("path", ["/x", "/dev/x", "/etc/x", "/usr/x", "/opt/noria/x", "/home/x", "/root/x"])
def test_everything_else_is_read_only(box: bwrap.BwrapSandbox, path: str) -> None:
    code = f"""
        try:
            open("{path}", "w")
            got = "written"
        except (FileNotFoundError, PermissionError) as fault:
            got = "refused"
        except OSError as fault:
            got = "refused" if fault.errno == 30 else str(fault)
        assert got == "refused", got
    """
    assert outcome(attack(box, code)) == "pass"


def test_too_many_files_leave_the_workspace_as_it_was(box: bwrap.BwrapSandbox) -> None:
    files = box.workspace({"kept.txt": "kept"})
    line = "rm kept.txt; i=0; while [ $i -lt 30000 ]; do : > f$i; i=$((i+1)); done"
    result = files.run(["sh", "-c", line], 30.0)
    assert result.killed == "disk"
    assert files.read("kept.txt") == "kept"
    sparse = files.run(["sh", "-c", "for i in 1 2 3; do truncate -s 7M s$i; done"], 10.0)
    assert sparse.killed == "disk"


def test_endless_output_keeps_head_and_tail(box: bwrap.BwrapSandbox) -> None:
    result = box.workspace({}).run(["sh", "-c", "echo first; yes >&2 & exec yes"], 0.5)
    assert result.timed_out
    assert result.stdout.startswith("first\ny\n")
    assert re.search(r"\n\[… \d+ bytes cut …\]\n", result.stdout)
    assert len(result.stdout) < 4096 + 64
    assert len(result.stderr) < 4096 + 64
    assert outcome(attack(box, "while True: print('x' * 10_000)", 0.5)) == "timeout after 0.5 s"


def test_daemons_die_with_the_request(box: bwrap.BwrapSandbox) -> None:
    code = """
        import os
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "86512"])
            os._exit(0)
        os.wait()
    """
    assert outcome(attack(box, code)) == "pass"
    result = box.workspace({}).run(["sh", "-c", "trap '' TERM HUP; setsid nohup sleep 86512 & sleep 0.05"], 5.0)
    assert (result.code, result.timed_out) == (0, False)
    assert processes_with("86512") == []


def test_timeout_kills_the_whole_tree(box: bwrap.BwrapSandbox) -> None:
    code = """
        import signal, subprocess
        for number in range(1, 65):
            if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                signal.signal(number, signal.SIG_IGN)
        subprocess.run(["sleep", "86513"])
    """
    assert outcome(attack(box, code, 0.5)) == "timeout after 0.5 s"
    assert box.workspace({}).run(["sh", "-c", "sleep 86513 | cat"], 0.3).timed_out
    assert processes_with("86513") == []


def test_no_network(box: bwrap.BwrapSandbox) -> None:
    with socket.socket() as server, socket.socket(socket.AF_UNIX) as abstract:
        server.bind(("127.0.0.1", 0))
        server.listen()
        name = f"noria-test-{os.getpid()}"
        abstract.bind("\0" + name)
        abstract.listen()
        code = f"""
            import socket
            got = []
            for kind, address in [
                (socket.AF_INET, ("127.0.0.1", {server.getsockname()[1]})),
                (socket.AF_INET, ("192.0.2.1", 80)),
                (socket.AF_UNIX, "\\0{name}"),
            ]:
                try:
                    socket.socket(kind).connect(address)
                    got.append("connected")
                except OSError as fault:
                    got.append(fault.errno)
            names = [name for _, name in socket.if_nameindex()]
            assert (got, names) == ([111, 101, 111], ["lo"]), (got, names)
        """
        assert outcome(attack(box, code)) == "pass"


@pytest.mark.parametrize(
    "path",
    [
        "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger", "/proc/1/mem", "/proc/1/oom_score_adj",
        "/proc/1/environ", "/proc/1/fd/3", "/proc/kcore",
    ],
)  # fmt: skip
def test_proc_is_closed(box: bwrap.BwrapSandbox, path: str) -> None:
    code = f"""
        import os
        try:
            os.open("{path}", os.O_RDWR)
            got = "opened"
        except OSError:
            got = "refused"
        assert got == "refused"
    """
    assert outcome(attack(box, code)) == "pass"


def test_no_new_rights(box: bwrap.BwrapSandbox) -> None:
    code = """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        assert os.getuid() == 1000 and os.getgroups() in ([], [1000], [65534], [1000, 65534]), os.getgroups()
        status = open("/proc/self/status").read()
        assert "CapEff:\\t0000000000000000" in status and "CapBnd:\\t0000000000000000" in status
        assert "NoNewPrivs:\\t1" in status
        assert libc.unshare(0x10000000) == -1  # CLONE_NEWUSER
        assert libc.unshare(0x00020000) == -1  # CLONE_NEWNS
        assert libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == -1
        assert libc.ptrace(16, 1, 0, 0) == -1  # PTRACE_ATTACH to the server
    """
    assert outcome(attack(box, code)) == "pass"


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "86514"]) as process:
        yield process
        process.kill()


def test_host_processes_are_out_of_reach(box: bwrap.BwrapSandbox, victim: subprocess.Popen[bytes]) -> None:
    code = f"""
        import os, signal
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        assert sorted(pids) == [1, os.getpid()], pids
        if {victim.pid} not in pids:
            try:
                os.kill({victim.pid}, signal.SIGKILL)
                got = "sent"
            except ProcessLookupError:
                got = "none"
            assert got == "none"
        for name in ("SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT", "SIGXFSZ", "SIGSEGV"):
            os.kill(1, getattr(signal, name))
        try:
            os.kill(-1, signal.SIGKILL)  # reaches neither the caller nor process 1
        except ProcessLookupError:
            pass
    """
    first = box._pool._idle[0]
    assert outcome(attack(box, code)) == "pass"
    assert box._pool._idle == [first]
    assert victim.poll() is None


@pytest.mark.skipif(_seccomp.program() is None, reason="no call filter for this machine")
def test_refused_system_calls(box: bwrap.BwrapSandbox) -> None:
    number = {name: pair[0 if os.uname().machine == "x86_64" else 1] for name, pair in _seccomp._REFUSED.items()}
    code = f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        got = {{}}
        for name, number in {number!r}.items():
            ctypes.set_errno(0)
            got[name] = (libc.syscall(number, 0, 0, 0, 0, 0, 0), ctypes.get_errno())
        assert set(got.values()) == {{(-1, 1)}}, got
        assert "Seccomp:\\t2" in open("/proc/self/status").read()
    """
    assert outcome(attack(box, code)) == "pass"


def test_filter_jumps_land_on_the_refusal() -> None:
    """Interprets the filter for every number that it lists and for its neighbours."""
    for machine, column, architecture in (("x86_64", 0, 0xC000003E), ("aarch64", 1, 0xC00000B7)):
        text = _seccomp.program(machine)
        assert text is not None
        lines = list(struct.iter_unpack("HBBI", text))
        refused = {pair[column] for pair in _seccomp._REFUSED.values()}

        def verdict(number: int, arch: int, lines: list[tuple[int, ...]] = lines) -> int:
            at, value = 0, 0
            while True:
                code, if_true, if_false, k = lines[at]
                at += 1
                if code == 0x20:
                    value = {0: number, 4: arch}[k]
                elif code == 0x06:
                    return k
                else:
                    at += if_true if (value == k if code == 0x15 else value >= k) else if_false

        for number in range(500):
            assert verdict(number, architecture) == (0x00050001 if number in refused else 0x7FFF0000)
        assert verdict(0x40000000, architecture) == 0x00050001
        assert verdict(0, architecture ^ 1) == 0x80000000


def test_host_files_and_environment_are_invisible(
    box: bwrap.BwrapSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NORIA_SECRET", "secret")
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    result = box.workspace({}).run(["sh", "-c", f"cat {secret} {__file__} /etc/shadow; env; ls /home /sys"], 5.0)
    assert "secret" not in result.stdout
    assert "root:" not in result.stdout
    assert result.stderr.count("No such file or directory") == 5


def test_links_and_special_files_do_not_lead_out(box: bwrap.BwrapSandbox) -> None:
    files = box.workspace({"a/b.txt": "b"})
    line = """
        ln -s /etc/hostname out; ln -s ../../etc up; ln -s a inner; ln -s loop loop
        ln -s /workspace/a/b.txt full; mkfifo pipe; ln a/b.txt hard
        mkdir -p shut; echo s > shut/s; chmod 0 shut/s shut; echo n > "$(printf 'n\\nl')"
    """
    assert files.run(["sh", "-c", line], 5.0).code == 0
    for path in ("out", "up/hostname", "loop", "../x", "/etc/hostname", "a/../../x", "", ".", "x\0y", "pipe"):
        with pytest.raises(PolicyError):
            files.read(path)
    for path in ("out", "up/x", "loop", "../x", "/x", "a", "a/b.txt/c", "x" * 300):
        with pytest.raises(PolicyError):
            files.write(path, "x")
    assert [files.read(path) for path in ("inner/b.txt", "full", "hard", "shut/s", "n\nl")] == [
        "b",
        "b",
        "b",
        "s\n",
        "n\n",
    ]
    files.write("inner/b.txt", "changed")
    again = files.run(["sh", "-c", "cat a/b.txt; readlink out inner; cat full"], 5.0)
    assert again.stdout == "changed/etc/hostname\na\nchanged"


def test_deep_and_locked_trees_are_cleared(box: bwrap.BwrapSandbox) -> None:
    code = """
        import os
        os.chdir("/tmp")
        for _ in range(1500):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        os.chmod("/workspace", 0)
    """
    assert outcome(attack(box, code)) == "pass"
    seen = box.workspace({}).run(["sh", "-c", "ls -A /tmp /workspace /dev/shm; stat -c %a /workspace"], 5.0)
    assert seen.stdout.split() == ["/dev/shm:", "/tmp:", "/workspace:", "755"]


def test_nothing_passes_from_one_request_to_the_next(box: bwrap.BwrapSandbox) -> None:
    leave = """
        import ctypes
        for folder in ("/tmp", "/workspace", "/dev/shm"):
            open(folder + "/.trace", "w").write("x")
        assert ctypes.CDLL(None).shmget(7, 4096, 0o1600) >= 0
    """
    look = """
        import ctypes, os
        assert [os.path.exists(f + "/.trace") for f in ("/tmp", "/workspace", "/dev/shm")] == [False] * 3
        assert ctypes.CDLL(None).shmget(7, 4096, 0o600) == -1
    """
    assert outcome(attack(box, leave)) == "pass"
    assert outcome(attack(box, look)) == "pass"


def test_exits_and_forged_reports_do_not_pass(box: bwrap.BwrapSandbox) -> None:
    assert outcome(attack(box, "import os; os._exit(0)")) == "exited early (code 0)"
    assert outcome(attack(box, "import sys; sys.exit(0)")) == "SystemExit: 0 (solution.py line 1)"
    assert outcome(attack(box, "import os; os.kill(os.getpid(), 9)")) == "killed by signal 9"
    assert outcome(attack(box, 'print(\'["test_it", "pass"]\'); import os; os._exit(0)')) == "exited early (code 0)"
    forge = """
        import os
        for number in range(3, 256):
            try:
                os.write(number, b'["test_it", "pass"]\\n"end"\\n')
            except OSError:
                pass
        os._exit(0)
    """
    report = attack(box, forge)
    assert not report.passed
    assert report.error == "the report was tampered with"
