"""One-line bugs in small functions, found and mended through view, edit, test and submit."""

from noria.envs.microswe.world import Config, build

__all__ = ["Config", "build"]
