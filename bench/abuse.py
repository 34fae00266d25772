"""Hostile code in the sandboxes: what contains each attack, what it leaves behind, how long it takes.

    python bench/abuse.py [--only WORD] [--as root|ordinary|both] [--json]

By root everything is tried twice: as root, and in a process of a user without rights. The column `process` tells of
the same attack in the sandbox that isolates nothing: `out` where it succeeds, `harmful` where it was not tried, since
the host would have to bear it. `partly`: without control groups, memory is limited for each process. Exit code 1 if
anything gets out of bwrap or stays behind.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import ordinary
from abuse_trial import CASES, measure, said

import noria

_LIMIT_S = 900.0


def as_ordinary(only: str) -> list[dict[str, Any]]:
    """The rows of bwrap for a user without rights, from a process of its own."""
    source, here = Path(noria.__file__).resolve().parents[1], Path(__file__).resolve().parent
    paths = [Path(os.path.realpath(sys.base_prefix)), Path(sys.prefix), source, here]
    site = ":".join([str(source), *(path for path in sys.path if path.endswith("site-packages"))])
    words = ["env", "PYTHONDONTWRITEBYTECODE=1", f"PYTHONPATH={site}", sys.executable, str(here / "abuse.py")]
    script = shlex.join([*words, "--as", "here", "--json", "--only", only])
    with tempfile.TemporaryDirectory(prefix="abuse-", dir="/var/tmp") as hold:
        done = ordinary.run(script, paths, Path(hold), _LIMIT_S)
    if not done.stdout.strip():
        raise SystemExit(f"the run as an ordinary user failed: {done.stderr[-2000:]}")
    found: list[dict[str, Any]] = json.loads(done.stdout)["here"]
    return found


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """One line per attack: who contained it, and per user out, left and milliseconds."""
    users = [name for name in found if name != "process"]
    weak = {row["name"]: row["out"] for row in found.get("process", [])}
    lines = [
        f"{'attack':36}{'contained by':56}" + "".join(f"{name:>10}{'left':>6}{'ms':>8}" for name in users) + "  process"
    ]
    for rows in zip(*(found[name] for name in users), strict=True):
        line = f"{rows[0]['name']:36}{rows[0]['by']:56}"
        for row in rows:
            line += f"{said(row['out']):>10}{sum(row['left'].values()):6}{row['ms']:8.0f}"
        out = weak.get(rows[0]["name"])
        line += "  " + ("" if out is None else "harmful" if out == "harmful" else "out" if out else "held")
        lines.append(line)
    for name in users:
        bad = [row for row in found[name] if row["out"] or row["left"]]
        lines += [f"{name}: {row['name']}: {row['out']} {row['left'] or ''}" for row in bad]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="attacks whose name has this word")
    parser.add_argument("--as", dest="user", default="both", choices=("both", "root", "ordinary", "here"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cases = [case for case in CASES if options.only in case.name]
    root = os.geteuid() == 0
    found: dict[str, list[dict[str, Any]]] = {}
    if options.user == "here":
        found["here"] = measure("bwrap", cases)
    else:
        if options.user != "ordinary" or not root:
            found["root" if root else "ordinary"] = measure("bwrap", cases)
        if options.user != "root" and root:
            found["ordinary"] = as_ordinary(options.only)
        found["process"] = measure("process", cases)
    print(json.dumps(found, indent=1) if options.json else table(found))
    rows = [row for name, rows in found.items() if name != "process" for row in rows]
    bad = [row for row in rows if said(row["out"]) == "OUT" or row["left"]]
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
