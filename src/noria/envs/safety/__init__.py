"""Requests that are to be helped, to be answered with restraint, or to be refused, in pairs that differ by a word."""

from noria.envs.safety.lessons import make
from noria.envs.safety.world import Config, build

#: A reward model on a server keeps one waiting.
BLOCKING = True

__all__ = ["BLOCKING", "Config", "build", "make"]
