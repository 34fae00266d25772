"""A `verifiers` environment (v1) as a world: its tasks, its tools, its own rewards."""

from noria.envs.verifiers_env.world import Config, build

BLOCKING = True
NEEDS = ("taskset",)

__all__ = ["BLOCKING", "NEEDS", "Config", "build"]
