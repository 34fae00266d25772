"""Worlds for the command line, and the proof that each task can be solved and is not solved by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, cast

from noria.bases.play import play
from noria.core import admission, registry
from noria.core.errors import UserError, boundary
from noria.core.proofs import Advising, Choosy, Guarded, Habitual
from noria.core.protocols import Sandbox, Shape, Shaping, TestReport, Workspace, World
from noria.core.recipe import Recipe, of_world
from noria.core.recipe_tables import EnvTable, SandboxTable
from noria.core.registry import nearest
from noria.core.strategies import strategy_of
from noria.core.types import Outcome, Task

MAX_TURNS = 64
#: Attempts of wrong habits of which one at least must fail.
_ENOUGH = 16


class ProvableWorld(World, Protocol):
    """A world that knows a solution of each of its tasks."""

    def reference(self, task: Task) -> list[str]: ...


class Refusal(NamedTuple):
    """A task that may not be used, and why. `id` is "" where the fault is not one task's.

    `flaky`: it failed in some repeats and not in all, so it is set aside until somebody has looked at it.
    """

    id: str
    reason: str
    flaky: bool = False


class LazySandbox:
    """A sandbox that starts when it is first used, so that worlds without code need none.

    Raises:
        UserError: there is no sandbox of this type.
    """

    def __init__(self, table: SandboxTable) -> None:
        registry.source("sandboxes", table.type)
        self._table = table
        self._started: Sandbox | None = None

    def workspace(self, files: Mapping[str, str]) -> Workspace:
        return self._sandbox().workspace(files)

    def test(self, files: Mapping[str, str], test_path: str, timeout_s: float) -> TestReport:
        return self._sandbox().test(files, test_path, timeout_s)

    def shaped(self, shape: Shape) -> Sandbox:
        started = self._sandbox()
        if not isinstance(started, Shaping):
            raise UserError(
                f"[sandbox] type must be one that shows folders at paths of their own: got {self._table.type!r}, "
                'which cannot - use "bwrap"'
            )
        return started.shaped(shape)

    def close(self) -> None:
        if self._started:
            self._started.close()

    def _sandbox(self) -> Sandbox:
        if self._started is None:
            self._started = cast(Sandbox, self._table.module().build(self._table.config()))
        return self._started


def self_contained() -> list[str]:
    """The worlds that are whole without a path, a server or a package that the user names.

    A world that is not says so by the constant `NEEDS` of its module: the fields of its `Config` that lead outside.
    """
    return [name for name in registry.names("envs") if not registry.constant("envs", name, "NEEDS")]


def _table(env: str, options: Sequence[str]) -> EnvTable:
    name = env.rpartition(".")[2]
    (table,) = of_world(env, [f"env.{name}.{option}" for option in options]).env.values()
    return table


@contextmanager
def opened(env: str, sandbox: str = "bwrap", options: Sequence[str] = ()) -> Iterator[ProvableWorld]:
    """The world of type `env`; closed at the end together with its sandbox.

    `options` are of the form `key=value` and stand for those of its table in a recipe.

    Raises:
        UserError: an option that the world refuses, or one that it needs is missing.
    """
    table = _table(env, options)
    lazy = LazySandbox(SandboxTable(type=sandbox))
    try:
        world = cast(ProvableWorld, table.module().build(table.config(), lazy))
        try:
            yield world
        finally:
            world.close()
    finally:
        lazy.close()


def check_splits(recipe: Recipe) -> None:
    """Every world must have tasks to train on, as the constants of its module tell; no world is opened for it.

    `SPLITS` names the splits that a world has whatever its options are, `TRAINS_WITH` the options without which it only
    measures.

    Raises:
        UserError: one only measures; names the field, and how it is measured.
    """
    faults: list[str] = []
    for name, table in recipe.env.items():
        splits = registry.constant("envs", table.type, "SPLITS")
        if isinstance(splits, tuple) and "train" not in splits:
            faults.append(
                f"env.{name}.type must be a world with training tasks: got {table.type!r}, which only measures - "
                f"leave it out, and use `noria eval MODEL --env {table.type}`"
            )
        needed = registry.constant("envs", table.type, "TRAINS_WITH")
        for field, value in needed.items() if isinstance(needed, dict) else ():
            if table.options.get(field) != value:
                faults.append(
                    f"env.{name}.{field} must be {value!r} where a recipe trains: got "
                    f"{table.options.get(field, 'nothing')!r}, with which {table.type} only measures - set it, or use "
                    f"`noria eval MODEL --env {table.type}`"
                )
    if faults:
        raise UserError("\n".join(faults))


def check_strategies(recipe: Recipe) -> None:
    """Every world must have the strategies that teachers name.

    Raises:
        UserError: one does not; names the teacher, the world and the world's experts.
    """
    wanted = {name: plug.options["strategy"] for name, plug in recipe.teachers.items() if "strategy" in plug.options}
    if not wanted:
        return
    lazy = LazySandbox(recipe.sandbox)
    faults: list[str] = []
    for env, table in recipe.env.items():
        world = cast(World, table.module().build(table.config(), lazy))
        for teacher, strategy in wanted.items():
            if strategy_of(world, strategy) is None:
                faults.append(
                    f"teachers.{teacher}.strategy must be known in every world: got {strategy!r}, which "
                    f"env.{env} lacks{nearest(strategy, list(world.strategies))} - its experts are "
                    f"{', '.join(world.experts)}; expert:1 is the first of each"
                )
        world.close()
    lazy.close()
    if faults:
        raise UserError("\n".join(faults))


def check_lists(recipe: Recipe) -> None:
    """Every list of tasks that a recipe strikes must be one of its world, with the world's options.

    Raises:
        UserError: one is not; see `admission.refused_of`.
    """
    lazy = LazySandbox(recipe.sandbox)
    for env, table in recipe.env.items():
        if table.admitted:
            world = cast(World, table.module().build(table.config(), lazy))
            try:
                admission.refused_of(Path(table.admitted), f"env.{env}.admitted", table.type, world)
            finally:
                world.close()
    lazy.close()


def default_tasks(env: str, options: Sequence[str] = ()) -> int:
    """How many training tasks the world has in a round unless a recipe says otherwise."""
    return int(_table(env, options).config().tasks)


def prove(
    world: ProvableWorld, tasks: Sequence[Task], advance: Callable[[], None] = lambda: None, repeats: int = 1
) -> list[Refusal]:
    """Play the reference solution, and nothing at all, on every task, `repeats` times: the first must score 1 in all
    of them, the second in none."""
    refused: list[Refusal] = []
    for task in tasks:
        found = _repeated(lambda task=task: _fault(world, task), task, repeats)  # type: ignore[misc]
        refused += [found] if found else []
        advance()
    return refused


def _repeated(check: Callable[[], str], task: Task, repeats: int) -> Refusal | None:
    """What a check found in all repeats together; an error of the world is a finding."""
    found = [boundary(check, lambda fault: f"raised {type(fault).__name__}: {fault}") for _ in range(repeats)]
    reasons = [reason for reason in found if reason]
    if not reasons:
        return None
    if len(reasons) == repeats:
        return Refusal(task.id, reasons[0])
    return Refusal(task.id, f"in {len(reasons)} of {repeats} repeats {reasons[0]}", flaky=True)


def guard(
    world: ProvableWorld, tasks: Sequence[Task], advance: Callable[[], None] = lambda: None, repeats: int = 1
) -> tuple[list[Refusal], int]:
    """Play what the world itself holds for deceit on every task, and look for its secrets in what is shown.

    Returns the tasks on which deceit succeeds, could not be graded, or is not needed, and how many attempts were
    played. A world without `proofs.Guarded` has none.
    """
    refused: list[Refusal] = []
    played = 0
    if not isinstance(world, Guarded):
        return refused, played
    for task in tasks:
        scripts = world.forgeries(task)
        checks = [lambda task=task: _leak(world, task)]
        checks += [lambda task=task, said=said: _forged(world, task, said) for said in scripts]  # type: ignore[misc]
        refused += filter(None, (_repeated(check, task, repeats) for check in checks))
        played += len(scripts)
        advance()
    return refused, played


def sought(world: ProvableWorld, tasks: Sequence[Task]) -> int:
    """Secrets that `guard` looks for in what is shown."""
    return sum(len(world.secrets(task)) for task in tasks) if isinstance(world, Guarded) else 0


def mislead(
    world: ProvableWorld, tasks: Sequence[Task], advance: Callable[[], None] = lambda: None, repeats: int = 1
) -> tuple[list[Refusal], int]:
    """Play one wrong habit of the world on every task, each in turn, and count them.

    A wrong habit may be right by chance, and must be graded. Where none of many fails, the verifier lets all pass.
    """
    wrong = [
        name
        for name in (world.strategies if isinstance(world, Habitual) else ())
        if name not in world.experts and not (isinstance(world, Advising) and world.advice_for(name) is not None)
    ]
    refused: list[Refusal] = []
    failed = 0

    def wrongly(task: Task, habit: str) -> str:
        nonlocal failed
        episode = world.open(task)
        try:
            play(episode, world.policy(task, habit, 0), MAX_TURNS)
            outcome = episode.grade()
        finally:
            episode.close()
        failed += not outcome.solved
        return f"the wrong habit {habit} is not graded: {outcome.reason}" if outcome.reward is None else ""

    for at, task in enumerate(tasks if wrong else ()):
        found = _repeated(lambda task=task, at=at: wrongly(task, wrong[at % len(wrong)]), task, repeats)  # type: ignore[misc]
        refused += [found] if found else []
        advance()
    played = len(tasks) * bool(wrong)
    if played >= max(_ENOUGH, len(wrong)) and not failed:
        refused.append(Refusal("", f"every wrong habit solves its task: {', '.join(wrong)}"))
    return refused, played


def consistent(world: ProvableWorld, split: str, tasks: Sequence[Task], seed: int) -> list[Refusal]:
    """The same seed must give the same tasks, no task twice, and each must say its split."""
    refused: list[Refusal] = []
    if draw(world, split, len(tasks), seed) != list(tasks):
        refused.append(Refusal("", f"split {split}, seed {seed}: the tasks differ when they are drawn again"))
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            refused.append(Refusal(task.id, "occurs twice"))
        seen.add(task.id)
        if task.split != split:
            refused.append(Refusal(task.id, f"says split {task.split}, was drawn for {split}"))
    return refused


def left_out(world: ProvableWorld) -> list[Refusal]:
    """What a world was pointed at and refuses by itself."""
    return [Refusal(id_, reason) for id_, reason in world.left_out()] if isinstance(world, Choosy) else []


def overlaps(drawn: Mapping[str, Sequence[Task]]) -> list[Refusal]:
    """Tasks whose content stands in two splits."""
    owner: dict[str, str] = {}
    refused: list[Refusal] = []
    for split, tasks in drawn.items():
        for task in tasks:
            content = f"{task.prompt}\n{sorted(task.data.items())!r}"
            if owner.setdefault(content, split) != split:
                refused.append(Refusal(task.id, f"its content is also in the split {owner[content]}"))
    return refused


def draw(world: ProvableWorld, split: str, n: int, seed: int) -> list[Task]:
    """Tasks of a split. Raises UserError where the world lacks it."""
    if split not in ("train", "heldout", "unseen"):
        raise UserError(f"--split must be train, heldout or unseen: got {split!r}")
    return world.tasks(cast(Literal["train", "heldout", "unseen"], split), n, seed)


def _fault(world: ProvableWorld, task: Task) -> str:
    """Why the task may not be used, "" where it may."""
    gold = _play(world, task, world.reference(task))
    if gold:
        return gold
    episode = world.open(task)
    try:
        outcome = episode.grade()
    finally:
        episode.close()
    if outcome.reward is None:
        return f"doing nothing is not graded: {outcome.reason}"
    return "doing nothing scores 1" if outcome.solved else ""


def _leak(world: ProvableWorld, task: Task) -> str:
    """Where a secret of the task is shown before any work was done, "" where it is not."""
    assert isinstance(world, Guarded)
    episode = world.open(task)
    try:
        seen = episode.act(world.reference(task)[0]).text
    finally:
        episode.close()
    tools = "\n".join(f"{tool.name} {tool.description} {tool.parameters}" for tool in task.tools)
    places = {"system": task.system, "prompt": task.prompt, "tools": tools, "first observation": seen}
    for secret in world.secrets(task):
        for place, text in places.items():
            if secret and secret in f"\n{text}\n":
                return f"its {place} gives the solution away: {secret[:60]!r}"
    return ""


def _graded(world: ProvableWorld, task: Task, messages: Sequence[str]) -> Outcome:
    """What these messages earn, up to the one that ends the episode."""
    episode = world.open(task)
    try:
        for message in messages:
            if episode.act(message).done:
                break
        return episode.grade()
    finally:
        episode.close()


def _forged(world: ProvableWorld, task: Task, messages: Sequence[str]) -> str:
    """Why a forged attempt shows a fault of the verifier, "" where it earns less than the reference."""
    said = next((text for text in messages if "edit" in text), messages[0])[:160]
    outcome = _graded(world, task, messages)
    if outcome.reward is None:
        return f"a forged attempt is not graded: {outcome.reason}; it says {said!r}"
    return f"a forged attempt scores 1: {said!r}" if outcome.solved else ""


def _play(world: ProvableWorld, task: Task, messages: Sequence[str]) -> str:
    """Why the reference does not solve the task, "" where it does."""
    if not 0 < len(messages) <= MAX_TURNS:
        return f"the reference has {len(messages)} messages, expected 1 to {MAX_TURNS}"
    outcome = _graded(world, task, messages)
    if outcome.reward is None:
        return f"the reference is not graded: {outcome.reason}"
    return "" if outcome.solved else f"the reference scores {outcome.reward:g}: {outcome.reason}"
