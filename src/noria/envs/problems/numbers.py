"""Number theory, geometry, probability and calculus of polynomials."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import comb, gcd, isqrt, lcm, perm
from random import Random

from noria.envs.problems.problem import Problem, Template, expression, fraction, number, polynomial


def _gcd(rng: Random) -> Problem | None:
    shared, a, b = rng.randint(2, 15), rng.randint(2, 14), rng.randint(2, 14)
    m, n = shared * a, shared * b
    d = gcd(m, n)
    return number(
        f"Find the greatest common divisor of {m} and {n}.", d, [f"{m} = {d}*{m // d}", f"{n} = {d}*{n // d}"],
        {"formula": lcm(m, n), "skip": min(m, n), "slip": d * 2},
    )  # fmt: skip


def _lcm(rng: Random) -> Problem | None:
    m, n = rng.sample(range(4, 45), 2)
    d = gcd(m, n)
    return number(
        f"Find the least common multiple of {m} and {n}.", lcm(m, n), [f"gcd {d}", f"{m}*{n}/{d} = {lcm(m, n)}"],
        {"skip": m * n, "formula": d, "slip": 2 * lcm(m, n)}, f"{m}*{n}/{d}",
    )  # fmt: skip


def _power_mod(rng: Random) -> Problem | None:
    base, power, m = rng.randint(2, 12), rng.randint(4, 30), rng.randint(3, 17)
    value = pow(base, power, m)
    return number(
        f"What is the remainder of {base}^{power} divided by {m}?", value,
        [f"{base}^{k} gives {pow(base, k, m)}" for k in (2, 4)] + [f"{base}^{power} gives {value}"],
        {"skip": pow(base, power - 1, m), "formula": base * power % m, "slip": value + 1},
    )  # fmt: skip


def _divisors(rng: Random) -> Problem | None:
    exponents = {prime: rng.randint(0, 3) for prime in (2, 3, 5)}
    n, count = 1, 1
    for prime, power in exponents.items():
        n, count = n * prime**power, count * (power + 1)
    if not 12 <= n <= 2000:
        return None
    written = " * ".join(f"{prime}^{power}" for prime, power in exponents.items() if power)
    return number(
        f"How many positive divisors has {n}?", count, [f"{n} = {written}", f"product of powers plus 1: {count}"],
        {"skip": sum(exponents.values()), "formula": count - 2, "slip": count + 1},
    )  # fmt: skip


def _base(rng: Random) -> Problem | None:
    base, n = rng.randint(3, 9), rng.randint(20, 400)
    digits, left = "", n
    while left:
        left, digit = divmod(left, base)
        digits = f"{digit}{digits}"
    return number(
        f"The number {digits} is written in base {base}. What is it in base ten?", n,
        [" + ".join(f"{digit}*{base}^{len(digits) - at - 1}" for at, digit in enumerate(digits)), f"= {n}"],
        {"skip": int(digits), "slip": n + base, "formula": sum(int(d) * base**k for k, d in enumerate(digits))},
    )  # fmt: skip


def _coordinates_area(rng: Random) -> Problem | None:
    x1, y1, x2, y2, x3, y3 = (rng.randint(-6, 8) for _ in range(6))
    twice = abs((x2 - x1) * (y3 - y1) - (x3 - x1) * (y2 - y1))
    if not twice:
        return None
    return number(
        f"Find the area of the triangle ({x1},{y1}), ({x2},{y2}), ({x3},{y3}).", Fraction(twice, 2),
        [f"twice the area is {twice}", f"area {fraction(Fraction(twice, 2))}"],
        {"skip": twice, "slip": Fraction(twice + 1, 2), "formula": Fraction(twice, 4)}, f"{twice}/2",
    )  # fmt: skip


def _root(n: int) -> str:
    """The square root of n with the largest square taken out, in LaTeX."""
    outside = max(k for k in range(1, isqrt(n) + 1) if n % (k * k) == 0)
    inside = n // outside**2
    if inside == 1:
        return str(outside)
    return (str(outside) if outside > 1 else "") + rf"\sqrt{{{inside}}}"


def _hypotenuse(rng: Random) -> Problem | None:
    a, b = rng.randint(1, 12), rng.randint(1, 12)
    n = a * a + b * b
    return expression(
        f"The legs of a right triangle are {a} and {b}. How long is the third side, exactly?", _root(n),
        [f"{a}^2 + {b}^2 = {n}", f"square root of {n}"],
        {"skip": str(n), "formula": str(a + b), "slip": rf"\sqrt{{{n + 1}}}"}, [rf"\sqrt{{{n}}}", f"sqrt({n})"],
    )  # fmt: skip


def _distance(rng: Random) -> Problem | None:
    x1, y1, x2, y2 = (rng.randint(-9, 9) for _ in range(4))
    n = (x2 - x1) ** 2 + (y2 - y1) ** 2
    if n < 2:
        return None
    return expression(
        f"How far apart are ({x1},{y1}) and ({x2},{y2}), exactly?", _root(n),
        [f"differences {x2 - x1} and {y2 - y1}", f"square root of {n}"],
        {"skip": str(n), "formula": rf"\sqrt{{{(x1 + x2) ** 2 + (y1 + y2) ** 2 + 1}}}", "slip": rf"\sqrt{{{n + 1}}}"},
        [rf"\sqrt{{{n}}}"],
    )  # fmt: skip


def _circle(rng: Random) -> Problem | None:
    r = rng.randint(2, 20)
    return expression(
        f"A circle has diameter {2 * r}. What is its area, with pi left as it is?", rf"{r * r}\pi",
        [f"radius {r}", f"area {r}^2 * pi"],
        {"skip": rf"{4 * r * r}\pi", "formula": rf"{2 * r}\pi" if r != 2 else r"8\pi", "slip": str(r * r)},
        [rf"\pi \cdot {r}^2"],
    )  # fmt: skip


def _cylinder(rng: Random) -> Problem | None:
    r, h = rng.randint(2, 9), rng.randint(3, 15)
    return expression(
        f"A cylinder has radius {r} and height {h}. What is its volume, with pi left as it is?", rf"{r * r * h}\pi",
        [f"base {r * r} pi", f"times {h}"],
        {"skip": rf"{r * r}\pi", "formula": rf"{2 * r * h + 1}\pi", "slip": str(r * r * h)},
        [rf"\pi \cdot {r}^2 \cdot {h}"],
    )  # fmt: skip


def _same_colour(rng: Random) -> Problem | None:
    red, blue = rng.randint(2, 9), rng.randint(2, 9)
    n = red + blue
    value = Fraction(comb(red, 2) + comb(blue, 2), comb(n, 2))
    both = [fraction(Fraction(comb(one, 2), comb(n, 2))) for one in (red, blue)]
    return number(
        f"A bag holds {red} red and {blue} blue balls. Two are drawn without putting back. "
        "What is the probability of one colour?", value,
        [f"red: {both[0]}", f"blue: {both[1]}", f"sum {fraction(value)}"],
        {"skip": Fraction(comb(red, 2), comb(n, 2)), "formula": Fraction(red * red + blue * blue, n * n),
         "sign": 1 - value},
        f"({comb(red, 2)} + {comb(blue, 2)})/{comb(n, 2)}",
    )  # fmt: skip


def _dice(rng: Random) -> Problem | None:
    sides, total = rng.choice([4, 6, 8, 10]), rng.randint(3, 15)
    ways = sum(1 for a in range(1, sides + 1) if 1 <= total - a <= sides)
    if not ways:
        return None
    return number(
        f"Two dice with {sides} sides are thrown. What is the probability of the sum {total}?",
        Fraction(ways, sides**2), [f"{ways} of {sides**2} pairs"],
        {"skip": ways, "formula": Fraction(1, 2 * sides - 1), "slip": Fraction(ways + 1, sides**2)},
        f"{ways}/{sides**2}",
    )  # fmt: skip


def _choose(rng: Random) -> Problem | None:
    n, k = rng.randint(5, 12), rng.randint(2, 4)
    return number(
        f"In how many ways can {k} of {n} people be chosen, their order being no matter?", comb(n, k),
        [f"ordered: {perm(n, k)}", f"divided by the orders of {k}: {comb(n, k)}"],
        {"skip": perm(n, k), "formula": n**k, "slip": comb(n, k) + n},
    )  # fmt: skip


def _expected(rng: Random) -> Problem | None:
    prizes = [rng.randint(-5, 20) for _ in range(3)]
    shares = rng.choice([(2, 3, 5), (1, 4, 5), (3, 3, 4), (1, 2, 7)])
    value = Fraction(sum(share * prize for share, prize in zip(shares, prizes, strict=True)), 10)
    told = ", ".join(f"{prize} with chance {share}/10" for share, prize in zip(shares, prizes, strict=True))
    return number(
        f"A game pays {told}. What does it pay on average?", value,
        [" + ".join(f"{share}/10*{prize}" for share, prize in zip(shares, prizes, strict=True)), fraction(value)],
        {"formula": Fraction(sum(prizes), 3), "skip": value * 10, "slip": max(prizes)},
        "(" + " + ".join(f"{share}*({prize})" for share, prize in zip(shares, prizes, strict=True)) + ")/10",
    )  # fmt: skip


def _derivative(rng: Random) -> Problem | None:
    c = [rng.randint(-9, 9) for _ in range(rng.randint(3, 4))]
    if not c[-1] or not c[1]:
        return None
    right = [k * c[k] for k in range(1, len(c))]
    return expression(
        f"Find the derivative of {polynomial(c)}.", polynomial(right),
        [
            f"{polynomial([0] * k + [c[k]])} gives {polynomial([0] * (k - 1) + [k * c[k]])}"
            for k in range(1, len(c)) if c[k]
        ],
        {"skip": polynomial(c[1:]), "formula": polynomial([0, *right]), "slip": polynomial([right[0] + 1, *right[1:]])},
        [polynomial(right).replace("x", " x ")],
    )  # fmt: skip


def _integral(rng: Random) -> Problem | None:
    c = [rng.randint(-6, 6) for _ in range(3)]
    low, high = rng.randint(-2, 1), rng.randint(2, 4)
    if not c[1] or not c[2]:
        return None

    def area(x: int) -> Fraction:
        return sum((Fraction(c[k] * x ** (k + 1), k + 1) for k in range(3)), Fraction(0))

    value = area(high) - area(low)
    return number(
        f"Integrate {polynomial(c)} from {low} to {high}.", value,
        [f"at {high}: {fraction(area(high))}", f"at {low}: {fraction(area(low))}", f"difference {fraction(value)}"],
        {"sign": -value, "skip": area(high), "formula": Fraction(sum(c[k] * (high**k - low**k) for k in range(3)))},
        f"({fraction(area(high))}) - ({fraction(area(low))})",
    )  # fmt: skip


def _stationary(rng: Random) -> Problem | None:
    p, q = sorted(rng.sample(range(-5, 6), 2))
    if (p + q) % 2 or not p + q or not p * q:
        return None
    cubic = [rng.randint(-9, 9), 6 * p * q, -3 * (p + q), 2]
    return expression(
        f"For which x is the slope of {polynomial(cubic)} zero? Answer as a set.", rf"\{{{p},{q}\}}",
        [f"slope {polynomial([6 * p * q, -6 * (p + q), 6])}", f"zero at {p} and {q}"],
        {"sign": rf"\{{{-q},{-p}\}}", "skip": rf"\{{{q}\}}", "slip": rf"\{{{p},{q + 1}\}}"}, [f"x={q}, x={p}"],
    )  # fmt: skip


def _tangent(rng: Random) -> Problem | None:
    a, b, at = rng.choice([-3, -2, 2, 3, 4]), rng.randint(-6, 6), rng.randint(-3, 3)
    if not at:
        return None
    slope, height = 2 * a * at + b, a * at * at + b * at
    right = polynomial([height - slope * at, slope])
    return expression(
        f"Give the tangent of y = {polynomial([0, b, a])} at x = {at} in the form y = mx + c.", f"y={right}",
        [f"slope {slope}", f"point ({at},{height})", f"c = {height} - {slope}*{at} = {height - slope * at}"],
        {"skip": f"y={polynomial([height, slope])}", "formula": f"y={polynomial([height - slope * at, slope + a])}",
         "slip": f"y={polynomial([height - slope * at + 1, slope])}"},
        [f"y = {right}"],
    )  # fmt: skip


def _average(rng: Random) -> Problem | None:
    n, mean, new = rng.randint(3, 9), rng.randint(4, 20), rng.randint(2, 40)
    value = Fraction(n * mean + new, n + 1)
    return number(
        f"{n} numbers have the mean {mean}. The number {new} is added to them. What is the mean now?", value,
        [f"sum {n * mean}", f"with the new one {n * mean + new}", f"divided by {n + 1}"],
        {"formula": Fraction(mean + new, 2), "skip": Fraction(n * mean + new, n), "slip": value + 1},
        f"({n}*{mean} + {new})/{n + 1}",
    )  # fmt: skip


TEMPLATES: Mapping[str, Template] = {
    "gcd": Template("numbers", _gcd),
    "lcm": Template("numbers", _lcm),
    "power_mod": Template("numbers", _power_mod),
    "divisors": Template("numbers", _divisors),
    "base": Template("numbers", _base, unseen=True),
    "coordinates_area": Template("geometry", _coordinates_area),
    "hypotenuse": Template("geometry", _hypotenuse),
    "distance": Template("geometry", _distance),
    "circle": Template("geometry", _circle),
    "cylinder": Template("geometry", _cylinder),
    "same_colour": Template("probability", _same_colour),
    "dice": Template("probability", _dice),
    "choose": Template("probability", _choose),
    "expected": Template("probability", _expected, unseen=True),
    "derivative": Template("calculus", _derivative),
    "integral": Template("calculus", _integral),
    "stationary": Template("calculus", _stationary),
    "tangent": Template("calculus", _tangent),
    "average": Template("statistics", _average),
}
