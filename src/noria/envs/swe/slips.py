"""An expert who slips: right work with errors and harmless diagnostics in it, each message with what is wrong with it.

For measuring rules that guess which turns are errors. Every slip is mended before the expert goes on, so the task is
solved; which slips and where is drawn from the seed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from noria.core.syntax import parse
from noria.envs.swe.records import Repo, SweTask
from noria.envs.swe.solving import DONE, edits
from noria.tokens.calls import render_call

Said = list[tuple[str, str]]
#: What a slip knows: the file, its text at that moment, the tests of the task, and chance.
Slip = Callable[[str, str, str, random.Random], Said]
#: Slips and diagnostics of one episode.
SLIPS, LOOKS = 2, 2
#: Settings of a repository may ask for plug-ins that are not there.
_PYTEST = "python -m pytest -q -o addopts="
_RETURN = re.compile(r"^( +)return (.+)$", re.MULTILINE)


def slips(task: SweTask, repo: Repo, tree: Path, seed: int) -> Said:
    """The messages of an episode, each with its label: what is wrong with it, "" where nothing is."""
    rng = random.Random(f"slips/{task.id}/{seed}")
    broken = {path: data.decode("utf-8", "surrogateescape") for path, data in task.broken(tree).items()}
    sound = {path: (tree / path).read_bytes().decode("utf-8", "surrogateescape") for path in broken}
    path = rng.choice(sorted(broken))
    away = {name.partition("::")[0] for name in task.fail_to_pass}  # such files are not there
    tests = next((file for name in task.pass_to_pass(repo) if (file := name.partition("::")[0]) not in away), "")
    parts: list[Said] = [
        *(rng.choice(_LOOKS)(path, broken[path], tests, rng) for _ in range(LOOKS)),
        *(_SLIPS[name](path, broken[path], tests, rng) for name in rng.sample(sorted(_SLIPS), SLIPS)),
    ]
    rng.shuffle(parts)
    out: Said = [(render_call("read", path=each), "") for each in broken]
    out += [each for part in parts for each in part]
    if rng.random() < 0.4:
        out += _wrong_fix(path, broken[path], sound[path], tests)
    out += [(step, "") for each in broken for step in edits(each, broken[each], sound[each])]
    out += _run_tests(path, "", tests, rng) if rng.random() < 0.7 else []
    return [*out, (DONE, "")]


def _sh(command: str) -> str:
    return render_call("sh", command=command)


def _run_tests(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(_sh(f"{_PYTEST} {tests}".rstrip()), "")]


def _test_twice(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(_sh(f"{_PYTEST} -x 2>&1 | tail -n 15"), "")] * 2


def _search_in_vain(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(_sh(f'grep -rn "zq_{rng.randrange(1000)}" .'), "")]


def _reproduce(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(_sh(f"python - <<'E'\nfrom pathlib import Path\nassert len(Path('{path}').read_text()) == 1\nE"), "")]


def _look_around(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(_sh("ls; git log --oneline | head -3; find . -name '*.cfg'"), "")]


def _keep_a_script(path: str, text: str, tests: str, rng: random.Random) -> Said:
    script = f"import sys\n\nsys.exit(len(open('{path}').read()) % 2 or 3)\n"
    return [
        (render_call("write", path="repro.py", text=script), ""), (_sh("python repro.py"), ""), (_sh("rm repro.py"), "")
    ]  # fmt: skip


def _unknown_tool(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(render_call("open_file", path=path), "unknown_tool")]


def _missing_argument(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(render_call("edit", path=path, old="x"), "missing_argument")]


def _unclosed(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(render_call("read", path=path).removesuffix("</call>"), "unclosed")]


def _edit_that_misses(path: str, text: str, tests: str, rng: random.Random) -> Said:
    call = render_call("edit", path=path, old=f"value_{rng.randrange(1000)} = None", new="value = 1")
    return [(call, "edit_misses")] * rng.choice((1, 2))


def _edit_of_many(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(render_call("edit", path=path, old="\n", new="\n\n"), "edit_misses")]


def _syntax(path: str, text: str, tests: str, rng: random.Random) -> Said:
    line = _only(text, rng)
    there, back = (line, f"{line} ((") if line else (text, f"{text}\n)")
    check = [(_sh(f"{_PYTEST} {tests}".rstrip()), "")] if rng.random() < 0.5 else []
    return [(_edit(path, there, back), "broken_syntax"), *check, (_edit(path, back, there), "")]


def _elsewhere(path: str, text: str, tests: str, rng: random.Random) -> Said:
    line = _only(text, rng)
    if not line:
        return _edit_that_misses(path, text, tests, rng)
    wrong = line.replace("return ", "return not (", 1) + ")"
    check = _run_tests(path, text, tests, rng)
    return [(_edit(path, line, wrong), "wrong_edit"), *check, (_edit(path, wrong, line), "")]


def _wrong_fix(path: str, broken: str, sound: str, tests: str) -> Said:
    """A line of the bug is written anew, wrongly; tests fail, and it is put back for the right edit."""
    lines = [line for line in broken.splitlines() if line.strip() and broken.count(line) == 1 and line not in sound]
    if not lines:
        return []
    wrong = f"{lines[0][: len(lines[0]) - len(lines[0].lstrip())]}raise ValueError('not yet')"
    return [
        (_edit(path, lines[0], wrong), "wrong_edit"), (_sh(f"{_PYTEST} -x"), ""),
        (_edit(path, wrong, lines[0]), ""),
    ]  # fmt: skip


def _not_found(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(_sh(rng.choice(("pyhton -m pytest -q", f"rgrepp def {path}", "pytset -x"))), "not_found")]


def _no_file(path: str, text: str, tests: str, rng: random.Random) -> Said:
    wrong = f"src/{path.rpartition('/')[2].removesuffix('.py')}_core.py"
    call = rng.choice((_sh(f"cat {wrong}"), _sh(f"python {wrong}"), render_call("read", path=wrong)))
    return [(call, "no_file")]


def _no_option(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(_sh(rng.choice(("python -m pytest --quickly", f"grep --nicely def {path}"))), "no_option")]


def _half_a_command(path: str, text: str, tests: str, rng: random.Random) -> Said:
    return [(_sh(f'grep -n "def {path}'), "half_command")]


def _nothing_changed(path: str, text: str, tests: str, rng: random.Random) -> Said:
    line = _only(text, rng) or text
    return [(_edit(path, line, line), "nothing_changed")]


def _edit(path: str, old: str, new: str) -> str:
    return render_call("edit", path=path, old=old, new=new)


def _only(text: str, rng: random.Random) -> str:
    """A line with a return that stands once in a text, "" where there is none."""
    whole = [each[0] for each in _RETURN.finditer(text) if text.count(each[0]) == 1 and is_expression(each[2])]
    return rng.choice(whole) if whole else ""


def is_expression(text: str) -> bool:
    """Whether a text is a whole expression of more than a name."""
    try:
        return len(text) > 3 and not text.isidentifier() and bool(parse(text, mode="eval"))
    except SyntaxError:
        return False


_LOOKS: tuple[Slip, ...] = (
    _run_tests, _test_twice, _search_in_vain, _reproduce, _look_around, _keep_a_script,
)  # fmt: skip
_SLIPS: Mapping[str, Slip] = {
    "unknown_tool": _unknown_tool, "missing_argument": _missing_argument, "unclosed": _unclosed,
    "edit_that_misses": _edit_that_misses, "edit_of_many": _edit_of_many, "syntax": _syntax, "elsewhere": _elsewhere,
    "not_found": _not_found, "no_file": _no_file, "no_option": _no_option, "half_a_command": _half_a_command,
    "nothing_changed": _nothing_changed,
}  # fmt: skip
