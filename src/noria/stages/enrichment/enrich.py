"""Trajectories into enriched samples: chosen, drawn, rewritten, replayed; what is not proved is dropped and counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from noria.core.errors import EngineError, boundary
from noria.core.protocols import Episode
from noria.core.seeds import derive
from noria.core.types import Message, Trajectory
from noria.stages.enrichment import plan, refine, replay, samples
from noria.stages.enrichment.draw import Defaults, draw
from noria.stages.enrichment.samples import Draft
from noria.stages.enrichment.thoughts import leak, rest_of, rethought
from noria.tokens.calls import Call, hear
from noria.tokens.renaming import Unmapped
from noria.tokens.tool_episode import ToolEpisode

#: Trajectories that are worked on together: a model is asked about several at once.
BLOCK = 32
#: Asks a model; "" = it said nothing that can be used.
Ask = Callable[[Sequence[Message]], str]
#: Why a trajectory gives no sample; each is counted.
REASONS = (
    "not_chosen", "no_task", "duplicate", "no_world", "not_training", "hinted", "branched", "unsolved",
    "without_tools", "unmapped",
    replay.DIFFERS, replay.OUTCOME, replay.UNKNOWN, replay.FAILED, "nothing_to_do",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """What is done, to which share, from which seed. `ask` is a model that words plans and reasoning; None = rules."""

    schemas: bool = True
    plans: bool = True
    refines: bool = True
    share: float = 0.3
    seed: int = 0
    ask: Ask | None = None
    concurrency: int = 1


@dataclass(slots=True)
class Report:
    """How many were read, written, and what was done to those; `dropped` by reason."""

    read: int = 0
    written: int = 0
    diversified: int = 0
    planned: int = 0
    refined: int = 0
    refined_turns: int = 0
    by_model: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """Plain counts."""
        return {
            "read": self.read, "written": self.written, "diversified": self.diversified, "planned": self.planned,
            "refined": self.refined, "refined_turns": self.refined_turns, "by_model": self.by_model,
            "dropped": {reason: self.dropped[reason] for reason in REASONS if self.dropped[reason]},
        }  # fmt: skip


class Dropped(Exception):
    """A trajectory that gives no sample; the text is its reason."""


def enrich(
    found: Iterable[Trajectory], world_of: Callable[[str], Any], options: Options, report: Report
) -> Iterator[dict[str, Any]]:
    """The samples of those trajectories that are chosen, in order; `report` counts as they come.

    `world_of` opens a world by the name that tasks give it, None where there is none. Worlds are used by this thread
    alone; a model is asked from several.
    """
    rest, known = iter(found), set[int]()
    with ThreadPoolExecutor(max(1, options.concurrency)) as threads:
        while block := list(islice(rest, BLOCK)):
            begun = [_begun(each, world_of, options, report, known) for each in block]
            drafts = [draft for draft in begun if draft is not None]
            for draft, by_model in list(threads.map(lambda draft: _thinking(draft, options), drafts)):
                seed = derive(options.seed, draft.trajectory.id)
                if draft.renaming is None and not draft.rewritten:
                    report.dropped["nothing_to_do"] += 1
                    continue
                if reason := replay.fault(world_of(draft.trajectory.task.world), draft):
                    report.dropped[reason] += 1
                    continue
                _count(report, draft, by_model)
                yield samples.line(draft, seed)


def is_chosen(trajectory: Trajectory, options: Options) -> bool:
    """Whether a trajectory is of the share that is enriched; depends on its id and the seed alone."""
    return derive("share", options.seed, trajectory.id) / 2**62 < options.share


def _begun(
    trajectory: Trajectory,
    world_of: Callable[[str], Any],
    options: Options,
    report: Report,
    known: set[int],
) -> Draft | None:
    report.read += 1
    try:
        return _drafted(trajectory, world_of, options, known)
    except Dropped as dropped:
        report.dropped[str(dropped)] += 1
        return None


def _drafted(trajectory: Trajectory, world_of: Callable[[str], Any], options: Options, known: set[int]) -> Draft:
    """Raises Dropped."""
    content = derive(trajectory.task.world, trajectory.task.id, *(turn.message for turn in trajectory.turns))
    for reason, holds in (
        ("not_chosen", not is_chosen(trajectory, options)),
        ("duplicate", content in known),
        ("not_training", trajectory.task.split != "train"),
        ("hinted", bool(trajectory.hint)),
        ("branched", bool(trajectory.branches)),
        ("unsolved", not trajectory.solved),
    ):
        if holds:
            raise Dropped(reason)
    known.add(content)
    world = world_of(trajectory.task.world)
    if world is None:
        raise Dropped("no_world")
    if not options.schemas:
        return samples.as_it_is(trajectory)
    if not trajectory.task.tools:
        raise Dropped("without_tools")
    rng = random.Random(derive("schemas", options.seed, trajectory.id))
    defaults: Defaults = boundary(lambda: _defaults(world, trajectory), lambda fault: {})
    calls = [call for turn in trajectory.turns for call in hear(turn.message).calls if isinstance(call, Call)]
    try:
        return samples.under(trajectory, draw(trajectory.task, calls, defaults, rng))
    except (Unmapped, ValueError):
        raise Dropped("unmapped") from None


def _defaults(world: Any, trajectory: Trajectory) -> Defaults:
    """Defaults of a world's typed tools; worlds whose tools are typed otherwise tell none."""
    episode: Episode = world.open(trajectory.task)
    try:
        return episode.box.defaults if isinstance(episode, ToolEpisode) else {}
    finally:
        episode.close()


def _thinking(draft: Draft, options: Options) -> tuple[Draft, int]:
    """The draft with its reasoning rewritten, and how many thoughts are a model's."""
    rng = random.Random(derive("thoughts", options.seed, draft.trajectory.id))
    by_model = 0
    chosen = refine.chosen(draft)  # a thought that is copied stays one, though the plan takes the place of the first
    if options.plans and plan.is_fit(draft):
        question, rules = plan.question(draft), plan.by_rules(draft, rng)
        draft, which = _rewritten(draft, 0, plan.WHY, question, rules, options.ask)
        by_model += which
    if options.refines:
        for turn, why in chosen.items():
            question, rules = refine.question(draft, turn), refine.by_rules(draft, turn, rng)
            draft, which = _rewritten(draft, turn, why, question, rules, options.ask)
            by_model += which
    return draft, by_model


def _rewritten(
    draft: Draft, turn: int, why: str, question: Sequence[Message], rules: str, ask: Ask | None
) -> tuple[Draft, bool]:
    """The draft with a turn's reasoning from a model or else by rules, if it is sound, and whether it is a model's."""
    said = draft.messages[turn]
    tools = " ".join(f"{t.name} {t.description} {dict(t.parameters)}" for t in draft.task.tools)
    known = [tools, *(message.content for message in draft.conversation(turn)), rest_of(said)]
    for by_model, thought in ((True, _asked(ask, question) if ask else ""), (False, rules)):
        new = rethought(said, thought.strip(), draft.messages)
        if new is None or leak(thought, known, draft.observations[turn:], draft.messages[turn + 1 :]):
            continue
        assert rest_of(new).strip() == rest_of(said).strip()
        return draft.thinking(turn, new, why), by_model
    return draft, False


def _asked(ask: Ask, messages: Sequence[Message]) -> str:
    try:
        return ask(messages)
    except EngineError:  # the client has tried again by itself; the rules stand in
        return ""


def _count(report: Report, draft: Draft, by_model: int) -> None:
    refined = sum(why != plan.WHY for why in draft.rewritten.values())
    report.written += 1
    report.diversified += draft.renaming is not None
    report.planned += plan.WHY in draft.rewritten.values()
    report.refined += refined > 0
    report.refined_turns += refined
    report.by_model += by_model
