"""An agent in a workspace: shell, files, Python and databases, judged by a check-list on what it leaves behind."""

from noria.envs.claw.world import Config, build

#: Its tools run in the sandbox, and so does a part of its verifier.
NEEDS_SANDBOX = True
#: Commands keep one waiting; episodes share nothing but the sandbox, which takes many requests at once.
BLOCKING = True
#: Task types of the lines of its check-lists that are answers.
GRADES = ("table.number", "table.text")

__all__ = ["BLOCKING", "GRADES", "NEEDS_SANDBOX", "Config", "build"]
