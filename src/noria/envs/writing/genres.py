"""Genres: what a brief asks for, a good text of it, and the criteria that belong to the genre.

A good text is put together from pieces with several wordings; a genre is one entry of `GENRES`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from noria.envs.writing.drafts import Draft, Piece, Point

Slots = Mapping[str, str]

PEOPLE = ("Ana", "Bo", "Cleo", "Dee", "Eli", "Fay", "Gus", "Hal")
THINGS = ("lamp", "chair", "clock", "kettle", "radio", "coat", "bike", "bag")
FAULTS = ("broken", "dirty", "noisy", "heavy", "loose")
VIRTUES = ("cheap", "light", "pretty", "quick", "strong")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PLACES = ("park", "hall", "school", "market", "library", "garden")
EVENTS = ("concert", "fair", "race", "dance", "play", "feast")
DISHES = (("soup", "water", "onion"), ("tea", "water", "mint"), ("jam", "fruit", "sugar"), ("rice", "broth", "salt"))
MOODS = ("happy", "tired", "calm", "proud")


@dataclass(frozen=True, slots=True)
class Genre:
    """One genre.

    draw      particulars of a task
    opening   the prompt's first sentence
    points    what the text must say, in order
    write     a good text, worded by chance
    criteria  names in `criteria.MEASURES` that any text of the genre is held to
    tone      what is asked beside the points, "" for nothing, with its criterion
    """

    draw: Callable[[random.Random], dict[str, str]]
    opening: str
    points: Callable[[Slots], tuple[Point, ...]]
    write: Callable[[Slots, random.Random], Draft]
    criteria: tuple[str, ...]
    tone: tuple[str, str] = ("", "")


def _letter_slots(rng: random.Random) -> dict[str, str]:
    to, sender = rng.sample(PEOPLE, 2)
    return {"to": to, "from": sender, "thing": rng.choice(THINGS), "fault": rng.choice(FAULTS), "day": rng.choice(DAYS)}


def _letter_points(slots: Slots) -> tuple[Point, ...]:
    return (
        Point(f"that the {slots['thing']} is {slots['fault']}", (slots["thing"], slots["fault"])),
        Point("that you need another one", ("another",)),
        Point(f"that {slots['day']} is the last day", (slots["day"],)),
    )


def _letter(slots: Slots, rng: random.Random) -> Draft:
    thing, fault, day = slots["thing"], slots["fault"], slots["day"]
    body = (
        Piece(rng.choice((f"The {thing} from your shop is {fault}.", f"The {thing} that you sold me is {fault}.")), 0),
        Piece(rng.choice(("Please send me another in its place.", "Could you please give me another for it?")), 1),
        Piece(rng.choice((f"I must have it by {day}.", f"After {day} it would be too late for me.")), 2),
        Piece(rng.choice(("Thank you for your help.", "Thank you in advance."))),
    )
    return Draft((f"Dear {slots['to']},",), body, ("Yours,", slots["from"]))


def _notice_slots(rng: random.Random) -> dict[str, str]:
    return {
        "event": rng.choice(EVENTS), "place": rng.choice(PLACES), "day": rng.choice(DAYS),
        "hour": str(rng.randint(1, 11)), "thing": rng.choice(THINGS),
    }  # fmt: skip


def _notice_points(slots: Slots) -> tuple[Point, ...]:
    return (
        Point(f"that it is at the {slots['place']} on {slots['day']}", (slots["place"], slots["day"])),
        Point(f"that it begins at {slots['hour']}", (slots["hour"],)),
        Point(f"that guests may bring a {slots['thing']}", (slots["thing"],)),
    )


def _notice(slots: Slots, rng: random.Random) -> Draft:
    event, place, day = slots["event"], slots["place"], slots["day"]
    body = (
        Piece(
            rng.choice((f"On {day} there will be a {event} at the {place}.", f"The {place} has a {event} on {day}.")), 0
        ),
        Piece(rng.choice((f"The doors open at {slots['hour']}.", f"We begin at {slots['hour']} sharp.")), 1),
        Piece(rng.choice((f"A {slots['thing']} of your own is welcome.", f"You may bring your {slots['thing']}.")), 2),
        Piece(rng.choice(("All neighbours can come with their friends.", "There is room for all who wish to join."))),
    )
    return Draft((f"{event.capitalize()} at the {place.capitalize()}",), body)


def _story_slots(rng: random.Random) -> dict[str, str]:
    who, friend = rng.sample(PEOPLE, 2)
    return {"who": who, "friend": friend, "thing": rng.choice(THINGS), "place": rng.choice(PLACES)}


def _story_points(slots: Slots) -> tuple[Point, ...]:
    return (
        Point(f"that {slots['who']} lost a {slots['thing']}", (slots["who"], slots["thing"])),
        Point(f"that it happened in the {slots['place']}", (slots["place"],)),
        Point(f"that {slots['friend']} helped", (slots["friend"],)),
    )


def _story(slots: Slots, rng: random.Random) -> Draft:
    who, friend, thing, place = slots["who"], slots["friend"], slots["thing"], slots["place"]
    body = (
        Piece(rng.choice((f"First {who} missed an old {thing}.", f"First {who} lost a {thing} on the way home.")), 0),
        Piece(rng.choice((f"It was dark when they looked in the {place}.", f"They walked all over the {place}.")), 1),
        Piece(rng.choice((f"Then {friend} came with a light and found it.", f"Then {friend} saw it under a tree.")), 2),
        Piece(rng.choice(("In the end they laughed about it.", "At last they went home and slept well."))),
    )
    return Draft((), body)


def _review_slots(rng: random.Random) -> dict[str, str]:
    return {"thing": rng.choice(THINGS), "virtue": rng.choice(VIRTUES), "fault": rng.choice(FAULTS)}


def _review_points(slots: Slots) -> tuple[Point, ...]:
    return (
        Point(f"that the {slots['thing']} is {slots['virtue']}", (slots["virtue"],)),
        Point(f"that it is {slots['fault']}", (slots["fault"],)),
        Point("whether to buy it", ("buy",)),
    )


def _review(slots: Slots, rng: random.Random) -> Draft:
    thing, virtue, fault = slots["thing"], slots["virtue"], slots["fault"]
    body = (
        Piece(rng.choice((f"I have had this {thing} for a year.", f"I use this {thing} every day."))),
        Piece(rng.choice((f"I like it because it is so {virtue}.", f"It is {virtue}, and I like that.")), 0),
        Piece(rng.choice((f"Too bad that it is {fault}, since it was made fast.", f"Sadly it is {fault} as well.")), 1),
        Piece(rng.choice(("All in all it is good, and I would buy it again.", "So it is not bad: buy one.")), 2),
    )
    return Draft((), body)


def _guide_slots(rng: random.Random) -> dict[str, str]:
    dish, base, spice = rng.choice(DISHES)
    return {"dish": dish, "base": base, "spice": spice, "minutes": str(rng.randint(2, 59))}


def _guide_points(slots: Slots) -> tuple[Point, ...]:
    return (
        Point(f"that the {slots['base']} is heated", (slots["base"],)),
        Point(f"that the {slots['spice']} comes next", (slots["spice"],)),
        Point(f"that it takes {slots['minutes']} minutes", (slots["minutes"], "minutes")),
    )


def _guide(slots: Slots, rng: random.Random) -> Draft:
    base, spice, minutes = slots["base"], slots["spice"], slots["minutes"]
    body = (
        Piece(rng.choice((f"1. Heat the {base} in a large pot.", f"1. Put the {base} in a pot and heat it.")), 0),
        Piece(rng.choice((f"2. Add the {spice} and stir it well.", f"2. Stir in the {spice} with a spoon.")), 1),
        Piece(rng.choice((f"3. Wait for {minutes} minutes by the stove.", f"3. Cook it for {minutes} minutes.")), 2),
        Piece(rng.choice(("4. Serve it while it is warm.", "4. Pour it out and serve it."))),
    )
    return Draft((f"How to make {slots['dish']}:",), body, (), lines=True)


def _diary_slots(rng: random.Random) -> dict[str, str]:
    return {
        "who": rng.choice(PEOPLE), "event": rng.choice(EVENTS), "place": rng.choice(PLACES), "day": rng.choice(DAYS),
        "mood": rng.choice(MOODS),
    }  # fmt: skip


def _diary_points(slots: Slots) -> tuple[Point, ...]:
    return (
        Point(f"that you met {slots['who']}", (slots["who"],)),
        Point(f"that there was a {slots['event']} at the {slots['place']}", (slots["event"], slots["place"])),
        Point(f"that you felt {slots['mood']}", (slots["mood"],)),
    )


def _diary(slots: Slots, rng: random.Random) -> Draft:
    who, event, place, mood = slots["who"], slots["event"], slots["place"], slots["mood"]
    body = (
        Piece(rng.choice((f"First I met {who} near my house.", f"First {who} came to see me.")), 0),
        Piece(
            rng.choice((f"Then we saw the {event} at the {place}.", f"Then we went to the {place} for the {event}.")), 1
        ),
        Piece(rng.choice((f"I was {mood} when I came home.", f"I felt so {mood} in the evening.")), 2),
        Piece(rng.choice(("At last I slept like a stone.", "In the end I wrote it all down."))),
    )
    return Draft((f"{slots['day']}:",), body)


GENRES: Mapping[str, Genre] = {
    "letter": Genre(
        _letter_slots, "Write a letter to {to} from {from}.", _letter_points, _letter,
        ("greeting", "closing", "second_person"), ("Be polite.", "polite"),
    ),
    "notice": Genre(
        _notice_slots, "Write a notice about a {event}.", _notice_points, _notice, ("title", "no_first_person"),
    ),
    "story": Genre(
        _story_slots, "Write a story about {who}.", _story_points, _story, ("past", "sequence", "no_first_person"),
    ),
    "review": Genre(
        _review_slots, "Write a review of a {thing}.", _review_points, _review, ("verdict", "first_person"),
    ),
    "guide": Genre(
        _guide_slots, "Write a guide to making {dish}.", _guide_points, _guide, ("heading", "steps", "imperative"),
    ),
    "diary": Genre(
        _diary_slots, "Write a diary entry for {day}.", _diary_points, _diary,
        ("date_line", "past", "sequence", "first_person"),
    ),
}  # fmt: skip
#: Kept for the split `unseen`.
UNSEEN = ("diary",)
