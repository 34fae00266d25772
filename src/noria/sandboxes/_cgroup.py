"""Control groups for one sandbox, version 1 or 2, where this process may make them."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_NEEDED = ("memory", "pids")


@dataclass(frozen=True, slots=True)
class Cage:
    """The groups (one folder in version 2, one for each controller in version 1) that hold a sandbox."""

    folders: tuple[Path, ...]

    @property
    def procs(self) -> list[str]:
        """Files that a process writes 0 to in order to move in."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def oom_kills(self) -> int:
        """How often the kernel killed something in here because memory ran out."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                if (folder / name).exists():
                    words = (folder / name).read_text().split()
                    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0
        return 0

    def remove(self) -> bool:
        """Kill what is inside and remove the groups; False when the kernel still holds one after a second."""
        gone = [_remove(folder) for folder in self.folders]
        return all(gone)


def _remove(folder: Path) -> bool:
    for _ in range(200):
        try:
            for word in (folder / "cgroup.procs").read_text().split():
                try:
                    os.kill(int(word), 9)
                except ProcessLookupError:
                    continue
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:  # still busy: a killed process leaves its group when it is reaped
            time.sleep(0.005)
        else:
            return True
    return False


def mounts(table: str = "/proc/mounts") -> dict[str, Path]:
    """Mount point of each version 1 controller by name, and of version 2 as "" if it has memory and pids."""
    found: dict[str, Path] = {}
    for line in Path(table).read_text().splitlines():
        _, point, kind, options = line.split()[:4]
        if kind == "cgroup":
            found.update({name: Path(point) for name in options.split(",") if name in _NEEDED})
        elif kind == "cgroup2":
            controllers = Path(point) / "cgroup.controllers"
            if controllers.exists() and set(_NEEDED) <= set(controllers.read_text().split()):
                found[""] = Path(point)
    return found


def own(table: str = "/proc/self/cgroup") -> dict[str, str]:
    """Path of this process below each hierarchy's mount point; version 2 is ""."""
    found: dict[str, str] = {}
    for line in Path(table).read_text().splitlines():
        _, names, path = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), path.strip("/")))
    return found


def parents() -> tuple[Path, ...]:
    """Folders under which groups with memory and process limits can be made; empty when there are none."""
    if not Path("/proc/self/cgroup").exists():
        return ()
    points, paths = mounts(), own()
    if "" in points:
        here = points[""] / paths.get("", "")
        for folder in [here, *here.parents]:
            if not folder.is_relative_to(points[""]):
                break
            control = folder / "cgroup.subtree_control"
            if control.exists() and set(_NEEDED) <= set(control.read_text().split()):
                return (folder,) if os.access(folder, os.W_OK) else ()
        return ()
    if not set(_NEEDED) <= set(points):
        return ()
    found = []
    for name in _NEEDED:
        folder = points[name] / paths.get(name, "")
        found.append(folder if folder.is_dir() else points[name])
    return tuple(found) if all(os.access(folder, os.W_OK) for folder in found) else ()


def make(above: tuple[Path, ...], name: str, memory_mb: int, pids: int) -> Cage:
    """A new cage below `above`. Raises OSError when the kernel refuses; nothing is left then."""
    made: list[Path] = []
    for parent in dict.fromkeys(above):
        made.append(parent / name)
    cage = Cage(tuple(made))
    limits = {
        "memory.max": memory_mb << 20,
        "memory.swap.max": 0,
        "memory.limit_in_bytes": memory_mb << 20,
        "memory.memsw.limit_in_bytes": memory_mb << 20,
        "pids.max": pids,
    }
    try:
        for folder in made:
            folder.mkdir()
        for folder in made:
            for file, limit in limits.items():
                if (folder / file).exists():
                    (folder / file).write_text(str(limit))
    except OSError:
        cage.remove()
        raise
    return cage


def usable(name: str) -> tuple[Path, ...]:
    """`parents()` if a process of ours can really be moved into a group made there, else empty."""
    above = parents()
    if not above:
        return ()
    try:
        cage = make(above, name, 64, 16)
    except OSError:
        return ()
    move = "".join(f"echo 0 > '{file}' && " for file in cage.procs) + "true"
    moved = subprocess.run(["/bin/sh", "-c", move], capture_output=True, check=False).returncode == 0
    cage.remove()
    return above if moved else ()


def sweep(above: tuple[Path, ...], prefix: str) -> None:
    """Remove the cages of dead processes: folders named `prefix`<pid>-<number>."""
    for parent in dict.fromkeys(above):
        for folder in parent.glob(prefix + "*"):
            pid = folder.name[len(prefix) :].split("-")[0]
            if pid.isdigit() and not Path(f"/proc/{pid}").exists():
                _remove(folder)
