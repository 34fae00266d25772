"""A worker whose recipe names a harness: weights, limits and jobs go in, trajectories of that policy come out."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from noria.core.errors import UserError
from noria.core.recipe import load
from noria.core.types import Trajectory
from noria.stages.context import named
from noria.stages.roller import Job, Limits
from noria.stages.worker import Clear, Cleared, Load, Loaded, RolloutService, Setup

AGENT = """
    import json, sys, urllib.request
    url, model, task_file = sys.argv[1:]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    body = {"model": model, "messages": [{"role": "user", "content": open(task_file).read()}]}
    kind = {"content-type": "application/json"}
    opener.open(urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(), kind)).read()
"""


def recipe(folder: Path, **rollout: Any) -> Any:
    agent = folder / "agent.py"
    agent.write_text(textwrap.dedent(AGENT))
    words = ["{python}", str(agent), "{base_url}", "{model}", "{task_file}"]
    file = folder / "recipe.toml"
    file.write_text(
        'name = "outside"\n[env.sums]\ntype = "arithmetic"\n[rollout]\n'
        f'harness = {{ type = "command", command = {words!r}, parallel = 2 }}\n'
    )
    return load([file], [f"rollout.{key}={value}" for key, value in rollout.items()])


def told(service: RolloutService, n: int) -> list[Any]:
    out: list[Any] = []
    for _ in range(3000):
        out += service.work()
        if len(out) >= n:
            return out
    raise AssertionError(f"the worker told {out}")


def test_a_worker_plays_by_the_harness_of_its_recipe(tmp_path: Path, tiny_folder: Path) -> None:
    made = recipe(tmp_path)
    service = RolloutService(Setup(made.resolved_json(), str(tiny_folder)))
    try:
        weights = (tiny_folder / "model.safetensors").read_bytes()
        service.receive(Load(weights, 4, 1.0, Limits(max_new_tokens=9)))
        (loaded,) = told(service, 1)
        assert isinstance(loaded, Loaded) and loaded.version == 4
        tasks = named(service.worlds["sums"].tasks("train", 2, 1), "sums")
        service.receive([Job(f"g0/{k}", task, k) for k, task in enumerate(tasks)])
        assert service.busy()
        found = told(service, 2)
        for each in found:
            assert isinstance(each, Trajectory) and each.outcome.known and each.version == 4
            assert 0 < each.action_tokens <= 9 and each.task.world == "sums"
        service.receive(Clear())
        assert told(service, 1) == [Cleared()] and not service.busy()
    finally:
        service.close()


def test_a_recipe_refuses_a_harness_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="names in braces"):
        recipe(tmp_path, **{"harness.command": '["{nobody}"]'})
    with pytest.raises(UserError, match="rollout.context must not be set with rollout.harness"):
        recipe(tmp_path, context="{ type = 'window' }")
    with pytest.raises(UserError, match="student.engine.type must be embedded with rollout.harness"):
        load([tmp_path / "recipe.toml"], ["student.engine.type='transformers'"])
