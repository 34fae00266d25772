"""Attacks with two sides: what the host has, holds or does while the code inside is at it."""

from __future__ import annotations

import os
import socket
import subprocess
import textwrap
import threading
from contextlib import ExitStack

from abuse_arena import MEMORY_MB, OUTPUT_KB, PARTLY, PRELUDE, PYTHON, SECRET, Arena, Case, escaped, inside

from noria.core.errors import PolicyError


def _many_hogs(arena: Arena) -> str:
    hog = "b = bytearray(60 << 20); b[::4096] = bytes([1]) * len(b[::4096]); import time; time.sleep(0.7); print('x')"
    line = f'for i in 1 2 3 4; do {PYTHON} -S -c "{hog}" & done; wait; echo done'
    files = arena.sandbox.workspace({})
    lived = files.run(["sh", "-c", line], 10.0).stdout.split().count("x")
    files.close()
    if lived * 60 <= MEMORY_MB:
        return ""
    return f"{'ESCAPED' if arena.caged else PARTLY} {lived} × 60 MiB, the limit is {MEMORY_MB}"


def _output(arena: Arena) -> str:
    files = arena.sandbox.workspace({})
    result = files.run(["sh", "-c", "yes >&2 & exec yes"], 0.5)
    files.close()
    kept = max(len(result.stdout), len(result.stderr))
    return "" if result.timed_out and kept < OUTPUT_KB * 1024 + 100 else f"ESCAPED {kept} bytes kept"


def _network(arena: Arena) -> str:
    name = f"noria-abuse-{arena.mark}"
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.socket())
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind("\0" + name)
        abstract.listen()
        named = stack.enter_context(socket.socket(socket.AF_UNIX))
        named.bind(str(arena.folder / "s"))
        named.listen()
        code = f"""
            def connect(kind, address):
                with socket.socket(kind) as one:
                    one.settimeout(1.0)
                    one.connect(address)
                    return address
            tried("host loopback", connect, socket.AF_INET, ("127.0.0.1", {tcp.getsockname()[1]}))
            tried("abstract socket", connect, socket.AF_UNIX, "\\0{name}")
            tried("named socket", connect, socket.AF_UNIX, {str(arena.folder / "s")!r})
            tried("outside", connect, socket.AF_INET, ("192.0.2.1", 80))
            tried("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)))
            tried("raw socket", socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
            tried("packet socket", socket.socket, 17, socket.SOCK_RAW, 0)
            if [n for _, n in socket.if_nameindex()] != ["lo"]:
                print("ESCAPED interfaces", socket.if_nameindex())
            print("done")
        """
        return escaped(inside(arena, code))


def _host_process(arena: Arena, code: str) -> str:
    with subprocess.Popen(["sleep", "600"]) as victim:
        try:
            said = escaped(inside(arena, code.replace("{victim}", str(victim.pid)) + "\nprint('done')\n"))
            return said or ("ESCAPED killed a process of the host" if victim.poll() is not None else "")
        finally:
            victim.kill()


def _signals(arena: Arena) -> str:
    return _host_process(arena, "tried('signal', os.kill, {victim}, signal.SIGTERM); time.sleep(0.05)")


def _ptrace(arena: Arena) -> str:
    code = """
buffer = ctypes.create_string_buffer(64)
iov = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
for pid in ({victim}, 1):
    if libc.ptrace(16, pid, 0, 0) == 0 or libc.ptrace(0x4206, pid, 0, 0) == 0:
        print("ESCAPED attached to", pid)
    tried("memory", open, f"/proc/{pid}/mem", "rb")
    if libc.process_vm_readv(pid, iov, 1, iov, 1, 0) > 0:
        print("ESCAPED read memory of", pid)
    tried("descriptors of another", lambda: os.listdir(f"/proc/{pid}/fd"))
"""
    return _host_process(arena, code)


def _paths(arena: Arena) -> str:
    """Links and names that lead out, read and written by the host's side."""
    files, secret = arena.sandbox.workspace({"a/b.txt": "b"}), arena.folder / "secret.txt"
    line = (
        f"ln -s {secret} out; ln -s {arena.folder} dir; ln -s ../../../../../../.. up; ln -s loop loop; mkfifo pipe; "
    )
    line += f"ln {secret} hard 2>/dev/null; mknod dev c 1 3 2>/dev/null; ln -s /proc/self/fd/0 zero; echo done"
    if files.run(["sh", "-c", line], 5.0).stdout != "done\n":
        return "broke"
    tries = (
        "out",
        "dir/secret.txt",
        f"up{secret}",
        "loop",
        "pipe",
        "hard",
        "dev",
        "zero",
        "../x",
        str(secret),
        "a/../../x",
    )
    for path in tries:
        for act in (files.read, lambda one: files.write(one, "x")):
            try:
                if SECRET in (act(path) or "") or secret.read_text() != SECRET:
                    return f"ESCAPED {path}"
            except PolicyError:
                continue
    files.close()
    return ""


def _swapped(arena: Arena) -> str:
    """A folder that turns into a link and back while the host carries the files home."""
    files = arena.sandbox.workspace({})
    code = f"""
        os.mkdir("d"); open("d/secret.txt", "w").write("own")
        if os.fork() == 0:
            while True:
                os.rename("d", "e"); os.symlink({str(arena.folder)!r}, "d")
                os.unlink("d"); os.rename("e", "d")
        time.sleep(0.15); print("done")
    """
    result = files.run([PYTHON, "-c", PRELUDE + textwrap.dedent(code)], 5.0)
    for path in ("d/secret.txt", "e/secret.txt"):
        try:
            if SECRET in files.read(path):
                return f"ESCAPED read {path}"
        except PolicyError:
            continue
    files.close()
    return escaped(result)


def _hidden_tests(arena: Arena) -> str:
    """Tests are shown to no later command: not their files, and not the memory of the server that ran them."""
    files = {"solution.py": "x = 1\n", "test_s.py": f"import solution\ndef test_it():\n    assert '{SECRET}'\n"}
    if not arena.sandbox.test(files, "test_s.py", 10.0).passed:
        return "broke"
    code = """
        for place in ("/workspace", "/tmp", "/dev/shm", "/opt/noria", os.getcwd()):
            for folder, _, names in os.walk(place):
                for name in names:
                    try:
                        sees(open(os.path.join(folder, name), errors="replace").read(1 << 20))
                    except OSError:
                        pass
        def memory():
            maps = [line.split()[0].split("-") for line in open("/proc/1/maps")]
            with open("/proc/1/mem", "rb", 0) as mem:
                mem.seek(int(maps[0][0], 16)); return len(mem.read(16))
        tried("memory of process 1", memory)
        print("done")
    """
    return escaped(inside(arena, code))


def _other_workspace(arena: Arena) -> str:
    """Two workspaces at work at the same time: neither sees the other's files, processes or environment."""
    theirs = f"other-{arena.mark[::-1]}"
    other = arena.sandbox.workspace({"theirs.txt": theirs})
    waiting = threading.Thread(target=lambda: other.run(["sh", "-c", f"sleep 1.5; : {theirs}"], 5.0))
    waiting.start()
    code = """
        time.sleep(0.2)
        theirs = "other-" + "{mark}"[::-1]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("cmdline", "environ", "cwd/theirs.txt", "root/workspace/theirs.txt"):
                try:
                    if theirs in open(f"/proc/{pid}/{name}", errors="replace").read():
                        print("ESCAPED", pid, name)
                except OSError:
                    pass
        print("done")
    """
    found = escaped(inside(arena, code.replace("{mark}", arena.mark)))
    waiting.join()
    other.close()
    return found


def _next_request(arena: Arena) -> str:
    """Nothing of one request meets the next: files, System V memory, message queues, POSIX shared memory."""
    leave = """
        for folder in ("/tmp", "/dev/shm", "/workspace"):
            try:
                open(folder + "/.trace-{mark}", "w").write("x")
            except OSError:
                pass
        libc.mq_open(b"/trace-{mark}", 0o102, 0o666, None)
        print("done")
    """
    systemv = "libc.shmget(0x6e6f, 4096, 0o1666); libc.semget(0x6e6f, 1, 0o1666); libc.msgget(0x6e6f, 0o1666)\n"
    look = """
        for folder in ("/tmp", "/dev/shm", "/workspace"):
            if os.path.exists(folder + "/.trace-{mark}"):
                print("ESCAPED file in", folder); os.unlink(folder + "/.trace-{mark}")
        for name in ("shmget", "semget", "msgget"):
            got = getattr(libc, name)(0x6e6f, *((0, 0o666) if name != "msgget" else (0o666,)))
            if got >= 0:
                print("ESCAPED", name)
                libc.semctl(got, 0, 0) if name == "semget" else getattr(libc, name[:3] + "ctl")(got, 0, 0)
        if libc.mq_open(b"/trace-{mark}", 0, 0, None) >= 0:
            print("ESCAPED message queue"); libc.mq_unlink(b"/trace-{mark}")
        print("done")
    """
    for code in (leave, systemv + "print('done')"):  # apart: System V objects alone make a server end
        found = escaped(inside(arena, code.replace("{mark}", arena.mark)))
        found = found or escaped(inside(arena, look.replace("{mark}", arena.mark)))
        if found:
            return found
    return ""


def _forged(arena: Arena) -> str:
    """Code under test that exits, or writes reports to every descriptor, passes nothing."""
    forge = 'import os\nfor n in range(3, 256):\n    try:\n        os.write(n, b\'["test_it", "pass"]\\n"end"\\n\')\n'
    forge += "    except OSError:\n        pass\nos._exit(0)\n"
    for code in (
        forge,
        "import os; os._exit(0)",
        "import sys; sys.exit(0)",
        "import os, signal; os.kill(os.getpid(), 9)",
    ):
        files = {"solution.py": code, "test_s.py": "import solution\ndef test_it():\n    assert solution.x == 1\n"}
        if arena.sandbox.test(files, "test_s.py", 10.0).passed:
            return f"ESCAPED {code[:40]!r}"
    return ""


def _environment(arena: Arena) -> str:
    os.environ["NORIA_ABUSE_SECRET"] = SECRET
    try:
        code = """
            def opened(descriptor):
                os.fstat(descriptor)
                return descriptor
            for descriptor in range(3, 1024):
                tried("inherited descriptor", opened, descriptor)
            if "NORIA_ABUSE_SECRET" in repr(os.environ) + open("/proc/self/environ").read():
                print("ESCAPED environment")
            print("done")
        """
        return escaped(inside(arena, code))
    finally:
        del os.environ["NORIA_ABUSE_SECRET"]


HOST_CASES: tuple[Case, ...] = (
    Case("memory hog of many", "control group; without one, each process", _many_hogs),
    Case("endless output", "head and tail are kept, then the timeout", _output),
    Case("network", "network namespace", _network),
    Case("signals to the host", "process namespace", _signals),
    Case("ptrace and memory of others", "process namespace, no dumps of process 1", _ptrace),
    Case("links and paths that lead out", "workspaces in memory, paths resolved there", _paths),
    Case("links swapped while they are read", "read after all processes are dead", _swapped),
    Case("hidden tests and the grader", "files cleared, memory closed", _hidden_tests),
    Case("other workspaces", "a namespace each", _other_workspace),
    Case("traces for the next request", "cleared, or a fresh namespace", _next_request),
    Case("early exits and forged reports", "a key that the code does not know", _forged),
    Case("environment and descriptors", "both start empty", _environment),
)
