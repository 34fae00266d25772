"""Algebra, matrices and sequences."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random

from noria.envs.problems.problem import (
    Problem,
    Template,
    expression,
    fraction,
    latex,
    number,
    polynomial,
    sequence,
    signed,
)


def _linear(rng: Random) -> Problem | None:
    a, b, c = rng.randint(2, 9), rng.choice([-1, 1]) * rng.randint(1, 12), rng.randint(-12, 20)
    x = Fraction(c - b, a)
    return number(
        f"Solve {a}x {signed(b)} = {c}.", x, [f"{a}x = {c} {signed(-b)} = {c - b}", f"x = {c - b}/{a} = {fraction(x)}"],
        {"sign": Fraction(c + b, a), "skip": c - b, "slip": x + 1}, f"({c} - ({b}))/{a}",
    )  # fmt: skip


def _two_sides(rng: Random) -> Problem | None:
    a, b, c, d = rng.randint(3, 12), rng.randint(1, 15), rng.randint(1, 9), rng.randint(1, 15)
    if a == c:
        return None
    x = Fraction(d - b, a - c)
    return number(
        f"Solve {a}x + {b} = {c}x + {d}.", x, [f"{a - c}x = {d - b}", f"x = {fraction(x)}"],
        {"sign": Fraction(d + b, a - c), "skip": d - b, "formula": Fraction(d - b, a + c)}, f"({d} - {b})/({a} - {c})",
    )  # fmt: skip


def _quadratic(rng: Random) -> Problem | None:
    p, q = sorted(rng.sample([n for n in range(-9, 10) if n], 2))
    b, c = -(p + q), p * q
    return expression(
        f"Find all solutions of {polynomial([c, b, 1])} = 0, as a set.", rf"\{{{p},{q}\}}",
        [f"two numbers with sum {p + q} and product {c}", f"{p} and {q}"],
        {"sign": rf"\{{{-q},{-p}\}}", "skip": rf"\{{{q}\}}", "slip": rf"\{{{p},{q + 1}\}}"},
        [f"x={p}, x={q}", rf"$\{{{q}, {p}\}}$"],
    )  # fmt: skip


def _system(rng: Random) -> Problem | None:
    x, y = rng.randint(-6, 9), rng.randint(-6, 9)
    a, b, c, d = (rng.randint(1, 6) for _ in range(4))
    if a * d == b * c or x == y:
        return None
    e, f = a * x + b * y, c * x + d * y
    return expression(
        f"Solve {a}x + {b}y = {e} and {c}x + {d}y = {f}. Answer as (x, y).", f"({x},{y})",
        [f"x = ({e}*{d} - {b}*{f})/({a}*{d} - {b}*{c}) = {x}", f"y = ({e} - {a}*{x})/{b} = {y}"],
        {"formula": f"({y},{x})", "sign": f"({-x},{-y})", "slip": f"({x},{y + 1})", "skip": f"{x}"},
        [f"({x}, {y})", rf"\left({x}, {y}\right)"],
    )  # fmt: skip


def _fractions(rng: Random) -> Problem | None:
    a, b, c, d = rng.randint(1, 9), rng.randint(2, 12), rng.randint(1, 9), rng.randint(2, 12)
    sign = rng.choice([1, -1])
    x, y = Fraction(a, b), Fraction(c, d)
    value = x + sign * y
    return number(
        f"Compute {a}/{b} {'+' if sign > 0 else '-'} {c}/{d}.", value,
        [f"common denominator {b * d}", f"({a * d} {'+' if sign > 0 else '-'} {c * b})/{b * d} = {fraction(value)}"],
        {"formula": Fraction(a + sign * c, b + sign * d) if b + sign * d else a, "sign": x - sign * y,
         "skip": a * d + sign * c * b},
        f"{a}/{b} {'+' if sign > 0 else '-'} {c}/{d}",
    )  # fmt: skip


def _expand(rng: Random) -> Problem | None:
    a, b, c, d = rng.randint(1, 5), rng.choice([-1, 1]) * rng.randint(1, 9), rng.randint(1, 5), rng.randint(-9, 9)
    if not d:
        return None
    right = polynomial([b * d, a * d + b * c, a * c])
    return expression(
        f"Expand ({polynomial([b, a])})({polynomial([d, c])}).", right,
        [f"x^2: {a * c}", f"x: {a}*{d} + {b}*{c} = {a * d + b * c}", f"constant: {b * d}"],
        {"skip": polynomial([b * d, 0, a * c]), "sign": polynomial([-b * d, a * d + b * c, a * c]),
         "slip": polynomial([b * d, a * d + b * c + 1, a * c])},
        [f"({polynomial([b, a])})({polynomial([d, c])})"],
    )  # fmt: skip


def _percent(rng: Random) -> Problem | None:
    price, up, down = rng.randint(2, 40) * 10, rng.choice([10, 20, 25, 50]), rng.choice([10, 20, 30, 40])
    value = Fraction(price * (100 + up) * (100 - down), 10000)
    return number(
        f"A price of {price} rises by {up} percent, then falls by {down} percent. What is it now?", value,
        [f"after the rise {fraction(Fraction(price * (100 + up), 100))}", f"after the fall {fraction(value)}"],
        {"formula": Fraction(price * (100 + up - down), 100), "skip": Fraction(price * (100 + up), 100),
         "sign": Fraction(price * (100 - up) * (100 + down), 10000)},
        f"{price}*{100 + up}/100*{100 - down}/100",
    )  # fmt: skip


def _work_rate(rng: Random) -> Problem | None:
    a, b = rng.sample(range(2, 16), 2)
    value = Fraction(a * b, a + b)
    return number(
        f"One pump fills a tank in {a} h, another in {b} h. How many hours do both need together?", value,
        [f"rates add: 1/{a} + 1/{b} = {fraction(1 / value)}", f"time {fraction(value)}"],
        {"formula": Fraction(a + b, 2), "skip": 1 / value, "sign": a + b}, f"1/(1/{a} + 1/{b})",
    )  # fmt: skip


def _exponents(rng: Random) -> Problem | None:
    base, x, shift = rng.choice([2, 3, 5]), rng.randint(1, 5), rng.choice([-3, -2, -1, 1, 2, 3])
    if not 1 <= x + shift <= 7:
        return None
    return number(
        f"Find x with {base}^(x {signed(shift)}) = {base ** (x + shift)}.", x,
        [f"{base ** (x + shift)} = {base}^{x + shift}", f"x = {x + shift} {signed(-shift)} = {x}"],
        {"skip": x + shift, "sign": x + 2 * shift, "slip": x + 1}, f"{x + shift} {signed(-shift)}",
    )  # fmt: skip


def _determinant(rng: Random) -> Problem | None:
    a, b, c, d = (rng.randint(-9, 9) for _ in range(4))
    if not b * c:
        return None
    return number(
        rf"Find the determinant of \begin{{pmatrix}}{a} & {b}\\{c} & {d}\end{{pmatrix}}.", a * d - b * c,
        [f"{a}*{d} = {a * d}", f"{b}*{c} = {b * c}", f"{a * d} - {b * c} = {a * d - b * c}"],
        {"sign": a * d + b * c, "skip": a * d, "formula": a * b - c * d}, f"({a})*({d}) - ({b})*({c})",
    )  # fmt: skip


def _matrix(rows: list[list[int]]) -> str:
    return r"\begin{pmatrix}" + r"\\".join("&".join(map(str, row)) for row in rows) + r"\end{pmatrix}"


def _product(rng: Random) -> Problem | None:
    a, b = ([[rng.randint(-4, 5) for _ in range(2)] for _ in range(2)] for _ in range(2))
    right = [[sum(a[i][k] * b[k][j] for k in range(2)) for j in range(2)] for i in range(2)]
    other = [[sum(b[i][k] * a[k][j] for k in range(2)) for j in range(2)] for i in range(2)]
    cells = [[a[i][j] * b[i][j] for j in range(2)] for i in range(2)]
    return expression(
        f"Multiply {_matrix(a)} by {_matrix(b)}, in this order.", _matrix(right),
        [f"row {i + 1}: {right[i][0]}, {right[i][1]}" for i in range(2)],
        {"sign": _matrix(other), "formula": _matrix(cells),
         "slip": _matrix([[right[0][0] + 1, right[0][1]], right[1]])},
        [_matrix(right).replace("pmatrix", "bmatrix")],
    )  # fmt: skip


def _arithmetic_sum(rng: Random) -> Problem | None:
    first, step, n = rng.randint(-9, 20), rng.choice([-4, -3, -2, 2, 3, 4, 5, 7]), rng.randint(5, 30)
    last = first + (n - 1) * step
    return number(
        f"A sequence begins {first}, {first + step}, {first + 2 * step} and goes on evenly. Add its first {n} terms.",
        Fraction(n * (first + last), 2), [f"last term {last}", f"{n}*({first} + {last})/2 = {n * (first + last) // 2}"],
        {"skip": last, "formula": Fraction(n * (first + last + step), 2), "slip": n * (first + last)},
        f"{n}*({first} + ({last}))/2",
    )  # fmt: skip


def _geometric_sum(rng: Random) -> Problem | None:
    first, ratio, n = rng.randint(1, 9), Fraction(rng.choice(["2", "3", "-2", "1/2"])), rng.randint(3, 6)
    terms: list[Fraction] = [first * ratio**k for k in range(n)]
    total = sum(terms, Fraction(0))
    return number(
        f"A sequence begins with {first}; each term is {fraction(ratio)} times the one before. Add its first {n}.",
        total, [" + ".join(fraction(term) for term in terms), f"sum {fraction(total)}"],
        {"skip": terms[-1], "slip": total - terms[-1], "formula": total * ratio},
        " + ".join(f"({fraction(term)})" for term in terms),
    )  # fmt: skip


def _recurrence(rng: Random) -> Problem | None:
    a, b, p, q = rng.randint(0, 4), rng.randint(1, 5), rng.randint(1, 2), rng.randint(1, 3)
    terms = [a, b]
    for _ in range(4):
        terms.append(p * terms[-1] + q * terms[-2])
    swapped = [a, b]
    for _ in range(4):
        swapped.append(q * swapped[-1] + p * swapped[-2])
    return sequence(
        f"s1 = {a}, s2 = {b}, s(n) = {p}*s(n-1) + {q}*s(n-2). Give s3, s4, s5, s6 in order.", terms[2:],
        [f"s{k + 1} = {p}*{terms[k - 1]} + {q}*{terms[k - 2]} = {terms[k]}" for k in range(2, 6)],
        {"formula": swapped[2:], "skip": terms[1:5], "slip": [*terms[2:5], terms[5] + 1]},
    )  # fmt: skip


def _inequality(rng: Random) -> Problem | None:
    a, b, c = rng.randint(2, 7), rng.randint(1, 9), rng.randint(-9, 9)
    bound = Fraction(b - c, a)
    return expression(
        f"Solve {b} - {a}x < {c}. Answer as an interval.", rf"({latex(bound)},\infty)",
        [f"-{a}x < {c - b}", f"divide by -{a} and turn the sign: x > {fraction(bound)}"],
        {"sign": rf"(-\infty,{latex(bound)})", "slip": rf"[{latex(bound)},\infty)",
         "skip": rf"({latex(bound * a)},\infty)"},
        [rf"({fraction(bound)}, \infty)"],
    )  # fmt: skip


TEMPLATES: Mapping[str, Template] = {
    "linear": Template("algebra", _linear),
    "two_sides": Template("algebra", _two_sides),
    "quadratic": Template("algebra", _quadratic),
    "system": Template("algebra", _system),
    "fractions": Template("algebra", _fractions),
    "expand": Template("algebra", _expand),
    "percent": Template("algebra", _percent),
    "work_rate": Template("algebra", _work_rate, unseen=True),
    "exponents": Template("algebra", _exponents),
    "determinant": Template("matrices", _determinant),
    "product": Template("matrices", _product),
    "arithmetic_sum": Template("sequences", _arithmetic_sum),
    "geometric_sum": Template("sequences", _geometric_sum),
    "recurrence": Template("sequences", _recurrence),
    "inequality": Template("algebra", _inequality, unseen=True),
}
