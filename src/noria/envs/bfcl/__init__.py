"""BFCL v4, the leaderboard of function calling, as an evaluation set: its tasks, its answers, its matching rules."""

from noria.envs.bfcl.world import Config, build

NEEDS = ("path",)

__all__ = ["NEEDS", "Config", "build"]
