"""A small stateful service: accounts behind ten typed tools, judged by the final state."""

from noria.envs.ledger.world import Config, build

__all__ = ["Config", "build"]
