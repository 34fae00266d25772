"""Tokens per second of the embedded engine against `transformers` generate: same model, prompts, lengths, process.

    python bench/engine.py [--batch 64] [--new-tokens 64] [--repeats 5] [--json]

Both decode the same number of tokens for the same prompts at temperature 1, one thread, alternating; the figure to
read is the ratio. The engine also returns a log-probability for every token, which generate is asked for as well
(`output_scores`) in the second row.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from noria.engines.embedded import Config, EmbeddedEngine
from noria.models.load import load_model
from noria.stages.models import resolve_model


def engine_run(model: Any, prompts: list[list[int]], new_tokens: int) -> int:
    """Decode with the engine; returns the tokens sampled."""
    config = Config(slots=len(prompts), max_tokens=len(prompts[0]) + new_tokens + 1, prefill_rows=len(prompts))
    engine = EmbeddedEngine(model, [], config)
    for seq, ids in enumerate(prompts):
        engine.add(seq, ids, new_tokens, seed=seq)
    sampled, live = 0, len(prompts)
    while live:
        for done in engine.step():
            sampled += len(done.ids)
            live -= 1
    return sampled


def generate_run(model: Any, prompts: list[list[int]], new_tokens: int, scores: bool) -> int:
    """Decode with transformers; returns the tokens sampled."""
    ids = torch.tensor(prompts)
    out = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
        max_new_tokens=new_tokens, min_new_tokens=new_tokens, eos_token_id=None, pad_token_id=0,
        output_scores=scores, return_dict_in_generate=True,
    )  # fmt: skip
    if scores:
        model.compute_transition_scores(out.sequences, out.scores, normalize_logits=True)
    return int(out.sequences.numel() - ids.numel())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin:tiny")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = load_model(resolve_model(args.model)).eval()
    draw = torch.Generator().manual_seed(0)
    size = (args.batch, args.prompt_tokens)
    prompts = torch.randint(6, model.config.vocab_size, size, generator=draw).tolist()
    runs: dict[str, Callable[[], int]] = {
        "engine": lambda: engine_run(model, prompts, args.new_tokens),
        "generate": lambda: generate_run(model, prompts, args.new_tokens, scores=False),
        "generate with scores": lambda: generate_run(model, prompts, args.new_tokens, scores=True),
    }
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(args.repeats + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            sampled = run()
            assert sampled == args.batch * args.new_tokens, (name, sampled)
            if repeat:
                rates[name].append(sampled / (time.perf_counter() - began))
    base = statistics.median(rates["generate"])
    rows = {
        name: {
            "tokens_per_s": round(statistics.median(values)),
            "min": round(min(values)),
            "max": round(max(values)),
            "ratio_to_generate": round(statistics.median(values) / base, 2),
        }
        for name, values in rates.items()
    }
    if args.json:
        print(json.dumps({"batch": args.batch, "new_tokens": args.new_tokens, "rows": rows}))
        return
    for name, row in rows.items():
        spread = f"{row['min']:>6} to {row['max']:>6}"
        print(f"{name:22} {row['tokens_per_s']:>7} tok/s  ({spread})  {row['ratio_to_generate']:.2f}x generate")


if __name__ == "__main__":
    main()
