"""Attacks that are code alone: {mark}, {folder} and the like stand for what the arena gives."""

from __future__ import annotations

from abuse_arena import DISK_MB, PIDS, Case, simple, until_killed

_FILL = """
size = 0
try:
    for number in range(200):
        with open("{place}/big-%d" % number, "wb") as file:
            file.write(bytes(1 << 20)); size += 1
except OSError as fault:
    if fault.errno not in (errno.ENOSPC, errno.EROFS, errno.EDQUOT):
        print("ESCAPED", fault)
if size > {most}:
    print("ESCAPED wrote", size, "MiB")
"""

CODE_CASES: tuple[Case, ...] = (
    simple(
        "fork bomb",
        "limit of processes",
        f"""
        made = 0
        try:
            while made < 500:
                if os.fork() == 0:
                    os.execvp("sleep", ["sleep", "{{mark}}"])
                made += 1
        except OSError:
            pass
        if made >= {PIDS}:
            print("ESCAPED", made, "processes")
    """,
    ),
    until_killed(
        "exponential fork bomb",
        "limit of processes, timeout",
        """
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
    ),
    simple(
        "threads",
        "limit of processes",
        f"""
        import threading
        made = 0
        try:
            while made < 500:
                threading.Thread(target=time.sleep, args=(2,), daemon=True).start(); made += 1
        except RuntimeError:
            pass
        if made >= {PIDS}:
            print("ESCAPED", made, "threads")
        print("done", flush=True); os._exit(0)
    """,
    ),
    until_killed(
        "memory hog",
        "control group; without one, limit of the address space",
        """
held = []
while len(held) < 64:
    held.append(bytearray(16 << 20)); held[-1][::4096] = bytes([1]) * len(held[-1][::4096])
print("ESCAPED 1 GiB held")
""",
        10.0,
    ),
    simple(
        "disk: /workspace", "file system of fixed size", _FILL.replace("{place}", ".").replace("{most}", str(DISK_MB))
    ),
    simple("disk: /tmp", "file system of fixed size", _FILL.replace("{place}", "/tmp").replace("{most}", str(DISK_MB))),
    simple(
        "disk: /dev/shm",
        "file system of fixed size",
        _FILL.replace("{place}", "/dev/shm").replace("{most}", str(DISK_MB)),
    ),
    simple(
        "disk: a sparse file",
        "limit of a file's size",
        """
        def grow():
            with open("sparse", "wb") as file:
                file.truncate(1 << 34)
            return os.path.getsize("sparse")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        tried("a file of 16 GiB", grow)
    """,
    ),
    until_killed(
        "disk: inodes",
        "control group and timeout; in memory, and cleared",
        """
number = 0
while True:
    try:
        open("/tmp/i-%d" % number, "w").close(); number += 1
    except OSError:
        number += 1
""",
        1.0,
    ),
    until_killed("processor hog", "timeout", "while True:\n    pass"),
    until_killed(
        "sleep that ignores signals",
        "timeout kills the whole tree",
        """
for number in range(1, 65):
    if number not in (9, 19, 32, 33):
        signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid(); os.execvp("sleep", ["sleep", "{mark}"])
os.execvp("sleep", ["sleep", "{mark}"])
""",
    ),
    until_killed("stops itself", "timeout", "os.kill(os.getpid(), signal.SIGSTOP); print('ESCAPED')"),
    simple(
        "daemon",
        "everything in the namespace is killed after a request",
        """
        for setsid in (True, False):
            if os.fork() == 0:
                if setsid:
                    os.setsid()
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                if os.fork() == 0:
                    for descriptor in (0, 1, 2):
                        os.close(descriptor)
                    os.execvp("sleep", ["sleep", "{mark}"])
                os._exit(0)
            os.wait()
    """,
    ),
    simple(
        "signals to all",
        "process 1 hears nothing from inside",
        """
        for number in ("SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT", "SIGSEGV", "SIGXFSZ"):
            os.kill(1, getattr(signal, number))
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if os.getppid() != 1 or sum(name.isdigit() for name in os.listdir("/proc")) != 2:
            print("ESCAPED sees processes", os.listdir("/proc"))
    """,
    ),
    simple(
        "writes to /proc and /sys",
        "read-only, no capabilities, a private user",
        """
        for path in ("sys/kernel/core_pattern", "sys/kernel/hostname", "sys/kernel/modprobe", "sysrq-trigger",
                     "sys/vm/overcommit_memory", "sys/net/ipv4/ip_forward", "sys/user/max_user_namespaces",
                     "sys/fs/binfmt_misc/register", "1/mem", "1/oom_score_adj", "1/environ", "kcore", "kmsg"):
            tried(path, lambda: os.open("/proc/" + path, os.O_RDWR))
        for folder, _, names in os.walk("/sys"):
            for name in names:
                tried(folder + name, lambda: os.open(os.path.join(folder, name), os.O_WRONLY))
        tried("oom score", lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000"))
    """,
    ),
    simple(
        "reads of the host's secrets",
        "only what is listed is shown",
        """
        for path in ("/etc/shadow", "/root/.bashrc", "/root/.ssh/id_rsa", "/proc/1/environ", "{folder}/secret.txt",
                     "/var/log/syslog", "/etc/hostname", "/etc/machine-id", "/run/docker.sock"):
            tried(path, lambda: open(path).read())
        for path in ("{folder}", "/home", "/var/log", "/var/lib", "/mnt", "/srv", "/boot", "/root/.ssh", "/sys/kernel"):
            if os.path.isdir(path) and os.listdir(path):
                print("ESCAPED lists", path)
    """,
    ),
    simple(
        "writes outside",
        "everything else is read-only",
        """
        for path in ("/x", "/etc/x", "/usr/x", "/usr/bin/x", "/opt/noria/x", "/dev/x", "/home/x", "/var/tmp/x-{mark}",
                     "{folder}/x"):
            tried(path, lambda: os.open(path, os.O_WRONLY | os.O_CREAT))
            if os.path.exists(path):
                os.unlink(path)
    """,
    ),
    simple(
        "setuid and other users",
        "no new rights, private user",
        """
        import shutil
        if os.getuid() == 0 or os.geteuid() != os.getuid():
            print("ESCAPED is root")
        for call in (os.setuid, os.setgid, os.seteuid):
            tried(call.__name__, call, 0)
        tried("groups", os.setgroups, [0])
        tried("chown", os.chown, "own.txt", 0, 0)
        status = open("/proc/self/status").read()
        if "NoNewPrivs:\t1" not in status or "CapBnd:\t0000000000000000" not in status:
            print("ESCAPED may gain rights")
        for program in ("sudo", "su", "mount", "ping"):
            if shutil.which(program) and os.stat(shutil.which(program)).st_mode & 0o4000:
                import subprocess
                got = subprocess.run([program, "-c", "id -u"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
                if got.stdout.strip() == "0":
                    print("ESCAPED", program)
    """,
    ),
    simple(
        "mounts, namespaces, keyrings",
        "call filter, no further user namespaces",
        """
        x86 = os.uname().machine == "x86_64"
        NUMBERS = dict(keyctl=250, add_key=248, request_key=249, bpf=321, io_uring_setup=425, userfaultfd=323,
                       setns=308, perf_event_open=298, open_tree=428, move_mount=429, fsopen=430, swapon=167,
                       name_to_handle_at=303, kexec_load=246, init_module=175, pivot_root=155, reboot=169, syslog=103,
                       mq_open=240)
        for name, number in NUMBERS.items() if x86 else ():
            ctypes.set_errno(0)
            if libc.syscall(number, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != errno.EPERM:
                print("ESCAPED", name, ctypes.get_errno())
        for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000):
            if libc.unshare(flag) == 0:
                print("ESCAPED unshare", hex(flag))
            if x86:
                pid = libc.syscall(56, flag | 17, 0, 0, 0, 0)
                if pid == 0:
                    os._exit(0)
                if pid > 0:
                    os.waitpid(pid, 0); print("ESCAPED clone", hex(flag))
        if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0 or libc.umount2(b"/proc", 2) == 0:
            print("ESCAPED mount")
        tried("chroot", os.chroot, "/tmp")
        tried("device", os.mknod, "node", 0o20666, os.makedev(1, 1))
    """,
    ),
    simple(
        "terminal",
        "a session of its own without a terminal",
        """
        import fcntl
        tried("/dev/tty", lambda: os.open("/dev/tty", os.O_RDWR))
        tried("/dev/console", lambda: os.write(os.open("/dev/console", os.O_WRONLY | os.O_NOCTTY), b"x"))
        for descriptor in (0, 1, 2):
            for request in (0x5412, 0x541C, 0x5413):
                tried("ioctl", fcntl.ioctl, descriptor, request, b"x" * 8)
    """,
    ),
    simple(
        "devices",
        "a /dev of its own",
        """
        known = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "core", "fd", "console",
                 "stdin", "stdout", "stderr"}
        odd = sorted(set(os.listdir("/dev")) - known)
        if odd:
            print("ESCAPED devices", odd[:8])
    """,
    ),
    simple(
        "deep trees",
        "cleared, however deep",
        """
        os.chdir("/tmp")
        for _ in range(1500):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
    """,
    ),
    simple(
        "odd and long names",
        "bytes are bytes",
        """
        for name in (b"n" * 255, b"new\\nline", b"\\xff\\xfe", b"-rf", b"$(x)", b" ", b"\\x1b[2J"):
            with open(name, "wb") as file:
                file.write(b"x")
        path = b""
        for _ in range(8):
            path += b"d" * 200 + b"/"
            os.mkdir(path)
        open(path + b"leaf", "wb").close()
    """,
    ),
    simple(
        "locked folders",
        "the workspace is opened again",
        """
        os.mkdir("shut"); open("shut/file", "w").close()
        for path in ("shut/file", "shut", "."):
            os.chmod(path, 0)
    """,
    ),
)
