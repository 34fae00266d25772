"""Families of databases: SQLite files that are asked, mended, moved on and written out."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from noria.envs.claw import items
from noria.envs.claw.draw import CITIES, ITEMS, PEOPLE, cells, csv, inserts, numbers, some
from noria.envs.claw.job import Family, Job, python, read, sql, write

_ORDERS = "create table orders (id integer primary key, name text, city text, price int, qty int);\n"
_ALL = "select * from orders order by id"
_CONNECT = "import sqlite3\nc = sqlite3.connect('shop.db')\n"
_SCHEMA = sql("shop.db", "select sql from sqlite_master")
Row = list[object]


def _orders(rng: Random, n: int = 7) -> list[Row]:
    """Rows of the table of orders; two cities have several."""
    cities = some(rng, CITIES, 3)
    prices = numbers(rng, n, 10, 90)
    people = some(rng, PEOPLE, n)
    places = [cities[i % 3] for i in range(n)]
    rng.shuffle(places)
    return [
        [i + 1, name, city, price, rng.randint(2, 6)]
        for i, (name, city, price) in enumerate(zip(people, places, prices, strict=True))
    ]


def _shop(rows: list[Row]) -> dict[str, str]:
    return {"shop.db": _ORDERS + inserts("orders", rows)}


def _peek() -> tuple[tuple[str, dict[str, str]], ...]:
    return _SCHEMA, sql("shop.db", "select * from orders limit 2")


def total_of_city(rng: Random) -> Job:
    """A sum under a condition. The slip sums everything."""
    rows = _orders(rng)
    city = str(rng.choice(rows)[2])
    total = str(sum(int(str(row[3])) for row in rows if row[2] == city))
    query = f"select sum(price) as total from orders where city = '{city}'"
    return Job(
        ask=f"In shop.db sum the price of all {city} orders: write it to total.csv under the header total, and say it.",
        files={},
        databases=_shop(rows),
        checks=(
            items.rows("total.csv", [["total"], [total]]),
            items.answer(total, numeric=True),
            items.table("shop.db", _ALL, rows, "orders kept", guard=True),
        ),
        look=_peek(),
        shell=(sql("shop.db", query, "total.csv"),),
        code=(
            f'{_CONNECT}t = c.execute("{query}").fetchone()[0]\n'
            "open('total.csv', 'w').write(f'total\\n{t}\\n')\nprint(t)"
        ),
        slip=(sql("shop.db", "select sum(price) as total from orders", "total.csv"),),
        made=("total.csv",),
        answer=total,
    )


def mend_city(rng: Random) -> Job:
    """A misspelt value. The slip gives every row the right one."""
    rows = _orders(rng)
    city = str(rows[rng.randrange(len(rows))][2])
    wrong = city[:-1] + {"o": "0", "e": "3", "a": "4"}.get(city[-1], "x")
    before = [[*row[:2], wrong, *row[3:]] if row[2] == city else row for row in rows]
    return Job(
        ask=f"In shop.db, table orders, some rows spell {city} as {wrong}. Mend them; change nothing else.",
        files={},
        databases=_shop(before),
        checks=(
            items.table("shop.db", f"select count(*) from orders where city = '{wrong}'", [[0]], f"no {wrong}"),
            items.table("shop.db", _ALL, rows, "orders"),
        ),
        look=(sql("shop.db", "select distinct city from orders"),),
        shell=(sql("shop.db", f"update orders set city = '{city}' where city = '{wrong}'"),),
        code=(f"{_CONNECT}c.execute(\"update orders set city = '{city}' where city = '{wrong}'\")\nc.commit()"),
        slip=(sql("shop.db", f"update orders set city = '{city}'"),),
    )


def add_column(rng: Random) -> Job:
    """A computed column. The slip leaves it empty."""
    rows = _orders(rng)
    name = rng.choice(("total", "worth", "amount"))
    want, columns = [[*row, int(str(row[3])) * int(str(row[4]))] for row in rows], "id, name, city, price, qty"
    add, fill = f"alter table orders add column {name} int", f"update orders set {name} = price * qty"
    return Job(
        ask=f"Give table orders of shop.db a column {name}, an int: price times qty. Keep all else.",
        files={},
        databases=_shop(rows),
        checks=(
            items.table("shop.db", f"select id, {name} from orders order by id", [[r[0], r[5]] for r in want], name),
            items.table("shop.db", f"select {columns} from orders order by id", rows, "orders kept", guard=True),
        ),
        look=_peek(),
        shell=(sql("shop.db", add), sql("shop.db", fill)),
        code=f"{_CONNECT}c.execute('{add}')\nc.execute('{fill}')\nc.commit()",
        slip=(sql("shop.db", add),),
    )


def count_by_city(rng: Random) -> Job:
    """Groups into a CSV file. The slip forgets the order."""
    rows = _orders(rng, 8)
    cities = sorted({str(row[2]) for row in rows})
    counts = [[city, str(sum(row[2] == city for row in rows))] for city in cities]
    query = "select city, count(*) as n from orders group by city order by city"
    return Job(
        ask="Count the orders of each city in shop.db into n.csv (header city,n), sorted by city.",
        files={},
        databases=_shop(rows),
        checks=(
            items.rows("n.csv", cells("city,n", counts)),
            items.table("shop.db", _ALL, rows, "orders kept", guard=True),
        ),
        look=_peek(),
        shell=(sql("shop.db", query, "n.csv"),),
        code=(
            f"{_CONNECT}rows = c.execute('{query}')\n"
            "open('n.csv', 'w').write('city,n\\n' + ''.join(f'{a},{b}\\n' for a, b in rows))"
        ),
        slip=(sql("shop.db", f"{query} desc", "n.csv"),),
        made=("n.csv",),
    )


def import_csv(rng: Random) -> Job:
    """A CSV file into a new table. The slip loads the header as a row."""
    rows = [[name, n] for name, n in zip(some(rng, PEOPLE, 4), numbers(rng, 4, 10, 99), strict=True)]
    orders, text, table = _orders(rng, 3), csv("name,points", rows), rng.choice(("people", "staff", "crew"))
    create = f"create table {table} (name text, points int)"
    values = ", ".join(f"('{name}', {n})" for name, n in rows)
    load = (
        f"{_CONNECT}c.execute('{create}')\nrows = [x.split(',') for x in open('new.csv').read().split()][%s]\n"
        f"c.executemany('insert into {table} values (?, ?)', rows)\nc.commit()"
    )
    return Job(
        ask=f"Load new.csv into a new table {table} (name text, points int) of shop.db.",
        files={"new.csv": text},
        databases=_shop(orders),
        checks=(
            items.table("shop.db", f"select name, points from {table} order by name", sorted(rows), table),
            items.table("shop.db", _ALL, orders, "orders kept", guard=True),
            items.same("new.csv", text),
        ),
        look=(read("new.csv"), _SCHEMA),
        shell=(sql("shop.db", create), sql("shop.db", f"insert into {table} values {values}")),
        code=load % "1:",
        slip=(python(load % ":"),),
    )


def drop_doubles(rng: Random) -> Job:
    """Rows that occur twice. The slip keeps the later one."""
    rows = _orders(rng, 5)
    doubled = rng.sample(rows, 2)
    again: list[Row] = [[len(rows) + 1 + i, *row[1:]] for i, row in enumerate(doubled)]
    query = "delete from orders where id not in (select %s(id) from orders group by name, city, price, qty)"
    return Job(
        ask="Some rows of orders in shop.db occur twice but for their id. Delete the later ones.",
        files={},
        databases=_shop(rows + again),
        checks=(
            items.table("shop.db", "select count(*) from orders", [[len(rows)]], "rows left"),
            items.table("shop.db", _ALL, rows, "orders"),
        ),
        look=(sql("shop.db", "select * from orders"),),
        shell=(sql("shop.db", query % "min"),),
        code=f"{_CONNECT}c.execute('{query % 'min'}')\nc.commit()",
        slip=(sql("shop.db", query % "max"),),
    )


def drop_orphans(rng: Random) -> Job:
    """Rows that point to nobody. The slip deletes those that are pointed to by none."""
    rows = _orders(rng, 6)
    known = sorted(str(row[1]) for row in rng.sample(rows, 4))
    extra = next(name for name in PEOPLE if all(row[1] != name for row in rows))
    people: list[Row] = [[name] for name in [*known, extra]]
    left = [row for row in rows if row[1] in known]
    query = "delete from orders where name not in (select name from people)"
    return Job(
        ask="In shop.db delete the orders whose name is not in the table people.",
        files={},
        databases={"shop.db": _ORDERS + "create table people (name text);\n" + inserts("orders", rows).strip()
                   + "\n" + "".join(inserts("people", [row]).replace(",)", ")") for row in people)},
        checks=(
            items.table("shop.db", _ALL, left, "orders"),
            items.table("shop.db", "select name from people order by name", sorted(people), "people kept", guard=True),
        ),
        look=(_SCHEMA, sql("shop.db", "select name from people")),
        shell=(sql("shop.db", query),),
        code=f"{_CONNECT}c.execute('{query}')\nc.commit()",
        slip=(sql("shop.db", "delete from people where name not in (select name from orders)"),),
    )  # fmt: skip


def export_json(rng: Random) -> Job:
    """A table as a list of objects. The slip writes lists."""
    rows = [[name, price] for name, price in zip(some(rng, ITEMS, 4), numbers(rng, 4, 10, 99), strict=True)]
    want = [{"name": name, "price": price} for name, price in sorted(rows)]
    ask = "select name, price from items order by name"
    dump = f"import json\n{_CONNECT}t = c.execute('{ask}')\njson.dump([%s for a, b in t], open('items.json', 'w'))"
    by_hand = ",\n ".join(f'{{"name": "{name}", "price": {price}}}' for name, price in sorted(rows))
    return Job(
        ask="Write table items of shop.db to items.json: a list of {name, price}, sorted by name.",
        files={},
        databases={"shop.db": "create table items (name text, price int);\n" + inserts("items", rows)},
        checks=(
            items.value("items.json", want),
            items.table("shop.db", ask, sorted(rows), "items kept", guard=True),
        ),
        look=(_SCHEMA, sql("shop.db", ask)),
        shell=(write("items.json", f"[{by_hand}]\n"),),
        code=dump % "{'name': a, 'price': b}",
        slip=(python(dump % "[a, b]"),),
        made=("items.json",),
    )


FAMILIES: Mapping[str, Family] = {
    "total_of_city": total_of_city, "mend_city": mend_city, "add_column": add_column, "count_by_city": count_by_city,
    "import_csv": import_csv, "drop_doubles": drop_doubles, "export_json": export_json, "drop_orphans": drop_orphans,
}  # fmt: skip
