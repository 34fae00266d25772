"""A goal in words: one phrase per cell that must change, and what of it the user keeps back until asked."""

from __future__ import annotations

import random
from dataclasses import dataclass

from noria.envs.tooluse.goals import Goal
from noria.envs.tooluse.mechanisms import PLACED
from noria.envs.tooluse.spec import Domain, Field, Row, Value

SYSTEM = "Do what is asked. Leave all else unchanged."
SYSTEM_ASK = "Do what is asked. Leave all else unchanged. Ask the user what you need to know."


@dataclass(frozen=True, slots=True)
class Phrase:
    """One part of a goal.

    text    the sentence, complete
    veiled  the same without its detail, "" where nothing can be kept back
    topic   what the user can be asked about
    detail  the answer
    packs   the number that is said counts packs of this size, 0 for single units
    """

    text: str
    veiled: str = ""
    topic: str = ""
    detail: str = ""
    packs: int = 0


def phrases_of(domain: Domain, goal: Goal, rng: random.Random) -> list[Phrase]:
    """The parts of a goal, in the order of tables and rows."""
    found: list[Phrase] = []
    for table in domain.tables:
        for row, then in goal.target[table.name].items():
            now = goal.start[table.name].get(row)
            if now is None:
                found.append(_new(domain, table.name, then))
                continue
            for field in table.fields:
                if now[field.name] != then[field.name]:
                    found.append(_cell(domain, table.name, row, field, (now[field.name], then[field.name]), rng))
    return found


def sentence(phrases: list[Phrase], hidden: Phrase | None) -> str:
    """The prompt."""
    texts = [phrase.veiled if phrase is hidden else phrase.text for phrase in phrases]
    return f"Make it so: {'; '.join(texts)}."


def _cell(
    domain: Domain, table: str, row: str, field: Field, change: tuple[Value, Value], rng: random.Random
) -> Phrase:
    now, then = change
    noun, name = domain.table[table].noun.replace("_", " "), field.name.replace("_", " ")
    whose = f"{name} of {noun} {row}"
    if field.kind == "ref" and not then:
        return Phrase(f"{noun} {row} has no {name}")
    if field.kind == "enum" and len(field.values) > 0 and field is domain.table[table].fields[0]:
        return Phrase(f"{noun} {row} is {then}")
    pack = next((pack for pack in domain.packs if (pack.table, pack.field) == (table, field.name)), None)
    if pack and isinstance(now, int) and isinstance(then, int) and (then - now) % pack.size == 0:
        count, more = abs(then - now) // pack.size, "more" if then > now else "less"
        unit = f"{pack.pack} of {pack.size}".replace("_", " ")
        topic = f"{name} of {row}"
        veiled = f"{noun} {row} has some {pack.pack.replace('_', ' ')}s of {pack.size} {more} {name}, ask how many"
        return Phrase(f"{noun} {row} has {count} {unit} {more} {name}", veiled, topic, str(count), pack.size)
    if pack and isinstance(now, int) and isinstance(then, int) and rng.random() < 0.5:
        return Phrase(f"{noun} {row} has {abs(then - now)} {'more' if then > now else 'less'} {name}")
    return Phrase(f"{whose} is {then}", f"{whose} is as the user says", f"{name} of {row}", str(then))


def _new(domain: Domain, table: str, values: Row) -> Phrase:
    noun = domain.table[table].noun.replace("_", " ")
    said = [
        f"{name.replace('_', ' ')} {value}" for name, value in values.items()
        if not (name == "state" and value == PLACED)
    ]  # fmt: skip
    number = next((field.name for field in domain.table[table].fields if field.kind == "int"), "")
    text = f"there is a new {noun} with {', '.join(said)}"
    if not number:
        return Phrase(text)
    rest = [part for part in said if not part.startswith(f"{number} ")]
    veiled = f"there is a new {noun} with {', '.join(rest)}, ask for the {number}"
    return Phrase(text, veiled, f"{number} of the new {noun}", str(values[number]))
