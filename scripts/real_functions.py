"""Transcripts over small functions of real packages, for a model that is to read and mend code it never saw.

The functions are those of the Python standard library and of packages that torch needs anyway. None of them runs here:
a transcript is what the experts do (view, edit, test, submit), and the tests pass because the edit is right. Half of
the transcripts have more bugs than one, or ask for lines written anew as they are, since a view costs a hundred tokens
and what is learnt from it lies in the edits. Functions like those of the folders in `away` are left out.
"""

from __future__ import annotations

import ast
import importlib.util
import random
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mixes import Forms

from noria.envs.microswe.edits import Edit, repair
from noria.envs.microswe.plain import plain
from noria.envs.microswe.tasks import APP, SYSTEM, TOOLS
from noria.factory.functions.build import alike, one_line_mutants, traits
from noria.factory.functions.choose import choose, standing
from noria.tokens.calls import render_call

PACKAGES = ("mpmath", "networkx", "sympy")
_TESTS = frozenset(("test", "tests", "idle_test", "testing", "site-packages", "lib2to3"))
MOST_TEXT, LONGEST_EDIT, MUTANTS = 520, 100, 16
DEFAULT = Forms()
VIEW, TEST, SUBMIT = render_call("view"), render_call("test"), render_call("submit")


def functions(away: Sequence[Path] = ()) -> list[str]:
    """Small functions, each as the text of a file of its own, in a fixed order and without repeats."""
    kept_away = [traits(one.text) for root in away for path in _files(root) for one in choose(str(path), _read(path))]
    held: dict[int, list[int]] = {}
    for number, hashes in enumerate(kept_away):
        for value in hashes:
            held.setdefault(value, []).append(number)
    found: dict[str, None] = {}
    for root in _roots():
        for path in _files(root):
            for text in _standing(_read(path)):
                if text not in found and not _near(text, kept_away, held):
                    found[text] = None
    return list(found)


def _near(text: str, kept_away: Sequence[frozenset[int]], held: dict[int, list[int]]) -> bool:
    if not held:
        return False
    mine = traits(text)
    return any(alike(mine, kept_away[i]) for i in {i for value in mine for i in held.get(value, ())})


def _roots() -> list[Path]:
    roots = [Path(sysconfig.get_paths()["stdlib"])]
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise SystemExit(f"the upbringing on code reads {name}: got none - pip install {name}")
        roots.append(Path(spec.origin).parent)
    return roots


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*.py")):
        if not _TESTS & set(path.relative_to(root).parts[:-1]) and not path.name.startswith("test_"):
            yield path


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        return ""


def _standing(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    lines = source.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            text = standing(node, lines)
            if text is not None and len(text) <= MOST_TEXT:
                yield text


def rows(texts: Sequence[str], count: int, rng: random.Random, forms: Forms = DEFAULT) -> Iterator[dict[str, Any]]:
    """`count` transcripts over these functions in the form of `tiny_corpus`: methods once a pass, others oftener."""
    made, order = 0, [text for text in texts for _ in range(_often(text))]
    usable: dict[str, list[tuple[str, int]]] = {}
    while made < count:
        rng.shuffle(order)
        for text in order:
            if text not in usable:
                usable[text] = _bugs(text)
            row = _transcript(text, usable[text], rng, forms)
            if row is None:
                continue
            yield row
            made += 1
            if made == count:
                return


def _often(text: str) -> int:
    """How often a function comes in a pass: those that compute with their arguments alone are few and sought."""
    return 1 if "self" in text else 6 if plain(text) else 2


def _bugs(text: str) -> list[tuple[str, int]]:
    """Broken texts, each with the line that its bug is in."""
    found = []
    for _, broken in one_line_mutants(text, len(text), MUTANTS):
        mend = repair(broken, text)
        if mend is not None and _fits(mend.new):
            found.append((broken, mend.line))
    return found


def _fits(new: str) -> bool:
    return 0 < len(new) <= LONGEST_EDIT and new.isascii() and new.isprintable()


def _transcript(text: str, bugs: list[tuple[str, int]], rng: random.Random, forms: Forms) -> dict[str, Any] | None:
    name, lines = ast.parse(text).body[0].name, text.rstrip("\n").split("\n")  # type: ignore[attr-defined]
    form = rng.random()
    if form < forms.copied:
        numbers = [n for n, line in enumerate(lines, 1) if _fits(line.strip())]
        chosen = rng.sample(numbers, min(len(numbers), rng.randint(2, 4)))
        asked = f"Write lines {', '.join(map(str, chosen))} of {APP} anew as they are."
        said = "".join(_say(Edit(n, lines[n - 1].strip())) for n in chosen)
        return _row(text, asked, [said, SUBMIT], rng)
    if not bugs:
        return None
    if form < forms.copied + forms.several:
        return _several(name, lines, bugs, rng, forms.most)
    broken, line = rng.choice(bugs)
    right = _say(Edit(line, lines[line - 1].strip()))
    if form < forms.copied + forms.several + forms.wrong:
        return _wrong(broken, f"Fix {name} in {APP}.", right, bugs, rng)
    return _row(broken, f"Fix {name} in {APP}.", [right, TEST, SUBMIT], rng)


def _several(
    name: str, lines: list[str], bugs: list[tuple[str, int]], rng: random.Random, most: int
) -> dict[str, Any] | None:
    by_line: dict[int, str] = {}
    for broken, line in rng.sample(bugs, len(bugs)):
        by_line.setdefault(line, broken.split("\n")[line - 1])
    chosen = sorted(rng.sample(sorted(by_line), min(len(by_line), rng.randint(2, most))))
    if len(chosen) < 2:
        return None
    app = [by_line[n] if n in chosen else line for n, line in enumerate(lines, 1)]
    said = "".join(_say(Edit(n, lines[n - 1].strip())) for n in chosen)
    return _row("\n".join(app) + "\n", f"Fix {len(chosen)} bugs of {name} in {APP}.", [said, TEST, SUBMIT], rng)


def _wrong(
    broken: str, prompt: str, right: str, bugs: list[tuple[str, int]], rng: random.Random
) -> dict[str, Any] | None:
    """One of the repair world's wrong habits that needs no result of a test; an edit of another bug is wrong here."""
    habit = rng.choice(("hasty", "giveup", "quit"))
    said = [SUBMIT]
    if habit == "hasty":
        other, line = rng.choice(bugs)
        slip = _say(Edit(line, other.split("\n")[line - 1].strip()))
        said = [right if rng.random() < 0.5 else slip, SUBMIT]
    row = _row(broken, prompt, said, rng) | {"strategy": habit, "right": False, "solved": said[0] == right}
    if habit == "quit":
        row["turns"] = row["turns"][1:]
    return row


def _say(edit: Edit) -> str:
    return render_call("edit", line=edit.line, new=edit.new)


def _row(app: str, prompt: str, said: list[str], rng: random.Random) -> dict[str, Any]:
    view = "\n".join(f"{number} {line}" for number, line in enumerate(app.rstrip("\n").split("\n"), 1))
    turns = [[VIEW, view]]
    for message in said:
        count = rng.randint(3, 5)
        seen = {TEST: f"pass {count}/{count}", SUBMIT: ""}.get(message, "\n".join(["ok"] * message.count("<call ")))
        turns.append([message, seen])
    return {
        "world": "microswe", "strategy": "direct", "hint": "", "solved": True, "right": True, "system": SYSTEM,
        "prompt": prompt, "tools": [tool.name for tool in TOOLS], "turns": turns,
    }  # fmt: skip
