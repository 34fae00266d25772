"""Questions about small tables, with a reward for the way (facts established) and one for the answer."""

from noria.envs.tableqa.world import Config, build

__all__ = ["Config", "build"]
