"""Rows as SWE-bench has them: the patch mends, the tests come as a patch of their own.

The base is the broken tree without the files that hold tests which fail; `base_commit` and `environment_setup_commit`
are the digests of the two layers.
"""

from __future__ import annotations

import json
from typing import Any

from noria.core.code import diff
from noria.envs.swe.records import Dataset, SweTask
from noria.envs.swe.world import hidden_tests


def row(dataset: Dataset, task: SweTask) -> dict[str, Any]:
    """One row. Raises OSError, ValueError: the layers are not whole."""
    repo = dataset.repos[task.repo]
    tree = dataset.layer(repo.tree)
    tests = {path: (tree / path).read_bytes() for path in hidden_tests(task, repo)}
    return {
        "repo": repo.name,
        "instance_id": task.id,
        "base_commit": repo.tree,
        "patch": task.patch,
        "test_patch": diff({}, tests),
        "problem_statement": task.statement,
        "hints_text": "",
        "created_at": "",
        "version": repo.revision,
        "FAIL_TO_PASS": json.dumps(list(task.fail_to_pass)),
        "PASS_TO_PASS": json.dumps(list(task.pass_to_pass(repo))),
        "environment_setup_commit": repo.deps,
    }
