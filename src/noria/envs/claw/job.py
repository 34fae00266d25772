"""A piece of work as a family draws it: files, what is asked, the check-list, and ways to do it.

A family's paths are relative to the folder of its job, so that a job can be put into a folder beside others (`moved`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

#: A call: the tool's name and its arguments.
Step = tuple[str, dict[str, str]]
#: One line of a check-list, see `items`.
Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work.

    ask        what the prompt says
    files      path -> text at the start
    databases  path -> SQL that fills a SQLite file at the start
    checks     the check-list on what is left at the end
    look       calls that show what one must know before
    shell      calls that do the work; where an answer is asked for, the last one's output ends with it
    code       Python that does the same; prints the answer at the end
    slip       calls of a natural mistake
    made       files that the work brings about, in the order in which they are asked for
    answer     the reference answer; "" where none is asked for
    """

    ask: str
    files: Mapping[str, str]
    checks: tuple[Item, ...]
    look: tuple[Step, ...]
    shell: tuple[Step, ...]
    code: str
    slip: tuple[Step, ...]
    made: tuple[str, ...] = ()
    answer: str = ""
    databases: Mapping[str, str] = field(default_factory=dict)


Family = Callable[[Random], Job]


def sh(command: str) -> Step:
    """A shell command."""
    return "sh", {"command": command}


def read(path: str) -> Step:
    """Show a file."""
    return "read", {"path": path}


def write(path: str, text: str) -> Step:
    """Write a file."""
    return "write", {"path": path, "text": text}


def edit(path: str, old: str, new: str) -> Step:
    """Replace a text that stands once in a file."""
    return "edit", {"path": path, "old": old, "new": new}


def python(code: str) -> Step:
    """Run Python."""
    return "python", {"code": code}


def sql(db: str, query: str, out: str = "") -> Step:
    """Run one statement on a database; `out` is a file for the rows."""
    return "sql", {"db": db, "query": query} | ({"out": out} if out else {})


def moved(job: Job, folder: str) -> Job:
    """The same job inside a folder."""

    def under(path: str) -> str:
        return f"{folder}/{path}"

    def step(given: Step) -> Step:
        name, args = given
        if name == "sh":
            return sh(f"cd {folder} && {{ {args['command']}\n}}")
        if name == "python":
            return python(f"import os; os.chdir('{folder}')\n{args['code']}")
        return name, {key: under(value) if key in ("path", "db", "out") else value for key, value in args.items()}

    def item(given: Item) -> Item:
        keys = {key: under(given[key]) for key in ("path", "db") if key in given}
        return given | keys | {"folder": folder, "name": under(given["name"])}

    return replace(
        job,
        ask=job.ask,
        files={under(path): text for path, text in job.files.items()},
        databases={under(path): text for path, text in job.databases.items()},
        checks=tuple(map(item, job.checks)),
        look=tuple(map(step, job.look)),
        shell=tuple(map(step, job.shell)),
        code=f"import os; os.chdir('{folder}')\n{job.code}",
        slip=tuple(map(step, job.slip)),
        made=tuple(map(under, job.made)),
    )
