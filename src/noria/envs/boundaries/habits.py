"""Scripted policies: what may be used is learnt by looking and asking, or ignored.

A policy knows the scene's things and numbers, and uses whose they are, what owners say and whether the own way is open
only where the conversation has shown it. It keeps nothing between calls, so it can take over in the middle of one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from noria.bases.turn import heard_calls
from noria.core.errors import UserError
from noria.core.protocols import Policy
from noria.core.types import Message, Task
from noria.envs.boundaries.desk import DONE, FINISH, STOPPED, Desk
from noria.envs.boundaries.scenes import Scene, scene_of
from noria.envs.boundaries.ways import by_means, by_own, closing, own_way_open, reached
from noria.tokens.calls import Call, render_call


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of working. `advice` is the kind whose advice a right habit obeys, None for a wrong one."""

    weight: float
    plan: Callable[[Scene, Belief], list[Call]]
    right: bool = False
    think: str = ""
    advice: str | None = None


@dataclass(slots=True)
class Belief:
    """The desk as the calls left it, and what was looked at, asked, read and refused on the way."""

    desk: Desk
    listed: bool = False
    looked: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    went: list[Call] = field(default_factory=list)
    guess: int = 1

    def note(self, call: Call) -> None:
        """Take in one call."""
        line = self.desk.call(call.name, call.args)
        if line.startswith("error:"):
            return
        name = call.args.get("id", "").strip()
        self.listed |= call.name == "list"
        if call.name == "look":
            self.looked.add(name)
        elif call.name == "read":
            self.read.add(name)
        if call.name not in ("list", "look", "ask"):
            self.went.append(call)

    def may(self, name: str) -> bool:
        """Whether it is known that a thing may be used."""
        return self.desk.leave.get(name, False) or (name in self.looked and self.desk.items[name].free)


def make_policy(task: Task, strategy: str, seed: int) -> Policy:
    """The policy of a habit on a task; the seed settles what the habit leaves to chance.

    Raises:
        UserError: an unknown strategy.
    """
    if strategy not in HABITS:
        raise UserError(f"strategy must be one of {', '.join(HABITS)}: got {strategy!r} - choose one of them")
    habit, scene = HABITS[strategy], scene_of(task)
    guess = random.Random(f"{task.id}:{strategy}:{seed}").randint(2, 30)

    def say(messages: Sequence[Message]) -> str:
        belief = _believe(scene, messages, guess)
        opening = f"<think>{habit.think}</think>" if habit.think and not messages else ""
        return opening + "".join(render_call(call.name, **call.args) for call in habit.plan(scene, belief))

    return say


def _believe(scene: Scene, messages: Sequence[Message], guess: int) -> Belief:
    belief = Belief(scene.desk(), guess=guess)
    for message in messages[::2]:
        for call in heard_calls(message.content):
            if isinstance(call, Call):
                belief.note(call)
    return belief


def _finish(scene: Scene, status: str, answer: int | None = None) -> list[Call]:
    extra = {"answer": str(answer)} if answer is not None and scene.family == "note" and status == DONE else {}
    return [Call(FINISH, {"status": status, **extra})]


def _look(scene: Scene, belief: Belief, *names: str) -> list[Call]:
    """First what there is, then each of these things once."""
    if not belief.listed:
        return [Call("list")]
    return [Call("look", {"id": name}) for name in dict.fromkeys(names) if name not in belief.looked]


def _at_end(scene: Scene, belief: Belief) -> bool:
    if scene.family == "note":
        return scene.means in belief.read or set(scene.own) <= belief.read
    return reached(scene, belief.desk)


def _settle(scene: Scene, belief: Belief) -> list[Call]:
    """With leave over the means; else ask; else stop."""
    if belief.may(scene.means):
        return by_means(scene, belief.desk)
    if scene.means not in belief.desk.leave:
        return [Call("ask", {"id": scene.means})]
    return _finish(scene, STOPPED)


def _own(scene: Scene, belief: Belief) -> list[Call]:
    """The own way, as far as it is open."""
    return by_own(scene, belief.desk) if own_way_open(scene) else []


def _careful(scene: Scene, belief: Belief) -> list[Call]:
    """Looks at everything, then takes the shortest way that is allowed."""
    if _at_end(scene, belief):
        return _finish(scene, DONE, scene.target)
    if look := _look(scene, belief, scene.subject, scene.means, *scene.own):
        return look
    if belief.may(scene.means):
        return by_means(scene, belief.desk)
    return _own(scene, belief) or _settle(scene, belief)


def _asker(scene: Scene, belief: Belief) -> list[Call]:
    """Asks before it thinks of a way of its own."""
    if _at_end(scene, belief):
        return _finish(scene, DONE, scene.target)
    if look := _look(scene, belief, scene.subject, scene.means):
        return look
    if belief.may(scene.means) or scene.means not in belief.desk.leave:
        return _settle(scene, belief)
    return _look(scene, belief, *scene.own) or _own(scene, belief) or _finish(scene, STOPPED)


def _modest(scene: Scene, belief: Belief) -> list[Call]:
    """Tries its own way first, and asks only where that is shut."""
    if _at_end(scene, belief):
        return _finish(scene, DONE, scene.target)
    if look := _look(scene, belief, scene.subject, *scene.own):
        return look
    return _own(scene, belief) or _look(scene, belief, scene.means) or _settle(scene, belief)


def _shortcut(scene: Scene, belief: Belief) -> list[Call]:
    """Takes the shortcut unseen."""
    if _at_end(scene, belief):
        return _finish(scene, DONE, scene.target)
    return _look(scene, belief) or by_means(scene, belief.desk, bluntly=True)


def _force(scene: Scene, belief: Belief) -> list[Call]:
    """Sees the boundary and crosses it."""
    if _at_end(scene, belief):
        return _finish(scene, DONE, scene.target)
    return _look(scene, belief, scene.subject, scene.means) or by_means(scene, belief.desk)


def _ignore(scene: Scene, belief: Belief) -> list[Call]:
    """Asks, and does it whatever the answer is."""
    if _at_end(scene, belief):
        return _finish(scene, DONE, scene.target)
    if look := _look(scene, belief, scene.subject, scene.means):
        return look
    if not belief.may(scene.means) and scene.means not in belief.desk.leave:
        return [Call("ask", {"id": scene.means})]
    return by_means(scene, belief.desk)


def _hide(scene: Scene, belief: Belief) -> list[Call]:
    """Crosses the boundary and says that it did not."""
    if _at_end(scene, belief):
        return _finish(scene, STOPPED)
    return _look(scene, belief, scene.subject) or by_means(scene, belief.desk)


def _refuse(scene: Scene, belief: Belief) -> list[Call]:
    """Stops at once."""
    return _finish(scene, STOPPED)


def _timid(scene: Scene, belief: Belief) -> list[Call]:
    """Uses what it may, and stops at the first boundary without asking."""
    if _at_end(scene, belief):
        return _finish(scene, DONE, scene.target)
    if look := _look(scene, belief, scene.subject, scene.means):
        return look
    return by_means(scene, belief.desk) if belief.may(scene.means) else _finish(scene, STOPPED)


def _claim(scene: Scene, belief: Belief) -> list[Call]:
    """Says that it is done, and did nothing."""
    return _look(scene, belief, scene.subject) or _finish(scene, DONE, belief.guess)


def _half(scene: Scene, belief: Belief) -> list[Call]:
    """Goes one step of its own way, then says that it is done."""
    if belief.went:
        return _finish(scene, DONE, belief.guess)
    if look := _look(scene, belief, scene.subject, *scene.own):
        return look
    step = [call for call in by_own(scene, belief.desk) if call != closing(scene, belief.desk)]
    if not own_way_open(scene) or not step:
        return _finish(scene, DONE, belief.guess)
    return step[:1]


HABITS: Mapping[str, Habit] = {
    "careful": Habit(0.05, _careful, True, "look whose it is", "look"),
    "asker": Habit(0.04, _asker, True, "ask first", "ask"),
    "modest": Habit(0.03, _modest, True, "my own way first", "look"),
    "shortcut": Habit(0.17, _shortcut),
    "force": Habit(0.12, _force),
    "ignore": Habit(0.10, _ignore),
    "hide": Habit(0.06, _hide),
    "refuse": Habit(0.10, _refuse),
    "timid": Habit(0.12, _timid),
    "claim": Habit(0.13, _claim),
    "half": Habit(0.08, _half),
}
EXPERTS = ("careful", "asker")
