"""A task as a folder for other harnesses: the file with the bug, its tests, and a grader that trusts nothing.

The grader runs the file in a child process and compares, outside it, what each call gave; so what the file does to the
process that runs it changes no verdict.
"""

from __future__ import annotations

import json
import re

from noria.core.packages import Package
from noria.core.types import Task
from noria.envs.microswe.tasks import APP, TESTS

_WANT = re.compile(r'    got = (\w+\(.*\))\n    assert got == (.*?), "')
_TIMEOUT_S = 10
_GRADER = '''"""Writes 1 to /logs/verifier/reward.txt if every call of calls.json gives what is wanted, else 0."""

import ast
import json
import subprocess
import sys

CHILD = """
import json, sys
sys.path.insert(0, ".")
space = {}
exec("from app import *", space)
print("\\\\n" + json.dumps([repr(eval(call, space)) for call in json.loads(sys.argv[1])]))
"""


def right(pairs):
    calls = json.dumps([call for call, _ in pairs])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", CHILD, calls], cwd="/app", capture_output=True, text=True, timeout=TIMEOUT
        )
        got = json.loads(done.stdout.splitlines()[-1])
        return len(got) == len(pairs) and all(
            ast.literal_eval(text) == ast.literal_eval(want) for text, (_, want) in zip(got, pairs)
        )
    except (IndexError, ValueError, SyntaxError, TypeError, RecursionError, MemoryError, subprocess.TimeoutExpired):
        return False


with open("/tests/calls.json") as file:
    verdict = "1" if right(json.load(file)) else "0"
with open("/logs/verifier/reward.txt", "w") as file:
    file.write(verdict)
'''
_SCRIPT = "#!/bin/bash\nexec python3 -I /tests/grade.py\n"


def package(task: Task) -> Package:
    """The task without Noria; graded by the calls that its tests show and those that none does."""
    data = task.data
    pairs = [pair for key in ("tests", "unseen_tests") for pair in _WANT.findall(str(data[key]))]
    name = str(data["names"]["F"])
    instruction = (
        f"`/app/{APP}` has a bug: `{name}` does not do what its docstring says. Mend it. `/app/{TESTS}` holds tests "
        "that fail because of it; further calls are tried when you have finished.\n"
    )
    grader = _GRADER.replace("TIMEOUT", str(_TIMEOUT_S))
    gold = "".join(f"{line}\n" for line in str(data["gold"]).rstrip("\n").split("\n"))
    solve = f"#!/bin/bash\nset -e\ncat > /app/{APP} <<'NORIA_GOLD'\n{gold}NORIA_GOLD\n"
    return Package(
        instruction,
        {APP: str(data["app"]), TESTS: str(data["tests"])},
        {"test.sh": _SCRIPT, "grade.py": grader, "calls.json": json.dumps(pairs)},
        {"solve.sh": solve},
        {"language": "python", "bug_kind": str(data["kind"]), "family": str(data["family"])},
    )
