"""Scripted ways of working: the two experts, other right habits, and the wrong habits of a weak model.

Every policy is a function of a plan (drawn once from the seed) and of the notes it takes from the
conversation so far, so it can also take over from the middle of somebody else's episode.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from noria.bases.turn import heard_calls
from noria.bases.world import habit_named
from noria.core.errors import PolicyError
from noria.core.types import Message, Task
from noria.envs.microswe.edits import Edit, follow, read, repair
from noria.envs.microswe.families import registry
from noria.envs.microswe.mutations import Mutant, mutants, mutate
from noria.envs.microswe.tasks import RESET, code, held_out
from noria.tokens.calls import Call, render_call

EXPERTS = ("careful", "direct")


@dataclass(frozen=True, slots=True)
class Habit:
    """Its share of the weak model's raising, and the kind of advice that it obeys if it is right."""

    weight: float
    advice: str | None = None


#: The first four and `search` are right, each other one goes wrong. Nobody is raised on `search` unless asked for.
HABITS: Mapping[str, Habit] = {
    "careful": Habit(0.05, "test"), "direct": Habit(0.05, "edit"), "thorough": Habit(0.03, "view"),
    "recover": Habit(0.11, "submit"), "hasty": Habit(0.12), "stubborn": Habit(0.12), "guess": Habit(0.10),
    "fiddle": Habit(0.14), "giveup": Habit(0.17), "quit": Habit(0.11),
    "search": Habit(0.0, "submit"),
}  # fmt: skip
#: strategy -> what it may think before its first act
THOUGHTS: Mapping[str, tuple[str, ...]] = {
    "careful": ("test, read, fix, test.",),
    "direct": ("read, fix, test.",),
    "thorough": ("read, test, fix, test.",),
    "recover": ("read, fix, test.", "try, then test."),
    "hasty": ("looks easy.", "read, fix."),
    "stubborn": ("fix, test, done.",),
    "guess": ("I know this.",),
    "fiddle": ("read, change.",),
    "giveup": ("look first.",),
    "quit": ("looks fine.",),
    "search": ("try, test, undo.",),
}
_THINK_SHARE, _SLOPPY_RIGHT, _MOST_TRIES = 0.4, 0.25, 4

VIEW, TEST, SUBMIT = render_call("view"), render_call("test"), render_call("submit")
BACK = render_call(RESET.name)


@dataclass
class Notes:
    """What the conversation so far shows. `passed` is the last test result since the last edit, if any."""

    text: str
    app: str
    steps: int = 0
    views: int = 0
    tests: int = 0
    errors: int = 0
    passed: bool | None = None
    edits: list[Edit] = field(default_factory=list)

    @classmethod
    def of(cls, task: Task, messages: Sequence[Message]) -> Notes:
        """Replay the calls of a conversation; what the world refused changes nothing."""
        notes = cls(task.data["app"], task.data["app"])
        for message in messages:
            if message.role == "assistant":
                notes.steps += 1
                notes._acted(message.content)
            elif message.role == "tool":
                notes._saw(message.content)
        return notes

    def _acted(self, content: str) -> None:
        for call in heard_calls(content):
            if not isinstance(call, Call):
                continue
            self.views += call.name == "view"
            self.tests += call.name == "test"
            if call.name == RESET.name:
                self.text, self.passed = self.app, None
            if call.name != "edit" or set(call.args) != {"line", "new"}:
                continue
            try:
                edit = read(call.args)
                self.text = follow(self.text, edit)
            except PolicyError:
                self.errors += 1
            else:
                self.edits.append(edit)
                self.passed = None

    def _saw(self, content: str) -> None:
        for line in content.split("\n"):
            if line.startswith(("pass ", "fail ")):
                self.passed = line.startswith("pass ")


@dataclass(frozen=True)
class Plan:
    """What a policy made up its mind about: its edits and its coin flips."""

    first: Edit
    second: Edit
    spoil: Edit
    opens_with_test: bool
    tests_after: bool
    variant: float
    tries: tuple[Edit, ...]


def policy(task: Task, strategy: str, seed: int) -> Callable[[Sequence[Message]], str]:
    """A policy for one task.

    Raises:
        UserError: unknown strategy.
    """
    habit_named(HABITS, strategy)
    rng = random.Random(f"{task.id}/{strategy}/{seed}")
    plan = _plan(task, strategy, rng)
    thought = rng.choice(THOUGHTS[strategy]) if rng.random() < _THINK_SHARE else ""
    decide = _DECIDE[strategy]

    def play(messages: Sequence[Message]) -> str:
        notes = Notes.of(task, messages)
        think = f"<think>{thought}</think>" if thought and notes.steps == 0 else ""
        return think + decide(task, plan, notes)

    return play


def _plan(task: Task, strategy: str, rng: random.Random) -> Plan:
    right = strategy == "fiddle" or (strategy != "recover" and rng.random() < _SLOPPY_RIGHT)
    if right:
        first = _mend(task, task.data["app"])
    elif strategy == "guess":
        first = _blind(task, rng)
    else:
        first = _sloppy(task, rng)
    second, spoil = _blind(task, rng), _spoil(task, rng)
    coins = rng.random() < 0.3, rng.random() < 0.4, rng.random()
    wrong = _wrong(task)
    return Plan(first, second, spoil, *coins, tuple(rng.sample(wrong, min(len(wrong), rng.randint(1, _MOST_TRIES)))))


def _say(edit: Edit) -> str:
    return render_call("edit", line=edit.line, new=edit.new)


def _mend(task: Task, text: str, prefer: int = 0) -> Edit:
    edit = repair(text, task.data["gold"], prefer)
    if edit is None:
        raise ValueError("nothing to mend")
    return edit


def _between(task: Task, lines: tuple[str, ...], line: int) -> Edit:
    """The edit that makes a line read as in a template."""
    return Edit(line, code(task.data, (lines[line - 1],)).strip())


@cache
def _further(key: str, site: int) -> tuple[Mutant, ...]:
    """Mutants of a mutant, without the way back to the original and without held-out bugs."""
    family = registry()[key]
    return tuple(
        one
        for one in mutate(mutants(key)[site].lines, frozenset(family.consts))
        if one.lines != family.lines and not held_out(key, one.kind)
    )


def _sloppy(task: Task, rng: random.Random) -> Edit:
    """A wrong edit that a hurried worker could make: the right line half of the time."""
    options, line = _wrong(task), int(task.data["line"])
    same = tuple(one for one in options if one.line == line)
    return rng.choice(same if same and rng.random() < 0.5 else options)


def _wrong(task: Task) -> tuple[Edit, ...]:
    """Edits of the file with the bug that leave it broken."""
    if "wrong" in task.data:
        return _listed(task)
    options = _further(task.data["family"], task.data["site"])
    return tuple(_between(task, one.lines, one.line) for one in options)


def _listed(task: Task) -> tuple[Edit, ...]:
    return tuple(Edit(int(line), str(new)) for line, new in task.data["wrong"])


def _spoil(task: Task, rng: random.Random) -> Edit:
    """An edit that breaks the mended file."""
    if "wrong" in task.data:
        return rng.choice(_listed(task))
    key, site = task.data["family"], task.data["site"]
    options = [one for i, one in enumerate(mutants(key)) if i != site and not held_out(key, one.kind)]
    made = rng.choice(options)
    return _between(task, made.lines, made.line)


def _blind(task: Task, rng: random.Random) -> Edit:
    """An edit that would mend some bug of the function: what one writes without reading."""
    made = _spoil(task, rng)
    return made if rng.random() < 0.5 else Edit(made.line, task.data["gold"].split("\n")[made.line - 1].strip())


def _careful(task: Task, plan: Plan, notes: Notes) -> str:
    if not notes.tests and not notes.edits:
        return TEST
    return _direct(task, plan, notes)


def _thorough(task: Task, plan: Plan, notes: Notes) -> str:
    if notes.views and not notes.tests and not notes.edits:
        return TEST
    return _direct(task, plan, notes)


def _direct(task: Task, plan: Plan, notes: Notes) -> str:
    if not notes.views:
        return VIEW
    return _finish(task, notes)


def _finish(task: Task, notes: Notes) -> str:
    """Mend what is wrong (the line last touched first), test, submit."""
    if notes.text != task.data["gold"] and notes.passed is not True:
        return _say(_mend(task, notes.text, notes.edits[-1].line if notes.edits else 0))
    return SUBMIT if notes.passed else TEST


def _recover(task: Task, plan: Plan, notes: Notes) -> str:
    if plan.opens_with_test and not notes.tests and not notes.edits:
        return TEST
    if not notes.views:
        return VIEW
    if not notes.edits:
        return _say(plan.first)
    if notes.passed is None and len(notes.edits) == 1:
        return TEST
    return _finish(task, notes)


def _hasty(task: Task, plan: Plan, notes: Notes) -> str:
    if not notes.views:
        return VIEW
    return SUBMIT if notes.edits or notes.errors else _say(plan.first)


def _stubborn(task: Task, plan: Plan, notes: Notes) -> str:
    if plan.opens_with_test and not notes.tests and not notes.edits:
        return TEST
    if not notes.views:
        return VIEW
    if not notes.edits and not notes.errors:
        return _say(plan.first)
    return TEST if notes.passed is None else SUBMIT


def _guess(task: Task, plan: Plan, notes: Notes) -> str:
    if plan.opens_with_test and not notes.tests:
        return TEST
    if notes.edits or notes.errors > (plan.variant < 0.5):
        return SUBMIT
    return _say(plan.second if notes.errors else plan.first)


def _fiddle(task: Task, plan: Plan, notes: Notes) -> str:
    if not notes.views:
        return VIEW
    if not notes.edits:
        return _say(plan.first)
    if len(notes.edits) == 1 and not notes.errors:
        return _say(plan.spoil)
    return TEST if plan.tests_after and notes.passed is None else SUBMIT


def _giveup(task: Task, plan: Plan, notes: Notes) -> str:
    """Looks or tests, perhaps tries once, takes it back when the tests fail, and leaves."""
    tries = plan.variant < 0.3
    if plan.variant < 0.6 and not notes.tests and not notes.edits:
        return TEST
    if (tries or plan.variant > 0.45) and not notes.views:
        return VIEW
    if tries and not notes.edits and not notes.errors:
        return _say(plan.first)
    if tries and notes.passed is None and len(notes.edits) == 1:
        return TEST
    if tries and notes.passed is False and len(notes.edits) == 1:
        back = repair(notes.text, task.data["app"])
        return _say(back) if back else SUBMIT
    return SUBMIT


def _quit(task: Task, plan: Plan, notes: Notes) -> str:
    return SUBMIT


def _search(task: Task, plan: Plan, notes: Notes) -> str:
    """One guess after the other: each is tested, and taken back before the next."""
    if not notes.views:
        return VIEW
    if notes.passed:
        return SUBMIT
    back = repair(notes.text, task.data["app"], notes.edits[-1].line if notes.edits else 0)
    if back is not None:
        again = BACK if RESET in task.tools else _say(back)
        return TEST if notes.passed is None else again
    left = [one for one in plan.tries if one not in notes.edits]
    return _say(left[0] if left else _mend(task, notes.text))


_DECIDE: Mapping[str, Callable[[Task, Plan, Notes], str]] = {
    "careful": _careful, "direct": _direct, "thorough": _thorough, "recover": _recover, "hasty": _hasty,
    "stubborn": _stubborn, "guess": _guess, "fiddle": _fiddle, "giveup": _giveup, "quit": _quit,
    "search": _search,
}  # fmt: skip
