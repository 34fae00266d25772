"""A whole round whose rollouts are played by a program of somebody else's: from the weak model to the gate."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from noria.core.codec import read_json_lines
from noria.core.recipe import load
from noria.core.store import Run
from noria.round import run_recipe

AGENT = """
    import json, sys, urllib.request
    url, model, task_file, answer_file = sys.argv[1:]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    body = {"model": model, "messages": [{"role": "user", "content": open(task_file).read()}]}
    kind = {"content-type": "application/json"}
    ask = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(), kind)
    open(answer_file, "w").write(json.load(opener.open(ask))["choices"][0]["message"]["content"])
"""
RECIPE = """
    name = "outside"
    rounds = 1
    env.sums = {{ type = "arithmetic", tasks = 4 }}
    teachers.direct = {{ type = "scripted", strategy = "direct" }}
    gate.tasks = 4
    eval.unseen_tasks = 0
    [rollout]
    harness = {{ type = "command", command = {command} }}
    [phase]
    sft = {{ signal = "curated", loss = {{ ce = {{}} }}, steps = 1, tokens_per_step = 512 }}
    rl = {{ signal = "group_mean", steps = 1, prompts_per_step = 2, rollouts_per_prompt = 4, minibatches = 1 }}
"""


@pytest.mark.slow
def test_a_round_is_played_from_outside(tmp_path: Path) -> None:
    agent, file = tmp_path / "agent.py", tmp_path / "recipe.toml"
    agent.write_text(textwrap.dedent(AGENT))
    command = ["{python}", str(agent), "{base_url}", "{model}", "{task_file}", "{answer_file}"]
    file.write_text(textwrap.dedent(RECIPE).format(command=command))
    recipe = load([file])
    run = Run.create(tmp_path / "runs", recipe)
    run_recipe(recipe, run)
    assert run.done("round-1/gate")
    (step,) = [line for line in read_json_lines(run.path / "metrics.jsonl") if "clipped/ratio_max" in line]
    assert step["clipped/ratio_mean"] == step["clipped/ratio_max"] == 1.0
    assert step["outcome/unknown_frac"] == 0.0 and step["logp_diff/max"] < 1e-4
