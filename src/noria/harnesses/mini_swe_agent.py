"""The package mini-swe-agent plays each rollout: its agent, its tool `bash`, its messages; nothing of it is rewritten.

A form of `harnesses.command` whose program is known. The package is needed by the interpreter that `python` names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from noria.core.config import Checked
from noria.core.protocols import World
from noria.harnesses import command
from noria.harnesses._bash import commands_of
from noria.stages.jobs import Limits
from noria.tokens.calls import render_call
from noria.tokens.renderer import Renderer

if TYPE_CHECKING:
    from noria.harnesses._rollouts import Rollouts

#: How the program ends where the package is missing, and where it failed.
MISSING, FAILED = 3, 4
#: This installation's interpreter, as `command` names it.
_OWN = "{python}"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_PROGRAM = f"""
import json, os, sys
try:
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.litellm_model import LitellmModel
except ImportError as fault:
    print(fault)
    sys.exit({MISSING})
url, model, task_file, given = sys.argv[1:]
given = json.loads(given)
path = [os.environ.get("{command.FIRST}"), os.path.dirname(sys.executable), os.environ.get("PATH", "/usr/bin:/bin")]
os.environ["PATH"] = os.pathsep.join(filter(None, path))
asked = {{"api_base": url, "api_key": "none"}}
agent = DefaultAgent(
    LitellmModel(model_name=f"openai/{{model}}", model_kwargs=asked),
    LocalEnvironment(cwd=os.getcwd(), timeout=given["command_s"]),
    system_template=given["system"], instance_template=given["instance"], cost_limit=0,
)
try:
    agent.run(open(task_file, encoding="utf-8").read())
except Exception as fault:
    print(type(fault).__name__, fault)
    sys.exit(0 if getattr(fault, "status_code", 0) in (400, 403) else {FAILED})
"""
_ENV = {"MSWEA_SILENT_STARTUP": "1", "MSWEA_COST_TRACKING": "ignore_errors", "LITELLM_LOCAL_MODEL_COST_MAP": "1"}


class Config(Checked):
    """The agent and its bounds."""

    type: Literal["mini_swe_agent"]
    python: str = Field(
        default=_OWN,
        description="interpreter that has the package, in its virtual environment; the default is this installation's",
    )
    system: str = Field(
        default="You are a helpful assistant that can interact with a computer.", description="template"
    )
    instance: str = Field(
        default="{{task}}\n\nWork by the tool bash. When all is done, issue the command `" + SUBMIT + "` alone.",
        description="template of the first message of the user, in which {{task}} stands for the task",
    )
    command_s: int = Field(default=60, ge=1, description="seconds of one command")
    timeout_s: float = Field(default=600.0, gt=0, description="seconds of a rollout; what was done by then is graded")
    parallel: int = Field(default=4, ge=1, le=256, description="rollouts of a worker at the same time")
    isolation: Literal["sandbox", "none"] = Field(default="sandbox", description="as of the harness `command`")
    readonly: tuple[str, ...] = Field(default=(), description="files and folders that it sees in the sandbox")
    memory_mb: int = Field(default=2048, ge=64, description="memory in the sandbox, files included")
    pids: int = Field(default=256, ge=4, description="processes and threads in the sandbox")
    disk_mb: int = Field(default=256, ge=1, description="its folder in the sandbox, and /tmp")

    def as_command(self) -> command.Config:
        """The command that runs it."""
        given = {"command_s": self.command_s, "system": self.system, "instance": self.instance}
        words = [_PROGRAM, json.dumps(given)]
        home = Path(self.python).parent.parent
        packages = (str(home),) if (home / "pyvenv.cfg").is_file() else ()
        program, settings = (word.replace("{", "{{").replace("}", "}}") for word in words)
        return command.Config(
            type="command",
            command=(self.python, "-c", program, "{base_url}", "{model}", "{task_file}", settings),
            env=_ENV,
            timeout_s=self.timeout_s,
            parallel=self.parallel,
            isolation=self.isolation,
            readonly=(*self.readonly, *packages),
            memory_mb=self.memory_mb,
            pids=self.pids,
            disk_mb=self.disk_mb,
        )


def recited(messages: Sequence[str], path: str = "") -> list[str]:
    """What a policy says here to do what these messages of the house's own loop do.

    `path` is the file that calls without one mean.
    """
    steps = [each for message in messages for each in commands_of(message, path)]
    return [render_call("bash", command=step) for step in (*steps, SUBMIT)]


def build(
    config: Config,
    worlds: Mapping[str, World],
    blocking: Collection[str],
    renderer: Renderer,
    folder: Path,
    engine: Any,
    limits: Limits,
) -> Rollouts:
    """What plays the rollouts of a worker; see `command.build`."""
    return command.build(config.as_command(), worlds, blocking, renderer, folder, engine, limits)
