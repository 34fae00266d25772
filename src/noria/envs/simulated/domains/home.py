"""A house with rooms that are heated: how fast a room warms is left open."""

from __future__ import annotations

import random
from typing import Any

from noria.envs.simulated.card import Action, Args, Ask, Domain, Effect, Rule
from noria.envs.simulated.paths import State
from noria.envs.simulated.schema import Record, Ref, Table, Whole, Word
from noria.tokens.calls import Call

_ROOMS = ("hall", "study", "attic", "cellar", "nursery", "kitchen", "porch")
_DEGREES, _MODES = Whole(5, 30), ("eco", "comfort", "away")
#: Above this the house must be in the mode comfort.
_PLAIN = 20
_LONGEST_WAIT = 4
_WARMED = (
    "rooms[it].temp if rooms[it].window == 'open' else "
    "min(rooms[it].target, rooms[it].temp + hours * (1 + luck(2))) if rooms[it].target > rooms[it].temp else "
    "max(rooms[it].target, rooms[it].temp - hours * (1 + luck(2)))"
)
_NEARER = (
    "all(abs(rooms[r].target - rooms[r].temp) <= max(0, abs(rooms[r].target - was.rooms[r].temp) - hours) "
    "and min(was.rooms[r].temp, rooms[r].target) <= rooms[r].temp <= max(was.rooms[r].temp, rooms[r].target) "
    "for r in rooms if rooms[r].window == 'shut')"
)
_ROOM = Ref("rooms")
_ACTIONS = (
    Action(
        "list_rooms", "look", "mode, hour and every room",
        'mode {mode}, hour {hour}; {join(f"{r} {rooms[r].temp} degrees, target {rooms[r].target}, '
        'window {rooms[r].window}" for r in rooms)}',
        shows=("mode", "hour", "rooms/*/temp", "rooms/*/target", "rooms/*/window"),
    ),
    Action(
        "set_target", "make", "how warm a room shall become", "{room} target {degrees}",
        {"room": _ROOM, "degrees": _DEGREES},
        (Rule(f"degrees <= {_PLAIN} or mode == 'comfort'", "{degrees} degrees need mode comfort, it is {mode}"),),
        (Effect("rooms/{room}/target", "degrees"),), shows=("rooms/{room}/target",),
    ),
    Action(
        "set_all", "make", "the same target for every room", "all rooms target {degrees}", {"degrees": _DEGREES},
        (Rule(f"degrees <= {_PLAIN} or mode == 'comfort'", "{degrees} degrees need mode comfort, it is {mode}"),),
        (Effect("rooms/*/target", "degrees"),),
    ),
    Action(
        "set_mode", "make", "the mode of the house", "mode {to}", {"to": Word(_MODES)},
        (Rule(f"to == 'comfort' or all(rooms[r].target <= {_PLAIN} for r in rooms)",
              f"a target above {_PLAIN} needs mode comfort"),),
        (Effect("mode", "to"),), shows=("mode",),
    ),
    Action(
        "open_window", "make", "open a window", "{room} window open", {"room": _ROOM},
        (Rule("rooms[room].window == 'shut'", "the window of {room} is open"),),
        (Effect("rooms/{room}/window", "'open'"),), shows=("rooms/{room}/window",),
    ),
    Action(
        "shut_window", "make", "shut a window", "{room} window shut", {"room": _ROOM},
        (Rule("rooms[room].window == 'open'", "the window of {room} is shut"),),
        (Effect("rooms/{room}/window", "'shut'"),), shows=("rooms/{room}/window",),
    ),
    Action(
        "wait", "let", "let hours pass", 'hour {hour}; {join(f"{r} {rooms[r].temp} degrees" for r in rooms)}',
        {"hours": Whole(1, _LONGEST_WAIT)}, (Rule("hour + hours <= 23", "the day ends before that"),),
        (Effect("hour", "hour + hours"), Effect("rooms/*/temp", _WARMED, free=True)),
        (Rule(_NEARER, "a shut room comes nearer to its target by a degree an hour or more, and not past it"),
         Rule("all(rooms[r].temp == was.rooms[r].temp for r in rooms if rooms[r].window == 'open')",
              "a room with an open window stays as it is")),
        ("hour", "rooms/*/temp"),
    ),
)  # fmt: skip


def _start(rng: random.Random, rows: int) -> State:
    mode = rng.choice(_MODES)
    rooms = {
        name: {
            "temp": rng.randint(14, 19),
            "target": rng.randint(16, 24 if mode == "comfort" else _PLAIN),
            "window": rng.choice(("open", "shut", "shut")),
        }
        for name in rng.sample(_ROOMS, rows)
    }
    return {"mode": mode, "hour": rng.randint(4, 9), "rooms": rooms}


def _draw_warm(rng: random.Random, state: State) -> dict[str, Any] | None:
    room = rng.choice(list(state["rooms"]))
    degrees = state["rooms"][room]["temp"] + rng.randint(2, 5)
    return {"room": room, "degrees": degrees}


def _warm(state: State, params: Args, way: int) -> list[Call]:
    """By the needed wait at once, or hour by hour."""
    name, degrees = params["room"], params["degrees"]
    room, calls = state["rooms"][name], []
    if room["window"] == "open":
        calls.append(Call("shut_window", {"room": name}))
    if room["target"] != degrees:
        if degrees > _PLAIN and state["mode"] != "comfort":
            calls.append(Call("set_mode", {"to": "comfort"}))
        calls.append(Call("set_target", {"room": name, "degrees": str(degrees)}))
    left = abs(degrees - room["temp"])
    hours = 1 if way else min(_LONGEST_WAIT, max(1, left))
    return [*calls, Call("wait", {"hours": str(hours)})]


def _draw_air(rng: random.Random, state: State) -> dict[str, Any] | None:
    shut = [name for name, room in state["rooms"].items() if room["window"] == "shut"]
    return {"room": rng.choice(shut)} if shut else None


def _air(state: State, params: Args, way: int) -> list[Call]:
    return [Call("open_window", {"room": params["room"]})]


def _draw_mode(rng: random.Random, state: State) -> dict[str, Any] | None:
    return {"mode": rng.choice([mode for mode in _MODES if mode != state["mode"]])}


def _mode(state: State, params: Args, way: int) -> list[Call]:
    """What is too warm is set down room by room, or all at once."""
    warm = [name for name, room in state["rooms"].items() if room["target"] > _PLAIN]
    calls = [Call("set_target", {"room": name, "degrees": str(_PLAIN)}) for name in warm]
    if params["mode"] == "comfort" or not warm:
        calls = []
    elif way:
        calls = [Call("set_all", {"degrees": str(_PLAIN)})]
    return [*calls, Call("set_mode", {"to": params["mode"]})]


DOMAIN = Domain(
    "home",
    "A house with a heating. Time passes only while somebody waits; then every room with a shut window comes nearer to "
    "its target, each at a pace of its own.",
    Record({
        "mode": Word(_MODES), "hour": Whole(0, 23),
        "rooms": Table(Record({"temp": _DEGREES, "target": _DEGREES, "window": Word(("open", "shut"))})),
    }),
    (Rule(f"mode == 'comfort' or all(rooms[r].target <= {_PLAIN} for r in rooms)",
          f"only in comfort a target is above {_PLAIN}"),),
    _ACTIONS, _start,
    {
        "warm": Ask(
            _draw_warm, "bring {room} to {degrees} degrees", ("rooms.{room}.temp == {degrees}",),
            ("rooms/{room}/target", "rooms/{room}/window", "rooms/*/temp", "hour", "mode"), _warm,
            (("Which hour is it then?", "hour"), ("Which mode is on then?", "mode")),
        ),
        "air": Ask(
            _draw_air, "open the window of {room}", ("rooms.{room}.window == 'open'",), ("rooms/{room}/window",), _air,
            (("How many degrees has {room} then?", "rooms.{room}.temp"),
             ("What is the target of {room} then?", "rooms.{room}.target")),
        ),
        "mode": Ask(
            _draw_mode, "switch the house to {mode}", ("mode == '{mode}'",), ("mode", "rooms/*/target"), _mode,
            (("How many windows are open then?", "count(rooms[r].window == 'open' for r in rooms)"),),
        ),
    },
    ("list_rooms",),
)  # fmt: skip
