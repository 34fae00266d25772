"""A chat room and who keeps it in order: what an unclear post turns out to be is left open."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from noria.envs.simulated.card import Action, Args, Ask, Domain, Effect, Rule
from noria.envs.simulated.paths import State
from noria.envs.simulated.schema import Record, Ref, Table, Whole, Word
from noria.tokens.calls import Call

_NAMES, _KINDS = ("ann", "bo", "cy", "dee", "eve", "finn"), ("fine", "spam", "insult", "unclear")
_POST, _USER = Ref("posts"), Ref("users")
_HIDDEN = "count(posts[p].by == {0} and posts[p].state == 'hidden' for p in posts)"
_ACTIONS = (
    Action(
        "list_posts", "look", "every post with its author, what it is, and whether it is seen",
        '{join(f"{p} by {posts[p].by}, {posts[p].kind}, {posts[p].state}" for p in posts)}',
        shows=("posts/*/by", "posts/*/kind", "posts/*/state"),
    ),
    Action(
        "list_users", "look", "everybody with warnings and state",
        '{join(f"{u} warnings {users[u].warnings}, {users[u].state}" for u in users)}',
        shows=("users/*/warnings", "users/*/state"),
    ),
    Action(
        "ask_author", "let", "ask what an unclear post was meant to be", "{post} is {posts[post].kind}",
        {"post": _POST}, (Rule("posts[post].kind == 'unclear'", "{post} is clear: {posts[post].kind}"),),
        (Effect("posts/{post}/kind", "['fine', 'spam', 'insult'][luck(3)]", free=True),),
        (Rule("posts[post].kind != 'unclear'", "the post is clear then"),), ("posts/{post}/kind",),
    ),
    Action(
        "hide", "make", "hide a post that is not fine", "{post} hidden", {"post": _POST},
        (Rule("posts[post].state != 'hidden'", "{post} is hidden"),
         Rule("posts[post].kind != 'unclear'", "{post} is unclear, ask its author"),
         Rule("posts[post].kind != 'fine'", "{post} is fine")),
        (Effect("posts/{post}/state", "'hidden'"),), shows=("posts/{post}/state",),
    ),
    Action(
        "pin", "make", "pin a fine post", "{post} pinned", {"post": _POST},
        (Rule("posts[post].kind == 'fine' and posts[post].state == 'shown'", "{post} must be fine and shown"),
         Rule("not any(posts[p].state == 'pinned' for p in posts)", "another post is pinned")),
        (Effect("posts/{post}/state", "'pinned'"),), shows=("posts/{post}/state",),
    ),
    Action(
        "unpin", "make", "show a pinned post as any other", "{post} shown", {"post": _POST},
        (Rule("posts[post].state == 'pinned'", "{post} is {posts[post].state}"),),
        (Effect("posts/{post}/state", "'shown'"),), shows=("posts/{post}/state",),
    ),
    Action(
        "warn", "make", "warn somebody who has a hidden post", "{user} warnings {users[user].warnings}",
        {"user": _USER},
        (Rule(f"{_HIDDEN.format('user')} > 0", "{user} has no hidden post"),
         Rule("users[user].warnings < 3", "{user} has 3 warnings")),
        (Effect("users/{user}/warnings", "users[user].warnings + 1"),), shows=("users/{user}/warnings",),
    ),
    Action(
        "mute", "make", "mute somebody who was warned", "{user} muted", {"user": _USER},
        (Rule("users[user].warnings > 0", "{user} was never warned"),
         Rule("users[user].state == 'free'", "{user} is {users[user].state}")),
        (Effect("users/{user}/state", "'muted'"),), shows=("users/{user}/state",),
    ),
    Action(
        "ban", "make", "ban somebody who was warned twice", "{user} banned", {"user": _USER},
        (Rule("users[user].warnings > 1", "{user} has {users[user].warnings} warnings, must have 2"),
         Rule("users[user].state != 'banned'", "{user} is banned")),
        (Effect("users/{user}/state", "'banned'"),), shows=("users/{user}/state",),
    ),
)  # fmt: skip


def _start(rng: random.Random, rows: int) -> State:
    names = rng.sample(_NAMES, rows - 1)
    users = {name: {"warnings": rng.choice((0, 0, 1)), "state": "free"} for name in names}
    posts = {
        f"P{number}": {"by": rng.choice(names), "kind": rng.choice(_KINDS), "state": "shown"}
        for number in sorted(rng.sample(range(1, 10), rows + 2))
    }
    fine = [post for post in posts.values() if post["kind"] == "fine"]
    if fine and rng.random() < 0.7:
        rng.choice(fine)["state"] = "pinned"
    return {"users": users, "posts": posts}


def _by(state: State, user: str) -> list[str]:
    return [name for name, post in state["posts"].items() if post["by"] == user]


def _draw_clean(rng: random.Random, state: State) -> dict[str, Any] | None:
    user = rng.choice(list(state["users"]))
    posts = _by(state, user)
    return {"user": user, "posts": posts} if posts else None


def _draw_quiet(rng: random.Random, state: State) -> dict[str, Any] | None:
    user = rng.choice(list(state["users"]))
    posts = _by(state, user)
    sure = any(state["posts"][name]["kind"] in ("spam", "insult") for name in posts)
    return {"user": user, "posts": posts, "to": rng.choice(("muted", "banned"))} if sure else None


def _draw_pin(rng: random.Random, state: State) -> dict[str, Any] | None:
    fine = [name for name, post in state["posts"].items() if post["kind"] == "fine" and post["state"] == "shown"]
    pinned = [name for name, post in state["posts"].items() if post["state"] == "pinned"]
    return {"post": rng.choice(fine), "pinned": pinned} if fine else None


def _hidden(state: State, names: Sequence[str]) -> list[Call]:
    """The first of these posts hidden, or its author asked."""
    for name in names:
        kind = state["posts"][name]["kind"]
        if kind != "fine" and state["posts"][name]["state"] != "hidden":
            return [Call("ask_author" if kind == "unclear" else "hide", {"post": name})]
    return []


def _clean(state: State, params: Args, way: int) -> list[Call]:
    """From the first post to the last, or the other way round."""
    return _hidden(state, params["posts"][:: -1 if way else 1])


def _quiet(state: State, params: Args, way: int) -> list[Call]:
    """What is sure is hidden first; in the second way the newest, and one who is to be banned is muted first."""
    user, posts = params["user"], params["posts"]
    needed = 1 if params["to"] == "muted" else 2
    short = needed - state["users"][user]["warnings"]
    calls: list[Call] = []
    if short > 0 and not any(state["posts"][name]["state"] == "hidden" for name in posts):
        calls += _hidden(state, [p for p in posts[:: -1 if way else 1] if state["posts"][p]["kind"] != "unclear"])
    calls += [Call("warn", {"user": user})] * short
    if params["to"] == "banned" and way and state["users"][user]["state"] == "free":
        calls.append(Call("mute", {"user": user}))
    return [*calls, Call("mute" if params["to"] == "muted" else "ban", {"user": user})]


def _pin(state: State, params: Args, way: int) -> list[Call]:
    pinned = [name for name, post in state["posts"].items() if post["state"] == "pinned"]
    return [*(Call("unpin", {"post": name}) for name in pinned), Call("pin", {"post": params["post"]})]


_POSTS = ("posts/{posts}/state", "posts/{posts}/kind")
_MANY = ("How many posts by {user} are hidden then?", _HIDDEN.format("'{user}'"))
DOMAIN = Domain(
    "chat",
    "A chat room. Posts are hidden, authors warned, muted and banned, in this order. Of an unclear post only its "
    "author knows what it is, and says so when asked.",
    Record({
        "users": Table(Record({"warnings": Whole(0, 3), "state": Word(("free", "muted", "banned"))})),
        "posts": Table(Record({"by": _USER, "kind": Word(_KINDS), "state": Word(("shown", "hidden", "pinned"))})),
    }),
    (Rule("count(posts[p].state == 'pinned' for p in posts) <= 1", "one post at most is pinned"),
     Rule("all(posts[p].kind == 'fine' for p in posts if posts[p].state == 'pinned')", "a pinned post is fine")),
    _ACTIONS, _start,
    {
        "clean": Ask(
            _draw_clean, "hide each post by {user} that is not fine",
            ("all(posts[p].kind == 'fine' or posts[p].state == 'hidden' for p in posts if posts[p].by == '{user}')",),
            _POSTS, _clean, (_MANY,),
        ),
        "quiet": Ask(
            _draw_quiet, "see that {user} is {to}", ("users.{user}.state == '{to}'",),
            ("users/{user}/state", "users/{user}/warnings", *_POSTS), _quiet,
            (("How many warnings has {user} then?", "users.{user}.warnings"), _MANY),
        ),
        "pin": Ask(
            _draw_pin, "have {post} pinned", ("posts.{post}.state == 'pinned'",),
            ("posts/{post}/state", "posts/{pinned}/state"), _pin, (("Who wrote {post}?", "posts.{post}.by"),),
        ),
    },
    ("list_posts", "list_users"),
)  # fmt: skip
