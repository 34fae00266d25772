"""Task folders of Harbor, worked on with a shell and graded by their own tests."""

from noria.envs.harbor.world import Config, build

#: Its commands run in the sandbox.
NEEDS_SANDBOX = True
#: What leads outside. Its own small tasks need a sandbox that shows paths at the root, as `bwrap` does.
NEEDS = ("path",)
#: A command takes as long as it takes.
BLOCKING = True

__all__ = ["BLOCKING", "NEEDS", "NEEDS_SANDBOX", "Config", "build"]
