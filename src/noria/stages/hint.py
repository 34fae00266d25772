"""Stage 4, prompted chain of thought: from the marks alone, a hint and a short thought aimed at the weak spot.

A mark says of which kind the decisive action was. The world knows what to advise about that kind, in words about the
way of working, never about an instance. A task whose own pair was not analysed gets the advice that the marks of
its world call for most, what harmed coming before what helped. A hint that shares a run of words with the right
trajectory leaks, and is dropped.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from noria.core.codec import read_jsonl, write_jsonl
from noria.core.types import Analysis, Hint, KeyAction, Pair, Trajectory
from noria.stages.analyze import load_analyses
from noria.stages.context import Context
from noria.stages.pair import load_pairs

HINTS, RANDOM_HINTS = "hints.jsonl", "random-hints.jsonl"


def run(ctx: Context) -> None:
    """Make the artifact `hint`: one hint per failed task, and for control one from random marks."""
    name = ctx.name("hint")
    if ctx.run.done(name):
        return
    with ctx.run.artifact(name, inputs=[ctx.name("analyze"), ctx.name("pair")], seed=ctx.seed("hint")) as work:
        pairs, analyses = load_pairs(ctx), {a.task_id: a for a in load_analyses(ctx)}
        calls = world_calls(ctx, analyses.values(), pairs)
        hints, randoms, leaks = [], [], 0
        for pair in _chosen(pairs, ctx.recipe.hint.tasks):
            rng = random.Random(ctx.seed("hint", pair.task.id))
            hint = make_hint(ctx, pair, analyses.get(pair.task.id), calls[pair.task.world], rng)
            control = random_hint(ctx, pair, rng)
            if hint is None:
                continue
            if leaks_answer(hint, pair.right, ctx.recipe.hint.leak_ngram):
                leaks += 1
                continue
            hints.append(hint)
            randoms.append(control)
        write_jsonl(work.path / HINTS, hints)
        write_jsonl(work.path / RANDOM_HINTS, randoms)
        work.count_in(pairs=len(pairs), analyses=len(analyses))
        work.count_out(hints=len(hints), leaked=leaks)


def _chosen(pairs: Sequence[Pair], per_world: int) -> list[Pair]:
    taken: dict[str, int] = defaultdict(int)
    out = []
    for pair in pairs:
        taken[pair.task.world] += 1
        if taken[pair.task.world] <= per_world:
            out.append(pair)
    return out


def world_kinds(ctx: Context, analyses: Iterable[Analysis], pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Kinds of action by world, the one whose marks moved success most (in sum) first."""
    return _ranked(ctx, analyses, pairs, lambda mark, _: mark.kind)


def world_calls(ctx: Context, analyses: Iterable[Analysis], pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Kinds of advice by world, the one that the marks call for most first.

    What marks of harm call for comes before what only marks of help do, whatever their sums, as in a task's own hint;
    among equals the alphabet decides.
    """
    return _ranked(ctx, analyses, pairs, lambda mark, world: call(world, mark), harm_first=True)


def harmed(analysis: Analysis, mark: KeyAction) -> bool:
    """Whether a mark shows the weak spot: its action lowered the chance of the trajectory that went wrong."""
    return mark.shift < 0 and mark.trajectory_id == analysis.wrong_id


def _ranked(
    ctx: Context,
    analyses: Iterable[Analysis],
    pairs: Sequence[Pair],
    of: Callable[[KeyAction, Any], str],
    harm_first: bool = False,
) -> dict[str, list[str]]:
    """Kinds by world in falling order of |shift| x confidence, summed over marks; `harm_first` sums harm apart."""
    world_of = {pair.task.id: pair.task.world for pair in pairs}
    sums: dict[str, dict[str, tuple[float, float]]] = {world: {} for world in ctx.worlds}
    for analysis in analyses:
        name = world_of[analysis.task_id]
        for m in analysis.marks:
            kind, moved = of(m, ctx.worlds[name]), abs(m.shift) * m.confidence
            first, rest = sums[name].get(kind, (0.0, 0.0))
            harm = harm_first and harmed(analysis, m)
            sums[name][kind] = (first + moved, rest) if harm else (first, rest + moved)
    return {
        world: sorted(found, key=lambda kind: (-found[kind][0], -found[kind][1], kind)) for world, found in sums.items()
    }


def call(world: Any, mark: KeyAction) -> str:
    """The kind of advice that a mark calls for: do what helped, or what would have helped against what harmed."""
    return mark.kind if mark.shift > 0 else str(world.remedies.get(mark.kind, mark.kind))


def make_hint(
    ctx: Context, pair: Pair, analysis: Analysis | None, calls: Sequence[str], rng: random.Random
) -> Hint | None:
    """The hint of one task, None where nothing was marked in its world.

    What harmed the wrong trajectory comes first: that is the weak spot. `calls` come from `world_calls`.
    """
    world = ctx.worlds[pair.task.world]
    advice: Mapping[str, Sequence[str]] = world.advice
    marked = sorted(
        analysis.marks if analysis else (),
        key=lambda m: (analysis is None or not harmed(analysis, m), -abs(m.shift) * m.confidence),
    )
    kinds = [kind for kind in (*(call(world, m) for m in marked), *calls) if kind in advice]
    return _worded(ctx, pair.task.id, kinds[0], advice, rng) if kinds else None


def random_hint(ctx: Context, pair: Pair, rng: random.Random) -> Hint:
    """The control: as if an action picked at random from both trajectories had been marked."""
    world = ctx.worlds[pair.task.world]
    turns = [turn for t in (pair.right, pair.wrong) for turn in t.turns]
    kinds = [kind for kind in (world.kind(turn.message) for turn in turns) if kind in world.advice]
    return _worded(ctx, pair.task.id, rng.choice(kinds or sorted(world.advice)), world.advice, rng)


def _worded(ctx: Context, task_id: str, kind: str, advice: Mapping[str, Sequence[str]], rng: random.Random) -> Hint:
    fitting = [text for text in advice[kind] if len(text.split()) <= ctx.recipe.hint.max_words]
    text = rng.choice(fitting or [min(advice[kind], key=len)])
    return Hint(task_id, text, text, (kind,))


def leaks_answer(hint: Hint, right: Trajectory, n: int) -> bool:
    """Whether `n` words in a row of the hint occur in what the right trajectory said."""
    said = ngrams(" ".join(turn.message for turn in right.turns), n)
    return bool(said & (ngrams(hint.text, n) | ngrams(hint.thought, n)))


def ngrams(text: str, n: int) -> set[tuple[str, ...]]:
    """All runs of `n` lower-cased words."""
    words = "".join(c if c.isalnum() else " " for c in text.lower()).split()
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def load_hints(ctx: Context, file: str = HINTS) -> list[Hint]:
    """Hints of this round."""
    return list(read_jsonl(ctx.run.folder(ctx.name("hint")) / file, Hint))
