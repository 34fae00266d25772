"""What a language tells the task factory about a repository: its layout, its build, its test runs, their reports.

A plug-in is a file of this folder with `build() -> Language`. Everything that a `Step` names is seen inside the
sandbox: the repository at `/workspace`, writable, and its dependency layer at `/deps`, read-only but while it is made.
Nothing inside has a network. A plug-in runs nothing itself and reads files only below the root that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from noria.core.errors import NoriaError
from noria.core.protocols import ExecResult

WORKSPACE, DEPS = "/workspace", "/deps"
#: File for what a step is given, and letters of a word up to which it need not be one.
GIVEN, MOST_WORD = "given", 100_000

#: Fact of a layout whose tests have run: seconds of processor time that a test may take, far more than any took.
SLOWEST = "test_s"
#: Fact of a layout: ids of tests, as JSON, that a run of all tests does not start. Languages that are `Knowing` obey.
LEFT_OUT = "left_out"
#: Fact of a layout: programs of tests, as JSON, that do not end well on the sound tree although their tests pass.
UNENDED = "unended"
#: Fact of a layout whose layer has a runner that seals its reports.
SEALED = "sealed"
#: What `read_said` tells of a test that took longer than its limit, and of one in which the process ended.
SLOW, DIED = "ran longer than its limit", "ended the process that runs the tests"
#: How one test ended. "error": it, or what it stands in, could not be run.
Status = Literal["pass", "fail", "error", "skip"]


class Unusable(NoriaError):
    """The repository is of this language, but no tasks can be made of it; says why in one sentence."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command: recorded in a layer's sheet, and run again from there.

    place   "inside": in the sandbox, working folder `/workspace`/`folder`. "outside": on this machine, working folder
            the dependency layer, for the clients of package managers alone: such a step fetches or unpacks, and
            executes nothing of what it fetched, and nothing of the repository.
    given   text of the file `GIVEN` below the folder `report` of a run: a single word of `argv` holds 128 KiB at most
    """

    argv: tuple[str, ...]
    timeout_s: float = 600.0
    env: tuple[tuple[str, str], ...] = ()
    folder: str = "."
    place: Literal["inside", "outside"] = "inside"
    given: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """What lies where in a repository. Paths are relative to its root, with `/`, in order.

    name      of the package, as its own metadata or else the folder says
    sources   files that may be broken
    tests     files with tests, and those that only tests use
    settings  files that steer a test run or a build (`conftest.py`, `package.json`, `Makefile`): with `tests` they are
              put back before a task is graded, and a task never changes them
    needs     requirements of the dependency layer, as the language's package manager writes them
    hidden    absolute paths of this machine that would show the package under repair, or a newer one: seen empty inside
    facts     what else the plug-in wants to remember, as pairs
    """

    language: str
    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    settings: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    def fact(self, key: str, otherwise: str = "") -> str:
        """What was remembered under `key`."""
        return dict(self.facts).get(key, otherwise)


class Language(Protocol):
    """One language. Test ids are any strings without newlines that are the same in each run."""

    #: as in `noria.mutations`
    name: str
    #: endings of source files, with the dot
    suffixes: tuple[str, ...]
    #: names of files and folders that a build or a test run leaves and no task may show; `*` as in a shell
    caches: tuple[str, ...]
    #: folders below the root where a run leaves what it has compiled, with `/` at the end: those of the first run on a
    #: sound tree lie under every later run of tests, but never where a policy works. Files of layers have one time
    #: of change in the past, and files with a bug a later one. () = nothing worth keeping
    built: tuple[str, ...]

    def missing(self) -> str | None:
        """Which program is not on this machine and how to get it; None where all is there."""
        ...

    def detect(self, root: Path) -> Layout | None:
        """The layout of the repository at `root`; None where it is none of this language.

        Raises:
            Unusable: no tests, a runner that we don't know, or tests that need what we can't give.
        """
        ...

    def install(self, layout: Layout) -> tuple[Step, ...]:
        """What makes the dependency layer, in order; inside steps may write to `/deps` here alone."""
        ...

    def command(self, layout: Layout, tests: Sequence[str] | None, report: str) -> Step:
        """Build as far as needed and run these tests, or all; what is reported goes below the folder `report`.

        `report` is an absolute path inside that is there and empty. A step that builds and runs is one `sh -c`.
        """
        ...

    def steers(self, layout: Layout, path: str) -> bool:
        """Whether a file at this path, there or new, is a test, or decides which code or tests a run loads."""
        ...

    def read(self, reports: Mapping[str, bytes], result: ExecResult) -> Mapping[str, Status]:
        """How each test ended. `reports`: what lies below the folder `report` by relative path.

        Structured reports only (JUnit XML, JSON, TAP), and nothing of them is trusted: a broken one reports no test.
        """
        ...


@runtime_checkable
class Covering(Protocol):
    """A language that can say which lines each test runs."""

    def coverage(self, layout: Layout, report: str) -> Step:
        """Run all tests, and write below `report` which lines each ran."""
        ...

    def read_coverage(self, reports: Mapping[str, bytes]) -> Mapping[str, Mapping[str, frozenset[int]]]:
        """Test id -> path of a source -> lines, from 1. Lines run while a file is imported belong to no test."""
        ...


@runtime_checkable
class Telling(Protocol):
    """A language whose reports say why a test failed and how long each took."""

    def read_said(self, reports: Mapping[str, bytes]) -> Mapping[str, str]:
        """Test id, or the file that could not be loaded -> the message of its failure, as its runner gives it."""
        ...

    def read_seconds(self, reports: Mapping[str, bytes]) -> Mapping[str, float]:
        """Test id -> seconds."""
        ...


@runtime_checkable
class Knowing(Protocol):
    """A language whose run ends at a test that takes too long, and which tells of the others as well."""

    def read_known(self, reports: Mapping[str, bytes]) -> tuple[str, ...]:
        """Ids of all tests that were found, whether they ran or not."""
        ...


@runtime_checkable
class Sealing(Protocol):
    """A language whose runner seals each line of its report with a key that nothing else of the run can read."""

    #: name of the file below the folder `report` that the key is put into; the runner takes it away
    key: str

    def seals(self, layout: Layout) -> bool:
        """Whether the runner of this repository does: one in an old layer may not."""
        ...

    def unsealed(self, reports: Mapping[str, bytes], key: bytes) -> Mapping[str, bytes]:
        """The reports without the seals, and without lines whose seal or place is another."""
        ...


@runtime_checkable
class Ending(Protocol):
    """A language whose tests stand together in programs, of which it is known from outside how they ended.

    What a program reports of a test that passed can be forged by the code under test. That it ended well can not.
    """

    def read_ended(self, reports: Mapping[str, bytes]) -> Mapping[str, bool]:
        """Program -> whether it ended as one does in which no test failed."""
        ...

    def program(self, test: str) -> str:
        """The program that a test stands in."""
        ...

    def unit(self, test: str) -> str:
        """What runs as a whole where this test is asked for: another test of it may fail the program."""
        ...


@runtime_checkable
class Wary(Protocol):
    """A language whose sources run in the same process as the tests: `tampers` says how a change meddles with that."""

    #: endings of files that can get into a build or a run: ("",) where any can, once a source names it
    watched: tuple[str, ...]

    def tampers(self, before: str, after: str) -> str:
        """What of a changed source reaches for the runner and was not in the one before, "" where nothing does.

        What a source prints, and whether it ends the process, is no such thing where the report shows it anyway.
        """
        ...


@runtime_checkable
class Warm(Protocol):
    """A language of Python whose runs can start with the runner loaded: three or four times as fast for a few tests."""

    #: a folder inside, and modules in it (`core.protocols.Shape.warm`)
    warm: tuple[str, ...]

    def warmed(self, layout: Layout, step: Step) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """The Python program and arguments, and the variables, with which a step of `command` is run so."""
        ...


@runtime_checkable
class Showing(Protocol):
    """A language that needs more inside than the system's own folders show."""

    def shows(self, deps: Path) -> tuple[tuple[str, str], ...]:
        """(place inside, folder of this machine), seen read-only: a toolchain, or a part of the layer `deps`."""
        ...


@runtime_checkable
class Quoting(Protocol):
    """A language that finds a test in its file."""

    def quote(self, layout: Layout, test: str, read: Callable[[str], str]) -> str:
        """The source of one test, without the indentation that it stands in; "" where it is not found.

        `read` gives the text of a file of the repository, and raises OSError.
        """
        ...


@runtime_checkable
class Manual(Protocol):
    """A language that tells a policy how it runs the tests that it finds."""

    def by_hand(self, layout: Layout) -> str:
        """A shell command for the root of the repository."""
        ...

    def variables(self, layout: Layout) -> Mapping[str, str]:
        """Variables of the environment that it needs, beside the layer's programs on the path."""
        ...
