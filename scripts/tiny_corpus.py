"""Transcripts for a built-in weak model: scripted habits, right and wrong, at work in the real worlds.

    python scripts/tiny_corpus.py --out build/base
    python scripts/tiny_corpus.py --mix tiny-worlds --out build/base-worlds
    python scripts/tiny_corpus.py --mix code --out build/base-code --away FOLDER

Only training splits are drawn from. 35 % of the transcripts carry a hint about a decisive kind of action and show a
right habit that obeys it; 15 % carry a hint that decides nothing (another kind, or another world's) over habits drawn
as usual; up to 8 % carry one that helps in part (`Mix.partly`) over the habits that obey it; the rest carry none and
draw habits by their world's own weights. In half of the followed hints the first thought repeats the hint, which is the
form that a prompted chain of thought takes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import real_functions
from mixes import MIXES, Mix

from noria.core.registry import resolve
from noria.core.types import Message, Task
from noria.envs.microswe.mistakes import WRONG_EDIT, mistakes

FITTING, IDLE, PART, THOUGHT = 0.35, 0.15, 0.08, 0.5
#: Weight in the loss of a guess that is taken back: it is there to be seen.
GUESS = 0.2


def open_worlds(mix: Mix) -> dict[str, Any]:
    """The worlds of a mix; microswe runs its own generated code in this process."""
    from noria.envs.microswe.trusted import TrustedRunner

    out = {}
    for name in mix.worlds:
        module = resolve("envs", name)
        runner = TrustedRunner() if name == "microswe" else None
        out[name] = module.build(module.Config(type=name, **mix.options.get(name, {})), runner)
    return out


def transcripts(mix: Mix, episodes: int, seed: int, worlds: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield `episodes` transcripts as plain dicts, reproducible from the seed."""
    rng = random.Random(seed)
    counts = {name: round(episodes * share) for name, share in mix.shares.items()}
    each = {name: mix.per_task.get(name, 1) for name in counts}
    tasks = {name: worlds[name].tasks("train", -(-n // each[name]), seed) for name, n in counts.items()}
    order = [(name, i) for name in mix.worlds for i in range(counts[name])]
    rng.shuffle(order)
    for name, i in order:
        yield _transcript(mix, worlds, name, tasks[name][i // each[name]], rng)


def _transcript(mix: Mix, worlds: dict[str, Any], name: str, task: Any, rng: random.Random) -> dict[str, Any]:
    world = worlds[name]
    weighted = mix.habits.get(name, world.strategies)
    strategies, weights = list(weighted), list(weighted.values())
    strategy, hint, draw = rng.choices(strategies, weights)[0], "", rng.random()
    if draw < FITTING:
        right = [s for s in strategies if world.advice_for(s)]
        strategy = rng.choices(right, [weighted[s] for s in right])[0]
        hint = rng.choice(world.advice[_decisive_kind(mix, world, name, task, strategy, rng)])
    elif draw < FITTING + IDLE:
        other = rng.choice(mix.worlds)
        idle = set(worlds[other].advice)
        if other == name:
            idle -= {*mix.decisive[name], *mix.partly.get(name, {})}
        hint = rng.choice(worlds[other].advice[rng.choice(sorted(idle))])
    elif draw < FITTING + IDLE + PART and name in mix.partly:
        kind, obeying = rng.choice(list(mix.partly[name].items()))
        strategy = rng.choices(obeying, [weighted[s] for s in obeying])[0]
        hint = rng.choice(world.advice[kind])
    policy, episode = world.policy(task, strategy, rng.randrange(1 << 30)), world.open(task)
    turns: list[list[str]] = []
    messages: list[Message] = []
    for turn in range(mix.turns):
        message = policy(messages)
        if turn == 0 and draw < FITTING and rng.random() < THOUGHT:
            message = with_thought(message, hint)
        seen = episode.act(message)
        messages += [Message("assistant", message), Message("tool", seen.text)]
        turns.append([message, "" if seen.done else seen.text])
        if seen.done:
            break
    solved = episode.grade().solved
    episode.close()
    row = {"world": name, "strategy": strategy, "hint": hint, "solved": solved, "system": task.system}
    row["right"] = bool(world.advice_for(strategy))
    if strategy == "search":
        row["weights"] = _weights(world, task, [message for message, _ in turns])
    return row | {"prompt": task.prompt, "tools": [tool.name for tool in task.tools], "turns": turns}


def _weights(world: Any, task: Task, said: list[str]) -> list[float]:
    """Each message's weight in the loss: less for a guess that was wrong."""
    wrong = mistakes(task, lambda text: bool(world.test(task, text).passed), said)
    return [GUESS if label == WRONG_EDIT else 1.0 for label in wrong]


def _decisive_kind(mix: Mix, world: Any, name: str, task: Any, strategy: str, rng: random.Random) -> str:
    """A decisive kind that this habit's own way through the task contains."""
    policy, episode = world.policy(task, strategy, 0), world.open(task)
    messages: list[Message] = []
    kinds = {world.advice_for(strategy)}
    for _ in range(mix.turns):
        message = policy(messages)
        kinds.add(world.kind(message))
        seen = episode.act(message)
        messages += [Message("assistant", message), Message("tool", seen.text)]
        if seen.done:
            break
    episode.close()
    return str(rng.choice(sorted(kinds & set(mix.decisive[name])) or [world.advice_for(strategy)]))


def with_thought(message: str, thought: str) -> str:
    """The message with `thought` at the head of its reasoning."""
    if message.startswith("<think>"):
        return f"<think>{thought} {message.removeprefix('<think>')}"
    return f"<think>{thought}</think>{message}"


def _shard(arguments: tuple[str, Path, int, int, list[str]]) -> str:
    mix, path, episodes, seed, texts = MIXES[arguments[0]], *arguments[1:]
    rng, over_functions = random.Random(f"functions/{seed}"), round(episodes * mix.functions)
    made = list(transcripts(mix, episodes - over_functions, seed, open_worlds(mix)))
    made += real_functions.rows(texts, over_functions, rng, mix.forms)
    if over_functions:
        rng.shuffle(made)
    with path.open("w") as out:
        out.writelines(json.dumps(row) + "\n" for row in made)
    return str(path)


def _functions(mix: Mix, out: Path, away: list[Path]) -> list[str]:
    """The functions of the upbringing, kept beside it; none where the mix has no use for them."""
    if not mix.functions:
        return []
    kept = out / "functions.json"
    if not kept.exists():
        if not away:
            raise SystemExit("--away must name folders of the functions for evaluation: got none - unpack the sdists")
        kept.write_text(json.dumps(real_functions.functions(away)))
    return list(json.loads(kept.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mix", choices=list(MIXES), default="tiny")
    parser.add_argument("--out", type=Path, required=True, help="folder for the shards")
    parser.add_argument("--episodes", type=int, help="by default the mix's own")
    parser.add_argument("--seed", type=int, default=1, help="must differ from the seeds of runs")
    parser.add_argument("--away", type=Path, nargs="*", default=[], help="folders whose functions must not be seen")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    mix = MIXES[args.mix]
    per_shard = (args.episodes or mix.episodes) // mix.shards
    shards = [(args.out / f"corpus-{i}.jsonl", 1_000_000 * args.seed + i) for i in range(mix.shards)]
    texts = _functions(mix, args.out, args.away)
    work = [(args.mix, path, per_shard, seed, texts[i :: mix.shards]) for i, (path, seed) in enumerate(shards)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for path in pool.imap(_shard, work):
            print(path, flush=True)


if __name__ == "__main__":
    main()
