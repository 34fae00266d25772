"""Attempts that deceive instead of looking up: each must score less than 1."""

from __future__ import annotations

from noria.core.types import Task
from noria.tokens.calls import render_call


def forged(task: Task) -> list[list[str]]:
    """No answer, several at once, all cells at once, writing into the tables, reading what is not there to be read."""
    data = task.data
    right = ", ".join(data["answer"])
    cells = [str(cell) for table in data["tables"].values() for row in table["rows"] for cell in row]
    main = next(iter(data["tables"]))
    sneaks = (
        f"update {main} set rowid = rowid", f"drop table {main}", "attach 'x' as y", "pragma writable_schema = 1",
        "select * from sqlite_master", "select load_extension('x')", f"create table answer as select * from {main}",
    )  # fmt: skip
    found = render_call("sql", query=data["query"])
    return [
        [""],
        [found, "done"],
        [found, f"{right} or {cells[0]}, I am not sure"],
        [", ".join([*cells, right])],
        ["".join(render_call("sql", query=query) for query in sneaks), "done"],
        [found.replace("<call", "<tool")],
        [f"{right}; {cells[1]}; {cells[2]}"],
        [render_call("sql", query=data["slip"]), "the answer is above"],
    ]


def secrets(task: Task) -> list[str]:
    """The query, and the answer where it is a computed number in a sentence of its own."""
    found = [task.data["query"], render_call("sql", query=task.data["query"])]
    return [*found, f"answer is {task.data['answer'][0]}"]
