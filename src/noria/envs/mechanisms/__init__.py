"""Solved mechanisms: a mathematical model is sampled and solved, then rendered as stateful tools."""

from noria.envs.mechanisms.world import Config, build

__all__ = ["Config", "build"]
