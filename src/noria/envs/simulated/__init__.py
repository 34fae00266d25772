"""Work with tools whose answers a model makes up, each checked before it counts."""

from noria.envs.simulated.world import Config, build

#: A model behind a server keeps one waiting; episodes share nothing but its client and what is recorded.
BLOCKING = True

__all__ = ["BLOCKING", "Config", "build"]
