"""Harbor task folders of Python tasks: an image from their Dockerfile, graded by the tests that were hidden."""

from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path

from noria.core.errors import UserError
from noria.envs.harbor.folder import File, Folder, write_folder
from noria.envs.harbor.schema import Sheet
from noria.envs.swe.records import Dataset, Repo, SweTask
from noria.envs.swe.world import hidden_tests

_TIMES = {"agent": 1800.0, "verifier": 600.0}
_SCRIPT = "#!/bin/bash\nexec python3 -I /tests/grade.py\n"
_GRADE = '''"""Puts tests and settings back, runs the tests, and writes 1 where all that count pass, else 0."""

import json
import os
import shutil
import subprocess
import sys

SETTINGS = ("conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "sitecustomize.py", "usercustomize.py")

with open("/tests/tests.json") as file:
    given = json.load(file)
for folder, inner, names in os.walk("/app"):
    for name in names:
        path = os.path.relpath(os.path.join(folder, name), "/app")
        if name in SETTINGS or path in given["files"]:
            os.unlink(os.path.join("/app", path))
for folder, known in given["known"].items():  # a new module here would be loaded in place of another
    for name in set(os.listdir(os.path.join("/app", folder))) - set(known):
        place = os.path.join("/app", folder, name)
        shutil.rmtree(place) if os.path.isdir(place) and not os.path.islink(place) else os.unlink(place)
shutil.copytree("/tests/files", "/app", dirs_exist_ok=True)
path = ":".join(os.path.join("/app", each) for each in given["path"])
report = "/logs/verifier/report.jsonl"
if os.path.exists(report):
    os.unlink(report)
options = {"limit_s": 60, "chosen": given["tests"], "trace": None}
files = sorted({test.partition("::")[0] for test in given["tests"]})
words = [sys.executable, "/tests/_pytest_runner.py", report, json.dumps(options), *files]
try:
    subprocess.run(words, cwd="/app", timeout=540, env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"})
    with open(report) as file:
        lines = [json.loads(line) for line in file]
except (OSError, ValueError, subprocess.TimeoutExpired):
    lines = []
passed = {line["id"] for line in lines if line.get("status") == "pass"}
with open("/logs/verifier/reward.txt", "w") as file:
    file.write("1" if passed >= set(given["tests"]) else "0")
'''


def write(dataset: Dataset, task: SweTask, out: Path) -> None:
    """Write the folder of a task. Raises UserError: its language has no form as a folder."""
    repo = dataset.repos[task.repo]
    if task.language != "python":
        raise UserError(f"FORMAT must fit the tasks: got harbor for {task.id} in {task.language} - use swe-bench")
    write_folder(_folder(dataset, task, repo), out / task.id)


def _folder(dataset: Dataset, task: SweTask, repo: Repo) -> Folder:
    tree = dataset.layer(repo.tree)
    files = {path.relative_to(tree).as_posix(): path for path in sorted(tree.rglob("*")) if path.is_file()}
    broken = task.broken(tree)
    hidden = hidden_tests(task, repo)
    kept = {*repo.layout.tests, *repo.layout.settings} & files.keys()
    path = [each.removeprefix("/workspace").lstrip("/") for each in json.loads(repo.layout.fact("path", "[]"))]
    tests = [*task.fail_to_pass, *task.pass_to_pass(repo)]
    known = {each: sorted(place.name for place in (tree / each).iterdir()) for each in path}
    given = {"tests": tests, "files": sorted(kept), "path": path, "known": known}
    runner = Path(__file__).parents[2] / "languages" / "_pytest_runner.py"
    image = ["FROM python:3.11-slim", "WORKDIR /app", f"RUN pip install --no-cache-dir {shlex.join(repo.layout.needs)}"]
    image += [f"ENV PYTHONPATH={':'.join(f'/app/{each}'.rstrip('/') for each in path)}", "COPY files/ /app/"]
    sheet = Sheet.model_validate(
        {
            "task": {"name": f"noria/{task.id}", "keywords": ["swe", task.language]},
            "metadata": {"swe": {
                "fail_to_pass": list(task.fail_to_pass), "pass_to_pass": len(tests) - len(task.fail_to_pass),
                "language": task.language, "bug_kind": task.operator, "seed": task.facts.get("seed", 0),
                "base_layer": repo.deps, "tree": repo.tree, "unsure": len(task.unsure),
            }},
            "environment": {"network_mode": "no-network", "cpus": 1, "memory_mb": 1024, "storage_mb": 2048},
            "agent": {"timeout_sec": _TIMES["agent"]},
            "verifier": {"timeout_sec": _TIMES["verifier"]},
        }
    )  # fmt: skip
    return Folder(
        f"noria/{task.id}",
        sheet,
        f"{task.statement}\n\nThe repository is /app. Tests that you cannot see decide.\n",
        {"Dockerfile": File(("\n".join(image) + "\n").encode())} | {
            f"files/{name}": File(broken.get(name, place.read_bytes()), bool(place.stat().st_mode & 0o100))
            for name, place in files.items() if name not in hidden
        },
        {"test.sh": File(_SCRIPT.encode(), True), "grade.py": File(_GRADE.encode()),
         "_pytest_runner.py": File(runner.read_bytes()), "tests.json": File(json.dumps(given).encode())}
        | {f"files/{name}": File(files[name].read_bytes()) for name in sorted(kept)},
        {"solve.sh": File(_solution(tree, broken).encode(), True)},
    )  # fmt: skip


def _solution(tree: Path, broken: dict[str, bytes]) -> str:
    lines = ["#!/bin/bash", "set -e"]
    for path in broken:
        data = base64.encodebytes((tree / path).read_bytes()).decode()
        lines += [f"base64 -d > {shlex.quote(f'/app/{path}')} <<'NORIA_END'", data.rstrip("\n"), "NORIA_END"]
    return "\n".join(lines) + "\n"
