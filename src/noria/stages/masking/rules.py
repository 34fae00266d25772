"""Rules of error masking. Each is handed the turns of a trajectory and the number of one: is it an error?

The first three know calls alone; the others know code agents: commands, edits, and what checks said of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from noria.core.errors import PolicyError
from noria.core.syntax import parse
from noria.core.types import Turn
from noria.stages.masking.commands import words
from noria.stages.masking.steps import Act, Change, Step, command_of, steps
from noria.tokens import calls

Rule = Callable[[Sequence[Turn], int], bool]

_NOT_FOUND = re.compile(r"command not found|: not found$", re.MULTILINE)
_NO_FILE = re.compile(r"can't open file|No such file or directory|^ERROR: (file or directory )?not found:", re.I | re.M)
_NO_FIT = re.compile(r"patch does not apply|^error: corrupt patch|Hunk #\d+ FAILED|malformed patch", re.MULTILINE)
_MISUSED = re.compile(
    r"unrecognized arguments?:|no such option|(invalid|unknown|illegal|unrecognized|unexpected) (option|argument)"
    r"|unknown flag",
    re.IGNORECASE,
)
#: What the shell, or an interpreter that was handed a snippet, says of text that is no program.
_MISWRITTEN = re.compile(
    r"syntax error near unexpected token|unexpected EOF while looking for|unexpected end of file"
    r"|File \"<(?:string|stdin)>\", line \d+\n(?:.*\n){1,3}?(?:Syntax|Indentation|Tab)Error",
)
#: Programs whose complaint about an option is about the command, not about what is being repaired.
_TOOLS = words(
    "pytest py.test grep rg sed awk find git ls cat head tail pip npm cargo go make diff tox"
    " nosetests unittest patch tar cp mv rm mkdir wc sort jest mocha"
)
#: Programs that open what they are told to, where a missing file is a wrong guess and not a search without a result.
_OPENS = words("cat head tail sed awk python python3 node bash sh pytest less patch cp mv rm ruby perl")
_SHOWS = re.compile(
    r"\W*(print|pprint|logg(er|ing)\b|breakpoint\(|import (i?pdb|logging|traceback|pprint)|i?pdb\.|console\.\w+\("
    r"|debugger|fmt\.Print|log\.Print|e?println!|dbg!|System\.(out|err)|f?printf\(|std::c(err|out))"
)
_BROKEN = re.compile(r"\b(SyntaxError|IndentationError|TabError)\b|syntax error:|error: expected |';' expected")


def refused(turns: Sequence[Turn], k: int) -> bool:
    """The world refused one of the turn's calls. What a command prints is no refusal, whatever it says."""
    step = steps(tuple(turns))[k]
    if step.acts and all(act.command is not None for act in step.acts) and not step.malformed:
        return any(act.refused for act in step.acts)
    return any(line.startswith("error:") for line in turns[k].observation.splitlines())


def malformed(turns: Sequence[Turn], k: int) -> bool:
    """The message cannot be parsed, or neither calls nor answers."""
    try:
        parsed = calls.parse(turns[k].message)
    except PolicyError:
        return True
    return not parsed.calls and not parsed.answer


def redone(turns: Sequence[Turn], k: int) -> bool:
    """The next turn calls the same tools with other arguments: the turn was corrected at once."""
    if k + 1 >= len(turns):
        return False
    mine, next_one = (_calls(turns[i].message) for i in (k, k + 1))
    return bool(mine) and [c.name for c in mine] == [c.name for c in next_one] and mine != next_one


def misrun(turns: Sequence[Turn], k: int) -> bool:
    """A command that could not do its work: not found, no such file or test, an option that there is not, no program
    text, a patch that does not fit."""
    return any(_misrun(act) for act in steps(tuple(turns))[k].acts)


def repeated(turns: Sequence[Turn], k: int) -> bool:
    """What failed before is done again to the letter, with nothing changed in between. Checks may be run again."""
    found = steps(tuple(turns))
    step = found[k]
    if not step.acts or step.failing is not None or not _failed(step):
        return False
    mine = [act.call for act in step.acts]
    for before in reversed(found[:k]):
        if [act.call for act in before.acts] == mine and before.turn.observation == step.turn.observation:
            return True
        if before.may_change:
            return False
    return False


def broken_syntax(turns: Sequence[Turn], k: int) -> bool:
    """An edit after which a file of code cannot be read any more: by its text, or by what the next check says."""
    found = steps(tuple(turns))
    for change in found[k].changes:
        if change.after is not None and _is_python(change) and not _parses(change.after):
            if change.before is None or _parses(change.before):
                return True
        elif _complaint(found, k, change):
            return True
    return False


def reverted(turns: Sequence[Turn], k: int) -> bool:
    """An edit that is undone later: the file, or the text, reads again as it did before. To print something is none."""
    found = steps(tuple(turns))
    return any(not _is_trial(change) and _undone(found, k, change) for change in found[k].changes)


def corrected(turns: Sequence[Turn], k: int) -> bool:
    """An edit after which a check failed and whose own lines were then written anew."""
    found = steps(tuple(turns))
    return any(not change.is_scratch and _rewritten(found, k, change) for change in found[k].changes)


def worsened(turns: Sequence[Turn], k: int) -> bool:
    """An edit, alone between two runs of the same check, after which more fails than before."""
    found = steps(tuple(turns))
    if not any(not change.is_scratch for change in found[k].changes):
        return False
    before = _check(found, range(k - 1, -1, -1))
    after = _check(found, range(k + 1, len(found)))
    if before is None or after is None or before.failing is None or after.failing is None:
        return False
    return [act.call for act in before.acts] == [act.call for act in after.acts] and after.failing > before.failing


def idle(turns: Sequence[Turn], k: int) -> bool:
    """An edit that leaves the file as it was."""
    changes = steps(tuple(turns))[k].changes
    return any(
        change.old == change.new or (change.before is not None and change.after is not None and _same(change))
        for change in changes
    )


def unready(turns: Sequence[Turn], k: int) -> bool:
    """The work is handed in although the last check failed and nothing was changed since."""
    found = steps(tuple(turns))
    if k != len(found) - 1 or not found[k].ends:
        return False
    last = _check(found, range(k - 1, -1, -1))
    return last is not None and bool(last.failing)


RULES: Mapping[str, Rule] = {
    "refused": refused, "malformed": malformed, "redone": redone, "misrun": misrun, "repeated": repeated,
    "broken_syntax": broken_syntax, "reverted": reverted, "corrected": corrected, "worsened": worsened, "idle": idle,
    "unready": unready,
}  # fmt: skip
#: What masks when nobody says otherwise.
DEFAULT = ("refused",)
#: Those for code agents, all together.
CODE = (
    "refused", "malformed", "misrun", "repeated", "broken_syntax", "reverted", "corrected", "worsened", "idle",
    "unready",
)  # fmt: skip


def errors(turns: Sequence[Turn], rules: Sequence[str] = DEFAULT) -> list[bool]:
    """Which turns any of the rules calls an error."""
    return [any(RULES[name](turns, k) for name in rules) for k in range(len(turns))]


def _misrun(act: Act) -> bool:
    if act.command is None or act.refused:
        return False
    asks = any(word in command_of(act.call) for word in ("--version", "command -v", "which "))
    if (act.code in (126, 127) or (act.code != 0 and _NOT_FOUND.search(act.seen))) and not asks:
        return True
    if act.code == 0:
        return False
    programs = set(act.command.programs)
    if _MISWRITTEN.search(act.seen) or (programs & {"git", "patch"} and _NO_FIT.search(act.seen)):
        return True
    if _NO_FILE.search(act.seen) and programs & _OPENS and "Traceback" not in act.seen:
        return True
    if not (programs & _TOOLS or act.command.tests) or "Traceback" in act.seen or not _MISUSED.search(act.seen):
        return False
    # What a settings file asks for in vain is nobody's slip.
    return any(word.startswith("-") and word.partition("=")[0] in act.seen for word in command_of(act.call).split())


def _failed(step: Step) -> bool:
    """Whether a call was refused, or a command ended badly that did not only look for something."""
    return any(act.refused or bool(act.code and not (step.is_search and act.code == 1)) for act in step.acts)


def _is_python(change: Change) -> bool:
    return change.path.endswith(".py") or (not change.path and bool(change.line))


def _parses(text: str) -> bool:
    try:
        parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _complaint(found: Sequence[Step], k: int, change: Change) -> bool:
    """Whether the next check names the file, or no file at all, and says that it cannot be read."""
    after = _check(found, range(k + 1, len(found)))
    if after is None or not after.failing or not _BROKEN.search(after.turn.observation):
        return False
    name = change.path.rpartition("/")[2]
    return name in after.turn.observation or "File " not in after.turn.observation


def _is_trial(change: Change) -> bool:
    """Whether an edit is there to see something: a file of its own, or lines that print and stop."""
    come = change.come()
    return change.is_scratch or bool(come and all(_SHOWS.match(line) for line in come))


def _check(found: Sequence[Step], places: range) -> Step | None:
    """The nearest check with a result before another edit."""
    for i in places:
        if found[i].failing is not None:
            return found[i]
        if found[i].may_change:
            return None
    return None


def _undone(found: Sequence[Step], k: int, change: Change) -> bool:
    """Whether a later turn puts back what was there before this change, or before one that came earlier."""
    last = next((c for step in reversed(found) for c in step.changes if c.path == change.path), change)
    if last is not change and last.after is not None and last.after == change.after:
        return False  # it holds in the end
    for i in range(k + 1, len(found)):
        if any(path in (".", change.path) or change.path.endswith(f"/{path}") for path in found[i].restored):
            return True
        for later in found[i].changes:
            if later.path != change.path or _same(later) or (later.after is not None and later.after == change.after):
                continue
            if later.after is not None and _was(found, k, change.path, later.after):
                return True
            inverse = change.old is not None and (later.old, later.new) == (change.new, change.old)
            if inverse and change.old != change.new:
                return True
    return False


def _was(found: Sequence[Step], k: int, path: str, text: str) -> bool:
    """Whether a file held this text before turn `k` changed it."""
    befores = (c.before for step in found[: k + 1] for c in step.changes if c.path == path)
    return any(before is not None and before.rstrip("\n") == text.rstrip("\n") for before in befores)


def _rewritten(found: Sequence[Step], k: int, change: Change) -> bool:
    """Whether lines that this change put there are replaced after a check that failed."""
    mine = change.come()
    failed = False
    for step in found[k + 1 :]:
        for later in step.changes if failed else ():
            if later.path != change.path:
                continue
            if change.line and later.line:
                if change.line == later.line and change.new != later.new:
                    return True
            elif mine & later.gone():
                return True
        if step.failing is not None:
            if not step.failing:
                return False  # what it did was found good
            failed = True
    return False


def _same(change: Change) -> bool:
    if change.before is None or change.after is None:
        return change.old == change.new
    return change.before.rstrip("\n") == change.after.rstrip("\n")


def _calls(message: str) -> tuple[calls.Call, ...]:
    try:
        return calls.parse(message).calls
    except PolicyError:
        return ()
