"""Shell commands by their words: which run tests, look, run a program or change files. Guesses, for masks alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


#: Programs that look at files or at the machine and change nothing.
_LOOKS = words(
    "ls cat head tail grep egrep fgrep rg ag ack find fd locate wc sed awk sort uniq cut diff cmp file stat tree less"
    " more which whereis type pwd nl du df env printenv uname whoami date hexdump xxd strings jq"
)
_GIT_LOOKS = words("log diff status show blame grep ls-files branch describe rev-parse")
_GIT_RESTORES = words("checkout restore stash reset")
_CHANGES = words(
    "tee patch cp mv rm mkdir touch chmod ln rmdir truncate dd install pip pip3 apt apt-get conda uv poetry gem"
)
#: Words before the command that matters.
_BEFORE = words("time timeout sudo env exec nice stdbuf xargs command builtin")
_QUIET = words("cd echo printf true false sleep export set source . unset pushd popd : exit wait test [")
_TESTS = re.compile(
    r"(^|\s|/)(pytest|py\.test|nosetests|nose2|tox|nox|unittest|jest|mocha|vitest|ava|tap|tape|rspec|phpunit|ctest)(\s|$)"
    r"|^(npm|yarn|pnpm|bun|deno)(\s+run)?\s+(-\S+\s+)*test|^node\s.*--test|^(go|cargo|dotnet|swift|mix|sbt|bazel)\s+test"
    r"|^(make|ninja)\s+(-\S+\s+)*(test|check)|^(mvn|gradle|\./gradlew|ant)\s.*(test|verify|check)"
    r"|manage\.py\s+test|setup\.py\s+test|(^|\s|/)(run_?tests?|tests?)\.(sh|py)(\s|$)"
)
_HERE = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")
_WRITTEN = re.compile(r"\A\s*cat\s*>\s*(\S+)\s*<<-?\s*['\"]?(\w+)['\"]?\n(.*\n)?\2\s*\Z", re.DOTALL)
_SUBSTITUTED = re.compile(r"\As(?P<by>[/|#,])(?P<old>.*?)(?<!\\)(?P=by)(?P<new>.*?)(?<!\\)(?P=by)[a-z]*\Z")
_ASSIGNED = re.compile(r"\A[A-Za-z_]\w*=")


@dataclass(frozen=True, slots=True)
class Command:
    """What a shell command is likely to do.

    `programs` are the first words of its parts; `written` is a file and the text that takes its place, `substituted` a
    file with a text in it and what takes its place, `restored` files that version control puts back ("." = all).
    """

    tests: bool = False
    runs: bool = False
    looks: bool = False
    changes: bool = False
    piped: bool = False
    programs: tuple[str, ...] = ()
    written: tuple[str, str] | None = None
    substituted: tuple[str, str, str] | None = None
    restored: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def understood(command: str) -> Command:
    """A command taken apart."""
    tests = runs = looks = changes = False
    programs: list[str] = []
    restored: list[str] = []
    substituted: tuple[str, str, str] | None = None
    for words, redirected in _simple(command):
        name = words[0].rpartition("/")[2]
        programs.append(name)
        line = " ".join([name, *words[1:]])
        if name not in _LOOKS and _TESTS.search(line):
            tests = True
        elif name == "git" and len(words) > 1 and words[1] in _GIT_RESTORES:
            changes = True
            restored += [word for word in words[2:] if not word.startswith("-")] or ["."]
        elif name == "git" and len(words) > 1 and words[1] in _GIT_LOOKS:
            looks = True
        elif name in ("sed", "perl") and any(word.startswith(("-i", "--in-place", "-pi")) for word in words[1:]):
            changes = True
            substituted = _substitution(words) or substituted
        elif name in _CHANGES or name == "git" or (redirected and (name in _QUIET or name in _LOOKS)):
            changes = True
        elif name in _LOOKS:
            looks = True
        elif name not in _QUIET:
            runs = True
    found = _WRITTEN.match(command)
    written = None if found is None else (found[1].strip("'\""), found[3] or "")
    return Command(tests, runs, looks, changes, "|" in command, tuple(programs), written, substituted, tuple(restored))


def _substitution(words: list[str]) -> tuple[str, str, str] | None:
    """File, text and what takes its place, of `sed -i s/a/b/ file`."""
    plain = [word for word in words[1:] if not word.startswith("-")]
    found = _SUBSTITUTED.match(plain[0]) if len(plain) == 2 else None
    return None if found is None else (plain[1], found["old"].replace("\\", ""), found["new"].replace("\\", ""))


def _simple(command: str) -> Iterator[tuple[list[str], bool]]:
    """The words of each simple command, without what stands before it, and whether it writes into a file."""
    until = ""
    for line in command.split("\n"):
        if until:
            until = "" if line.strip() == until else until
            continue
        here = _HERE.search(line)
        if here:
            until = here[1]
            line = line[: here.start()] + line[here.end() :]
        words: list[str] = []
        redirected = target = False
        tokens = [*_tokens(line), ";"]
        for k, token in enumerate(tokens):
            if target:
                target = False
            elif not token:
                words.append(token)
            elif set(token) <= set("<>&") and set(token) & set("<>"):
                target = not token.endswith("&") or token == ">&"
                redirected |= ">" in token and not token.endswith("&") and not tokens[k + 1].startswith("/dev/")
            elif set(token) <= set(";&|()"):
                if kept := _meant(words):
                    yield kept, redirected
                words, redirected = [], False
            else:
                words.append(token)


def _tokens(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # a quote that another line closes
        return re.sub(r"['\"].*", "", line).split()


def _meant(words: list[str]) -> list[str]:
    """The words from the program on."""
    at = 0
    while at < len(words) and (words[at] in _BEFORE or _ASSIGNED.match(words[at]) or (at and _is_setting(words, at))):
        at += 1
    return words[at:]


def _is_setting(words: list[str], at: int) -> bool:
    """Whether a word is a setting of the one before it, as in `timeout 60 pytest`."""
    return words[at - 1] in _BEFORE and (words[at].startswith("-") or words[at].rstrip("smh").isdigit())
