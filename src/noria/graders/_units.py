"""Units of measurement: what a text such as "km/h" or "kg*m/s^2" is worth in SI base units.

Factors are exact by definition of the SI (BIPM, SI brochure, 9th edition), the yard-pound agreement of 1959 and the
standard atmosphere, except the unified atomic mass unit, which no task here uses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

#: Exponents of m, kg, s, A, K, mol, and of what is counted in angles, bits and money.
Dimension = tuple[Fraction, ...]
_BASE = ("m", "kg", "s", "A", "K", "mol", "rad", "bit", "$")


class Unit(NamedTuple):
    """A factor to SI base units and the exponents of these."""

    factor: float
    dimension: Dimension


def _dim(**exponents: int) -> Dimension:
    named = {"dollar": "$"}
    found = {named.get(name, name): value for name, value in exponents.items()}
    return tuple(Fraction(found.get(name, 0)) for name in _BASE)


#: Units that take SI prefixes.
_PREFIXED: Mapping[str, Unit] = {
    "m": Unit(1, _dim(m=1)), "g": Unit(1e-3, _dim(kg=1)), "s": Unit(1, _dim(s=1)), "A": Unit(1, _dim(A=1)),
    "K": Unit(1, _dim(K=1)), "mol": Unit(1, _dim(mol=1)), "Hz": Unit(1, _dim(s=-1)),
    "N": Unit(1, _dim(kg=1, m=1, s=-2)), "J": Unit(1, _dim(kg=1, m=2, s=-2)), "W": Unit(1, _dim(kg=1, m=2, s=-3)),
    "Pa": Unit(1, _dim(kg=1, m=-1, s=-2)), "C": Unit(1, _dim(A=1, s=1)), "V": Unit(1, _dim(kg=1, m=2, s=-3, A=-1)),
    "Ω": Unit(1, _dim(kg=1, m=2, s=-3, A=-2)), "F": Unit(1, _dim(kg=-1, m=-2, s=4, A=2)),
    "L": Unit(1e-3, _dim(m=3)), "l": Unit(1e-3, _dim(m=3)), "eV": Unit(1.602176634e-19, _dim(kg=1, m=2, s=-2)),
    "Wh": Unit(3600, _dim(kg=1, m=2, s=-2)), "bit": Unit(1, _dim(bit=1)), "B": Unit(8, _dim(bit=1)),
    "M": Unit(1e3, _dim(mol=1, m=-3)),
}  # fmt: skip
_PLAIN: Mapping[str, Unit] = {
    "min": Unit(60, _dim(s=1)), "h": Unit(3600, _dim(s=1)), "hr": Unit(3600, _dim(s=1)), "d": Unit(86400, _dim(s=1)),
    "day": Unit(86400, _dim(s=1)), "hour": Unit(3600, _dim(s=1)), "minute": Unit(60, _dim(s=1)),
    "second": Unit(1, _dim(s=1)), "meter": Unit(1, _dim(m=1)), "metre": Unit(1, _dim(m=1)),
    "kilometer": Unit(1e3, _dim(m=1)), "gram": Unit(1e-3, _dim(kg=1)), "kilogram": Unit(1, _dim(kg=1)),
    "liter": Unit(1e-3, _dim(m=3)), "litre": Unit(1e-3, _dim(m=3)), "mole": Unit(1, _dim(mol=1)),
    "ohm": Unit(1, _dim(kg=1, m=2, s=-3, A=-2)), "volt": Unit(1, _dim(kg=1, m=2, s=-3, A=-1)),
    "ampere": Unit(1, _dim(A=1)), "amp": Unit(1, _dim(A=1)), "watt": Unit(1, _dim(kg=1, m=2, s=-3)),
    "joule": Unit(1, _dim(kg=1, m=2, s=-2)), "newton": Unit(1, _dim(kg=1, m=1, s=-2)),
    "t": Unit(1e3, _dim(kg=1)), "bar": Unit(1e5, _dim(kg=1, m=-1, s=-2)), "atm": Unit(101325, _dim(kg=1, m=-1, s=-2)),
    "in": Unit(0.0254, _dim(m=1)), "inch": Unit(0.0254, _dim(m=1)), "ft": Unit(0.3048, _dim(m=1)),
    "foot": Unit(0.3048, _dim(m=1)), "feet": Unit(0.3048, _dim(m=1)), "yd": Unit(0.9144, _dim(m=1)),
    "mi": Unit(1609.344, _dim(m=1)), "mile": Unit(1609.344, _dim(m=1)), "lb": Unit(0.45359237, _dim(kg=1)),
    "ha": Unit(1e4, _dim(m=2)), "mph": Unit(0.44704, _dim(m=1, s=-1)), "kph": Unit(1 / 3.6, _dim(m=1, s=-1)),
    "rad": Unit(1, _dim(rad=1)), "°": Unit(math.pi / 180, _dim(rad=1)), "deg": Unit(math.pi / 180, _dim(rad=1)),
    "degree": Unit(math.pi / 180, _dim(rad=1)), "%": Unit(0.01, _dim()), "$": Unit(1, _dim(dollar=1)),
    "dollar": Unit(1, _dim(dollar=1)), "1": Unit(1, _dim()),
}  # fmt: skip
_PREFIXES: Mapping[str, float] = {
    "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "d": 1e-1, "c": 1e-2, "m": 1e-3, "µ": 1e-6, "u": 1e-6, "n": 1e-9,
    "p": 1e-12,
}  # fmt: skip
_FACTOR = re.compile(r"(?P<name>[A-Za-zµΩ°%$]+|1)(?:\^?\(?(?P<power>-?\d)\)?)?")
_SPELT = str.maketrans({"²": "^2", "³": "^3", "·": "*", "⋅": "*", "×": "*", "μ": "µ", "Ω": "Ω", " ": "*"})


def read_unit(text: str) -> Unit | None:
    """The unit that a text names, None where it names none. "" is the unit of pure numbers."""
    text = re.sub(r"\s*([*/^])\s*", r"\1", text.strip()).replace(" per ", "/").translate(_SPELT)
    factor, dimension = 1.0, _dim()
    if not text:
        return Unit(factor, dimension)
    if len(text) > 60:
        return None
    for number, part in enumerate(text.split("/")):
        for piece in part.strip("()").split("*"):
            found = _FACTOR.fullmatch(piece)
            one = _named(found["name"]) if found else None
            if found is None or one is None:
                return None
            power = int(found["power"] or 1) * (-1 if number else 1)
            factor *= one.factor**power
            dimension = tuple(a + power * b for a, b in zip(dimension, one.dimension, strict=True))
    return Unit(factor, dimension)


def _named(name: str) -> Unit | None:
    for spelling in (name, name.removesuffix("s"), name.removesuffix("es")):
        if spelling in _PLAIN:
            return _PLAIN[spelling]
        if spelling in _PREFIXED:
            return _PREFIXED[spelling]
        if spelling[:1] in _PREFIXES and spelling[1:] in _PREFIXED:
            inner = _PREFIXED[spelling[1:]]
            return Unit(_PREFIXES[spelling[0]] * inner.factor, inner.dimension)
    return None
