"""A desk of tickets and agents: who gets a ticket that is handed out is left open."""

from __future__ import annotations

import random
from typing import Any

from noria.envs.simulated.card import Action, Args, Ask, Domain, Effect, Rule
from noria.envs.simulated.paths import State
from noria.envs.simulated.schema import Many, Record, Ref, Table, Word
from noria.tokens.calls import Call

_NAMES = ("Ann", "Bo", "Cy", "Dee", "Eve", "Finn")
_TOPICS, _STATES = ("billing", "login", "parcels"), ("new", "open", "waiting", "solved", "closed")
_REPLIES = Word(("answer", "apology", "question"))
#: Tickets that an agent may have at a time.
_LOAD = 2
_HAS = "count(tickets[t].agent == {0} for t in tickets)"
_FITTING = (
    "list(a for a in agents if agents[a].skill == tickets[ticket].topic "
    f"and {_HAS.format('a')} < {_LOAD})"
)  # fmt: skip
_TICKET, _AGENT = Ref("tickets"), Ref("agents")
_NOT_CLOSED = Rule("tickets[ticket].state != 'closed'", "{ticket} is closed")
_HELD = Rule("tickets[ticket].agent != ''", "{ticket} has no agent")
_OPENED = Effect("tickets/{ticket}/state", "'open'", when="tickets[ticket].state == 'new'")
_ACTIONS = (
    Action(
        "list_tickets", "look", "every ticket",
        '{join(f"{t} {tickets[t].topic}, {tickets[t].state}, agent {none(tickets[t].agent)}, '
        '{tickets[t].mood}, replies {len(tickets[t].replies)}" for t in tickets)}',
        shows=("tickets/*/topic", "tickets/*/state", "tickets/*/agent", "tickets/*/mood"),
    ),
    Action(
        "list_agents", "look", "every agent with his skill and how many tickets he has",
        '{join(f"{a} {agents[a].skill}, tickets {count(tickets[t].agent == a for t in tickets)}" for a in agents)}',
        shows=("agents/*/skill",),
    ),
    Action(
        "assign", "make", "give a ticket to an agent", "{ticket} agent {agent}", {"ticket": _TICKET, "agent": _AGENT},
        (_NOT_CLOSED, Rule("tickets[ticket].agent != agent", "{agent} has {ticket}"),
         Rule(f"{_HAS.format('agent')} < {_LOAD}", f"{{agent}} has {_LOAD} tickets")),
        (Effect("tickets/{ticket}/agent", "agent"), _OPENED), shows=("tickets/{ticket}/agent",),
    ),
    Action(
        "hand_out", "let", "let the desk choose an agent who knows the topic",
        "{ticket} agent {tickets[ticket].agent}", {"ticket": _TICKET},
        (_NOT_CLOSED, Rule("tickets[ticket].agent == ''", "{tickets[ticket].agent} has {ticket}"),
         Rule(f"len({_FITTING}) > 0", "nobody with that skill has room")),
        (Effect("tickets/{ticket}/agent", f"{_FITTING}[luck(len({_FITTING}))]", free=True), _OPENED),
        (Rule("tickets[ticket].agent != '' and agents[tickets[ticket].agent].skill == tickets[ticket].topic",
              "the agent knows the topic"),),
        ("tickets/{ticket}/agent",),
    ),
    Action(
        "release", "make", "take a ticket from its agent", "{ticket} agent none", {"ticket": _TICKET},
        (_NOT_CLOSED, _HELD), (Effect("tickets/{ticket}/agent", "''"),), shows=("tickets/{ticket}/agent",),
    ),
    Action(
        "reply", "make", "write to the customer; an apology calms, an answer solves what a calm customer wants",
        "{ticket} {tickets[ticket].state}, {tickets[ticket].mood}", {"ticket": _TICKET, "text": _REPLIES},
        (_NOT_CLOSED, _HELD),
        (Effect("tickets/{ticket}/replies", "text", "append"),
         Effect("tickets/{ticket}/mood", "'calm'", when="text == 'apology'"),
         Effect("tickets/{ticket}/state", "'waiting'", when="text == 'question'"),
         Effect("tickets/{ticket}/state", "'solved'", when="text == 'answer' and tickets[ticket].mood == 'calm'")),
        shows=("tickets/{ticket}/state", "tickets/{ticket}/mood"),
    ),
    Action(
        "close", "make", "close a ticket", "{ticket} closed", {"ticket": _TICKET},
        (Rule("tickets[ticket].state == 'solved'", "{ticket} is {tickets[ticket].state}, must be solved"),),
        (Effect("tickets/{ticket}/state", "'closed'"),), shows=("tickets/{ticket}/state",),
    ),
    Action(
        "reopen", "make", "open a closed ticket again", "{ticket} open", {"ticket": _TICKET},
        (Rule("tickets[ticket].state == 'closed'", "{ticket} is {tickets[ticket].state}"),),
        (Effect("tickets/{ticket}/state", "'open'"),), shows=("tickets/{ticket}/state",),
    ),
)  # fmt: skip


def _start(rng: random.Random, rows: int) -> State:
    agents = {name: {"skill": rng.choice(_TOPICS)} for name in rng.sample(_NAMES, rows)}
    tickets: dict[str, Any] = {}
    for number in sorted(rng.sample(range(1, 10), rows + 1)):
        room = [name for name in agents if sum(t["agent"] == name for t in tickets.values()) < _LOAD]
        agent = rng.choice(room) if room and rng.random() < 0.4 else ""
        tickets[f"T{number}"] = {
            "topic": rng.choice(_TOPICS), "state": rng.choice(("open", "waiting")) if agent else "new",
            "agent": agent, "replies": ["question"] if agent and rng.random() < 0.5 else [],
            "mood": rng.choice(("calm", "cross")),
        }  # fmt: skip
    return {"agents": agents, "tickets": tickets}


def _draw_open(rng: random.Random, state: State) -> dict[str, Any] | None:
    return {"ticket": rng.choice([name for name, one in state["tickets"].items() if one["state"] != "closed"])}


def _draw_cross(rng: random.Random, state: State) -> dict[str, Any] | None:
    cross = [name for name, one in state["tickets"].items() if one["mood"] == "cross"]
    return {"ticket": rng.choice(cross)} if cross else None


def _room(state: State, skill: str = "") -> list[str]:
    """Agents with room, of a skill if one is named."""
    taken = [ticket["agent"] for ticket in state["tickets"].values()]
    return [n for n, a in state["agents"].items() if taken.count(n) < _LOAD and skill in ("", a["skill"])]


def _placed(state: State, name: str, way: int) -> list[Call]:
    """A ticket without agent gets one: the desk chooses, or the first who fits is named."""
    fitting = _room(state, state["tickets"][name]["topic"])
    if not way and fitting:
        return [Call("hand_out", {"ticket": name})]
    return [Call("assign", {"ticket": name, "agent": who}) for who in [*fitting, *_room(state)][:1]]


def _solve(state: State, params: Args, way: int) -> list[Call]:
    name, ticket = params["ticket"], state["tickets"][params["ticket"]]
    if ticket["agent"] == "":
        return _placed(state, name, way)
    calls = [Call("reply", {"ticket": name, "text": "apology"})] if ticket["mood"] == "cross" else []
    if ticket["state"] != "solved":
        calls.append(Call("reply", {"ticket": name, "text": "answer"}))
    return [*calls, Call("close", {"ticket": name})]


def _skilled(state: State, params: Args, way: int) -> list[Call]:
    """Taken away and handed out, or given on directly."""
    name = params["ticket"]
    if not way and state["tickets"][name]["agent"]:
        return [Call("release", {"ticket": name}), Call("hand_out", {"ticket": name})]
    return _placed(state, name, way)


def _calm(state: State, params: Args, way: int) -> list[Call]:
    name = params["ticket"]
    if state["tickets"][name]["agent"] == "":
        return _placed(state, name, way)
    return [Call("reply", {"ticket": name, "text": "apology"})]


_OF_TICKET = ("tickets/{ticket}/state", "tickets/{ticket}/agent")
_TALKED = (*_OF_TICKET, "tickets/{ticket}/replies", "tickets/{ticket}/mood")
_WHO = ("Which agent has {ticket} then?", "tickets.{ticket}.agent")
_COUNT = ("How many replies has {ticket} then?", "len(tickets.{ticket}.replies)")
DOMAIN = Domain(
    "tickets",
    "A service desk. A ticket needs an agent before anybody replies. A cross customer takes no answer before "
    "an apology.",
    Record({
        "agents": Table(Record({"skill": Word(_TOPICS)})),
        "tickets": Table(Record({
            "topic": Word(_TOPICS), "state": Word(_STATES), "agent": Ref("agents", optional=True),
            "replies": Many(_REPLIES), "mood": Word(("calm", "cross")),
        })),
    }),
    (Rule(f"all({_HAS.format('a')} <= {_LOAD} for a in agents)", f"an agent has {_LOAD} tickets at most"),),
    _ACTIONS, _start,
    {
        "solve": Ask(
            _draw_open, "get {ticket} solved and closed", ("tickets.{ticket}.state == 'closed'",), _TALKED, _solve,
            (_WHO, _COUNT),
        ),
        "skilled": Ask(
            _draw_open, "give {ticket} to somebody who knows its topic",
            ("tickets.{ticket}.agent != '' and agents[tickets.{ticket}.agent].skill == tickets.{ticket}.topic",),
            _OF_TICKET, _skilled, (_WHO,),
        ),
        "calm": Ask(
            _draw_cross, "calm the customer of {ticket}", ("tickets.{ticket}.mood == 'calm'",), _TALKED, _calm,
            (_WHO, _COUNT),
        ),
    },
    ("list_tickets", "list_agents"),
)  # fmt: skip
