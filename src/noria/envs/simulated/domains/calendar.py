"""A calendar of meetings: which hour it finds for two people is left open."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from noria.envs.simulated.card import Action, Args, Ask, Domain, Effect, Rule
from noria.envs.simulated.paths import State
from noria.envs.simulated.schema import Many, Record, Ref, Table, Whole, Word
from noria.tokens.calls import Call

_NAMES, _DAYS = ("Ann", "Bo", "Cy", "Dee", "Eve", "Finn"), ("mon", "tue", "wed")
_TITLES = ("plan", "review", "lunch", "report", "talk")
_FIRST, _LAST = 8, 18
#: Whether somebody of a list can meet at a day and hour, but for one meeting: {who}, {day}, {hour}, {but}.
_CAN = (
    "all(people[p].start <= {hour} and {hour} < people[p].end and not any(p in meetings[m].who "
    "and meetings[m].day == {day} and meetings[m].hour == {hour} for m in meetings if m != {but}) for p in {who})"
)
_PAIR = {"who": "[person, other]", "day": "day", "but": "''"}
_HOURS = f"range({_FIRST}, {_LAST})"
_FREE = f"list(h for h in {_HOURS} if {_CAN.format(hour='h', **_PAIR)})"
_NEW = "{{'title': 'talk', 'day': day, 'hour': {hour}, 'who': [person, other]}}"
_IS_NEW = "meetings[new].title == 'talk' and meetings[new].day == day and meetings[new].who == [person, other]"
_MEETING, _PERSON, _DAY = Ref("meetings"), Ref("people"), Word(_DAYS)
_SHOWN = ("meetings/{new}/day", "meetings/{new}/hour", "meetings/{new}/who")
_TOLD = "{new} {meetings[new].day} at {meetings[new].hour} with {person} and {other}"
_TWO = Rule("person != other", "two people must be named")
_ACTIONS = (
    Action(
        "list_meetings", "look", "every meeting",
        '{join(f"{m} {meetings[m].title}, {meetings[m].day} at {meetings[m].hour}, with {both(meetings[m].who)}" '
        "for m in meetings)}",
        shows=("meetings/*/title", "meetings/*/day", "meetings/*/hour", "meetings/*/who"),
    ),
    Action(
        "list_people", "look", "the hours of everybody",
        '{join(f"{p} works {people[p].start} to {people[p].end}" for p in people)}',
        shows=("people/*/start", "people/*/end"),
    ),
    Action(
        "meet", "let", "let the calendar find an hour for two people on a day", _TOLD,
        {"person": _PERSON, "other": _PERSON, "day": _DAY},
        (_TWO, Rule(f"len({_FREE}) > 0", "they share no free hour")),
        (Effect("meetings/?", _NEW.format(hour=f"{_FREE}[luck(len({_FREE}))]"), free=True),),
        (Rule(_IS_NEW, "the new meeting is a talk of the two on that day"),), _SHOWN,
    ),
    Action(
        "book", "make", "a talk of two people at a certain hour", _TOLD,
        {"person": _PERSON, "other": _PERSON, "day": _DAY, "hour": Whole(_FIRST, _LAST - 1)},
        (_TWO, Rule(_CAN.format(hour="hour", **_PAIR), "not both are free at {hour}")),
        (Effect("meetings/?", _NEW.format(hour="hour")),),
        (Rule(f"{_IS_NEW} and meetings[new].hour == hour", "the new meeting is a talk of the two at that hour"),),
        _SHOWN,
    ),
    Action(
        "move", "make", "put a meeting on another day or hour", "{meeting} {day} at {hour}",
        {"meeting": _MEETING, "day": _DAY, "hour": Whole(_FIRST, _LAST - 1)},
        (Rule(_CAN.format(hour="hour", day="day", who="meetings[meeting].who", but="meeting"),
              "not everybody of {meeting} is free on {day} at {hour}"),),
        (Effect("meetings/{meeting}/day", "day"), Effect("meetings/{meeting}/hour", "hour")),
        shows=("meetings/{meeting}/day", "meetings/{meeting}/hour"),
    ),
    Action(
        "invite", "make", "have one more in a meeting", "{meeting} with {both(meetings[meeting].who)}",
        {"meeting": _MEETING, "person": _PERSON},
        (Rule("not person in meetings[meeting].who", "{person} is in {meeting}"),
         Rule(_CAN.format(hour="meetings[meeting].hour", day="meetings[meeting].day", who="[person]", but="''"),
              "{person} is not free on {meetings[meeting].day} at {meetings[meeting].hour}")),
        (Effect("meetings/{meeting}/who", "person", "append"),), shows=("meetings/{meeting}/who",),
    ),
    Action(
        "leave", "make", "take a meeting away", "{meeting} is gone", {"meeting": _MEETING},
        effects=(Effect("meetings/{meeting}", op="delete"),),
    ),
)  # fmt: skip


def _start(rng: random.Random, rows: int) -> State:
    names = rng.sample(_NAMES, rows)
    people = {name: {"start": rng.randint(_FIRST, 9), "end": rng.randint(12, 15)} for name in names}
    state: State = {"people": people, "meetings": {}}
    for number in sorted(rng.sample(range(1, 10), rows + 1)):
        who, day = rng.sample(names, rng.choice((1, 2, 2))), rng.choice(_DAYS)
        free = _free(state, who, day)
        if free:
            one = {"title": rng.choice(_TITLES), "day": day, "hour": rng.choice(free), "who": who}
            state["meetings"][f"M{number}"] = one
    return state


def _free(state: State, who: Sequence[str], day: str, but: str = "") -> list[int]:
    """The hours at which all of these are free."""
    taken = {
        meeting["hour"] for name, meeting in state["meetings"].items()
        if name != but and meeting["day"] == day and set(who) & set(meeting["who"])
    }  # fmt: skip
    first = max(state["people"][name]["start"] for name in who)
    last = min(state["people"][name]["end"] for name in who)
    return [hour for hour in range(first, last) if hour not in taken]


def _draw_talk(rng: random.Random, state: State) -> dict[str, Any] | None:
    person, other = rng.sample(list(state["people"]), 2)
    day = rng.choice(_DAYS)
    return {"person": person, "other": other, "day": day} if _free(state, (person, other), day) else None


def _draw_shift(rng: random.Random, state: State) -> dict[str, Any] | None:
    name = rng.choice(list(state["meetings"]))
    day = rng.choice([day for day in _DAYS if day != state["meetings"][name]["day"]])
    return {"meeting": name, "day": day}


def _draw_bring(rng: random.Random, state: State) -> dict[str, Any] | None:
    name = rng.choice(list(state["meetings"]))
    return {"meeting": name, "person": rng.choice(list(state["people"]))}


def _talk(state: State, params: Args, way: int) -> list[Call]:
    """The calendar finds an hour, or the last free one is named."""
    names = {"person": params["person"], "other": params["other"], "day": params["day"]}
    free = _free(state, (params["person"], params["other"]), params["day"])
    if way and free:
        return [Call("book", {**names, "hour": str(free[-1])})]
    return [Call("meet", names)]


def _shift(state: State, params: Args, way: int) -> list[Call]:
    name = params["meeting"]
    free = _free(state, state["meetings"][name]["who"], params["day"], name)
    return [Call("move", {"meeting": name, "day": params["day"], "hour": str(free[-way])}) for _ in free[:1]]


def _bring(state: State, params: Args, way: int) -> list[Call]:
    """Invited at once, or after the meeting was put where everybody is free."""
    name, meeting = params["meeting"], state["meetings"][params["meeting"]]
    invited = Call("invite", {"meeting": name, "person": params["person"]})
    if meeting["hour"] in _free(state, [params["person"]], meeting["day"]):
        return [invited]
    for day in (_DAYS, _DAYS[::-1])[way]:
        if free := _free(state, [*meeting["who"], params["person"]], day, name):
            return [Call("move", {"meeting": name, "day": day, "hour": str(free[-way])}), invited]
    return []


_TALKS = "meetings[m].day == '{day}' and '{person}' in meetings[m].who and '{other}' in meetings[m].who"
DOMAIN = Domain(
    "calendar",
    "A calendar. Nobody is in two meetings at the same hour of a day, nor outside his own hours; each takes an hour.",
    Record({
        "people": Table(Record({"start": Whole(_FIRST, _LAST), "end": Whole(_FIRST, _LAST)})),
        "meetings": Table(Record({
            "title": Word(_TITLES), "day": _DAY, "hour": Whole(_FIRST, _LAST - 1), "who": Many(_PERSON, 6),
        })),
    }),
    (Rule("all(" + _CAN.format(hour="meetings[k].hour", day="meetings[k].day", who="meetings[k].who", but="k")
          + " for k in meetings)", "everybody of a meeting is free for it"),),
    _ACTIONS, _start,
    {
        "talk": Ask(
            _draw_talk, "have {person} and {other} meet on {day}", (f"any({_TALKS} for m in meetings)",),
            ("meetings/?",), _talk, (("At which hour do {person} and {other} meet on {day} then?",
                     f"first(meetings[m].hour for m in meetings if {_TALKS})"),),
        ),
        "shift": Ask(
            _draw_shift, "move {meeting} to {day}", ("meetings.{meeting}.day == '{day}'",),
            ("meetings/{meeting}/day", "meetings/{meeting}/hour"), _shift,
            (("At which hour is {meeting} then?", "meetings.{meeting}.hour"),),
        ),
        "bring": Ask(
            _draw_bring, "have {person} in {meeting} too", ("'{person}' in meetings.{meeting}.who",),
            ("meetings/{meeting}/day", "meetings/{meeting}/hour", "meetings/{meeting}/who"), _bring,
            (("On which day is {meeting} then?", "meetings.{meeting}.day"),
             ("At which hour is {meeting} then?", "meetings.{meeting}.hour")),
        ),
    },
    ("list_meetings", "list_people"),
)  # fmt: skip
