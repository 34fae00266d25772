"""Families of refactoring: several files change together, and what they do stays."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from noria.envs.claw import items
from noria.envs.claw.draw import TEAMS, numbers, some
from noria.envs.claw.job import Family, Job, edit, read, sh, write

_VERBS = ("area", "cost", "load", "rank", "mass", "heat")
_NEW = ("size", "price", "fill", "order", "weight", "warmth")


def rename_function(rng: Random) -> Job:
    """A function renamed in all files, a longer name left alone. The slip renames that too."""
    old, new = rng.choice(_VERBS), rng.choice(_NEW)
    a, b, k = numbers(rng, 3, 2, 20)
    lib = (
        f"def {old}(a, b):\n    return a * b + {k}\n\n\ndef {old}_all(rows):\n"
        f"    return [{old}(a, b) for a, b in rows]\n"
    )
    main = f"from lib import {old}, {old}_all\n\nprint({old}({a}, {b}), {old}_all([({b}, {k})]))\n"
    shown = f"{a * b + k} {[b * k + k]}\n"
    return Job(
        ask=f"Rename function {old} to {new} in lib.py and main.py; {old}_all keeps its name.",
        files={"lib.py": lib, "main.py": main},
        checks=(
            items.runs(["lib.py"], [
                (["-c", f"from lib import {new}; print({new}(3, 5))"], f"{15 + k}\n"),
                (["-c", f"from lib import {old}_all; print({old}_all([(1, 2)]))"], f"{[2 + k]}\n"),
            ], f"lib has {new}"),
            items.lacks("lib.py", rf"\b{old}\b", f"no {old} in lib.py"),
            items.lacks("main.py", rf"\b{old}\b", f"no {old} in main.py"),
            items.runs(["lib.py", "main.py"], [(["main.py"], shown)], "main.py prints the same", guard=True),
        ),
        look=(read("lib.py"), read("main.py")),
        shell=(sh(f"sed -i 's/\\b{old}\\b/{new}/g' lib.py main.py"),),
        code=(
            "import re\nfor f in ('lib.py', 'main.py'):\n t = open(f).read()\n"
            f" open(f, 'w').write(re.sub(r'\\b{old}\\b', '{new}', t))"
        ),
        slip=(sh(f"sed -i 's/{old}/{new}/g' lib.py main.py"),),
    )  # fmt: skip


def move_function(rng: Random) -> Job:
    """A function into a module of its own. The slip copies it."""
    keep, go = some(rng, _VERBS, 2)
    module = rng.choice(("extra", "parts", "more", "side"))
    k, m, x = numbers(rng, 3, 2, 20)
    body = f"def {go}(x):\n    return x - {m}\n"
    lib = f"def {keep}(x):\n    return x * {k}\n\n\n{body}"
    main = f"from lib import {keep}, {go}\n\nprint({keep}({x}), {go}({x}))\n"
    left, imports = f"def {keep}(x):\n    return x * {k}\n", f"from lib import {keep}\nfrom {module} import {go}"
    return Job(
        ask=f"Move function {go} from lib.py to a new {module}.py; main.py imports it from there.",
        files={"lib.py": lib, "main.py": main},
        checks=(
            items.runs([f"{module}.py"], [(["-c", f"from {module} import {go}; print({go}(50))"], f"{50 - m}\n")],
                       f"{module} has {go}"),
            items.lacks("lib.py", rf"\b{go}\b", f"no {go} in lib.py"),
            items.runs(["lib.py", "main.py", f"{module}.py?"], [(["main.py"], f"{x * k} {x - m}\n")],
                       "main.py prints the same", guard=True),
        ),
        look=(read("lib.py"), read("main.py")),
        shell=(
            write(f"{module}.py", body), edit("lib.py", f"\n\n{body}", ""),
            edit("main.py", f"from lib import {keep}, {go}", imports),
        ),
        code=(
            f"open('{module}.py', 'w').write({body!r})\nopen('lib.py', 'w').write({left!r})\n"
            "t = open('main.py').read()\n"
            f"open('main.py', 'w').write(t.replace('from lib import {keep}, {go}', {imports!r}))"
        ),
        slip=(write(f"{module}.py", body), edit("main.py", f"from lib import {keep}, {go}", imports)),
        made=(f"{module}.py",),
    )  # fmt: skip


def rename_key(rng: Random) -> Job:
    """A key of a file and of the program that reads it. The slip forgets the program."""
    old, new = rng.choice((("colour", "color"), ("centre", "center"), ("licence", "license"), ("grey", "gray")))
    colour, section = rng.choice(TEAMS), rng.choice(("ui", "app", "main"))
    n = rng.randint(2, 99)
    text = f"[{section}]\n{old} = {colour}\nwidth = {n}\n"
    program = (
        "from configparser import ConfigParser\n\nc = ConfigParser()\nc.read('app.ini')\n"
        f"print(c['{section}']['{old}'], c['{section}']['width'])\n"
    )
    return Job(
        ask=f"Rename the key {old} to {new} in app.ini and app.py; app.py prints the same.",
        files={"app.ini": text, "app.py": program},
        checks=(
            items.ini("app.ini", {section: {new: colour, "width": str(n)}}),
            items.lacks("app.py", rf"\b{old}\b", f"no {old} in app.py"),
            items.runs(["app.py", "app.ini"], [(["app.py"], f"{colour} {n}\n")], "app.py prints the same", guard=True),
        ),
        look=(read("app.ini"), read("app.py")),
        shell=(sh(f"sed -i 's/{old}/{new}/' app.ini app.py"),),
        code=(
            f"for f in ('app.ini', 'app.py'):\n t = open(f).read()\n open(f, 'w').write(t.replace('{old}', '{new}'))"
        ),
        slip=(sh(f"sed -i 's/{old}/{new}/' app.ini"),),
    )


def extract_constant(rng: Random) -> Job:
    """A number of two files into a third. The slip forgets one."""
    first, second = some(rng, _VERBS, 2)
    name, n = rng.choice(("LIMIT", "RATE", "STEP")), rng.randint(11, 99)
    a, b = f"def {first}(x):\n    return x * {n}\n", f"def {second}(x):\n    return x + {n}\n"
    head = f"from const import {name}\n\n\n"
    new = {
        "const.py": f"{name} = {n}\n",
        "a.py": head + a.replace(str(n), name),
        "b.py": head + b.replace(str(n), name),
    }
    patched = f"import const; const.{name} = 5; import a, b; print(a.{first}(2), b.{second}(2))"
    return Job(
        ask=f"a.py and b.py use the number {n}: put it into const.py as {name} and import it in both.",
        files={"a.py": a, "b.py": b},
        checks=(
            items.runs(["const.py"], [(["-c", f"import const; print(const.{name})"], f"{n}\n")], "const.py"),
            items.runs(["const.py", "a.py", "b.py"], [(["-c", patched], "10 7\n")], "both import it"),
            items.lacks("a.py", rf"\b{n}\b", f"no {n} in a.py"),
            items.lacks("b.py", rf"\b{n}\b", f"no {n} in b.py"),
        ),
        look=(read("a.py"), read("b.py")),
        shell=(
            sh(f"echo '{name} = {n}' > const.py"),
            sh(f"sed -i 's/{n}/{name}/; 1i from const import {name}\\n\\n' a.py b.py"),
        ),
        code=f"for f, t in {new!r}.items():\n open(f, 'w').write(t)",
        slip=(write("const.py", new["const.py"]), write("a.py", new["a.py"])),
        made=("const.py",),
    )


FAMILIES: Mapping[str, Family] = {
    "rename_function": rename_function, "move_function": move_function, "rename_key": rename_key,
    "extract_constant": extract_constant,
}  # fmt: skip
