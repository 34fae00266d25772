"""A store room with orders: how much a supplier delivers is left open."""

from __future__ import annotations

import random
from typing import Any

from noria.envs.simulated.card import Action, Args, Ask, Domain, Effect, Rule
from noria.envs.simulated.paths import State
from noria.envs.simulated.schema import Record, Ref, Table, Whole, Word
from noria.tokens.calls import Call

_GOODS = ("bolts", "lamps", "ropes", "paint", "tiles", "hinges")
_COUNT = Whole(0, 60)
#: What a supplier delivers, least and most; what can be fetched at a time.
_LEAST, _MOST, _FETCHED = 5, 9, 4
_FULL = "sum(items[i].count for i in items if items[i].bin == {0})"
_ITEM, _BIN, _ORDER = Ref("items"), Ref("bins"), Ref("orders")
_IS_ITS = "it == orders[order].item"
_ACTIONS = (
    Action(
        "list_items", "look", "every item with its goods, bin and count",
        '{join(f"{i} {items[i].goods}, bin {items[i].bin}, count {items[i].count}" for i in items)}',
        shows=("items/*/goods", "items/*/bin", "items/*/count"),
    ),
    Action(
        "list_bins", "look", "every bin with its room in all and how much is in it",
        '{join(f"{b} room {bins[b].room}, holds {' + _FULL.format("b") + '}" for b in bins)}',
        shows=("bins/*/room",),
    ),
    Action(
        "list_orders", "look", "every order",
        '{join(f"{o} wants {orders[o].n} of {orders[o].item}, {orders[o].state}" for o in orders)}',
        shows=("orders/*/n", "orders/*/item", "orders/*/state"),
    ),
    Action(
        "put", "make", "put all of an item into a bin", "{item} bin {bin}", {"item": _ITEM, "bin": _BIN},
        (Rule("items[item].bin != bin", "{item} is in {bin}"),
         Rule(f"{_FULL.format('bin')} + items[item].count <= bins[bin].room", "{bin} has no room for it")),
        (Effect("items/{item}/bin", "bin"),), shows=("items/{item}/bin",),
    ),
    Action(
        "deliver", "let", f"let the supplier bring {_LEAST} to {_MOST} of an item",
        "{item} count {items[item].count}", {"item": _ITEM},
        (Rule(f"{_FULL.format('items[item].bin')} + {_MOST} <= bins[items[item].bin].room",
              f"{{items[item].bin}} has no room for {_MOST} more"),),
        (Effect("items/{item}/count", f"items[item].count + {_LEAST} + luck({_MOST - _LEAST + 1})", free=True),),
        (Rule(f"was.items[item].count + {_LEAST} <= items[item].count <= was.items[item].count + {_MOST}",
              f"{_LEAST} to {_MOST} were brought"),),
        ("items/{item}/count",),
    ),
    Action(
        "fetch", "make", "fetch a few of an item from the depot", "{item} count {items[item].count}",
        {"item": _ITEM, "n": Whole(1, _FETCHED)},
        (Rule(f"{_FULL.format('items[item].bin')} + n <= bins[items[item].bin].room",
              "{items[item].bin} has no room for {n} more"),),
        (Effect("items/{item}/count", "items[item].count + n"),), shows=("items/{item}/count",),
    ),
    Action(
        "discard", "make", "throw some of an item away", "{item} count {items[item].count}",
        {"item": _ITEM, "n": Whole(1, 20)},
        (Rule("items[item].count >= n", "there are {items[item].count} of {item}"),),
        (Effect("items/{item}/count", "items[item].count - n"),), shows=("items/{item}/count",),
    ),
    Action(
        "pack", "make", "pack an order", "{order} packed", {"order": _ORDER},
        (Rule("orders[order].state == 'open'", "{order} is {orders[order].state}"),
         Rule("items[orders[order].item].count >= orders[order].n",
              "{order} wants {orders[order].n}, there are {items[orders[order].item].count}")),
        (Effect("orders/{order}/state", "'packed'"),
         Effect("items/*/count", "items[it].count - orders[order].n", when=_IS_ITS)),
        shows=("orders/{order}/state",),
    ),
    Action(
        "unpack", "make", "put what was packed back", "{order} open", {"order": _ORDER},
        (Rule("orders[order].state == 'packed'", "{order} is {orders[order].state}"),
         Rule(f"{_FULL.format('items[orders[order].item].bin')} + orders[order].n <= "
              "bins[items[orders[order].item].bin].room", "its bin has no room for it")),
        (Effect("orders/{order}/state", "'open'"),
         Effect("items/*/count", "items[it].count + orders[order].n", when=_IS_ITS)),
        shows=("orders/{order}/state",),
    ),
    Action(
        "send", "make", "send a packed order", "{order} sent", {"order": _ORDER},
        (Rule("orders[order].state == 'packed'", "{order} is {orders[order].state}, must be packed"),),
        (Effect("orders/{order}/state", "'sent'"),), shows=("orders/{order}/state",),
    ),
)  # fmt: skip


def _start(rng: random.Random, rows: int) -> State:
    bins = {f"B{n}": {"room": rng.randint(30, 60)} for n in range(1, rows + 1)}
    goods = rng.sample(_GOODS, rows)
    places = [rng.choice(list(bins)) for _ in goods]
    items = {
        f"I{n}": {"goods": what, "bin": place, "count": rng.randint(0, 30 // max(1, places.count(place)))}
        for n, (what, place) in enumerate(zip(goods, places, strict=True), rng.randint(1, 4))
    }
    orders = {
        f"O{n}": {
            "item": rng.choice(list(items)),
            "n": rng.randint(2, 9),
            "state": rng.choice(("open", "open", "packed")),
        }
        for n in sorted(rng.sample(range(1, 10), rows - 1))
    }
    return {"bins": bins, "items": items, "orders": orders}


def _draw_send(rng: random.Random, state: State) -> dict[str, Any] | None:
    order = rng.choice(list(state["orders"]))
    return {"order": order, "item": state["orders"][order]["item"]}


def _draw_least(rng: random.Random, state: State) -> dict[str, Any] | None:
    item = rng.choice(list(state["items"]))
    return {"item": item, "n": state["items"][item]["count"] + rng.randint(3, 8)}


def _draw_tidy(rng: random.Random, state: State) -> dict[str, Any] | None:
    item = rng.choice(list(state["items"]))
    others = [name for name in state["bins"] if name != state["items"][item]["bin"]]
    return {"item": item, "bin": rng.choice(others)}


def _space(state: State, name: str) -> int:
    held: int = sum(item["count"] for item in state["items"].values() if item["bin"] == name)
    room: int = state["bins"][name]["room"]
    return room - held


def _more(state: State, name: str, wanted: int, way: int) -> list[Call]:
    """One step towards having so many: the supplier brings some, or a few are fetched."""
    item = state["items"][name]
    size = min(_FETCHED, wanted - item["count"]) if way else _MOST
    if _space(state, item["bin"]) < size:
        wide = [b for b in state["bins"] if b != item["bin"] and _space(state, b) >= item["count"] + size]
        return [Call("put", {"item": name, "bin": place}) for place in wide[:1]]
    return [Call("fetch", {"item": name, "n": str(size)})] if way else [Call("deliver", {"item": name})]


def _send(state: State, params: Args, way: int) -> list[Call]:
    order = state["orders"][params["order"]]
    done = [Call("send", {"order": params["order"]})]
    if order["state"] == "packed":
        return done
    if state["items"][order["item"]]["count"] < order["n"]:
        return _more(state, order["item"], order["n"], way)
    return [Call("pack", {"order": params["order"]}), *done]


def _least(state: State, params: Args, way: int) -> list[Call]:
    return _more(state, params["item"], params["n"], way)


def _tidy(state: State, params: Args, way: int) -> list[Call]:
    return [Call("put", {"item": params["item"], "bin": params["bin"]})]


_LEFT = ("How many of {item} are there then?", "items.{item}.count")
DOMAIN = Domain(
    "stock",
    "A store room. Items lie in bins with room for so many; orders are packed from what is there, then sent. A "
    f"supplier brings {_LEAST} to {_MOST} of an item, as he likes.",
    Record({
        "bins": Table(Record({"room": Whole(1, 99)})),
        "items": Table(Record({"goods": Word(_GOODS), "bin": _BIN, "count": _COUNT})),
        "orders": Table(Record({"item": _ITEM, "n": Whole(1, 20), "state": Word(("open", "packed", "sent"))})),
    }),
    (Rule(f"all({_FULL.format('b')} <= bins[b].room for b in bins)", "no bin holds more than its room"),),
    _ACTIONS, _start,
    {
        "send": Ask(
            _draw_send, "send {order}", ("orders.{order}.state == 'sent'",),
            ("orders/{order}/state", "items/{item}/count", "items/{item}/bin"), _send, (_LEFT,),
        ),
        "least": Ask(
            _draw_least, "have at least {n} of {item}", ("items.{item}.count >= {n}",),
            ("items/{item}/count", "items/{item}/bin"), _least,
            (_LEFT, ("In which bin is {item} then?", "items.{item}.bin")),
        ),
        "tidy": Ask(
            _draw_tidy, "put {item} into {bin}", ("items.{item}.bin == '{bin}'",), ("items/{item}/bin",), _tidy,
            (("How much does {bin} hold then?", _FULL.format("'{bin}'")),),
        ),
    },
    ("list_items", "list_bins", "list_orders"),
)  # fmt: skip
