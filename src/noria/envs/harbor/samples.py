"""Small task folders of the world's own, for trying it out: figures to add up, logs to count, words to sort."""

from __future__ import annotations

import hashlib
import random
import shlex
from collections.abc import Callable

from noria.core.types import Split
from noria.envs.harbor.folder import File, Folder, StepFolder
from noria.envs.harbor.schema import Sheet

_WORDS = (
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "hazel", "inlet", "juniper", "kelp", "larch",
    "maple", "north", "olive", "pine", "quartz", "reed", "spruce", "thorn", "umber", "vale", "willow", "yarrow",
)  # fmt: skip
_NAMES = ("north", "south", "east", "west")
_HELDOUT = 4


def sample(name: str) -> Folder:
    """The folder of a name as `total-17`."""
    family = name.partition("-")[0]
    return _FAMILIES[family](name, random.Random(f"harbor/{name}"))


def draw_names(split: Split, n: int, seed: int) -> list[str]:
    """`n` distinct names of a split; no name is in two."""
    rng = random.Random(f"harbor/{split}/{seed}")
    found: dict[str, None] = {}
    while len(found) < n:
        name = f"{rng.choice(sorted(_FAMILIES))}-{rng.randrange(10**7)}"
        kept = hashlib.sha256(name.encode()).digest()[0] % _HELDOUT == 0
        if kept == (split == "heldout"):
            found[name] = None
    return list(found)


def _total(name: str, rng: random.Random) -> Folder:
    rows = [(rng.choice(_NAMES), rng.randint(1, 99)) for _ in range(rng.randint(6, 12))]
    region = rng.choice(rows)[0]
    table = "region,amount\n" + "".join(f"{where},{amount}\n" for where, amount in rows)
    want = sum(amount for where, amount in rows if where == region)
    return _single(
        name,
        f"`/app/sales.csv` holds amounts by region. Write the sum of the amounts of {region} to `/app/total.txt`.",
        {"sales.csv": table},
        _says("/app/total.txt", str(want)),
        f"awk -F, '$1 == \"{region}\" {{ sum += $2 }} END {{ print sum }}' /app/sales.csv > /app/total.txt",
    )


def _errors(name: str, rng: random.Random) -> Folder:
    counts = rng.sample(range(1, 9), 3)
    files = {}
    for part, count in zip(rng.sample(_WORDS, 3), counts, strict=True):
        lines = ["ERROR no answer"] * count + ["INFO all well"] * rng.randint(1, 6)
        rng.shuffle(lines)
        files[f"logs/{part}.log"] = "\n".join(lines) + "\n"
    worst = max(files, key=lambda path: files[path].count("ERROR")).removeprefix("logs/")
    return _single(
        name,
        "Write the name of the file in `/app/logs` that has most lines with ERROR to `/app/worst.txt`.",
        files,
        _says("/app/worst.txt", worst),
        "cd /app/logs\ngrep -c ERROR *.log | sort -t: -k2 -n | tail -n 1 | cut -d: -f1 > /app/worst.txt",
    )


def _words(name: str, rng: random.Random) -> Folder:
    words = [rng.choice(_WORDS) for _ in range(rng.randint(8, 14))]
    first = rng.choice(words)[0]
    unique = sorted(set(words))
    sheet: dict[str, object] = {
        "multi_step_reward_strategy": "mean",
        "steps": [{"name": "sort", "min_reward": 1.0}, {"name": "count"}],
    }
    sort = StepFolder(
        "Write the words of `/app/words.txt`, each once and in alphabetical order, to `/app/sorted.txt`.\n",
        _tests(_says("/app/sorted.txt", "\n".join(unique))),
        _solved("LC_ALL=C sort -u /app/words.txt > /app/sorted.txt"),
    )
    count = StepFolder(
        f"Now write how many lines of `/app/sorted.txt` begin with {first} to `/app/count.txt`.\n",
        _tests(_says("/app/count.txt", str(sum(word[0] == first for word in unique)))),
        _solved(f"grep -c '^{first}' /app/sorted.txt > /app/count.txt"),
    )
    return Folder(
        f"noria/{name}", _sheet(name, sheet), "", _environment({"words.txt": "\n".join(words) + "\n"}), {}, {},
        {"sort": sort, "count": count},
    )  # fmt: skip


_FAMILIES: dict[str, Callable[[str, random.Random], Folder]] = {"total": _total, "errors": _errors, "words": _words}


def _single(name: str, instruction: str, files: dict[str, str], check: str, solution: str) -> Folder:
    sheet = _sheet(name, {})
    return Folder(
        f"noria/{name}", sheet, instruction + "\n", _environment(files), _tests(check), _solved(solution)
    )  # fmt: skip


def _sheet(name: str, further: dict[str, object]) -> Sheet:
    limits = {"agent": {"timeout_sec": 120.0}, "verifier": {"timeout_sec": 30.0}}
    environment = {"network_mode": "no-network"}
    return Sheet.model_validate({"task": {"name": f"noria/{name}"}, "environment": environment, **limits, **further})


def _environment(files: dict[str, str]) -> dict[str, File]:
    docker = "FROM debian:12-slim\nWORKDIR /app\nCOPY files/ /app/\n"
    return {"Dockerfile": File(docker.encode())} | {
        f"files/{path}": File(text.encode()) for path, text in files.items()
    }


def _says(path: str, want: str) -> str:
    """A condition: the file says this, blanks at its end aside."""
    return f'[ -f {path} ] && [ "$(cat {path})" = {shlex.quote(want)} ]'


def _tests(check: str) -> dict[str, File]:
    script = f"#!/bin/bash\nif {check}; then\n  echo 1 > /logs/verifier/reward.txt\nelse\n"
    return {"test.sh": File((script + "  echo 0 > /logs/verifier/reward.txt\nfi\n").encode(), True)}


def _solved(command: str) -> dict[str, File]:
    return {"solve.sh": File(f"#!/bin/bash\nset -e\n{command}\n".encode(), True)}
