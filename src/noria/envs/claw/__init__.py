"""An agent in a workspace: shell, files, Python and databases, judged by a check-list on what it leaves behind."""

from noria.envs.claw.world import Config, build

#: Its tools run in the sandbox, and so does a part of its verifier.
NEEDS_SANDBOX = True
#: Commands keep one waiting; episodes share nothing but the sandbox, which takes many requests at once.
BLOCKING = True

__all__ = ["BLOCKING", "NEEDS_SANDBOX", "Config", "build"]
