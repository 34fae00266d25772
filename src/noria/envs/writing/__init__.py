"""Short texts under a rubric from coarse to fine: of any text, of its genre, of this very task."""

from noria.envs.writing.world import Config, build

#: A judge on a server keeps one waiting.
BLOCKING = True
#: Task types that a judge is asked under.
GRADES = ("writing.rubric", "writing.pairwise")

__all__ = ["BLOCKING", "GRADES", "Config", "build"]
