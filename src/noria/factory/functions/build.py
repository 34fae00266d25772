"""From a sound repository to rows of tasks of its small functions (the file that `[env] type = "microswe"` reads)."""

from __future__ import annotations

import ast
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noria.core.code import Mutation, apply
from noria.core.cover import cover
from noria.core.errors import SandboxError
from noria.core.protocols import Sandbox, Workspace
from noria.core.shingles import code, shingles
from noria.core.syntax import parse
from noria.envs.microswe.given import fault, is_value
from noria.envs.microswe.plain import plain
from noria.envs.swe.trial import Bench
from noria.factory.functions import inputs
from noria.factory.functions.choose import Choice, choose
from noria.languages.base import DEPS, WORKSPACE, Layout
from noria.mutations import propose

_HERE = Path(__file__).parent
#: Mutants that are played, tasks that are kept of one function, and edits that a row offers a hurried worker.
PLAYED, KEPT, WRONG = 60, 8, 10
#: Calls that tests show, characters of one, calls that are kept back.
LEAST_SHOWN, MOST_SHOWN, MOST_CALL, MOST_SPARE = 3, 5, 60, 12
WATCH_S, PLAY_S = 600.0, 60.0
#: Functions whose lexemes, names apart, are alike to this share are one: they lie in one split.
ALIKE, _SIZE = 0.5, 4
HELDOUT_PERCENT = 25
_SALT = "functions-1"


@dataclass(frozen=True, slots=True)
class Found:
    """A function with the calls that its package's tests make of it, and the rows of its tasks without a split."""

    choice: Choice
    rows: tuple[dict[str, Any], ...]
    reason: str = ""


def chosen(tree: Path, layout: Layout) -> list[Choice]:
    """The small functions of a repository, in order of path and line."""
    found: list[Choice] = []
    for path in layout.sources:
        try:
            found += choose(path, (tree / path).read_text("utf-8"))
        except UnicodeDecodeError:
            continue
    return found


def watched(bench: Bench, choices: Sequence[Choice]) -> dict[Choice, list[list[str]]]:
    """The calls that the repository's own tests make. Raises SandboxError: the tests could not be run."""
    places = {(f"{WORKSPACE}/{one.path}", one.first_line): one for one in choices}
    space = bench.sandbox.workspace({})
    try:
        space.write("_noria_watch.py", (_HERE / "_watch.py").read_text("utf-8"))
        files = [
            path for path in bench.layout.tests if Path(path).name.startswith("test_") or path.endswith("_test.py")
        ]
        words = ["_noria_watch.py", "_noria_calls.jsonl", json.dumps(list(places)), *files]
        done = space.run(["/usr/bin/env", "PYTHONHASHSEED=0", f"{DEPS}/bin/python", *words], WATCH_S)
        if done.timed_out or done.killed:
            raise SandboxError(f"its tests do not end while they are watched: {done.killed or 'out of time'}")
        lines = space.read("_noria_calls.jsonl").splitlines()
    finally:
        space.close()
    found: dict[Choice, list[list[str]]] = {one: [] for one in choices}
    for text in lines:
        path, line, given = json.loads(text)
        found[places[path, line]].append(given)
    return found


def tasks_of(package: str, choice: Choice, calls: list[list[str]], sandbox: Sandbox, seed: int) -> Found:
    """Break one function in every way that shows; the rows lack their split. Raises SandboxError."""
    if not calls:
        return Found(choice, (), "no test calls it with plain values")
    rng = random.Random(f"{_SALT}/{seed}/{package}/{choice.name}")
    mutants = [one for one in one_line_mutants(choice.text, seed) if plain(one[1])]
    if not mutants:
        return Found(choice, (), "no operator fits it")
    given = inputs.near(calls, rng)
    texts = [text for _, text in mutants]
    wants, kills = _played(sandbox, choice, texts, given)
    usable = [
        i for i, want in enumerate(wants)
        if want is not None and len(_call(choice.name, given[i])) + len(want) <= MOST_CALL
        and all(map(is_value, (*given[i], want)))
    ]  # fmt: skip
    if len(usable) < LEAST_SHOWN:
        return Found(choice, (), "too few short calls with a result")
    sizes = [len(_call(choice.name, given[i])) for i in usable]
    shown = [usable[i] for i in cover([kills[i] for i in usable], sizes, LEAST_SHOWN, MOST_SHOWN)]
    spare = sorted((i for i in usable if i not in shown), key=lambda i: (-len(kills[i]), i))[:MOST_SPARE]
    killed = sorted({mutant for i in shown for mutant in kills[i]})
    if not killed:
        return Found(choice, (), "no mutant shows in a call")
    pairs = {"calls": [[given[i], wants[i]] for i in shown], "spare": [[given[i], wants[i]] for i in spare]}
    rows = tuple(
        {"package": package, "function": choice.name, **_row(choice, mutants, killed, at, rng), **pairs}
        for at in _balanced(mutants, killed, rng)
    )
    kept = tuple(row for row in rows if not fault({"split": "train", **row}))
    return Found(choice, kept, "" if kept else "no wrong edit is known, or no edit mends a mutant")


def split(found: Sequence[tuple[str, Found]], unseen: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """All rows with their split. Functions that are alike, from whatever packages, are kept on one side.

    `unseen` are packages that no training and no held-out task is from; training functions like theirs are left out.
    """
    sets = [traits(one.choice.text) for _, one in found]
    group = list(range(len(found)))
    for i in range(len(found)):
        for j in range(i):
            if alike(sets[i], sets[j]):
                old, new = group[i], group[j]
                group = [new if one == old else one for one in group]
    apart = {group[i] for i, (package, _) in enumerate(found) if package in unseen}
    for i, (package, one) in enumerate(found):
        if group[i] in apart and package not in unseen:
            continue
        first = found[group[i]]
        digest = hashlib.sha256(f"{_SALT}/{first[0]}/{first[1].choice.name}".encode()).digest()
        side = "heldout" if int.from_bytes(digest[:4], "big") % 100 < HELDOUT_PERCENT else "train"
        yield from ({"split": "unseen" if package in unseen else side, **row} for row in one.rows)


def traits(text: str) -> frozenset[int]:
    """What tells a function from others, whatever its names are: hashes of its runs of four lexemes."""
    return frozenset(shingles(_nameless(text), _SIZE).tolist())


def alike(one: frozenset[int], other: frozenset[int]) -> bool:
    """Whether two functions, given by their `traits`, are one that was written twice."""
    return len(one & other) >= ALIKE * len(one | other)


def one_line_mutants(text: str, seed: int, limit: int = PLAYED) -> list[tuple[Mutation, str]]:
    """Mutants of a function that differ from it in one line of the body."""
    gold = text.encode()
    found = []
    for mutation in propose("python", "app.py", gold, seed, lines=None, operators=None, limit=limit):
        broken = apply({"app.py": gold}, mutation.edits)["app.py"].decode()
        changed = _changed(text, broken)
        if len(changed) == 1 and changed[0] > 1:
            found.append((mutation, broken))
    return found


def _changed(old: str, new: str) -> list[int]:
    before, after = old.split("\n"), new.split("\n")
    if len(before) != len(after):
        return []
    return [number for number, (a, b) in enumerate(zip(before, after, strict=True), 1) if a != b]


def _played(
    sandbox: Sandbox, choice: Choice, mutants: Sequence[str], calls: Sequence[Sequence[str]]
) -> tuple[list[str | None], list[list[int]]]:
    work = {"name": choice.name, "gold": choice.text, "mutants": list(mutants), "calls": [list(one) for one in calls]}
    space: Workspace = sandbox.workspace({})
    try:
        space.write("_noria_play.py", (_HERE / "_play.py").read_text("utf-8"))
        space.write("_noria_work.json", json.dumps(work))
        words = ["_noria_play.py", "_noria_work.json", "_noria_out.json"]
        done = space.run(["/usr/bin/env", "PYTHONHASHSEED=0", f"{DEPS}/bin/python", *words], PLAY_S)
        if done.code != 0 or done.timed_out:
            return [None] * len(calls), [[] for _ in calls]
        told = json.loads(space.read("_noria_out.json"))
    finally:
        space.close()
    return told["wants"], told["kills"]


def _call(name: str, given: Sequence[str]) -> str:
    return f"{name}({','.join(given)})"


def _balanced(mutants: Sequence[tuple[Mutation, str]], killed: Sequence[int], rng: random.Random) -> list[int]:
    """`KEPT` of the killed ones, those of rare operators first."""
    order = list(killed)
    rng.shuffle(order)
    taken: Counter[str] = Counter()
    kept: list[int] = []
    while order and len(kept) < KEPT:
        at = min(order, key=lambda i: taken[mutants[i][0].operator])
        order.remove(at)
        taken[mutants[at][0].operator] += 1
        kept.append(at)
    return kept


def _row(
    choice: Choice, mutants: Sequence[tuple[Mutation, str]], killed: Sequence[int], at: int, rng: random.Random
) -> dict[str, Any]:
    mutation, app = mutants[at]
    (line,) = _changed(choice.text, app)
    others: list[tuple[int, str]] = []
    for i in killed:
        (other,) = _changed(choice.text, mutants[i][1])
        text = mutants[i][1].split("\n")[other - 1].strip()
        if i != at and text != app.split("\n")[other - 1].strip():
            others.append((other, text))
    same = [one for one in others if one[0] == line]
    rest = [one for one in others if one[0] != line]
    rng.shuffle(same)
    rng.shuffle(rest)
    wrong = [*same[: WRONG // 2], *rest][:WRONG]
    return {"kind": mutation.operator, "line": line, "app": app, "gold": choice.text, "wrong": wrong}


def _nameless(text: str) -> list[str]:
    """Lexemes with every name that the function gives replaced by one: the same code under other names is alike."""
    tree = parse(text)
    own: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                own.add(name)
    body = parse(text)
    assert isinstance(body.body[0], ast.FunctionDef)
    if ast.get_docstring(body.body[0]) is not None:
        text = "\n".join(line for number, line in enumerate(text.split("\n"), 1) if number != 2)
    return ["_" if token in own else token for token in code(text)]


def summary(found: Sequence[tuple[str, Found]], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts for a report."""
    return {
        "functions": len(found),
        "with_tasks": sum(bool(one.rows) for _, one in found),
        "tasks": len(rows),
        "splits": dict(sorted(Counter(str(row["split"]) for row in rows).items())),
        "packages": dict(sorted(Counter(str(row["package"]) for row in rows).items())),
        "operators": dict(sorted(Counter(str(row["kind"]) for row in rows).items())),
        "refused": dict(sorted(Counter(one.reason for _, one in found if one.reason).items())),
    }
