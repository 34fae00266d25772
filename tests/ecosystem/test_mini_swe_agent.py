"""The real mini-swe-agent against a recording server: its calls through litellm are token-exact trajectories."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import pytest

os.environ |= {"MSWEA_SILENT_STARTUP": "1", "MSWEA_COST_TRACKING": "ignore_errors", "LITELLM_LOCAL_MODEL_COST_MAP": "1"}
pytest.importorskip("minisweagent", reason="mini-swe-agent is not installed: run `make test-ecosystem`")

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel

from noria.core.types import Trajectory
from noria.engines.embedded import Config
from noria.envs import microswe
from noria.harnesses import command
from noria.harnesses._rollouts import Policy, Rollouts
from noria.sandboxes import process
from noria.server import build as builder
from noria.server.inside import Inside
from noria.server.record import Terms, collected
from noria.stages import rows
from noria.stages.jobs import Job, Limits
from noria.tokens.renderer import Renderer
from noria.trainers import local

MODEL = "builtin:tiny"
DONE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat app.py"
COMMANDS = ["cat app.py", "sed -i s/-/+/ app.py && python3 app.py", DONE]
WITH_TOOLS = [f'<think>step {k}</think><call name="bash"><command>{c}</command></call>' for k, c in enumerate(COMMANDS)]
AS_TEXT = [f"THOUGHT: go on\n\n```mswea_bash_command\n{each}\n```" for each in COMMANDS]
TEMPLATES = {"system_template": "act", "instance_template": "{{task}}"}
#: A harness's own program: the agent in the folder that it is given.
PROGRAM = """
    import os, sys
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.litellm_model import LitellmModel
    url, model, task_file = sys.argv[1:]
    asked = {"api_base": url, "api_key": "none", "temperature": 0.0}
    agent = DefaultAgent(
        LitellmModel(model_name=f"openai/{model}", model_kwargs=asked), LocalEnvironment(cwd=os.getcwd()),
        system_template="act", instance_template="{{task}}",
    )
    agent.run(open(task_file).read())
"""


def played(kind: Any, script: list[str], tmp_path: Path, model: Path) -> tuple[dict[str, Any], Trajectory]:
    """What the agent says of its run, and the run as it was recorded."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "app.py").write_text("print(3 - 4)\n")
    inside = Inside(
        builder.build(MODEL, model, "", Config(slots=2, max_tokens=1024), 8, 5, tmp_path / "rec", Terms(), script)
    )
    try:
        asked = {"api_base": inside.base_url("mini"), "api_key": "none", "max_tokens": 200}
        agent = DefaultAgent(
            kind(model_name=f"openai/{MODEL}", model_kwargs=asked), LocalEnvironment(cwd=str(work)), **TEMPLATES
        )
        said = agent.run("mend app.py")
    finally:
        inside.close()
    (found,) = collected(tmp_path / "rec")
    return said, found


def trained_alike(found: Trajectory, model: Path) -> None:
    """The trainer gives what was sampled the probabilities that were recorded."""
    made = rows.by_branch(found, lambda part: rows.sampled(part, 0))
    for row, logp in zip(made, local.build(local.Config(), model).score(made), strict=True):
        assert logp[row.mask].tolist() == pytest.approx(row.logp_mu[row.mask].tolist(), abs=1e-4)


@pytest.mark.parametrize(("kind", "script"), [(LitellmModel, WITH_TOOLS), (LitellmTextbasedModel, AS_TEXT)])
def test_a_run_is_one_branch(
    kind: Any, script: list[str], tmp_path: Path, tiny_folder: Path, renderer: Renderer
) -> None:
    said, found = played(kind, script, tmp_path, tiny_folder)
    assert said["exit_status"] == "Submitted" and said["submission"] == "print(3 + 4)\n"
    assert (tmp_path / "work" / "app.py").read_text() == "print(3 + 4)\n"
    assert found.branches == () and [turn.message for turn in found.turns] == script
    assert "print(3 - 4)" in found.turns[0].observation and "7" in found.turns[1].observation
    at = 0
    for message in script:  # as written, token by token, each once
        ids = renderer.message(message)
        at = next(k for k in range(at, len(found.record)) if found.record.ids[k : k + len(ids)] == ids)
        assert found.record.mask[at - 1 : at + len(ids) + 1] in ((0, *[1] * len(ids), 0), (0, *[1] * len(ids)))
    trained_alike(found, tiny_folder)


def test_messages_that_the_agent_throws_away_are_branches(tmp_path: Path, tiny_folder: Path) -> None:
    said, found = played(LitellmModel, ["I shall look"], tmp_path, tiny_folder)
    assert said["exit_status"] == "RepeatedFormatError"
    assert len(found.branches) == 2 and [turn.message for turn in found.turns] == ["I shall look"] * 3
    lengths = [len(branch.record) for branch in found.branches] + [len(found.record)]
    assert lengths == sorted(set(lengths))  # what the agent says about the fault is in the next prompt
    trained_alike(found, tiny_folder)


def test_it_plays_rollouts_of_the_policy(tmp_path: Path, tiny_folder: Path, renderer: Renderer) -> None:
    sandbox = process.build(process.Config(type="process", servers=1))
    worlds = {"microswe": microswe.build(microswe.Config(type="microswe"), sandbox)}
    program = tmp_path / "agent.py"
    program.write_text(textwrap.dedent(PROGRAM))
    environment = {name: os.environ[name] for name in ("MSWEA_SILENT_STARTUP", "MSWEA_COST_TRACKING")}
    config = command.Config(
        type="command", command=("{python}", str(program), "{base_url}", "{model}", "{task_file}"),
        env={**environment, "LITELLM_LOCAL_MODEL_COST_MAP": "1"}, ok_codes=(0, 1),
    )  # fmt: skip
    limits = Limits(max_turns=3, max_new_tokens=30, max_tokens=448)
    policy = Policy(tiny_folder, Config(slots=2, max_tokens=448), renderer, "xml")
    rollouts = Rollouts(policy, command.Player(config, worlds, (), policy, renderer), 2, worlds, renderer, limits)
    try:
        rollouts.submit([Job(f"g0/{k}", worlds["microswe"].tasks("train", 1, 1)[0], k) for k in range(2)])
        found: list[Trajectory] = []
        while rollouts.pending:
            found += rollouts.step()
    finally:
        rollouts.close()
        sandbox.close()
    for each in found:
        assert each.outcome.reward == 0.0 and 1 <= len(each.turns) <= 3 and each.action_tokens > 0
        trained_alike(each, tiny_folder)
