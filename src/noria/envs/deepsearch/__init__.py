"""Finding an answer in a corpus of linked pages with `search` and `browse`, where no single search finds it."""

from noria.envs.deepsearch.world import Config, build

GRADES = ("search.entity",)

__all__ = ["GRADES", "Config", "build"]
