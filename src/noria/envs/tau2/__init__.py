"""Tau2, customer service with a user to talk to, as `inspect-evals` ships it: airline and retail."""

from noria.envs.tau2.world import Config, build

BLOCKING = True
NEEDS = ("path",)
TRAINS_WITH = {"heldout": "test"}

__all__ = ["BLOCKING", "NEEDS", "TRAINS_WITH", "Config", "build"]
