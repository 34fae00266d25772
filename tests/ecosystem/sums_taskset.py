"""A `verifiers` taskset: sums to be added with a tool of the environment, rewarded by its own functions."""

from __future__ import annotations

import random
from collections.abc import Iterable

import verifiers.v1 as vf


class SumsData(vf.TaskData):
    """One sum; `solution` is a script of messages that solves it."""

    left: int
    right: int
    solution: list[str]


class Adder(vf.Toolset[vf.ToolsetConfig]):
    """One tool."""

    TOOL_PREFIX = None

    @vf.tool
    def add(self, left: int, right: int) -> str:
        """Add two numbers."""
        return str(left + right)

    @vf.tool
    def draw(self) -> str:
        """Give a number that nobody can foresee."""
        return str(random.SystemRandom().randrange(1 << 60))


class SumsConfig(vf.TasksetConfig):
    """How many rows, and whether there are tools."""

    rows: int = 40
    tool: bool = False
    broken: bool = False


class Sums(vf.Task[SumsData]):
    """Graded by the last word."""

    @vf.reward(weight=0.75)
    async def right(self, trace: vf.Trace) -> float:
        words = trace.last_reply.split()
        return float(bool(words) and words[-1] == str(self.data.left + self.data.right))

    @vf.reward(weight=0.25)
    async def polite(self, trace: vf.Trace) -> float:
        if self.data.name == "broken":
            raise RuntimeError("the grader broke")
        return float("please" in trace.last_reply)


class SumsWithTool(Sums):
    """The same with a tool server of its own."""

    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return [Adder(vf.ToolsetConfig())]


class SumsTaskset(vf.Taskset[Sums, SumsConfig]):
    """Rows in order."""

    def load(self) -> Iterable[Sums]:
        for number in range(self.config.rows):
            left, right = number, 3 * number + 1
            answer = f"please: {left + right}"
            call = f'<call name="add"><left>{left}</left><right>{right}</right></call>'
            script = [call, answer] if self.config.tool else [answer]
            data = SumsData(
                prompt=f"What is {left} + {right}?", system_prompt="Answer with a number.", left=left, right=right,
                name="broken" if self.config.broken else None, solution=script,
            )  # fmt: skip
            yield (SumsWithTool if self.config.tool else Sums)(data, self.config.task)


__all__ = ["SumsTaskset"]

if __name__ == "__main__":
    Adder.run()
