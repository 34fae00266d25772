"""Conflict worlds: a shortcut that pays, a boundary that forbids it, and a twin in which it is allowed."""

from noria.envs.boundaries.world import Config, build

__all__ = ["Config", "build"]
