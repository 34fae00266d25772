"""Physics, chemistry and units: numbers with a unit, and choices among quantities."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random

from noria.envs.problems.problem import Problem, Template, choice, decimal, number, quantity

#: Molar masses in g/mol, rounded to whole numbers as the prompts say them.
_MASSES: Mapping[str, int] = {"H2O": 18, "CO2": 44, "NaCl": 58, "CH4": 16, "NH3": 17, "CaCO3": 100, "O2": 32, "N2": 28}


def _braking(rng: Random) -> Problem | None:
    v, a = rng.randint(4, 30), rng.choice([2, 4, 5, 8])
    value = Fraction(v * v, 2 * a)
    return quantity(
        f"A car at {v} m/s brakes with {a} m/s^2. How far does it go until it stands?", value, "m",
        [f"v^2/(2a) = {v * v}/{2 * a} = {decimal(value)}"],
        {"formula": Fraction(v * v, a), "skip": Fraction(v, a), "unit": f"{decimal(value)} m/s"},
        [f"{decimal(value / 1000)} km"] if (value * 1000).denominator == 1 else [], f"{v}*{v}/(2*{a})",
    )  # fmt: skip


def _fall(rng: Random) -> Problem | None:
    t = rng.randint(2, 12)
    return quantity(
        f"A stone falls for {t} s from rest, with g = 10 m/s^2. How deep does it fall?", 5 * t * t, "m",
        [f"g t^2/2 = 10*{t * t}/2 = {5 * t * t}"],
        {"formula": 10 * t * t, "skip": 10 * t, "unit": f"{5 * t * t} s"}, [f"{decimal(Fraction(5 * t * t, 1000))} km"],
        f"10*{t}*{t}/2",
    )  # fmt: skip


def _speed(rng: Random) -> Problem | None:
    metres, seconds = rng.randint(2, 60) * 10, rng.choice([4, 5, 8, 10, 16, 20, 25])
    value = Fraction(metres, seconds)
    return quantity(
        f"Somebody runs {metres} m in {seconds} s. How fast is that?", value, "m/s", [f"{metres}/{seconds}"],
        {"formula": Fraction(seconds, metres) if metres % 3 else metres * seconds, "skip": metres,
         "unit": f"{decimal(value)} km/h"},
        [f"{decimal(value * Fraction(36, 10))} km/h"], f"{metres}/{seconds}",
    )  # fmt: skip


def _convert_speed(rng: Random) -> Problem | None:
    v = rng.randint(1, 40) * 9
    value = Fraction(v * 10, 36)
    return quantity(
        f"Write {v} km/h in m/s.", value, "m/s", [f"{v}*1000/3600 = {decimal(value)}"],
        {"formula": Fraction(v * 36, 10), "skip": v * 1000, "slip": value + 1}, [f"{v} km/h"], f"{v}*1000/3600",
    )  # fmt: skip


def _ohm(rng: Random) -> Problem | None:
    current, r = rng.randint(1, 12), rng.randint(2, 30)
    return quantity(
        f"A voltage of {current * r} V lies over {r} ohm. What current flows?", current, "A",
        [f"I = U/R = {current * r}/{r} = {current}"],
        {"formula": current * r * r, "slip": current + 1, "unit": f"{current} V"}, [f"{current * 1000} mA"],
        f"{current * r}/{r}",
    )  # fmt: skip


def _parallel(rng: Random) -> Problem | None:
    a, b = rng.choice([(2, 3), (3, 6), (4, 12), (6, 12), (10, 15), (20, 30), (5, 20), (4, 4), (6, 3), (12, 4), (8, 24)])
    a, b = a * (k := rng.randint(1, 6)), b * k
    value = Fraction(a * b, a + b)
    return quantity(
        f"Resistors of {a} ohm and {b} ohm are parallel. What is their resistance together?", value, "ohm",
        [f"{a}*{b}/({a} + {b}) = {decimal(value)}"],
        {"formula": a + b, "skip": Fraction(1, a) + Fraction(1, b), "slip": value + 1}, [f"{decimal(value)} Ω"],
        f"{a}*{b}/({a} + {b})",
    )  # fmt: skip


def _kinetic(rng: Random) -> Problem | None:
    m, v = rng.randint(1, 20) * 2, rng.randint(2, 20)
    return quantity(
        f"A body of {m} kg moves with {v} m/s. What is its kinetic energy?", m * v * v // 2, "J",
        [f"m v^2/2 = {m}*{v * v}/2 = {m * v * v // 2}"],
        {"formula": m * v * v, "skip": m * v // 2, "unit": f"{m * v * v // 2} N"},
        [f"{decimal(Fraction(m * v * v, 2000))} kJ"], f"{m}*{v}*{v}/2",
    )  # fmt: skip


def _potential(rng: Random) -> Problem | None:
    m, h = rng.randint(1, 30), rng.randint(2, 25)
    return quantity(
        f"A load of {m} kg is lifted by {h} m, with g = 10 m/s^2. What work is that?", 10 * m * h, "J",
        [f"m g h = {m}*10*{h} = {10 * m * h}"],
        {"skip": m * h, "formula": 5 * m * h, "unit": f"{10 * m * h} W"}, [f"{decimal(Fraction(m * h, 100))} kJ"],
        f"{m}*10*{h}",
    )  # fmt: skip


def _force(rng: Random) -> Problem | None:
    m, v, t = rng.randint(1, 30), rng.randint(2, 30), rng.choice([2, 4, 5])
    value = Fraction(m * v, t)
    return quantity(
        f"A cart of {m} kg speeds up from rest to {v} m/s in {t} s. What force pushes it?", value, "N",
        [f"a = {v}/{t} = {decimal(Fraction(v, t))}", f"F = {m}*a = {decimal(value)}"],
        {"skip": Fraction(v, t), "formula": m * v * t, "unit": f"{decimal(value)} J"}, [f"{decimal(value)} kg*m/s^2"],
        f"{m}*{v}/{t}",
    )  # fmt: skip


def _density(rng: Random) -> Problem | None:
    grams, volume = rng.randint(2, 80) * 5, rng.choice([2, 4, 5, 10, 20, 25])
    value = Fraction(grams, volume)
    return quantity(
        f"A piece of {grams} g has a volume of {volume} cm^3. What is its density?", value, "g/cm^3",
        [f"{grams}/{volume} = {decimal(value)}"],
        {"formula": grams * volume, "slip": value + 1, "unit": f"{decimal(value)} kg/m^3"},
        [f"{decimal(value * 1000)} kg/m^3"], f"{grams}/{volume}",
    )  # fmt: skip


def _power(rng: Random) -> Problem | None:
    watts, hours, price = rng.randint(1, 30) * 100, rng.randint(2, 12), rng.choice([20, 25, 30, 40])
    value = Fraction(watts * hours * price, 1000)
    return number(
        f"A heater of {watts} W runs for {hours} h. One kWh costs {price} cents. How many cents does it cost?", value,
        [f"energy {decimal(Fraction(watts * hours, 1000))} kWh", f"times {price}"],
        {"skip": Fraction(watts * hours, 1000), "unit": watts * hours * price, "slip": value + price},
        f"{watts}*{hours}/1000*{price}",
    )  # fmt: skip


def _moles(rng: Random) -> Problem | None:
    name = rng.choice(sorted(_MASSES))
    mass, half = _MASSES[name], rng.randint(1, 12)
    value = Fraction(half, 2)
    return quantity(
        f"{name} has {mass} g/mol. How many moles are {decimal(mass * value)} g of it?", value, "mol",
        [f"{decimal(mass * value)}/{mass} = {decimal(value)}"],
        {"formula": mass * mass * value, "slip": value + 1, "unit": f"{decimal(value)} g"},
        [f"{decimal(value * 1000)} mmol"], f"{decimal(mass * value)}/{mass}",
    )  # fmt: skip


def _dilution(rng: Random) -> Problem | None:
    c, v, w = rng.choice([2, 3, 4, 6, 8]), rng.randint(1, 10) * 10, rng.choice([100, 200, 250, 400, 500])
    value = Fraction(c * v, v + w)
    if (value * 10**6).denominator != 1:
        return None
    return quantity(
        f"{v} mL of a solution of {c} mol/L is mixed with {w} mL of water. What is the concentration now?", value,
        "mol/L", [f"volume {v + w} mL", f"{c}*{v}/{v + w} = {decimal(value)}"],
        {"formula": Fraction(c * v, w), "skip": c, "slip": value + 1}, [f"{decimal(value)} M"], f"{c}*{v}/({v} + {w})",
    )  # fmt: skip


def _water(rng: Random) -> Problem | None:
    grams = rng.randint(1, 30) * 4
    return quantity(
        f"Hydrogen and oxygen make water: 4 g and 32 g make 36 g. How much water do {grams} g of hydrogen make?",
        9 * grams, "g", [f"{grams}*36/4 = {9 * grams}"],
        {"formula": 8 * grams, "skip": Fraction(grams * 4, 36) if grams % 9 == 0 else grams, "slip": 9 * grams + 1},
        [f"{decimal(Fraction(9 * grams, 1000))} kg"], f"{grams}*36/4",
    )  # fmt: skip


def _gas(rng: Random) -> Problem | None:
    p, v, w = rng.randint(1, 8), rng.randint(2, 20), rng.choice([2, 4, 5, 8, 10])
    value = Fraction(p * v, w)
    return quantity(
        f"A gas of {v} L at {p} bar is pressed to {w} L at the same temperature. What is its pressure?", value, "bar",
        [f"{p}*{v}/{w} = {decimal(value)}"],
        {"formula": Fraction(p * w, v) if (Fraction(p * w, v) * 10**6).denominator == 1 else p, "skip": p * v,
         "slip": value + 1},
        [f"{decimal(value * 100)} kPa"], f"{p}*{v}/{w}",
    )  # fmt: skip


def _largest(rng: Random) -> Problem | None:
    metres = rng.sample([n * 100 for n in range(5, 60)], 3)
    options = [f"{decimal(Fraction(metres[0], 1000))} km", f"{metres[1]} m", f"{metres[2] * 100} cm"]
    shown = [Fraction(metres[0], 1000), Fraction(metres[1]), Fraction(metres[2] * 100)]
    right = metres.index(max(metres))
    found = choice(
        "Which is the longest?", options, right, [f"in m: {metres[0]}, {metres[1]}, {metres[2]}"],
        {"unit": shown.index(max(shown)), "sign": metres.index(min(metres)), "slip": (right + 1) % 3},
    )  # fmt: skip
    return found if len(set(found.wrong.values())) > 1 else None


def _dimension(rng: Random) -> Problem | None:
    units = {"force": "kg*m/s^2", "energy": "kg*m^2/s^2", "power": "kg*m^2/s^3", "pressure": "kg/(m*s^2)",
             "speed": "m/s", "density": "kg/m^3"}  # fmt: skip
    names = rng.sample(sorted(units), 4)
    right = rng.randrange(4)
    return choice(
        f"Which unit measures {names[right]}?", [units[name] for name in names], right, [f"{names[right]}"],
        {"formula": (right + 1) % 4, "slip": (right + 2) % 4, "skip": (right + 3) % 4},
    )  # fmt: skip


TEMPLATES: Mapping[str, Template] = {
    "braking": Template("physics", _braking),
    "fall": Template("physics", _fall),
    "speed": Template("physics", _speed),
    "convert_speed": Template("units", _convert_speed),
    "ohm": Template("physics", _ohm),
    "parallel": Template("physics", _parallel),
    "kinetic": Template("physics", _kinetic),
    "potential": Template("physics", _potential),
    "force": Template("physics", _force),
    "density": Template("units", _density),
    "power": Template("physics", _power),
    "moles": Template("chemistry", _moles),
    "dilution": Template("chemistry", _dilution),
    "water": Template("chemistry", _water),
    "gas": Template("chemistry", _gas, unseen=True),
    "largest": Template("units", _largest),
    "dimension": Template("units", _dimension),
}
