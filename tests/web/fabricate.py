"""A run folder as a run would leave it, made with the real store and the real carriers, in about a second."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from noria.core.codec import to_json, write_jsonl
from noria.core.recipe import Recipe
from noria.core.stats import wilson
from noria.core.store import Run
from noria.core.types import Analysis, KeyAction, Outcome, Pair, Task, TokenRecord, Trajectory, Turn
from noria.stages import narrate
from noria.stages.gate import decide
from noria.tokens.calls import render_call

WORLDS = ("repair", "ledger", "arithmetic")
RECIPE: dict[str, Any] = {
    "name": "quickstart",
    "rounds": 2,
    "seed": 7,
    "env": {
        "repair": {"type": "microswe"},
        "ledger": {"type": "ledger"},
        "arithmetic": {"type": "arithmetic"},
    },
}
N = 120
HOSTILE = '</pre><script>alert("x")</script><img src="http://evil.example/a.png" onerror=alert(1)>&amp;\'"'


class Maker:
    """Fills a run folder stage by stage; `hostile` puts HTML into everything that a model writes."""

    def __init__(self, base: Path, tokenizer: Tokenizer, hostile: bool = False) -> None:
        self.run = Run.create(base, Recipe.model_validate(RECIPE))
        self.tokenizer, self.hostile = tokenizer, hostile
        self.rng = random.Random(3)

    def everything(self) -> Run:
        """Two whole rounds."""
        for number in (1, 2):
            self.evaluate(number, "weak", 0.25 + 0.2 * (number - 1))
            self.rollout(number)
            self.pairs(number)
            self.resample(number)
            self.curate(number)
            for label, rate in (
                ("sft", 0.34),
                ("expert:repair", 0.5),
                ("expert:ledger", 0.46),
                ("merged", 0.45),
            ):
                self.train(number, label)
                self.evaluate(number, label, rate + 0.1 * (number - 1))
            self.train(number, "final")
            self.evaluate(number, "final", 0.45 + 0.05 * (number - 1), unseen=True)
            self.collect(number)
            self.gate(number)
        return self.run

    def rollout(self, number: int) -> None:
        """Only its counts matter here."""
        with self.run.artifact(f"round-{number}/rollout", seed=11) as work:
            work.count_in(tasks=384)
            work.count_out(trajectories=2304, weak=1536, weak_solved=431, unknown=3)

    def trajectory(self, task: Task, name: str, steps: list[tuple[str, str]], reward: float) -> Trajectory:
        """A trajectory whose token record really encodes its messages."""
        ids: list[int] = list(self.tokenizer.encode(task.prompt, add_special_tokens=False).ids)
        mask, turns = [0] * len(ids), []
        for message, observation in steps:
            start = len(ids)
            said = self.tokenizer.encode(message, add_special_tokens=False).ids
            seen = self.tokenizer.encode(observation, add_special_tokens=False).ids if observation else []
            turns.append(Turn(message, observation, start, start + len(said)))
            ids += [*said, *seen]
            mask += [1] * len(said) + [0] * len(seen)
        n = len(ids)
        record = TokenRecord(tuple(ids), ("glue",) * n, (0,) * n, ("student",) * n, tuple(mask), (0.0,) * n, (0,) * n)
        outcome = Outcome(reward, reason="" if reward else "test 2 of 3 fails" + (HOSTILE if self.hostile else ""))
        return Trajectory(f"{task.id}/{name}", task, "student", tuple(turns), record, outcome)

    def pair(self, world: str, i: int) -> Pair:
        """One pair: three turns against two, or one turn of reasoning each."""
        text = HOSTILE if self.hostile else ""
        if world == "arithmetic":
            task = Task(f"{world}/{i}", world, "", f"What is 17 + 2{i} + 5?{text}")
            right = [("<think>17 + 20 = 37 , then 37 + 5 = 42</think>42" + text, "")]
            wrong = [("<think>17 + 20 = 36 , then 36 + 5 = 41</think>41" + text, "")]
        else:
            task = Task(f"{world}/{i}", world, "", f"Function f{i} returns the wrong value; repair it.{text}")
            edit = render_call("edit", line=3, old="a - b", new="a + b" + text)
            view = (
                "<think>look first" + text + "</think>" + render_call("view"),
                "1 def f(a, b):\n2   c = 0\n3   return a - b" + text,
            )
            right = [view, (edit, "ok"), (render_call("test"), "3 passed"), (render_call("submit"), "")]
            wrong = [view, (render_call("submit"), "")]
        return Pair(task, self.trajectory(task, "careful/0", right, 1.0), self.trajectory(task, "weak/0", wrong, 0.0))

    def marks(self, pair: Pair) -> tuple[KeyAction, ...]:
        """A mark on the wrong last turn, and one inside the right first turn of a one-turn pair."""
        out = []
        one = len(pair.wrong.turns) == 1
        for t, turn, (a, b) in (
            (pair.wrong, len(pair.wrong.turns) - 1, (5, 0)),
            (pair.right, 1 - one, (2, 7)),
        ):
            span = t.turns[turn]
            begin, end = (span.token_start + 3, span.token_start + 8) if one else (span.token_start, span.token_end)
            out.append(
                KeyAction(
                    t.id,
                    turn,
                    begin,
                    end,
                    "submit",
                    narrate.why("submit", t.turns[turn].message, a, 8, b, 8),
                    narrate.confidence(a, 8, b, 8),
                    a,
                    8,
                    b,
                    8,
                )
            )
        return tuple(out)

    def pairs(self, number: int) -> None:
        """The artifacts pair and analyze."""
        pairs = [self.pair(world, i) for world in WORLDS for i in range(3)]
        with self.run.artifact(f"round-{number}/pair", inputs=[f"round-{number}/rollout"]) as work:
            write_jsonl(work.path / "pairs.jsonl", pairs)
            work.count_in(trajectories=2304, tasks=384)
            work.count_out(pairs=len(pairs), weak_always_right=40, no_right=12)
        with self.run.artifact(f"round-{number}/analyze", inputs=[f"round-{number}/pair"], seed=12) as work:
            analyses = []
            for pair in pairs:
                marks = self.marks(pair)
                split = 0 if pair.task.world == "arithmetic" else 1
                chart = narrate.mermaid(pair, split, marks)
                found = Analysis(pair.task.id, pair.right.id, pair.wrong.id, split, marks, "", chart, 40, 96)
                analyses.append(found)
                stem = pair.task.id.replace("/", "_")
                (work.path / f"{stem}.svg").write_text(narrate.flowchart_svg(pair, found), encoding="utf-8")
            write_jsonl(work.path / "analyses.jsonl", analyses)
            work.count_in(pairs=len(pairs))
            work.count_out(analyses=len(pairs), marks=2 * len(pairs), replays=360, unmarked=0)

    def resample(self, number: int) -> None:
        """The three arms."""
        with self.run.artifact(f"round-{number}/resample", inputs=[f"round-{number}/analyze"]) as work:
            arms = {
                arm: {w: _rate(k + 3 * i, 96) for i, w in enumerate(WORLDS)}
                for arm, k in (("hint", 51), ("none", 30), ("random", 28))
            }
            (work.path / "arms.json").write_text(json.dumps(arms))
            work.count_in(hints=24)
            work.count_out(samples_per_arm=288, hint_solved=162)

    def curate(self, number: int) -> None:
        """What left and why."""
        left = {"unsolved": 126, "near_duplicate": 31, "replay_failed": 4, "contaminated": 1}
        with self.run.artifact(f"round-{number}/curate", inputs=[f"round-{number}/resample"]) as work:
            (work.path / "left.json").write_text(json.dumps(left))
            work.count_in(trajectories=288)
            work.count_out(kept=126, **left)

    def train(self, number: int, label: str) -> None:
        """A model's artifact and its metrics."""
        phase = {"final": "efficiency", "merged": "distill"}.get(label, label.replace("expert:", "experts/"))
        name = f"round-{number}/{phase}"
        with self.run.artifact(name, inputs=[f"round-{number}/curate"], seed=13) as work:
            (work.path / "model.safetensors").write_bytes(f"{number}{label}".encode() * 1000)
            for step in range(1, 25):
                self.run.metrics({"phase": name, "step": step, **self._metrics(label, number, step)})
            work.count_out(groups=600, steps=24)

    def _metrics(self, label: str, number: int, step: int) -> dict[str, float]:
        noise = self.rng.gauss(0, 0.03)
        if label == "sft":
            return {
                "loss/ce": 1.9 * math.exp(-step / 9) + 0.3 + noise - 0.1 * number,
                "entropy": 0.5 - 0.01 * step,
            }
        facts = {
            "reward/mean": 0.3 + 0.01 * step + noise,
            "loss/clipped": -0.02 + noise / 3,
            "entropy": 0.4 - 0.006 * step,
            "response_tokens/mean": 64 - step * 0.4 + 30 * noise,
            "staleness/max": float(step % 2),
            "clip_frac": abs(noise),
        }
        if label == "merged":
            facts |= {f"distill/abs/{world}": 0.12 * math.exp(-step / 10) + 0.01 for world in WORLDS}
        return facts

    def evaluate(self, number: int, label: str, rate: float, unseen: bool = False) -> None:
        """Outcomes and scores of one model; one outcome in each world is unknown."""
        worlds = [label.partition(":")[2]] if ":" in label else list(WORLDS)
        rows, scores = [], []
        for k, world in enumerate(worlds):
            for split in ("heldout", "unseen") if unseen or label == "weak" else ("heldout",):
                part = [self._outcome(world, split, i, rate + 0.06 * k, number) for i in range(N)]
                rows += part
                scores.append(_score(label, world, split, part))
        with self.run.artifact(f"round-{number}/evaluate-{label.replace(':', '-')}", seed=7) as work:
            (work.path / "scores.json").write_text(json.dumps(scores))
            (work.path / "outcomes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            work.count_in(tasks=len(rows))
            work.count_out(
                solved=sum(row["reward"] == 1 for row in rows),
                unknown=sum(row["reward"] is None for row in rows),
            )

    def _outcome(self, world: str, split: str, i: int, rate: float, number: int) -> dict[str, Any]:
        easy = random.Random(f"{world}{split}{i}{number}").random() * 0.8 + self.rng.random() * 0.2
        reward = None if i == 5 else float(easy < rate)
        reason = "sandbox died" + (HOSTILE if self.hostile else "") if reward is None else ""
        return {
            "id": f"{world}/{split}/{i}",
            "world": world,
            "split": split,
            "reward": reward,
            "reason": reason,
            "tokens": 40 + i % 30,
        }

    def collect(self, number: int) -> None:
        """The round's scores in one file."""
        labels = ("weak", "sft", "expert-repair", "expert-ledger", "merged", "final")
        names = [f"round-{number}/evaluate-{label}" for label in labels]
        with self.run.artifact(f"round-{number}/evaluate", inputs=names) as work:
            scores = [s for name in names for s in json.loads((self.run.folder(name) / "scores.json").read_text())]
            (work.path / "scores.json").write_text(json.dumps(scores))

    def gate(self, number: int) -> None:
        """The real gate over the outcomes of weak and final."""
        found = []
        for label in ("weak", "final"):
            text = (self.run.folder(f"round-{number}/evaluate-{label}") / "outcomes.jsonl").read_text()
            rows = [json.loads(line) for line in text.splitlines()]
            found.append({row["id"]: row for row in rows if row["split"] == "heldout"})
        names = [f"round-{number}/evaluate-{label}" for label in ("weak", "final")]
        with self.run.artifact(f"round-{number}/gate", inputs=names) as work:
            verdict = decide(found[0], found[1], list(WORLDS), 0.95)
            (work.path / "verdict.json").write_text(json.dumps(to_json(verdict)))


def _rate(solved: int, n: int) -> dict[str, Any]:
    return {"n": n, "solved": solved, "rate": solved / n, "ci95": list(wilson(solved, n))}


def _score(model: str, world: str, split: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    known = [row for row in rows if row["reward"] is not None]
    solved = [row for row in known if row["reward"] == 1.0]
    mean = sum(row["tokens"] for row in solved) / max(1, len(solved))
    low, high = wilson(len(solved), len(known))
    return {
        "model": model,
        "world": world,
        "split": split,
        "n": len(rows),
        "correct": len(solved),
        "unknown": len(rows) - len(known),
        "pass@1": round(len(solved) / len(known), 4),
        "ci95": [round(low, 4), round(high, 4)],
        "tokens_per_solve": round(mean, 2),
        "tokens_per_solve_ci": [round(mean - 1.5, 2), round(mean + 1.5, 2)],
    }
