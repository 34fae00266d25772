"""One-line bugs in small functions, found and mended through view, edit, test and submit."""

from noria.envs.microswe.package import package
from noria.envs.microswe.world import Config, build

#: Its tests run in the sandbox.
NEEDS_SANDBOX = True

__all__ = ["NEEDS_SANDBOX", "Config", "build", "package"]
