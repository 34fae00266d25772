"""Rows as SWE-smith has them: the patch breaks the sound tree, its reverse mends it."""

from __future__ import annotations

from typing import Any

from noria.core.code import diff
from noria.envs.swe.records import Dataset, SweTask


def row(dataset: Dataset, task: SweTask) -> dict[str, Any]:
    """One row; `image_name` is empty, since there is none. Raises OSError, ValueError: the layers are not whole."""
    repo = dataset.repos[task.repo]
    tree = dataset.layer(repo.tree)
    broken = task.broken(tree)
    return {
        "instance_id": task.id,
        "repo": repo.name,
        "patch": diff({path: (tree / path).read_bytes() for path in broken}, broken),
        "FAIL_TO_PASS": list(task.fail_to_pass),
        "PASS_TO_PASS": list(task.pass_to_pass(repo)),
        "image_name": "",
        "problem_statement": task.statement,
    }
