"""Questions about small tables, with a reward for the way (facts established) and one for the answer."""

from noria.envs.tableqa.world import Config, build

GRADES = ("table.number", "table.text", "table.list")

__all__ = ["GRADES", "Config", "build"]
