"""Data for a reward model, in three stages: the specification, the boundary, the judgement.

    specification   a request -> its category, gravity, intent and right stance: what the rules are
    boundary        two requests that differ by a word -> which of them may be helped further
    judgement       a request and an answer -> yes or no, the same for its twin; two answers -> the better one

Every line is a conversation as `stages.lines` reads it. Labels are the verifier's, whatever made an answer. The file
`heldout` has judgements of held-out pairs alone; nothing is trained on it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from noria.core.errors import UserError
from noria.core.protocols import Sandbox
from noria.core.remote import ServerConfig
from noria.core.types import Message, Split
from noria.envs.safety import grading, habits
from noria.envs.safety.scenes import Scene
from noria.envs.safety.tasks import pairs, task_of
from noria.envs.safety.taxonomy import CATEGORIES, STANCES

STAGES = ("specification", "boundary", "judgement")
YES, NO = "yes", "no"
_JUDGE = "{prompt}\nAnswer: {answer}\nIs it right?"
_COMPARE = "{prompt}\nAnswer 1: {first}\nAnswer 2: {second}\nWhich is better?"
_SORT = "{question}\nWhat is it?"
_WHICH = "Request 1: {first}\nRequest 2: {second}\nWhich may be helped more?"
_WRONG = ("veil", "curt", "dump", "other number")

Line = dict[str, Any]


def question_of(prompt: str, answer: str) -> tuple[Message, ...]:
    """What a reward model is asked about an answer; it says yes or no."""
    return (Message("user", _JUDGE.format(prompt=prompt, answer=answer)),)


def make(
    out: Path, count: int, seed: int, sandbox: Sandbox, advance: Callable[[int], None],
    server: ServerConfig | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Write the files of the three stages from `count` training pairs, and one of held-out judgements from a quarter.

    Deterministic in (count, seed); a folder that is there is written anew. `advance` hears how many pairs are done.

    Raises:
        UserError: `out` is a file, there are not so many pairs, or a server is to propose some.
    """
    if server is not None:
        raise UserError("--propose must go with a world that takes proposals, as tooluse: got safety - leave it out")
    if out.exists() and not out.is_dir():
        raise UserError(f"--out must be a folder: got {str(out)!r}, which is a file - name another")
    out.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    stages = {stage: list[Line]() for stage in STAGES}
    for done, pair in enumerate(pairs("train", seed, count), 1):
        rng = random.Random(f"lessons:{seed}:{done}")
        stages["specification"] += [_sorted(scene) for scene in pair]
        stages["boundary"] += _compared_requests(*pair)
        judged = list(_judged(pair, rng, "train"))
        verdicts.update(line["messages"][-1]["content"] for line in judged)
        stages["judgement"] += judged
        advance(done)
    held_out = [
        line
        for k, pair in enumerate(pairs("heldout", seed, max(1, count // 4)))
        for line in _judged(pair, random.Random(f"lessons:heldout:{seed}:{k}"), "heldout")
    ]
    for name, lines in {**stages, "heldout": held_out}.items():
        whole = out / f"{name}.jsonl.part"
        whole.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        whole.replace(out / f"{name}.jsonl")
        counts[name] = len(lines)
    return {"pairs": count, "lines": dict(counts), "verdicts": dict(sorted(verdicts.items()))}


def _line(asked: str, said: str) -> Line:
    return {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]}


def _sorted(scene: Scene) -> Line:
    """The specification by heart: what a request is, and what follows."""
    gravity = "plain" if scene.is_plain else CATEGORIES[scene.category].gravity
    return _line(_SORT.format(question=scene.question()), f"{scene.category} {gravity} {scene.intent} {scene.stance}")


def _compared_requests(first: Scene, second: Scene) -> list[Line]:
    """Which of two twins may be helped further, asked both ways round."""
    lines = []
    for one, two in ((first, second), (second, first)):
        better = 1 if STANCES.index(one.stance) < STANCES.index(two.stance) else 2
        lines.append(_line(_WHICH.format(first=one.question(), second=two.question()), str(better)))
    return lines


def _judged(pair: tuple[Scene, Scene], rng: random.Random, split: Split) -> Iterator[Line]:
    """For each scene two right answers and two wrong ones, one of them right for its twin; and a comparison."""
    for scene, twin in (pair, pair[::-1]):
        right, wrong = _answers(scene, scene, rng), _answers(scene, twin, rng)
        for answer in (right, _answers(scene, scene, rng), wrong, _faulty(scene, rng, split)):
            said, _ = _verdict(scene, answer)
            asked = question_of(scene.prompt(), answer)
            yield _line(asked[0].content, YES if said else NO)
        first, second, better = (right, wrong, 1) if rng.random() < 0.5 else (wrong, right, 2)
        yield _line(_COMPARE.format(prompt=scene.prompt(), first=first, second=second), str(better))


def _answers(scene: Scene, like: Scene, rng: random.Random) -> str:
    """An answer to `scene` in the stance that is right for `like`."""
    return habits.answer_as(scene, like.stance, rng)


def _faulty(scene: Scene, rng: random.Random, split: Split) -> str:
    """A wrong answer of another kind than the wrong stance."""
    kind = rng.choice(_WRONG)
    if kind != "other number":
        return habits.play(task_of(scene, split), kind, rng.randrange(100))
    numbers = {"general": scene.general, "detail": scene.detail, "safe": scene.safe}
    name = {"help": "detail", "restrain": "general", "refuse": "safe"}[scene.stance]
    shift = 1 + rng.randrange(8)
    return habits.answer_as(scene, scene.stance, rng).replace(str(numbers[name]), str(numbers[name] + shift))


def _verdict(scene: Scene, answer: str) -> tuple[bool, str]:
    """What the verifier says."""
    fault = grading.fault_of(scene, grading.read(scene, answer, grading.RULES))
    return not fault, fault
