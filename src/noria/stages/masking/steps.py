"""What each turn of a code trajectory did, as its calls and what came back tell; no world is asked.

Tools are known by what they take: a command, a path with a text in it to replace, a path with a whole text, a line.
What files hold is followed from what was read and written, as far as it can be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from noria.core.types import Turn
from noria.stages.masking.commands import Command, understood, words
from noria.tokens.calls import Call, Malformed, hear

_SHELLS = words("sh bash shell run terminal exec execute execute_bash run_command command")
_READS = words("read view open cat open_file read_file show list search grep find ls")
_TESTS = words("test tests run_tests")
_ENDS = words("submit finish done complete end")
#: What puts all files back without saying which.
_BACKS = words("reset restore")
_PATHS = ("path", "file", "file_path", "filename")
_OLD = ("old", "old_str", "old_string", "search")
_NEW = ("new", "new_str", "new_string", "replace")
_TEXTS = ("text", "content", "contents", "file_text")
_SUBMITS = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_HEAD = re.compile(r"^\[(\d+) [\w-]+\] ", re.MULTILINE)
_CODE = re.compile(r"\(exit (-?\d+)\)\s*\Z|\[exit code (-?\d+)\]\s*\Z|<returncode>(-?\d+)</returncode>")
_STOPPED = re.compile(r"\((stopped after|killed)[^()\n]*\)\s*\Z")
_NUMBERED = re.compile(r"\A\s*\d+(?:\t| ?\| ?|: | )")
_CUT = re.compile(r"more characters\)|tokens were left out|<output_head>|\.\.\. truncated|characters elided")
#: What runners of tests say of those that failed; the last that is found counts.
_FAILED = (
    re.compile(r"^fail (\d+)/\d+", re.MULTILINE),
    re.compile(r"\b(\d+) failed\b"),
    re.compile(r"\b(\d+) errors?\b(?= (?:in|during) )"),
    re.compile(r"FAILED \((?:failures|errors)=(\d+)"),
    re.compile(r"^# fail (\d+)", re.MULTILINE),
    re.compile(r"\b(\d+) failing\b"),
)
_PASSED = re.compile(
    r"^pass \d+/\d+|\b\d+ passed\b|^OK\b|test result: ok|^ok\s|^# pass \d|\b\d+ passing\b", re.MULTILINE
)
_RAISED = re.compile(r"^Traceback \(most recent call last\)|^\w*Error\b|^not ok |^--- FAIL|^FAIL\b", re.MULTILINE)
#: What a runner of tests says that ran none.
_NO_RUN = re.compile(r"^ERROR: usage:|unrecognized arguments|no tests ran|file or directory not found", re.MULTILINE)
#: Files that somebody makes to try something.
_SCRATCH = re.compile(r"\A/tmp/|(^|/)_?(repro|reproduce|check|debug|tmp|scratch|try|demo)\w*\.\w+\Z")


@dataclass(frozen=True, slots=True)
class Change:
    """An edit of one file: `old` became `new`, as far as that is known; `line` is that of an edit of one line, else 0.

    `before` and `after` are the whole texts, None where nobody showed them.
    """

    path: str
    old: str | None
    new: str
    before: str | None = None
    after: str | None = None
    line: int = 0

    @property
    def is_scratch(self) -> bool:
        """Whether the file is no part of the work, as far as its name tells; a test that is written anew is none."""
        return bool(_SCRATCH.search(self.path)) or (self.old is None and not self.line and "test" in self.path)

    def gone(self) -> set[str]:
        """Lines that it took away, without the spaces around them."""
        return _lines(self.before if self.old is None else self.old) - _lines(self.new)

    def come(self) -> set[str]:
        """Lines that it put there."""
        return _lines(self.new) - _lines(self.before if self.old is None else self.old)


@dataclass(frozen=True, slots=True)
class Act:
    """One call with its answer. `code` is how a command ended, None where that isn't told."""

    call: Call
    seen: str
    command: Command | None = None
    refused: bool = False
    code: int | None = None
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One turn. `failing` is what a check found: how many tests fail, 0 = none; None = it was no check.

    `is_search` and `is_test`: it did nothing else. `ends`: it says that the work is done.
    """

    turn: Turn
    acts: tuple[Act, ...]
    malformed: bool
    ends: bool
    failing: int | None = None
    is_test: bool = False
    is_search: bool = False
    changes: tuple[Change, ...] = ()
    may_change: bool = False
    restored: tuple[str, ...] = ()


@lru_cache(maxsize=64)
def steps(turns: tuple[Turn, ...]) -> tuple[Step, ...]:
    """The turns of a trajectory, read in order."""
    files: dict[str, str] = {}
    return tuple(_step(turn, files) for turn in turns)


def _step(turn: Turn, files: dict[str, str]) -> Step:
    heard = hear(turn.message)
    calls = [call for call in heard.calls if isinstance(call, Call)]
    malformed = any(isinstance(call, Malformed) for call in heard.calls) or not (heard.calls or heard.answer)
    answers = _answers(turn.whole or turn.observation, len(heard.calls))
    kept = [seen for call, seen in zip(heard.calls, answers, strict=True) if isinstance(call, Call)]
    acts = tuple(_act(call, seen, files) for call, seen in zip(calls, kept, strict=True))
    if any(_is_back(act) for act in acts):
        files.clear()
    ends = not heard.calls or any(act.call.name in _ENDS or _SUBMITS in command_of(act.call) for act in acts)
    commands = [act.command for act in acts if act.command is not None and not act.refused]
    checks = [act for act in acts if _is_check(act)]
    failing = [found for act in checks if (found := _failing(act)) is not None]
    changes = tuple(act.change for act in acts if act.change is not None)
    return Step(
        turn, acts, malformed, ends and not malformed,
        failing=max(failing, default=None),
        is_test=bool(acts) and all(_is_test(act) for act in acts),
        is_search=bool(acts) and all(_is_search(act) for act in acts),
        changes=changes,
        may_change=bool(changes) or any(command.changes for command in commands),
        restored=(*("." for act in acts if _is_back(act)), *(path for one in commands for path in one.restored)),
    )  # fmt: skip


def _is_back(act: Act) -> bool:
    return act.call.name in _BACKS and not act.call.args and not act.refused


def _answers(seen: str, n: int) -> list[str]:
    """What came back for each of `n` calls, all of it for each where that cannot be told."""
    if n <= 1:
        return [seen] * n
    heads = list(_HEAD.finditer(seen))
    if [int(head[1]) for head in heads] == list(range(1, n + 1)):
        ends = [*(head.start() for head in heads[1:]), len(seen)]
        return [seen[head.end() : end].rstrip("\n") for head, end in zip(heads, ends, strict=True)]
    lines = seen.split("\n")
    return lines if len(lines) == n else [seen] * n


def _act(call: Call, seen: str, files: dict[str, str]) -> Act:
    text = command_of(call)
    command = understood(text) if text else None
    told = _CODE.search(seen)
    code = None if told is None else int(next(group for group in told.groups() if group is not None))
    if code is None and command is not None:
        code = -1 if _STOPPED.search(seen) else 0
    # What a command prints may begin like a refusal; that of the tool itself has no exit code.
    refused = any(line.startswith("error:") for line in seen.splitlines()) if command is None else (
        told is None and seen.startswith("error:")
    )  # fmt: skip
    change = None if refused else _changed(call, command, files)
    if change is not None:
        _follow(change, files)
    elif command is not None and command.changes:
        files.clear()
    elif not refused and command is None:
        _read(call, seen, files)
    return Act(call, seen, command, refused, code, change)


def command_of(call: Call) -> str:
    """The shell command of a call, "" where it is none."""
    if any(key in call.args for key in _PATHS):
        return ""
    return call.args.get("command", call.args.get("cmd", "")) if call.name in _SHELLS or len(call.args) == 1 else ""


def _changed(call: Call, command: Command | None, files: Mapping[str, str]) -> Change | None:
    """The edit that a call makes, None for none, and for one whose effect cannot be told."""
    if command is not None:
        if command.written is not None:
            name, whole = command.written
            return Change(name, None, whole, files.get(name), whole)
        if command.substituted is not None:
            return _replaced(*command.substituted, files)
        return None
    path, args = _of(call.args, _PATHS), call.args
    old, new, text = _of(args, _OLD), _of(args, _NEW), _of(args, _TEXTS)
    if "line" in args and new is not None and args["line"].strip().isdecimal():
        return _line_edit(path or "", int(args["line"]), new, files)
    if path is not None and old is not None and new is not None:
        return _replaced(path, old, new, files)
    if path is not None and text is not None and call.name not in _READS:
        return Change(path, None, text, files.get(path), text)
    return None


def _replaced(path: str, old: str, new: str, files: Mapping[str, str]) -> Change:
    before = files.get(path)
    after = before.replace(old, new) if before is not None and old and before.count(old) == 1 else None
    return Change(path, old, new, before if after is not None else None, after)


def _line_edit(path: str, number: int, new: str, files: Mapping[str, str]) -> Change:
    before = files.get(path)
    lines = [] if before is None else before.split("\n")
    if before is None or not 1 <= number <= len(lines):
        return Change(path, None, new.strip(), line=number)
    old = lines[number - 1]
    lines[number - 1] = old[: len(old) - len(old.lstrip())] + new.strip()
    return Change(path, old.strip(), new.strip(), before, "\n".join(lines), number)


def _follow(change: Change, files: dict[str, str]) -> None:
    if change.after is None:
        files.pop(change.path, None)
    else:
        files[change.path] = change.after.rstrip("\n")


def _read(call: Call, seen: str, files: dict[str, str]) -> None:
    """Take in a file that was shown whole."""
    path = _of(call.args, _PATHS)
    if call.name not in _READS or _CUT.search(seen) or len(call.args) > 1 or (call.args and path is None):
        return
    lines = seen.split("\n")
    if all(_NUMBERED.match(line) for line in lines):
        lines = [_NUMBERED.sub("", line) for line in lines]
    files[path or ""] = "\n".join(lines).rstrip("\n")


def _of(args: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((args[name] for name in names if name in args), None)


def _is_test(act: Act) -> bool:
    return act.call.name in _TESTS or (act.command is not None and act.command.tests)


def _is_search(act: Act) -> bool:
    if act.command is not None:
        return act.command.looks and not (act.command.tests or act.command.runs or act.command.changes)
    return act.call.name in _READS and act.change is None


def _is_check(act: Act) -> bool:
    """Whether a program was run to see what it does; one that was never found saw nothing."""
    if act.refused or (act.command is not None and act.code in (126, 127)):
        return False
    return _is_test(act) or (act.command is not None and act.command.runs)


def _failing(act: Act) -> int | None:
    """How many tests failed, 1 for a program that did, 0 for none; None where nobody can tell."""
    found = [int(each) for pattern in _FAILED for each in pattern.findall(act.seen)[-1:]]
    if any(found):
        return sum(found)
    if act.code and _NO_RUN.search(act.seen):
        return None
    if act.code:
        return 1
    if found or _PASSED.search(act.seen):
        return 0
    if _RAISED.search(act.seen):
        return 1
    if act.command is None or act.command.piped:
        return None
    return 0


def _lines(text: str | None) -> set[str]:
    return {line.strip() for line in (text or "").split("\n")} - {""}
