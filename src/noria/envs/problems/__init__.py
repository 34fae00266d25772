"""Problems of mathematics and science from parameterised templates, and reasoning-gym's; answered in any right form."""

from noria.envs.problems.world import Config, build

#: Answers are graded by a router in another thread.
BLOCKING = True
#: Task types of its answers.
GRADES = ("math.expression", "math.sequence", "stem.quantity", "stem.choice", "reasoning.gym")

__all__ = ["BLOCKING", "GRADES", "Config", "build"]
