"""Bugs that a model writes: it is shown a function that tests look at, and answers with one that is subtly wrong.

An answer is read strictly and proven like any other candidate. Each question is asked once: answers are kept in
`proposals.jsonl`, so a making that goes on asks nothing again.
"""

from __future__ import annotations

import json
import random
import re
import textwrap
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from noria.core.code import Target
from noria.core.errors import EngineError
from noria.core.types import Message
from noria.factory.candidate import Candidate, Site, rewrite, spread

OPERATOR, LOG = "model_written", "proposals.jsonl"
#: Lines of a function that is shown, questions about one, questions at a time, and failures in a row that end it.
LEAST_LINES, MOST_LINES, PER_TARGET, AT_ONCE, FAULTS = 4, 80, 2, 4, 5
Ask = Callable[[Sequence[Message]], str]
_SYSTEM = (
    "You plant bugs for exercises in debugging. You are given one function of a library. Answer with the whole "
    "function in one code block and nothing else, with one mistake that a good programmer could make. Name, parameters "
    "and docstring stay. Ordinary use must still work, and a careful test must notice. The code must parse, must not "
    "fail on every call, must end, and must not speak of the mistake in comments or names."
)
_HINTS = (
    "The mistake is in a rare case that the code has to tell apart from others.",
    "The mistake is in what is kept between two steps: order, a copy, or something that is not reset.",
    "The mistake is in a limit: the first, the last, none, or one too many.",
    "The mistake is a wrong assumption about what is passed in.",
    "The mistake is in how an error or a missing value is handled.",
)
_BLOCK = re.compile(r"```[\w+#-]*\n(.*?)```", re.S)
_COMMENT = re.compile(r"#|//|/\*")


class Proposals:
    """Asks a model, and keeps what it said. Thread-safe; `close` waits for what is under way."""

    def __init__(self, out: Path, ask: Ask) -> None:
        self._path, self._ask = out / LOG, ask
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="noria-propose")
        self.counts: Counter[str] = Counter()
        self._said: dict[str, str] = {}
        if self._path.is_file():
            data = self._path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            self._path.write_bytes(whole)
            for line in whole.splitlines():
                entry = json.loads(line)
                self._said[str(entry["key"])] = str(entry["said"])

    def later(self, key: str, messages: Sequence[Message]) -> Future[str]:
        """The answer to a question, "" where the server failed."""
        return self._pool.submit(self._answer, key, messages)

    def close(self) -> None:
        """Ask nothing more."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _answer(self, key: str, messages: Sequence[Message]) -> str:
        with self._lock:
            if key in self._said:
                return self._said[key]
        said = self._ask(messages)
        with self._lock:
            self._said[key] = said
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "said": said}) + "\n")
        return said


def written(site: Site, proposals: Proposals, seed: int) -> Iterator[Candidate]:
    """Candidates in an order of the seed: functions in turn, one the sooner, the more complex it is.

    Raises:
        EngineError: the server fails again and again.
    """
    waiting: deque[tuple[Target, bytes, Future[str]]] = deque()
    questions = _questions(site, proposals, seed)
    faults = 0
    try:
        while True:
            while len(waiting) < AT_ONCE and (question := next(questions, None)) is not None:
                waiting.append(question)
            if not waiting:
                return
            target, source, future = waiting.popleft()
            try:
                said, faults = future.result(), 0
            except EngineError:
                proposals.counts["the server failed"] += 1
                faults += 1
                if faults >= FAULTS:
                    raise
                continue
            candidate, reason = read(site, target, source, said)
            proposals.counts[reason or "read"] += 1
            if candidate is not None:
                yield candidate
    finally:
        for _, _, future in waiting:
            future.cancel()


def _questions(site: Site, proposals: Proposals, seed: int) -> Iterator[tuple[Target, bytes, Future[str]]]:
    rng = random.Random(f"{seed}/{site.name}/{OPERATOR}")
    shown: dict[Candidate, tuple[Target, bytes]] = {}
    for path, source, lines in site.sources():
        for target in site.targets(path, source):
            count = target.last_line - target.first_line + 1
            run = lines is None or any(line in lines for line in range(target.first_line + 1, target.last_line + 1))
            if target.kind != "class" and run and LEAST_LINES <= count <= MOST_LINES:
                whole = rewrite(OPERATOR, path, source, source[: target.start] + source[target.end :], [target])
                shown[site.candidate(OPERATOR, [whole])] = target, source
    order = spread(list(shown), rng)
    for turn in range(PER_TARGET):
        for candidate in reversed(order):
            target, source = shown[candidate]
            key = f"{site.prepared.repo.tree}/{target.path}:{target.name}/{turn}/{seed}"
            yield target, source, proposals.later(key, _messages(target, source, rng.choice(_HINTS)))


def _messages(target: Target, source: bytes, hint: str) -> list[Message]:
    shown = textwrap.dedent(_indent(target, source) + source[target.start : target.end].decode())
    return [Message("system", _SYSTEM), Message("user", f"{target.path}\n\n```\n{shown}\n```\n\n{hint}")]


def read(site: Site, target: Target, source: bytes, said: str) -> tuple[Candidate | None, str]:
    """The candidate that an answer makes, or why it makes none."""
    blocks = _BLOCK.findall(said.rpartition("</think>")[2])
    if not blocks:
        return None, "an answer without a code block"
    lines = textwrap.dedent(blocks[-1].rstrip()).strip("\n").split("\n")
    while len(lines) > 1 and lines[0].startswith("@"):  # decorators stand before the target
        lines.pop(0)
    indent = _indent(target, source)
    text = "\n".join([lines[0], *(f"{indent}{line}" if line.strip() else "" for line in lines[1:])])
    new = source[: target.start] + text.encode() + source[target.end :]
    if new == source:
        return None, "an answer without a change"
    found = site.targets(target.path, new)
    if [each.name for each in found] != [each.name for each in site.targets(target.path, source)]:
        return None, "an answer with other functions"
    mutation = rewrite(OPERATOR, target.path, source, new, [target])
    kept = set(source[target.start : target.end].decode().split("\n"))
    added = [line for edit in mutation.edits for line in edit.text.split("\n") if line not in kept]
    if any(_COMMENT.search(line) for line in added) and not _COMMENT.search("".join(kept)):
        return None, "an answer that comments"
    return site.candidate(OPERATOR, [mutation]), ""


def _indent(target: Target, source: bytes) -> str:
    """The blanks before a target."""
    before = source[source.rfind(b"\n", 0, target.start) + 1 : target.start].decode()
    return before[: len(before) - len(before.lstrip())]
