"""Prompts with rules that can be counted, answered in one message: <procedure, relation, value>, alone or together."""

from noria.envs.instructions.world import Config, build

__all__ = ["Config", "build"]
