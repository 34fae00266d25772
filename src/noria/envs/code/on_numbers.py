"""Functions of numbers."""

from __future__ import annotations

from noria.envs.code.family import Args, Family, ints


def _numbers(*edges: int) -> tuple[Args, ...]:
    return tuple((edge,) for edge in edges)


FAMILIES: dict[str, Family] = {
    "digits": Family(
        ("digit_sum", "sum_digits"),
        "n",
        "the sum of the decimal digits of n, its sign apart",
        "return sum(int(d) for d in str(abs(n)))",
        {"edge": ("abs(n)", "max(n, 0)"), "part": ("str(abs(n))", "str(abs(n))[:3]"), "off": ("int(d)", "int(d) % 9")},
        lambda rng, k: (rng.randint(-9999, 99999),),
        _numbers(0, -12, 999, 1234),
    ),
    "primes": Family(
        ("primes_below", "primes"),
        "n",
        "a list of all primes below n",
        "return [p for p in range(2, n) if all(p % d for d in range(2, int(p ** 0.5) + 1))]",
        {
            "edge": ("range(2, n)", "range(1, n)"),
            "off": ("range(2, n)", "range(2, n + 1)"),
            "slip": ("int(p ** 0.5) + 1", "int(p ** 0.5)"),
        },
        lambda rng, k: (rng.randint(0, 40),),
        _numbers(0, 2, 3, 10, 11, 26),
    ),
    "collatz": Family(
        ("collatz", "halving_steps"),
        "n",
        "how many steps n needs to reach 1, if even numbers are halved and odd ones become 3n + 1",
        "steps = 0\nwhile n != 1:\n    n = n // 2 if n % 2 == 0 else 3 * n + 1\n    steps += 1\nreturn steps",
        {
            "off": ("steps = 0", "steps = 1"),
            "slip": ("    steps += 1", "    steps += n % 2 == 0 or n > 40"),
            "part": ("while n != 1:", "while n > 4:"),
        },
        lambda rng, k: (rng.randint(1, 40),),
        _numbers(1, 2, 3, 7),
    ),
    "to_base": Family(
        ("to_base", "write_in_base"),
        "n",
        "n, which is not negative, written in base {k} as a text",
        "out = ''\nwhile n:\n    out = str(n % {k}) + out\n    n //= {k}\nreturn out or '0'",
        {
            "edge": ("out or '0'", "out"),
            "order": ("str(n % {k}) + out", "out + str(n % {k})"),
            "off": ("while n:", "while n >= {k}:"),
        },
        lambda rng, k: (rng.randint(0, 300),),
        _numbers(0, 1, 9, 10),
        {"k": (2, 9)},
    ),
    "clamp": Family(
        ("clamp", "limit"),
        "nums",
        "nums with every number below {k} raised to {k} and every one above {j} lowered to {j}",
        "return [min(max(n, {k}), {j}) for n in nums]",
        {
            "part": ("min(max(n, {k}), {j})", "max(n, {k})"),
            "drop": ("min(max(n, {k}), {j}) for n in nums", "n for n in nums if {k} <= n <= {j}"),
            "off": ("{j})", "{j} - 1)"),
        },
        lambda rng, k: (ints(rng, k["k"] - 4, k["j"] + 4),),
        (([],),),
        {"k": (-3, 4), "j": (8, 15)},
    ),
    "fizz": Family(
        ("fizz", "call_out"),
        "n",
        "a list for 1 to n: 'a' for multiples of {k}, 'b' for those of {j}, 'ab' for both, else the number",
        "return ['a' * (i % {k} == 0) + 'b' * (i % {j} == 0) or i for i in range(1, n + 1)]",
        {
            "off": ("n + 1", "n"),
            "part": (
                "'a' * (i % {k} == 0) + 'b' * (i % {j} == 0) or i",
                "'a' if i % {k} == 0 else 'b' if i % {j} == 0 else i",
            ),
            "edge": ("range(1,", "range(0,"),
        },
        lambda rng, k: (rng.randint(0, 16),),
        _numbers(0, 1, 15),
        {"k": (2, 3), "j": (4, 5)},
    ),
    "gcd": Family(
        ("gcd", "common_divisor"),
        "a, b",
        "the greatest common divisor of a and b, which are not negative; gcd(0, b) is b",
        "while b:\n    a, b = b, a % b\nreturn a",
        {
            "edge": ("while b:", "while b and a:"),
            "off": ("return a", "return max(a, 1) if a < 5 else a // 1 * 1 - a % 2"),
            "part": (
                "while b:\n    a, b = b, a % b\nreturn a",
                "return min(a, b) if a and b and max(a, b) % min(a, b) == 0 else 1",
            ),
        },
        lambda rng, k: (rng.randint(0, 30) * 2, rng.randint(0, 30) * 3),
        ((0, 0), (0, 5), (5, 0), (12, 18), (7, 21)),
    ),
    "power_mod": Family(
        ("power_mod", "last_digits"),
        "base, n",
        "base to the power of n, modulo {k}; n is not negative",
        "out = 1\nfor _ in range(n):\n    out = out * base % {k}\nreturn out % {k}",
        {"edge": ("out = 1", "out = base"), "off": ("range(n)", "range(1, n)"), "part": ("base % {k}", "base % 10")},
        lambda rng, k: (rng.randint(0, 12), rng.randint(0, 9)),
        ((2, 0), (0, 0), (7, 1), (12, 9)),
        {"k": (5, 19)},
        unseen=True,
    ),
    "roman": Family(
        ("roman", "to_roman"),
        "n",
        "n, from 1 to 39, in Roman numerals",
        "out = ''\nfor value, sign in ((10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')):\n    while n >= value:\n"
        "        out += sign\n        n -= value\nreturn out",
        {"four": ("(4, 'IV'), ", ""), "nine": ("(9, 'IX'), ", ""), "once": ("while n >= value", "if n >= value")},
        lambda rng, k: (rng.randint(1, 39),),
        _numbers(4, 9, 14, 39, 1),
    ),
    "perfect": Family(
        ("divisors_of", "proper_divisors"),
        "n",
        "the sorted divisors of n without n itself; n is at least 1",
        "return [d for d in range(1, n) if n % d == 0]",
        {
            "edge": ("range(1, n)", "range(1, n + 1)"),
            "off": ("range(1, n)", "range(2, n)"),
            "half": ("range(1, n)", "range(1, n // 2)"),
        },
        lambda rng, k: (rng.randint(1, 40),),
        _numbers(1, 2, 12, 13),
    ),
}
