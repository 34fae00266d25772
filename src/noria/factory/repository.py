"""Makes a source into a sound repository: fetched, laid into layers, and its tests found to say the same each time."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

from noria.core import registry
from noria.core.errors import NoriaError, SandboxError, UserError
from noria.core.protocols import Layered, Sandbox, Shape, Shaping, Workspace
from noria.envs.swe.records import REPOS, Repo
from noria.envs.swe.trial import Bench, argv, shape
from noria.factory.commits import Revert, reverts
from noria.factory.layers import Store, Unfit, copy_tree
from noria.factory.origins import debian, folder, git, npm, pypi
from noria.factory.origins.base import FULL, Fetched, Origin, Unfetched
from noria.factory.quarantine import Runs, Unsound
from noria.languages.base import DEPS, SLOWEST, UNENDED, WORKSPACE, Language, Layout, Step, Unusable, Warm

#: Times that a step which may fail by chance is done at most.
TRIES = 2
#: Runs of the tree as it is; tests that do not pass in all of them prove nothing.
RUNS = 3
#: Seconds that a test may take afterwards: so many times what the slowest took, and so many at least.
SLOWER_TEST, LEAST_TEST_S = 8.0, 2.0
_ERROR = re.compile(r"(?i)error|fatal|not found|no space")
Coverage = Mapping[str, Mapping[str, frozenset[int]]]
T = TypeVar("T")


class Refused(NoriaError):
    """No tasks can be made of a source; says why."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A sound repository and what the making of bugs needs.

    coverage    test -> path -> lines, None = unknown
    reverts     commits of its history that can be taken back
    """

    repo: Repo
    language: Language
    coverage: Coverage | None
    notes: tuple[str, ...] = ()
    reverts: tuple[Revert, ...] = ()


class Names:
    """Names of repositories, each given once: those of a dataset, and those given out. Thread-safe."""

    def __init__(self, out: Path) -> None:
        self._taken = {path.stem for path in (out / REPOS).glob("*.json")}
        self._lock = threading.Lock()

    def free(self, name: str) -> str:
        """This name, or one like it that nobody has."""
        base = "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in name).strip(".-") or "repository"
        with self._lock:
            free = [base, *(f"{base}-{number}" for number in range(2, len(self._taken) + 3))]
            found = next(each for each in free if each not in self._taken)
            self._taken.add(found)
            return found


def prepare(
    source: str, out: Path, sandbox: Sandbox, names: Names, languages: Sequence[str] = (), history: int = 0
) -> Prepared:
    """Fetch, lay out, install and check one source; what an earlier call has finished is taken from `out`.

    `history`: commits that are looked for at most.

    Raises:
        Refused: with the reason.
    """
    there = _recorded(source, out)
    if there is not None:
        return there
    with tempfile.TemporaryDirectory(prefix="noria-source-") as place:
        fetched = _fetched(source, Path(place))
        language, layout = _understood(fetched, languages)
        if layout.name == fetched.folder.name:  # it says no name of its own, and the folder is ours
            layout = replace(layout, name=re.sub(r"[^\w.-]", "-", fetched.name) or layout.name)
        store = Store(out)
        try:
            with store.building() as place_of_tree:
                copy_tree(fetched.folder, place_of_tree, language.caches)
                tree = store.keep(place_of_tree, {"kind": "source", "source": source, "revision": fetched.revision})
        except Unfit as fault:
            raise Refused(str(fault)) from fault
        past = _past(fetched, layout, history)
    deps = _retried(lambda: _installed(store, language, layout, tree, sandbox))
    revision = fetched.revision or f"tree:{tree}"
    return _checked(
        Repo(names.free(fetched.name), source, revision, layout, deps, tree, (), 0.0), out, language, sandbox, past
    )


def _recorded(source: str, out: Path) -> Prepared | None:
    """What an earlier call has found.

    Raises:
        UserError: what was found is not as it was written, whichever source it is of.
        Refused: a layer is gone.
    """
    for path in sorted((out / REPOS).glob("*.json")):
        try:
            repo = Repo.from_json(json.loads(path.read_text(encoding="utf-8")))
            if repo.source != source:
                continue
            lines, past = path.with_suffix(".lines"), path.with_suffix(".history")
            found = json.loads(past.read_text(encoding="utf-8")) if past.is_file() else []
            known = _read_lines(lines) if lines.is_file() else None
            history = tuple(Revert.from_json(each) for each in found)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
            raise UserError(
                f"--out must be as it was written: {path} or a file of its name beside it has {fault!r} - "
                f"delete {path.stem}.* there, and it is made anew"
            ) from fault
        for digest in filter(None, (repo.tree, repo.deps, repo.built)):
            if not (Store(out).root / digest).is_dir():
                raise Refused(f"its layer {digest} is gone - delete {path}, and it is made anew")
        language: Language = registry.resolve("languages", repo.layout.language).build()
        return Prepared(repo, language, known, reverts=history)
    return None


def _past(fetched: Fetched, layout: Layout, limit: int) -> tuple[Revert, ...]:
    if fetched.clone is None or not limit:
        return ()
    try:
        return reverts(fetched.clone, fetched.revision, layout.sources, layout.tests, limit)
    except Unfetched as fault:
        raise Refused(str(fault)) from fault


def _fetched(source: str, into: Path) -> Fetched:
    kinds: list[Origin] = [module.build() for module in (pypi, npm, git, debian, folder)]
    try:
        claiming = [kind for kind in kinds if kind.claims(source)] if source.strip() else []
    except (OSError, RuntimeError) as fault:  # a path that is too long or closed, a home that is not known
        raise Refused(f"it cannot be looked at: {str(fault)[:200]}") from fault
    if not claiming:
        raise Refused("it is no folder and names no kind of source: write pypi:NAME, npm:NAME, git+URL or a path")

    def once() -> Fetched:
        for old in into.iterdir():
            shutil.rmtree(old)
        try:
            return claiming[0].fetch(source, into)
        except Unfetched as fault:
            raise Refused(str(fault)) from fault
        except (OSError, RuntimeError) as fault:
            if isinstance(fault, OSError) and fault.errno in FULL:
                raise
            raise Refused(f"it cannot be read: {str(fault)[:200]}") from fault

    return _retried(once)


def _understood(fetched: Fetched, wanted: Sequence[str]) -> tuple[Language, Layout]:
    """The language with the most sources. Raises Refused: none that this machine can run."""
    found: list[tuple[Language, Layout]] = []
    reasons: list[str] = []
    for name in wanted or registry.names("languages"):
        language: Language = registry.resolve("languages", name).build()
        try:
            layout = language.detect(fetched.folder)
        except Unusable as fault:
            reasons.append(f"{name}: {fault}")
            continue
        if layout is None:
            continue
        lacking = language.missing()
        if lacking is not None:
            reasons.append(f"{name}: {lacking}")
            continue
        found.append((language, layout))
    if not found:
        raise Refused("; ".join(reasons) or "it is of no language that we know")
    return max(found, key=lambda each: len(each[1].sources))


def _installed(store: Store, language: Language, layout: Layout, tree: str, sandbox: Sandbox) -> str:
    """Do the recorded steps; the digest of the dependency layer. Raises Refused: a step fails."""
    steps = language.install(layout)
    with store.building() as above:
        deps = above / "deps"
        deps.mkdir()
        for step in steps:
            if step.place == "outside":
                _outside(step, deps)
            else:
                _inside(step, above, store.root / tree, layout, sandbox)
        return store.keep(deps, {"kind": "dependencies", "steps": [asdict(step) for step in steps]})


def _outside(step: Step, folder: Path) -> None:
    try:
        done = subprocess.run(
            step.argv, cwd=folder, capture_output=True, text=True, errors="replace", check=False,
            timeout=step.timeout_s, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        raise Refused(f"install: the program {step.argv[0]} is missing") from None
    except subprocess.TimeoutExpired:
        raise Refused(f"install: {step.argv[0]} took longer than {step.timeout_s:g} s") from None
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        if os.strerror(errno.ENOSPC) in said:  # no fault of the source
            raise OSError(errno.ENOSPC, said)
        raise Refused(f"install: {_salient(said)}")


def _salient(said: str) -> str:
    """What of a step's last words names the fault: the end of a traceback, what a package manager calls an error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [
        line for line in dict.fromkeys(lines) if _ERROR.search(line) and not line.startswith(("raise ", "File "))
    ]
    return " ".join(telling[-2:] or lines[-1:])[:300]


def _inside(step: Step, above: Path, tree: Path, layout: Layout, sandbox: Sandbox) -> None:
    """The layer so far is a folder of the workspace, seen at its own place; what the step leaves there is the layer."""
    if not isinstance(sandbox, Shaping):
        raise UserError("[sandbox] type must be one that shows layers: use bwrap")
    layers = ((WORKSPACE, str(tree)), (WORKSPACE, str(above)))
    try:
        shaped = sandbox.shaped(Shape(links=((DEPS, "deps"),), layers=layers, hidden=layout.hidden))
    except SandboxError as fault:
        raise Refused(f"install: the sandbox failed: {fault}") from fault
    try:
        space = shaped.workspace({})
        done = space.run(argv(step, "mkdir -p deps && "), step.timeout_s)
        if done.code != 0 or done.timed_out:
            why = "ran out of time" if done.timed_out else (done.stderr.strip() or done.stdout.strip())[-300:]
            raise Refused(f"install: {step.argv[0]}: {why or done.killed or f'exit code {done.code}'}")
        assert isinstance(space, Layered)
        for path, change in space.changes().items():
            place = above / path
            if not path.startswith("deps/"):
                continue
            if change is None:
                place.unlink(missing_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(change[0])
            place.chmod(change[1])
    except SandboxError as fault:
        raise Refused(f"install: the sandbox failed: {fault}") from fault
    finally:
        shaped.close()


def _checked(repo: Repo, out: Path, language: Language, sandbox: Sandbox, past: tuple[Revert, ...] = ()) -> Prepared:
    """Run the suite on the tree as it is. Raises Refused: too few tests say the same each time."""
    runs = Runs()
    try:
        with opened(repo, out, language, sandbox, warm=False) as bench:  # as a task is graded; the others as it is made
            space = runs.run(bench)
            repo = replace(repo, built=_built(space, language, Store(out)))
        with opened(repo, out, language, sandbox) as bench:
            for _ in range(RUNS - 1):
                runs.run(bench)
            sound = runs.sound()
            coverage = bench.coverage(bench.sandbox.workspace({}))
    except Unsound as fault:
        raise Refused(str(fault)) from fault
    except SandboxError as fault:
        raise Refused(f"the sandbox failed: {fault}") from fault
    layout = runs.layout(repo.layout)
    facts = {**dict(layout.facts), SLOWEST: f"{max(LEAST_TEST_S, SLOWER_TEST * sound.slowest_s):.1f}"}
    unended = sorted(runs.unended(language))
    if unended:
        facts[UNENDED] = json.dumps(unended)
    layout = replace(layout, facts=tuple(sorted(facts.items())))
    found = replace(
        repo, tests=sound.tests, suite_s=round(sound.suite_s, 3), layout=layout, left_out=tuple(sound.left_out.items())
    )
    _record(found, out, coverage, past)
    return Prepared(found, language, coverage, sound.notes, past)


def _built(space: Workspace, language: Language, store: Store) -> str:
    """The layer of what the first run has compiled; "" where there is nothing."""
    assert isinstance(space, Layered)
    left = {path: change for path, change in space.changes().items() if path.startswith(language.built)}
    if not language.built or not left:
        return ""
    with store.building() as place:
        for path, change in left.items():
            if change is not None:
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(change[0])
                (place / path).chmod(change[1])
        return store.keep(place, {"kind": "built"})


@contextmanager
def opened(repo: Repo, out: Path, language: Language, sandbox: Sandbox, warm: bool = True) -> Iterator[Bench]:
    """The bench of a repository, over a sandbox in its shape; `warm` where the language can be.

    Raises:
        UserError: the sandbox shows no layers.
    """
    if not isinstance(sandbox, Shaping):
        raise UserError("[sandbox] type must be one that shows layers: use bwrap")
    loaded = language.warm if warm and isinstance(language, Warm) else ()
    shaped = sandbox.shaped(shape(Store(out).root, repo, True, loaded))
    try:
        yield Bench(shaped, language, repo.layout, warm)
    finally:
        shaped.close()


def _record(repo: Repo, out: Path, coverage: Coverage | None, past: Sequence[Revert]) -> None:
    place = out / REPOS
    place.mkdir(exist_ok=True)
    if past:
        text = json.dumps([each.to_json() for each in past])
        (place / f"{repo.name}.history").write_text(text, encoding="utf-8")
    if coverage is not None:
        plain = {test: {path: sorted(lines) for path, lines in by.items()} for test, by in coverage.items()}
        (place / f"{repo.name}.lines").write_text(json.dumps(plain), encoding="utf-8")
    partial = place / f"{repo.name}.partial"
    partial.write_text(json.dumps(repo.to_json(), indent=1) + "\n", encoding="utf-8")
    partial.replace(place / f"{repo.name}.json")


def _read_lines(path: Path) -> Coverage:
    plain = json.loads(path.read_text(encoding="utf-8"))
    return {test: {file: frozenset(lines) for file, lines in by.items()} for test, by in plain.items()}


def _retried(once: Callable[[], T]) -> T:
    """Again where it failed: registries and machines have bad moments."""
    for _ in range(TRIES - 1):
        try:
            return once()
        except Refused:
            continue
    return once()
