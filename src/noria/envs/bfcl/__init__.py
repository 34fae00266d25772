"""BFCL v4, the leaderboard of function calling, as an evaluation set: its tasks, its answers, its matching rules."""

from noria.envs.bfcl.world import Config, build

NEEDS = ("path",)
SPLITS = ("heldout",)

__all__ = ["NEEDS", "SPLITS", "Config", "build"]
