"""Stage 4, prompted chain of thought: from the marks alone, a hint and a short thought aimed at the weak spot.

A mark says of which kind the decisive action was. The world knows what to advise about that kind, in words about the
way of working, never about an instance. A task whose own pair was not analysed gets the advice that the marks of
its world call for most. A hint that shares a run of words with the right trajectory leaks, and is dropped.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence

from noria.core.codec import read_jsonl, write_jsonl
from noria.core.types import Analysis, Hint, Pair, Trajectory
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
        calls = world_kinds(ctx, analyses.values(), pairs)
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


def world_kinds(ctx: Context, analyses: object, pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Kinds of action by world, the one whose marks moved success most (in sum) first."""
    world_of = {pair.task.id: pair.task.world for pair in pairs}
    sums: dict[str, dict[str, float]] = {world: defaultdict(float) for world in ctx.worlds}
    for analysis in analyses:  # type: ignore[attr-defined]
        for m in analysis.marks:
            sums[world_of[analysis.task_id]][m.kind] += abs(m.shift) * m.confidence
    return {world: sorted(found, key=lambda kind: -found[kind]) for world, found in sums.items()}


def make_hint(
    ctx: Context, pair: Pair, analysis: Analysis | None, calls: Sequence[str], rng: random.Random
) -> Hint | None:
    """The hint of one task, None where nothing was marked in its world."""
    advice: Mapping[str, Sequence[str]] = ctx.worlds[pair.task.world].advice
    marked = sorted(analysis.marks, key=lambda m: -abs(m.shift) * m.confidence) if analysis else []
    kinds = [m.kind for m in marked if m.kind in advice] or [kind for kind in calls if kind in advice]
    if not kinds:
        return None
    return _worded(ctx, pair.task.id, kinds[0], advice, rng)


def random_hint(ctx: Context, pair: Pair, rng: random.Random) -> Hint:
    """The control: as if an action picked at random from both trajectories had been marked."""
    world = ctx.worlds[pair.task.world]
    turns = [turn for t in (pair.right, pair.wrong) for turn in t.turns]
    kinds = [kind for kind in (world.kind(turn.message) for turn in turns) if kind in world.advice]
    return _worded(ctx, pair.task.id, rng.choice(kinds or sorted(world.advice)), world.advice, rng)


def _worded(
    ctx: Context, task_id: str, kind: str, advice: Mapping[str, Sequence[str]], rng: random.Random
) -> Hint:
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
