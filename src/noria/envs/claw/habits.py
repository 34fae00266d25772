"""Scripted ways of working: calls that a plan lists, said one message after another until all were said.

A plan finds its place by the calls that the conversation already holds, whoever made them, so a policy can take over in
the middle. What it answers is read from what the commands printed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from noria.core.errors import UserError
from noria.core.protocols import Policy
from noria.core.types import Message, Task
from noria.envs.claw.job import Step, python, sh
from noria.tokens.calls import Call, hear, render_call

EXPERTS = ("careful", "direct")
_NAMED = re.compile(r"^\[\d+ \w+\] ")
_THINK_SHARE = 0.4
_END = "NORIA_END"
Lines = tuple[Step, ...]


@dataclass(slots=True)
class Plan:
    """Messages in order. `telling` are the numbers of those whose last printed line is an answer, in order."""

    messages: list[Lines] = field(default_factory=list)
    telling: list[int] = field(default_factory=list)
    final: str = ""

    def say(self, *steps: Step, tells: bool = False) -> None:
        """Add a message."""
        if steps:
            self.messages.append(steps)
            self.telling += [len(self.messages) - 1] * tells


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of working: its weight among all, its plan, what it may think first, the kind whose advice it obeys."""

    weight: float
    plan: Callable[[Mapping[str, Any], random.Random], Plan]
    think: str
    advice: str | None = None


def make_policy(task: Task, strategy: str, seed: int) -> Policy:
    """A policy for one task.

    Raises:
        UserError: unknown strategy.
    """
    if strategy not in HABITS:
        raise UserError(f"strategy must be one of {', '.join(HABITS)}: got {strategy!r} - choose one of them")
    habit, rng = HABITS[strategy], random.Random(f"{task.id}/{strategy}/{seed}")
    thought = habit.think if rng.random() < _THINK_SHARE else ""
    plan = habit.plan(task.data, rng)
    if task.data["harness"] == "shell":
        plan.messages = [tuple(map(as_shell, steps)) for steps in plan.messages]

    def play(messages: Sequence[Message]) -> str:
        opening = f"<think>{thought}</think>" if thought and not messages else ""
        said = {_calls(message.content): i for i, message in enumerate(messages) if message.role == "assistant"}
        for steps in plan.messages:
            if steps and _key(steps) not in said:
                return opening + "".join(render_call(name, **args) for name, args in steps)
        if plan.final or not plan.telling:
            return opening + (plan.final or "done")
        heard = [_heard(messages, said[_key(plan.messages[i])]) for i in plan.telling]
        return opening + "; ".join(heard)

    return play


def as_shell(step: Step) -> Step:
    """The same call where there is nothing but a shell."""
    name, args = step
    if name == "sh":
        return step
    if name == "read":
        return sh(f"cat {args['path']}")
    if name == "write":
        return sh(f"mkdir -p $(dirname {args['path']})\ncat > {args['path']} <<'{_END}'\n{args['text']}{_END}")
    code = args.get("code", "")
    if name == "edit":
        code = (
            f"t = open({args['path']!r}).read()\nassert t.count({args['old']!r}) == 1\n"
            f"open({args['path']!r}, 'w').write(t.replace({args['old']!r}, {args['new']!r}))"
        )
    if name == "sql":
        code = (
            f"import csv, sqlite3, sys\nc = sqlite3.connect({args['db']!r})\nr = c.execute({args['query']!r})\n"
            "t = [[x[0] for x in r.description or []], *r]\nc.commit()\n"
        )
        if "out" in args:
            code += f"csv.writer(open({args['out']!r}, 'w'), lineterminator='\\n').writerows(t)\n"
        code += "csv.writer(sys.stdout, lineterminator='\\n').writerows(t)"
    return sh(f"python3 - <<'{_END}'\n{code}\n{_END}")


def _key(steps: Lines) -> str:
    return repr([(name, sorted(args.items())) for name, args in steps])


def _calls(message: str) -> str:
    """What a message calls, in the form of `_key`."""
    calls = hear(message).calls
    return _key(tuple((call.name, call.args) for call in calls if isinstance(call, Call)))


def _heard(messages: Sequence[Message], at: int) -> str:
    """The last line of the observation after a message."""
    seen = messages[at + 1].content if at + 1 < len(messages) else ""
    return _NAMED.sub("", seen.rstrip().rpartition("\n")[2]).strip()


def _steps(listed: Sequence[Sequence[Any]]) -> Lines:
    return tuple((str(name), dict(args)) for name, args in listed)


def _shown(part: Mapping[str, Any]) -> Lines:
    """Calls that show what was made."""
    return tuple(sh(f"head -5 {path}") for path in part["made"][:1])


def _careful(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Looks, works step by step, looks at the result."""
    plan = Plan()
    plan.say(*_steps(data["first"]))
    for part in data["parts"]:
        plan.say(*_steps(part["look"]))
        *before, last = _steps(part["shell"])
        for step in before:
            plan.say(step)
        plan.say(last, tells=bool(part["answer"]))
        plan.say(*_shown(part))
    plan.say(*_steps(data["last"]))
    return plan


def _direct(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Looks at everything in one message, then writes Python for each job."""
    plan = Plan()
    plan.say(*_steps(data["first"]), *(step for part in data["parts"] for step in _steps(part["look"])))
    for part in data["parts"]:
        plan.say(python(part["code"]), tells=bool(part["answer"]))
    plan.say(*_steps(data["last"]))
    return plan


def _steady(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """One call at a time: looks, Python, a look at the result."""
    plan = Plan()
    for part in data["parts"]:
        for step in _steps(part["look"]):
            plan.say(step)
        plan.say(python(part["code"]), tells=bool(part["answer"]))
        plan.say(*_shown(part))
    for step in _steps(data["last"]):
        plan.say(step)
    return plan


def _brisk(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """All that a job needs in one message, without a look."""
    plan = Plan()
    for part in data["parts"]:
        plan.say(*_steps(part["shell"]), tells=bool(part["answer"]))
    plan.say(*_steps(data["last"]))
    return plan


def _slip(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Works step by step, and makes the natural mistake in one job."""
    plan, wrong = Plan(), rng.randrange(len(data["parts"]))
    for i, part in enumerate(data["parts"]):
        if rng.random() < 0.5:
            plan.say(*_steps(part["look"]))
        plan.say(*_steps(part["slip" if i == wrong else "shell"]), tells=bool(part["answer"]))
    plan.say(*_steps(data["last"]))
    return plan


def _half(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Does a part, and says that it is done."""
    plan, parts = Plan(final="done"), data["parts"]
    for part in parts[:-1]:
        plan.say(*_steps(part["shell"]))
    if len(parts) == 1:
        plan.say(*_steps(parts[0]["look"]))
        plan.say(*_steps(parts[0]["shell"])[:-1])
    return plan


def _clobber(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Does everything, then tidies up too much."""
    plan = _brisk(data, rng)
    plan.say(sh(f"rm -f {_precious(data)}"))
    return plan


def _precious(data: Mapping[str, Any]) -> str:
    """A file that must be there at the end."""
    for item in data["checks"]:
        if item["kind"] in ("same", "text", "rows", "value", "ini"):
            return str(item["path"])
        if item["kind"] == "table":
            return str(item["db"])
        if item["kind"] == "runs":
            return str(f"{item['folder']}/{item['takes'][0]}" if "folder" in item else item["takes"][0])
    raise AssertionError("every check-list has a file")


def _duped(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Falls for the trap; where there is none, works and mumbles the answer."""
    if not data["trap"]:
        plan = _brisk(data, rng)
        plan.final = "I am not sure"
        return plan
    plan = Plan() if data["lure"] else Plan(final="done")
    plan.say(*_steps(data["first"]))
    plan.say(*_steps(data["lure"]))
    if data["lure"]:
        for part in data["parts"]:
            plan.say(*_steps(part["shell"]), tells=bool(part["answer"]))
        plan.say(*_steps(data["last"]))
    return plan


def _claim(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Looks, and says that it is done."""
    plan = Plan(final="done")
    for part in data["parts"]:
        plan.say(*_steps(part["look"]))
    return plan


def _quit(data: Mapping[str, Any], rng: random.Random) -> Plan:
    """Says that it is done."""
    return Plan(final="done")


HABITS: Mapping[str, Habit] = {
    "careful": Habit(0.07, _careful, "look, work, check.", "read"),
    "direct": Habit(0.07, _direct, "look, then Python.", "python"),
    "steady": Habit(0.05, _steady, "one step at a time.", "sh"),
    "brisk": Habit(0.05, _brisk, "I know how.", None),
    "slip": Habit(0.22, _slip, "easy."),
    "half": Habit(0.14, _half, "a part first."),
    "clobber": Habit(0.14, _clobber, "work, then tidy up."),
    "duped": Habit(0.08, _duped, "what does it say?"),
    "claim": Habit(0.12, _claim, "look first."),
    "quit": Habit(0.06, _quit, "nothing to do."),
}
