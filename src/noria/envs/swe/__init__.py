"""Repositories with a bug, made by the factory: a shell, files and edits; graded by tests that were hidden."""

from noria.envs.swe.world import Config, build

#: Its commands run in the sandbox, which must show layers, as `bwrap` does.
NEEDS_SANDBOX = True
#: What leads outside: a folder that `noria tasks make swe` wrote.
NEEDS = ("path",)
#: A command takes as long as it takes.
BLOCKING = True

__all__ = ["BLOCKING", "NEEDS", "NEEDS_SANDBOX", "Config", "build"]
