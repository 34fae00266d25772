"""Makes a Harbor task folder of what another world's `package` tells of a task."""

from __future__ import annotations

from noria.core.packages import Package
from noria.core.types import Task
from noria.envs.harbor.admission import SCRIPT
from noria.envs.harbor.folder import File, Folder
from noria.envs.harbor.schema import Sheet

_BASE = "python:3.11-slim"
_AGENT_S = 600.0


def folder_of(task: Task, package: Package) -> Folder:
    """The folder of a task; `metadata.noria` says where it is from."""
    name = f"noria/{task.id}"
    sheet = Sheet.model_validate(
        {
            "task": {"name": name, "keywords": [task.world]},
            "metadata": {"noria": {"world": task.world, "split": task.split, **package.facts}},
            "environment": {"network_mode": "no-network", "cpus": 1, "memory_mb": 512, "storage_mb": 1024},
            "agent": {"timeout_sec": _AGENT_S},
            "verifier": {"timeout_sec": package.timeout_s},
        }
    )
    docker = f"FROM {_BASE}\nWORKDIR /app\nCOPY files/ /app/\n"
    environment = {"Dockerfile": File(docker.encode())} | {
        f"files/{path}": File(text.encode()) for path, text in package.files.items()
    }
    tests, solution = (
        {path: File(text.encode(), text.startswith("#!")) for path, text in each.items()}
        for each in (package.tests, package.solution)
    )
    assert SCRIPT in tests
    return Folder(name, sheet, package.instruction, environment, tests, solution)
