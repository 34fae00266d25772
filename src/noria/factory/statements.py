"""Problem statements from what the failing tests show, never from the change: several styles, one drawn per task.

A statement that shares a run of words with the change is not used; the next style is tried, the last says least.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

#: Words in a row that a statement and a change may not share.
RUN = 8
#: Failures that are shown, and characters of each.
SHOWN, WIDTH = 3, 240
#: Characters of a value where two are compared, and what plug-ins call the only test of a file or a program.
VALUE, WHOLE = 90, "whole"
#: Share of the statements that show a failing test itself, and lines of one that is shown at most. A test whose message
#: says nothing is shown in any case.
QUOTED, LINES = 0.2, 16
_EMPTY = re.compile(r"(AssertionError:? ?)?(assert (not )?(True|False|None)( is (True|False|None))?)?")
_WORD = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\"[^\"\n]*\"|'[^'\n]*'|[^\s\w]")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SPACES = re.compile(r"\s+")
_COMPARED = "+ actual - expected"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failing test in words: what it is about, the message of its failure on one line, and its source."""

    test: str
    about: str
    said: str
    source: str = ""

    @property
    def telling(self) -> bool:
        """Whether the message says what came out: `assert False` does not."""
        return bool(self.said) and _EMPTY.fullmatch(self.said) is None


@dataclass(frozen=True, slots=True)
class Statement:
    """A text and the style that wrote it."""

    text: str
    style: str


class Worded(Protocol):
    """A model that words statements."""

    def __call__(
        self, package: str, shown: Sequence[Failure], failing: int, missing: str, patch: str, rng: random.Random
    ) -> Statement | None:
        """A statement, None where there is none that can be used."""
        ...


def state(
    package: str,
    said: Mapping[str, str],
    passing: int,
    patch: str,
    rng: random.Random,
    quote: Callable[[str], str] = lambda test: "",
    missing: str = "",
    worded: Worded | None = None,
) -> Statement:
    """A statement about failing tests: `said` is test -> message, `quote` gives a test's source, `passing` others pass.

    `patch` is read for one thing alone: that the text does not give it away. `missing` names what was cut out whole:
    the statement then asks for it. `worded` asks a model first.
    """
    failures = [_failure(test, text) for test, text in said.items()]
    shown = [replace(each, source=_short(quote(each.test))) for each in _varied(failures)]
    if worded is not None:
        found = worded(package, shown, len(failures), missing, patch, rng)
        if found is not None:
            return found
    if missing:
        for quoted in (True, False):
            text = _feature(package, shown if quoted else [replace(e, source="") for e in shown], passing, missing)
            if not leaks(text, patch):
                return Statement(text, "feature")
    styles = list(_STYLES.items())
    rng.shuffle(styles)
    shown.sort(key=lambda each: not each.telling)
    if any(each.source for each in shown) and (not shown[0].telling or rng.random() < QUOTED):
        styles.insert(0, ("example", _example))
    for name, write in styles:
        text = write(package, shown, len(failures), passing)
        if not leaks(text, patch):
            return Statement(text, name)
    return Statement(_bare(package, shown, len(failures), passing), "bare")


def leaks(text: str, patch: str) -> bool:
    """Whether the text shares `RUN` words in a row with a changed line of a patch."""
    changed = [line[1:] for line in patch.split("\n") if line[:1] in "+-" and not line.startswith(("+++", "---"))]
    runs = {run for line in changed for run in _runs(line)}
    return bool(runs & _runs(text))


def _runs(text: str) -> set[tuple[str, ...]]:
    found = _WORD.findall(text)
    return {tuple(found[at : at + RUN]) for at in range(len(found) - RUN + 1)}


def _failure(test: str, said: str) -> Failure:
    """The message without what differs from run to run, and without a second explanation of the same value."""
    lines = [line.strip() for line in _ADDRESS.sub("", said).splitlines() if line.strip()]
    shown = [line.removeprefix("+").strip() for line in lines[:3] if not line.startswith("+  where")]
    if any(line.startswith(_COMPARED) for line in lines[1:2]):
        shown = [f"{lines[0]} {_compared(said.splitlines())}"]
    elif [line.partition(":")[0] for line in lines[1:3]] == ["left", "right"]:
        shown = lines[:3]
    else:
        shown = shown[:1] + [line for line in lines[1:2] if line.startswith("+") and " = " in line and "<" not in line]
    message = _SPACES.sub(" ", ", ".join(line.removeprefix("+").strip() for line in shown))
    return Failure(test, _about(test), message[:WIDTH])


def _compared(lines: Sequence[str]) -> str:
    """What came and what was expected, of the comparison that Node prints line by line."""
    head = next(at for at, line in enumerate(lines) if line.strip().startswith(_COMPARED))
    below = [line for line in lines[head + 1 :] if line.strip()]
    came, wanted = (
        _SPACES.sub(" ", " ".join(line[1:] for line in below if line[:1] != sign)).strip() for sign in ("-", "+")
    )
    return f"got {came[:VALUE]}, expected {wanted[:VALUE]}"


def _about(test: str) -> str:
    """A test's name as words: `tests/test_a.py::TestB::test_take_last[3]` -> "take last"."""
    parts = re.split(r"::|/| > ", re.sub(r"\[.*\]\Z", "", test))
    name = parts[-1]
    if name == WHOLE and len(parts) > 1:  # a file or a program that is one test
        name = parts[-2].partition(".")[0]
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    words = [
        word for word in re.split(r"[\W_]+", name) if word and word.lower() not in ("test", "tests", "it", "should")
    ]
    return " ".join(words).lower() or "basic use"


def _varied(failures: Sequence[Failure]) -> list[Failure]:
    """Up to `SHOWN` failures about different things, those with a message first."""
    found: dict[str, Failure] = {}
    for failure in sorted(failures, key=lambda each: not each.said):
        found.setdefault(failure.about, failure)
    return list(found.values())[:SHOWN]


def _short(source: str) -> str:
    """A test that is short enough to be shown, else nothing."""
    return source if source.count("\n") < LINES and len(source) < LINES * 80 else ""


def _example(package: str, shown: Sequence[Failure], failing: int, passing: int) -> str:
    quoted = next(each for each in shown if each.source)
    lines = [f"This should hold with {package}, and does not any more:", "", "```", quoted.source, "```", ""]
    lines += [f"It ends with: {quoted.said}"] if quoted.telling else []
    others = [each for each in shown if each is not quoted]
    lines += [f"The same goes for {_topics(others)}."] if others else []
    return "\n".join([*lines, "Find the cause in the package and mend it."])


def _feature(package: str, shown: Sequence[Failure], passing: int, missing: str) -> str:
    """What is to be written: where, what it is about, and a check of it where one is short."""
    lines = [f"{package} lacks a feature: {missing}. The signature stands, and what it does was never written.", ""]
    quoted = next((each for each in shown if each.source), None)
    if quoted is not None:
        lines += ["With it, this should pass:", "", "```", quoted.source, "```", ""]
    others = [each for each in shown if each is not quoted]
    lines += [f"It is needed for {_topics(others)}."] if others else []
    lines += [f"Write it as its documentation and its callers expect. The {passing} checks that pass go on passing."]
    return "\n".join(lines)


def _topics(shown: Sequence[Failure]) -> str:
    topics = [f"“{each.about}”" for each in shown]
    return topics[0] if len(topics) == 1 else ", ".join(topics[:-1]) + " and " + topics[-1]


def _report(package: str, shown: Sequence[Failure], failing: int, passing: int) -> str:
    lines = [f"{package} gives wrong results around {_topics(shown)}.", "", "What I see:"]
    lines += [f"- {each.about}: {each.said or 'it fails'}" for each in shown]
    lines += ["", "Everything else that I use still works. Please find the cause and mend it."]
    return "\n".join(lines)


def _terse(package: str, shown: Sequence[Failure], failing: int, passing: int) -> str:
    head = (
        f"{package}: {failing} check{'s' * (failing != 1)} of its behaviour fail{'s' * (failing == 1)} since a change"
    )
    return f"{head}, about {_topics(shown)}. First message: {shown[0].said or 'none'}. Mend the code."


def _ticket(package: str, shown: Sequence[Failure], failing: int, passing: int) -> str:
    lines = [f"Title: regression in {package}: {shown[0].about}", "", "Observed", ""]
    lines += dict.fromkeys(f"    {each.said or 'a failure without a message'}" for each in shown)
    lines += ["", f"Expected: what the documentation and the {passing} checks that still pass lead one to expect for "
              f"{_topics(shown)}.", "", "The cause is in the package itself, not in its tests."]  # fmt: skip
    return "\n".join(lines)


def _question(package: str, shown: Sequence[Failure], failing: int, passing: int) -> str:
    lines = [f"After an update of {package} my code no longer behaves. It has to do with {_topics(shown)}.", ""]
    lines += [f"For {each.about} I get `{each.said}`." for each in shown if each.said]
    lines += ["Could you look into the package and put it right, without changing what works?"]
    return "\n".join(lines)


def _bare(package: str, shown: Sequence[Failure], failing: int, passing: int) -> str:
    return (
        f"{package} has a bug that shows in {_topics(shown)}. {failing} of the checks of its behaviour fail and "
        f"{passing} pass. Find the cause in the sources and mend it."
    )


_STYLES: Mapping[str, Callable[[str, Sequence[Failure], int, int], str]] = {
    "report": _report, "terse": _terse, "ticket": _ticket, "question": _question,
}  # fmt: skip
