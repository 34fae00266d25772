"""Which tests of a sound tree are asked, and why the others are not: one bad test costs no repository."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from noria.core.errors import NoriaError
from noria.core.protocols import Layered, Workspace
from noria.envs.swe.trial import Bench, Run
from noria.languages.base import LEFT_OUT, SLOW, Ending, Knowing, Language, Layout

#: Tests at which a run may end before the repository is given up: each costs its limit.
MOST_CUT = 6
#: Runs at most in which the files of tests are looked for that write into the sources.
MOST_LOOKS = 24
#: What is said of their tests.
WRITES = "writes into the sources"
#: Seconds above which a test is slow in any case; above which it may be slow among quick ones, and its share of the
#: time of all others from which it then is. Each proof runs all tests at least once.
SLOW_S, NOTICED_S, SLOW_SHARE = 10.0, 1.0, 0.5
#: Tests that must be left for one that goes because of its share.
OTHERS = 10
#: So many sound tests are enough where they are this share of all; fewer where they are at least half.
ENOUGH, LEAST_SHARE, LEAST_SOUND = 20, 0.1, 0.5
_OUTSIDE = ("Read-only file system", "Permission denied: '/")


class Unsound(NoriaError):
    """Too little is left to prove anything with; says why."""


@dataclass(frozen=True, slots=True)
class Sound:
    """Tests that passed in all runs, in order, and why each of the others is left out.

    suite_s, slowest_s    seconds of a run of `tests`, the median, and of the slowest of them in any run
    outside               some tests write outside of the repository
    """

    tests: tuple[str, ...]
    left_out: Mapping[str, str]
    suite_s: float
    slowest_s: float
    outside: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user is told: how many are left out, and why."""
        counts = Counter(self.left_out.values())
        said = [f"{count} left out: {reason}" for reason, count in sorted(counts.items())]
        return (*said, *(("some tests write outside of the repository",) if self.outside else ()))


class Runs:
    """Runs of the tests of one tree, without those that ended one. `out`: test, or file of tests -> why."""

    def __init__(self) -> None:
        self.done: list[Run] = []
        self.out: dict[str, str] = {}
        self._asked: tuple[str, ...] | None = None

    def layout(self, layout: Layout) -> Layout:
        """A layout whose runs of all tests leave those out."""
        facts = {**dict(layout.facts), LEFT_OUT: json.dumps(sorted(self.out))}
        return replace(layout, facts=tuple(sorted(facts.items()))) if self.out else layout

    def run(self, bench: Bench) -> Workspace:
        """One whole run, again without the test that it ended at; where it took place.

        Raises:
            Unsound: it ends again and again, says nothing, or all of its tests may change the sources.
        """
        for _ in range(MOST_CUT):
            space = bench.sandbox.workspace({})
            bench.layout = self.layout(bench.layout)
            run = bench.run(space, self._asked)
            if not run.cut:
                touched = _touched(run, space, bench.layout)
                if not touched:
                    self.done.append(run)
                    return space
                self._leave_out_writers(bench, run, touched)
                continue
            if run.result.timed_out or run.result.killed or not run.cutting:
                raise Unsound(f"its tests do not end: {run.cut}")
            self._leave_out(bench, run)
        raise Unsound(f"its tests do not end: {MOST_CUT} runs ended at {', '.join(list(self.out)[:3])} and others")

    def _leave_out(self, bench: Bench, run: Run) -> None:
        """Raises Unsound: nothing else was found."""
        self.out |= run.cutting
        self._ask_others(bench, run, f"its tests do not end: {run.cut}")

    def _leave_out_writers(self, bench: Bench, run: Run, touched: str) -> None:
        """Leave out the files of tests that write into the sources. Raises Unsound: none can be told from others."""
        looks = 0

        def writers(files: Sequence[str]) -> list[str]:
            nonlocal looks
            looks += 1
            if looks > MOST_LOOKS:
                return []
            space = bench.sandbox.workspace({})
            again = bench.run(space, [test for test in run.status if test.partition("::")[0] in files])
            if not _touched(again, space, bench.layout):
                return []
            half = len(files) // 2
            return list(files) if len(files) == 1 else [*writers(files[:half]), *writers(files[half:])]

        why = f"its tests write into its own sources: {touched}"
        files = list(dict.fromkeys(test.partition("::")[0] for test in run.status))
        found = set(writers(files)) if len(files) > 1 else set()
        if not found:
            raise Unsound(why)
        self.out |= {test: WRITES for test in run.status if test.partition("::")[0] in found}
        self._ask_others(bench, run, why)

    def _ask_others(self, bench: Bench, run: Run, why: str) -> None:
        """Raises Unsound, saying why: there are no others."""
        found = run.known or tuple(run.status)
        left = [test for test in found if not self._is_out(test)]
        if not left:
            raise Unsound(why)
        # A run of all tests is not the same as one of all by name: files that cannot be loaded have no names.
        self._asked = None if isinstance(bench.language, Knowing) else tuple(left)

    def _is_out(self, test: str) -> bool:
        """The name of a file stands for all of its tests."""
        return test in self.out or test.partition("::")[0] in self.out

    def sound(self) -> Sound:
        """What the runs say of each test. Raises Unsound: too few can be asked."""
        seen: Counter[str] = Counter()
        passed: Counter[str] = Counter()
        said: dict[str, str] = {}
        told: set[str] = set()
        for run in self.done:
            told.update(run.status)
            seen.update(test for test, status in run.status.items() if status != "skip")
            passed.update(test for test, status in run.status.items() if status == "pass")
            said = {**run.said, **said}
        out = {test: f"it {how}" for test, how in self.out.items()}
        for file in said.keys() - told - out.keys():
            out[file] = "it cannot be loaded"
        for test in seen:
            if self._is_out(test):
                out.setdefault(test, f"it {self.out.get(test) or self.out[test.partition('::')[0]]}")
            elif not passed[test]:
                out[test] = "it fails on the tree as it is"
            elif passed[test] < len(self.done):
                out[test] = "it is flaky: it passes in some runs alone"
        good = [test for test in seen if test not in out]
        slow = slow_of({test: _least(self.done, test) for test in good})
        out |= dict.fromkeys(slow, "it is slow")
        tests = tuple(test for test in good if test not in slow)
        outside = any(words in text for text in said.values() for words in _OUTSIDE)
        self._check(tests, {*seen, *out}, out, said, outside)
        slow_s = sum(_least(self.done, test) for test in slow)
        suite_s = statistics.median(run.result.seconds for run in self.done[-max(1, len(self.done) - 1) :])
        slowest_s = max((run.seconds.get(test, 0.0) for run in self.done for test in tests), default=0.0)
        return Sound(tests, dict(sorted(out.items())), max(0.1, suite_s - slow_s), slowest_s, outside)

    def unended(self, language: Language) -> set[str]:
        """Programs that did not end well in a run in which none of their tests failed."""
        found: set[str] = set()
        if not isinstance(language, Ending):
            return found
        for run in self.done:
            failed = {language.program(test) for test, status in run.status.items() if status in ("fail", "error")}
            found |= {name for name, well in (run.ended or {}).items() if not well} - failed
        return found

    def _check(
        self, tests: Sequence[str], every: set[str], out: Mapping[str, str], said: Mapping[str, str], outside: bool
    ) -> None:
        if len(tests) >= max(1.0, LEAST_SHARE * len(every), min(ENOUGH, LEAST_SOUND * len(every))):
            return
        slow = next((f"{test} {how}" for test, how in self.out.items() if how == SLOW), "")
        if slow and not tests:
            raise Unsound(f"its tests do not end: {slow}")
        why = next((said[test] for test in out if said.get(test) and test not in self.out), "")
        cause = "they write outside of the repository" if outside else " ".join(why.split())[:200]
        raise Unsound(
            f"{len(every) - len(tests)} of its {len(every)} tests do not pass on the tree as it is"
            f"{f': {cause}' if cause else ''}"
        )


def slow_of(seconds: Mapping[str, float]) -> set[str]:
    """Tests that take too much of the time of all: the slowest, as long as enough others are left."""
    left = sum(seconds.values())
    slow: set[str] = set()
    for test, took in sorted(seconds.items(), key=lambda pair: (-pair[1], pair[0])):
        left -= took
        among = took > NOTICED_S and took > SLOW_SHARE * left and len(seconds) - len(slow) - 1 >= OTHERS
        if len(seconds) - len(slow) > 1 and (took > SLOW_S or among):
            slow.add(test)
        else:
            break
    return slow


def _touched(run: Run, space: Workspace, layout: Layout) -> str:
    """A source that a run has changed, "" where there is none. Raises Unsound: it says nothing."""
    if not run.status:
        said = next(iter(run.said.values()), "") or run.result.stderr or run.result.stdout
        raise Unsound(f"its tests cannot be run: {' '.join(said.split())[-300:] or 'nothing was reported'}")
    assert isinstance(space, Layered)
    return next(iter(sorted(set(space.changes()) & set(layout.sources))), "")


def _least(runs: Sequence[Run], test: str) -> float:
    """Seconds in the quickest run: a busy machine makes no test slow."""
    return min((run.seconds[test] for run in runs if test in run.seconds), default=0.0)
