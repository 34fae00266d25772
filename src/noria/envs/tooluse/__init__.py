"""Tool use over made domains: tables, rules and typed tools from a seed, emitted as Python, proved by search."""

from noria.envs.tooluse.factory import make
from noria.envs.tooluse.world import Config, build

__all__ = ["Config", "build", "make"]
