"""Train the reward model of `safety` in its three stages and measure how often it agrees with the verifier.

    python bench/safety_reward_model.py --data rm --model builtin:tiny --steps 60,60,180 --seeds 0

`--data` is a folder of `noria tasks make safety --domains N --out rm`. The held-out judgements are of pairs that no
stage shows. Agreement is the share of verdicts (the likelier of yes and no as the first token) that are the verifier's;
comparisons are 1 or 2.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from noria.core.errors import EngineError
from noria.core.types import Message
from noria.envs.safety.lessons import STAGES
from noria.graders.reward_model import share_of_yes
from noria.models.load import load_model
from noria.stages.datasets import load_rows
from noria.tokens.renderer import Renderer
from noria.trainers.rows import Row


def train(model: torch.nn.Module, rows: list[Row], steps: int, tokens: int, lr: float, seed: int) -> float:
    """Cross-entropy on what the assistant says, whole rows padded to a batch; the mean loss of the last ten steps."""
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.99), weight_decay=0.0)
    order: list[int] = []
    losses: list[float] = []
    model.train()
    for step in range(steps):
        batch: list[Row] = []
        while sum(map(len, batch)) < tokens:
            order = order or rng.permutation(len(rows)).tolist()
            batch.append(rows[order.pop()])
        width = max(map(len, batch))
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        mask = torch.zeros(len(batch), width)
        for k, row in enumerate(batch):
            ids[k, : len(row)] = torch.as_tensor(np.asarray(row.ids))
            mask[k, : len(row)] = torch.as_tensor(np.asarray(row.mask, dtype=np.float32))
        logits = model(input_ids=ids).logits[:, :-1]
        logp = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0]
        loss = -(logp * mask[:, 1:]).sum() / mask[:, 1:].sum()
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / 10) * (0.1 + 0.9 * (1 - step / steps))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    return float(np.mean(losses[-10:]))


def agreement(model: torch.nn.Module, renderer: Renderer, path: Path, limit: int, comparisons: int) -> dict[str, float]:
    """Shares of held-out lines on which the likelier word is the verifier's, of those that are answered at all.

    The first `limit` verdicts and the first `comparisons` comparisons of the file are asked.
    """
    model.eval()
    names = [renderer.tokenizer.decode([k]) for k in range(len(renderer.tokenizer))]
    unknown = 0
    hits: dict[str, list[bool]] = {"verdicts": [], "comparisons": []}
    left = {"verdicts": limit, "comparisons": comparisons}
    for text in path.read_text().splitlines():
        asked, said = json.loads(text)["messages"]
        kind, words = ("verdicts", ("yes", "no")) if said["content"] in ("yes", "no") else ("comparisons", ("1", "2"))
        if not left[kind]:
            continue
        left[kind] -= 1
        opened = renderer.text([Message("user", asked["content"])], (), generate=True)
        with torch.no_grad():
            logp = torch.log_softmax(model(input_ids=torch.tensor([renderer.native(opened)])).logits[0, -1], -1)
        likely = [(names[k], float(logp[k])) for k in torch.topk(logp, 20).indices.tolist()]
        try:
            chance = share_of_yes(likely, *words)
        except EngineError:
            unknown += 1
            continue
        hits[kind].append((chance >= 0.5) == (said["content"] == words[0]))
    rates = {kind: round(float(np.mean(found)), 4) for kind, found in hits.items() if found}
    return {**rates, **{f"{kind}_asked": len(found) for kind, found in hits.items()}, "unknown": unknown}


def main() -> None:
    """One line of JSON per seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="builtin:tiny")
    parser.add_argument("--steps", default="60,60,180")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--limit", type=int, default=1000, help="held-out verdicts that are asked")
    parser.add_argument("--comparisons", type=int, default=400, help="held-out comparisons that are asked")
    given = parser.parse_args()
    torch.set_num_threads(1)
    folder = Path("src/noria/data/tiny") if given.model == "builtin:tiny" else Path(given.model)
    renderer = Renderer.load(folder)
    for seed in map(int, given.seeds.split(",")):
        torch.manual_seed(seed)
        model, began, losses = load_model(folder), time.process_time(), {}
        before = agreement(model, renderer, given.data / "heldout.jsonl", given.limit // 4, given.comparisons // 4)
        for stage, steps in zip(STAGES, map(int, given.steps.split(",")), strict=True):
            rows, _ = load_rows([str(given.data / f"{stage}.jsonl")], renderer, 448, False)
            losses[stage] = round(train(model, rows, steps, given.tokens, given.lr, seed), 4)
        after = agreement(model, renderer, given.data / "heldout.jsonl", given.limit, given.comparisons)
        spent = round(time.process_time() - began, 1)
        print(json.dumps({"seed": seed, "before": before, "after": after, "loss": losses, "cpu_s": spent}), flush=True)


if __name__ == "__main__":
    main()
