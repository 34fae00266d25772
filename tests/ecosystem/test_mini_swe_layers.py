"""The real mini-swe-agent on a task of `swe`: the dependency layer lies around the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("minisweagent", reason="mini-swe-agent is not installed: run `make test-ecosystem`")

from typing import Any, cast

from noria.cli_serve import find_model
from noria.core.code import Edit, apply, diff
from noria.envs.swe import Config, build
from noria.envs.swe.records import DATASET, FORMAT, TASKS, SweTask
from noria.factory.repository import Names, prepare
from noria.harnesses import command, mini_swe_agent
from noria.harnesses._recital import Recital
from noria.sandboxes import bwrap
from noria.stages.jobs import Job, Limits
from noria.tokens.calls import render_call
from noria.tokens.renderer import Renderer

THING = "def more(n):\n    return n + 1\n"
TEST = "from thing import more\n\n\ndef test_more():\n    assert more(2) == 3\n"
OTHER = "def test_other():\n    assert True\n"
SETTINGS = "[pytest]\naddopts = --cov=thing\n"


def test_its_commands_find_the_layers_programs(tmp_path: Path) -> None:
    source, out = tmp_path / "thing", tmp_path / "out"
    source.mkdir()
    files = {"thing.py": THING, "test_thing.py": TEST, "test_other.py": OTHER, "pytest.ini": SETTINGS}
    for name, text in files.items():
        (source / name).write_text(text)
    out.mkdir()
    sandbox = bwrap.build(bwrap.Config(type="bwrap", memory_mb=1024, disk_mb=64, pids=256, servers=1))
    try:
        repo = prepare(str(source), out, sandbox, Names(out)).repo
        bug = (Edit("thing.py", THING.index("+"), THING.index("+") + 1, "-"),)
        sound = {"thing.py": THING.encode()}
        patch, failing = diff(apply(sound, bug), sound), ("test_thing.py::test_more",)
        task = SweTask(
            "thing-1", repo.name, "python", "operator_changed", "thing.py:more", 1, bug, patch, "more(2) is 1", "bare",
            failing,
        )  # fmt: skip
        (out / TASKS).write_text(json.dumps(task.to_json()) + "\n")
        (out / DATASET).write_text(json.dumps({"format": FORMAT}))
        world = build(Config(path=str(out), heldout=0.0), sandbox)
        (asked,) = world.tasks("train", 1, 0)
        renderer = Renderer.load(find_model("builtin:tiny"), "auto")
        recital = Recital(renderer, 1 << 18)
        config = mini_swe_agent.Config(type="mini_swe_agent").as_command()
        player = command.Player(config, {"swe": world}, ["swe"], cast(Any, recital), renderer)
        try:
            look = render_call("sh", command="command -v python; python -m pytest -q; pytest -q test_other.py")
            limits = Limits(max_turns=20, max_tokens=1 << 18, max_new_tokens=4096)
            script = mini_swe_agent.recited([look, *world.reference(asked)])
            found = recital.play(player, Job("g/0", asked, 0), script, limits)
        finally:
            player.close()
            recital.close()
            world.close()
    finally:
        sandbox.close()
    assert found.outcome.reward == 1.0, found.outcome
    assert "/deps/bin/python" in found.turns[0].observation and found.turns[0].observation.count("1 passed") == 2
