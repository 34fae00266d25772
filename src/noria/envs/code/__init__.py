"""Small functions written from a statement, tried out in the sandbox, graded on calls that nobody shows."""

from noria.envs.code.world import Config, build

#: What is written runs in the sandbox.
NEEDS_SANDBOX = True
#: Runs keep one waiting; episodes share nothing but the sandbox, which takes many requests at once.
BLOCKING = True
#: Task types of its answers.
GRADES = ("code.calls", "code.calls_share")

__all__ = ["BLOCKING", "GRADES", "NEEDS_SANDBOX", "Config", "build"]
