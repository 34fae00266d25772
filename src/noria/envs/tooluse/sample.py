"""Domains from a seed: a setting, two to four tables, and the mechanisms between them."""

from __future__ import annotations

import random
from functools import lru_cache

from noria.envs.tooluse import mechanisms
from noria.envs.tooluse.draft import Draft, Sketch
from noria.envs.tooluse.spec import Check, Domain
from noria.envs.tooluse.themes import PLACES_OF_DOMAINS, settings

#: Which tables a domain has. The second thing or store of a domain has a noun and a lifecycle of its own.
_PLANS: tuple[tuple[str, ...], ...] = (
    ("thing", "person"), ("thing", "place"), ("store", "person"), ("store", "thing"),
    ("thing", "place", "person"), ("thing", "place", "person"), ("store", "person", "order"),
    ("thing", "person", "order"), ("store", "thing", "person"), ("store", "thing", "place"),
    ("thing", "thing", "person"), ("thing", "thing", "place"), ("store", "store", "person"),
    ("store", "person", "order", "thing"), ("thing", "place", "person", "order"), ("store", "thing", "place", "person"),
)  # fmt: skip


@lru_cache(maxsize=2048)
def draw_domain(seed: int, number: int) -> Domain:
    """The domain of this number, the same for the same arguments; it may still be refused by a check."""
    rng = random.Random(f"tooluse:domain:{seed}:{number}")
    setting = rng.choice(settings())
    sketch = Sketch(rng, setting)
    nouns = {
        "thing": setting.things, "place": setting.places, "person": setting.people, "store": setting.stores,
        "order": setting.orders,
    }  # fmt: skip
    drafts = [sketch.add(role, nouns[role]) for role in rng.choice(_PLANS)]
    for draft in drafts:
        if draft.role != "order" and (draft.role in ("thing", "store") or sketch.chance(0.85)):
            sketch.live(draft)
    guards = _relate(sketch)
    for draft in drafts:
        if draft.lifecycle:
            mechanisms.steps(sketch, draft, guards.get(draft.noun, []))
        for _ in range(rng.choice((0, 1, 1, 2))):
            if draft.role != "order":
                mechanisms.attribute(sketch, draft)
    where = rng.choice(PLACES_OF_DOMAINS)
    return sketch.finished(f"{setting.name}-{seed}-{number}", f"{where} {setting.name}".replace("_", " "))


def _relate(sketch: Sketch) -> dict[str, list[Check]]:
    """The mechanisms between tables; returns what guards the end of work, by noun."""
    guards: dict[str, list[Check]] = {}
    of: dict[str, list[Draft]] = {}
    for draft in sketch.drafts:
        of.setdefault(draft.role, []).append(draft)
    person = of["person"][0] if "person" in of else None
    rank = mechanisms.rank_of(sketch, person) if person else ""
    for at, thing in enumerate(of.get("thing", [])):
        if "place" in of:
            guards.setdefault(of["place"][0].noun, []).extend(mechanisms.placing(sketch, thing, of["place"][0]))
        if person and (at == 0 or sketch.chance(0.5)):
            guards.setdefault(person.noun, []).extend(mechanisms.holding(sketch, thing, person, rank))
    quantities: list[str] = []
    for store in of.get("store", []):
        quantity = mechanisms.stocking(sketch, store)
        quantities.append(quantity.removeprefix("!"))
        if quantity.startswith("!"):
            cell = f"{store.noun}.{quantities[-1]}"
            guards[store.noun] = [Check(f"{cell} == 0", f"{{{store.noun}}} holds {{{cell}}}, must hold 0")]
    if "order" in of and person:
        order = of["order"][0]
        if "store" in of:
            mechanisms.ordering(sketch, order, person, of["store"][0], quantities[0])
        else:
            mechanisms.booking(sketch, order, person, of["thing"][0])
    if person:
        mechanisms.permission(sketch, person, rank)
    for draft in sketch.drafts:
        mechanisms.reads(sketch, draft)
    return guards
