"""Families of data analysis: a question about CSV files, its answer, and a file that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from random import Random

from noria.envs.claw import items
from noria.envs.claw.draw import ITEMS, PEOPLE, STEMS, TEAMS, cells, csv, numbers, some
from noria.envs.claw.job import Family, Item, Job, read, sh


def _answered(path: str, want: str, numeric: bool) -> tuple[Item, Item]:
    """The answer in the file, and said."""
    return items.text(path, want + "\n"), items.answer(want, numeric)


def best_of(rng: Random) -> Job:
    """Who has most. The slip sorts numbers as texts."""
    names, scores = some(rng, PEOPLE, 6), [rng.randint(6, 9), *numbers(rng, 5, 100, 499)]
    rng.shuffle(scores)
    stem, team = rng.choice(STEMS), [rng.choice(TEAMS) for _ in names]
    text = csv("name,team,points", list(zip(names, team, scores, strict=True)))
    best = names[scores.index(max(scores))]
    pick = f"tail -n +2 {stem}.csv | sort -t, -k3 %s | head -1 | cut -d, -f1 | tee top.txt"
    return Job(
        ask=f"Who has most points in {stem}.csv? Write the name to top.txt and say it.",
        files={f"{stem}.csv": text},
        checks=(*_answered("top.txt", best, numeric=False), items.same(f"{stem}.csv", text)),
        look=(sh(f"head -3 {stem}.csv"),),
        shell=(sh(pick % "-nr"),),
        code=(
            f"rows = [x.split(',') for x in open('{stem}.csv').read().split()[1:]]\n"
            "top = max(rows, key=lambda r: int(r[2]))[0]\nopen('top.txt', 'w').write(top + '\\n')\nprint(top)"
        ),
        slip=(sh(pick % "-r"),),
        made=("top.txt",),
        answer=best,
    )


def means(rng: Random) -> Job:
    """Means of groups, and the best of them. The slip takes sums."""
    teams, stem = sorted(some(rng, TEAMS, 3)), rng.choice(STEMS)
    sizes = dict(zip(teams, rng.sample((2, 2, 4), 3), strict=True))
    means_ = dict(zip(teams, numbers(rng, 3, 30, 60), strict=True))
    rows = []
    for team in teams:
        gaps = numbers(rng, sizes[team] // 2, 1, 20)
        rows += [[team, means_[team] + sign * gap] for gap in gaps for sign in (1, -1)]
    rng.shuffle(rows)
    text = csv("team,points", rows)
    best = max(teams, key=means_.__getitem__)
    group = f"awk -F, 'NR>1{{s[$1]+=$2; n[$1]++}} END{{for(t in s) print t\",\"%s}}' {stem}.csv | sort > mean.csv"
    last = "sort -t, -k2 -nr mean.csv | head -1 | cut -d, -f1"
    return Job(
        ask=f"Write the mean points of each team in {stem}.csv to mean.csv as team,mean lines without header, "
        "sorted by team. Say the best team.",
        files={f"{stem}.csv": text},
        checks=(
            items.rows("mean.csv", [[team, str(means_[team])] for team in teams]),
            items.answer(best, numeric=False),
            items.same(f"{stem}.csv", text),
        ),
        look=(sh(f"head -3 {stem}.csv"),),
        shell=(sh(group % "s[t]/n[t]"), sh(last)),
        code=(
            f"d = {{}}\nfor x in open('{stem}.csv').read().split()[1:]:\n t, p = x.split(',')\n"
            " d.setdefault(t, []).append(int(p))\nm = {t: sum(v) / len(v) for t, v in sorted(d.items())}\n"
            "open('mean.csv', 'w').writelines(f'{t},{x}\\n' for t, x in m.items())\nprint(max(m, key=m.get))"
        ),
        slip=(sh(group % "s[t]"), sh(last)),
        made=("mean.csv",),
        answer=best,
    )


def revenue(rng: Random) -> Job:
    """Two files joined and summed. The slip sums the wrong column."""
    names = some(rng, ITEMS, 4)
    prices = dict(zip(names, numbers(rng, 4, 2, 40), strict=True))
    sold = [(rng.choice(names), rng.randint(2, 9)) for _ in range(6)]
    total = str(sum(prices[name] * n for name, n in sold))
    price_text, sold_text = csv("item,price", list(prices.items())), csv("item,n", sold)
    return Job(
        ask="What was earned? sold.csv has item,n and price.csv item,price. Write the total to sum.txt and say it.",
        files={"price.csv": price_text, "sold.csv": sold_text},
        checks=(
            *_answered("sum.txt", total, numeric=True),
            items.same("price.csv", price_text), items.same("sold.csv", sold_text),
        ),
        look=(read("price.csv"), read("sold.csv")),
        shell=(
            sh("awk -F, 'NR==FNR{p[$1]=$2;next} FNR>1{t+=p[$1]*$2} END{print t}' price.csv sold.csv | tee sum.txt"),
        ),
        code=(
            "p = dict(x.split(',') for x in open('price.csv').read().split())\n"
            "s = [x.split(',') for x in open('sold.csv').read().split()[1:]]\n"
            "t = sum(int(p[i]) * int(n) for i, n in s)\nopen('sum.txt', 'w').write(f'{t}\\n')\nprint(t)"
        ),
        slip=(sh("awk -F, 'FNR>1{t+=$2} END{print t}' price.csv sold.csv | tee sum.txt"),),
        made=("sum.txt",),
        answer=total,
    )  # fmt: skip


def median(rng: Random) -> Job:
    """The middle value. The slip takes the mean."""
    values = numbers(rng, 6, 10, 60)
    values.append(rng.randint(300, 400))  # far out, so that the mean is another number
    rng.shuffle(values)
    stem, middle = rng.choice(STEMS), str(sorted(values)[3])
    text = csv("day,n", [[i + 1, value] for i, value in enumerate(values)])
    return Job(
        ask=f"What is the median of column n in {stem}.csv? Write it to mid.txt and say it.",
        files={f"{stem}.csv": text},
        checks=(*_answered("mid.txt", middle, numeric=True), items.same(f"{stem}.csv", text)),
        look=(sh(f"wc -l {stem}.csv; head -2 {stem}.csv"),),
        shell=(
            sh(
                f"tail -n +2 {stem}.csv | cut -d, -f2 | sort -n | "
                "awk '{a[NR]=$1} END{print a[(NR+1)/2]}' | tee mid.txt"
            ),
        ),
        code=(
            f"from statistics import median\nrows = open('{stem}.csv').read().split()[1:]\n"
            "m = median(int(x.split(',')[1]) for x in rows)\n"
            "open('mid.txt', 'w').write(f'{m}\\n')\nprint(m)"
        ),
        slip=(sh(f"awk -F, 'NR>1{{t+=$2}} END{{print t/(NR-1)}}' {stem}.csv | tee mid.txt"),),
        made=("mid.txt",),
        answer=middle,
    )  # fmt: skip


def clean_cells(rng: Random) -> Job:
    """Rows whose number is none go. The slip drops empty cells alone."""
    stem, header = rng.choice(STEMS), "name,points"
    bad = ["", *some(rng, ("n/a", "none", "?", "x7", "12a", "-"), rng.randint(1, 4))]
    names, points = some(rng, PEOPLE, 4 + len(bad)), [str(n) for n in numbers(rng, 4, 10, 99)]
    rows = list(zip(names, points + bad, strict=True))
    rng.shuffle(rows)
    left, text = [row for row in rows if row[1].isdigit()], csv(header, rows)
    keep = f"awk -F, 'NR==1 || %s' {stem}.csv > clean.csv"
    count = f"echo $(( $(wc -l < {stem}.csv) - $(wc -l < clean.csv) ))"
    return Job(
        ask=f"Write {stem}.csv without the rows whose points are no whole number to clean.csv. Say how many went.",
        files={f"{stem}.csv": text},
        checks=(
            items.rows("clean.csv", cells(header, left)),
            items.answer(str(len(bad)), numeric=True),
            items.same(f"{stem}.csv", text),
        ),
        look=(read(f"{stem}.csv"),),
        shell=(sh(keep % "$2 ~ /^[0-9]+$/"), sh(count)),
        code=(
            f"rows = open('{stem}.csv').read().split('\\n')[:-1]\n"
            "ok = [r for r in rows[1:] if r.split(',')[1].isdigit()]\n"
            "open('clean.csv', 'w').write('\\n'.join(rows[:1] + ok) + '\\n')\nprint(len(rows) - 1 - len(ok))"
        ),
        slip=(sh(keep % '$2 != ""'), sh(count)),
        made=("clean.csv",),
        answer=str(len(bad)),
    )  # fmt: skip


def largest_rise(rng: Random) -> Job:
    """The day that rose most over the day before. The slip takes the highest day."""
    steps = numbers(rng, 5, 5, 30)
    values = [rng.randint(100, 140)]
    for i, step in enumerate(steps):
        values.append(values[-1] + (step if i % 2 else -step))
    values += [values[-1] + 60, values[-1] + 90, values[-1] + 97]  # the highest day is not the one after the leap
    days = [f"d{n}" for n in sorted(numbers(rng, len(values), 1, 40))]
    rises = [b - a for a, b in pairwise(values)]
    day = days[1 + rises.index(max(rises))]
    text = csv("day,n", list(zip(days, values, strict=True)))
    return Job(
        ask="On which day of days.csv did n rise most over the line before? Write the day to rise.txt and say it.",
        files={"days.csv": text},
        checks=(*_answered("rise.txt", day, numeric=False), items.same("days.csv", text)),
        look=(sh("head -3 days.csv"),),
        shell=(sh("awk -F, 'NR>2 && $2-p>b{b=$2-p;d=$1} {p=$2} END{print d}' days.csv | tee rise.txt"),),
        code=(
            "rows = [x.split(',') for x in open('days.csv').read().split()[1:]]\n"
            "best = max(zip(rows, rows[1:]), key=lambda p: int(p[1][1]) - int(p[0][1]))[1][0]\n"
            "open('rise.txt', 'w').write(best + '\\n')\nprint(best)"
        ),
        slip=(sh("tail -n +2 days.csv | sort -t, -k2 -nr | head -1 | cut -d, -f1 | tee rise.txt"),),
        made=("rise.txt",),
        answer=day,
    )


FAMILIES: Mapping[str, Family] = {
    "best_of": best_of, "means": means, "revenue": revenue, "median": median, "clean_cells": clean_cells,
    "largest_rise": largest_rise,
}  # fmt: skip
