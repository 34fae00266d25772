"""A server that speaks OpenEnv as a world: reset by seed, typed actions, the server's own rewards."""

from noria.envs.openenv.world import Config, build

BLOCKING = True
NEEDS = ("url",)

__all__ = ["BLOCKING", "NEEDS", "Config", "build"]
