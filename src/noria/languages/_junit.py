"""JUnit's XML, as CTest writes it. Nothing of it is trusted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from noria.languages.base import Status

MOST_BYTES = 32 << 20
#: A line that a program of Unity prints per test.
_UNITY = re.compile(r"(?m)^\S[^\n:]*:\d+:(\w+):(PASS|FAIL|IGNORE)(?:: ?([^\n]*))?$")
#: The same of a failure, whatever a source has printed before it on the line.
_UNITY_FAILED = re.compile(r":\d+:(\w+):FAIL\b")
_UNITY_STATUS: dict[str, Status] = {"PASS": "pass", "FAIL": "fail", "IGNORE": "skip"}


@dataclass(frozen=True, slots=True)
class Case:
    """One test of a report."""

    id: str
    status: Status
    said: str
    seconds: float


def cases(data: bytes) -> Iterator[Case]:
    """The tests of a report; a program of Unity counts as its own tests. A broken report has none."""
    for name, case in _programs(data):
        printed = case.findtext("system-out") or ""
        seconds = _number(case.get("time", ""))
        inner = _UNITY.findall(printed)
        failed = set(_UNITY_FAILED.findall(printed))
        odd = not failed and _status(case) != "pass"  # the program says that it failed, and its lines do not
        for test, word, why in inner:
            status = "fail" if test in failed else "error" if odd else _UNITY_STATUS[word]
            yield Case(f"{name}::{test}", status, why, seconds)
        if not inner:
            failure = case.find("failure")
            why = (failure.get("message") or failure.text or "") if failure is not None else ""
            yield Case(f"{name}::whole", _status(case), _told(printed) or why, seconds)


def programs(data: bytes) -> dict[str, bool]:
    """Name of each program that was run -> whether it passed."""
    return {name: _status(case) in ("pass", "skip") for name, case in _programs(data)}


def _programs(data: bytes) -> Iterator[tuple[str, ElementTree.Element]]:
    if len(data) > MOST_BYTES or b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        return
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError:
        return
    for case in root.iter("testcase"):
        name = " ".join(case.get("name", "").split())
        if name:
            yield name, case


def _status(case: ElementTree.Element) -> Status:
    if case.find("failure") is not None or case.get("status") == "fail":
        return "fail"
    if case.find("error") is not None:
        return "error"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skip"
    return "pass"


def _told(printed: str) -> str:
    """The line of what a program printed that says what went wrong."""
    found = re.search(r"(?im)^.*\b(assert\w*|expected|fail(ed|ure)|error)\b.*$", printed)
    return found[0].strip()[:500] if found is not None else ""


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else 0.0
