"""Build a built-in weak model: tokenizer, then a small Qwen3, trained on the corpus of `tiny_corpus.py`.

    python scripts/build_tiny.py tokenizer --corpus build/base --out src/noria/data/tiny
    python scripts/build_tiny.py train     --corpus build/base --out src/noria/data/tiny

Training is resumable (a checkpoint every 100 steps beside the corpus) and deterministic for one thread count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mixes import MIXES, Mix

from noria.core.memory import keep_freed_memory
from noria.tokens.renderer import Renderer

SHAPE = {"hidden_size": 160, "num_hidden_layers": 3, "num_attention_heads": 5, "num_key_value_heads": 1,
         "head_dim": 32, "intermediate_size": 480}  # fmt: skip
PART_TOKENS = 1500
LR_MATRIX, LR_REST, WARMUP = 0.012, 3e-3, 60
ABILITY_SHARE, DECAY_SHARE = 0.75, 0.35
SPECIAL = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]
TEMPLATE = (
    "{% for m in messages %}"
    "{% if m['role'] == 'system' %}<|system|>{{ m['content'] }}"
    "{% if tools %} tools:{% for t in tools %} {{ t['function']['name'] }}{% endfor %}{% endif %}<|end|>"
    "{% else %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def rows(corpus: Path) -> list[dict[str, Any]]:
    """All transcripts, in shard order."""
    out = []
    for path in sorted(corpus.glob("corpus-*.jsonl")):
        out += [json.loads(line) for line in path.read_text().splitlines()]
    return out


def build_tokenizer(corpus: Path, out: Path, mix: Mix) -> None:
    """Train a byte-level BPE of the mix's size: digits stand alone, every XML tag and call head is one token.

    For real code, blanks after a digit stand alone too: a line of a view then has the tokens that it has in an edit.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    data = rows(corpus)[:30_000]
    texts = [part for row in data for part in (row["system"], row["prompt"], row["hint"])]
    texts += [part for row in data for turn in row["turns"] for part in turn]
    texts += [" tools: " + " ".join(row["tools"]) for row in data[:2000]]
    tag = re.compile(r'<call name="\w+">|</?(?:think|call|[a-z_]+)>')
    tags = sorted({found for text in texts for found in tag.findall(text)})
    tokenizer = Tokenizer(models.BPE())
    blanks = [pre_tokenizers.Split(Regex("(?<=[0-9]) +"), "isolated")] if mix.functions else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*blanks, pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=mix.vocabulary - len(tags), special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    plain = (piece for text in texts for piece in tag.split(text))
    tokenizer.train_from_iterator(plain, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in tags])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>", model_max_length=1024,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    fast.chat_template = TEMPLATE
    out.mkdir(parents=True, exist_ok=True)
    fast.save_pretrained(out)
    print(f"vocabulary {len(fast)}, of it {len(tags)} tags")


def _raised(out: Path, name: str) -> Path:
    """The folder of a mix's model beside this one's."""
    folder = out.parent / name
    if not (folder / "model.safetensors").exists():
        raise SystemExit(f"the mix goes on from the model of {name}: got none at {folder} - make base MIX={name} first")
    return folder


def take_tokenizer(out: Path, base: str) -> None:
    """The tokenizer of the mix that this one goes on from, as it is."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(_raised(out, base) / name, out / name)


def encode(data: list[dict[str, Any]], renderer: Renderer, context: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Token ids and loss weights of every transcript."""
    from noria.core.types import Task, Tool

    out = []
    for row in data:
        tools = tuple(Tool(name, "") for name in row["tools"])
        task = Task("", row["world"], row["system"], row["prompt"], tools)
        ids = list(renderer.prompt(task, row["hint"]).ids)
        weight = [context] * len(ids)
        for i, (message, seen) in enumerate(row["turns"]):
            said = renderer.message(message)
            ids += said
            weight += [row["weights"][i] if "weights" in row else 1.0] * len(said)
            if i + 1 < len(row["turns"]):
                piece = renderer.observation(seen).ids
                ids += piece
                weight += [context] * len(piece)
        out.append((np.array(ids, np.int64), np.array(weight, np.float32)))
    return out


def encoded(corpus: Path, renderer: Renderer, context: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """`encode` of the whole corpus, kept beside it."""
    path = corpus / "encoded.npz"
    if not path.exists():
        data = encode(rows(corpus), renderer, context)
        ids, weights = (np.concatenate([row[k] for row in data]) for k in (0, 1))
        np.savez(path, ids=ids.astype(np.int16), weights=weights, lengths=[len(row[0]) for row in data])
    kept = np.load(path)
    cuts = np.cumsum(kept["lengths"])[:-1]
    ids, weights = np.split(kept["ids"].astype(np.int64), cuts), np.split(kept["weights"], cuts)
    return list(zip(ids, weights, strict=True))


def parts(chosen: np.ndarray, data: list[tuple[np.ndarray, np.ndarray]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Right-padded rectangles of episodes of like length: ids and targets' weights, both [R, T].

    Padding stands after every real token, so plain causal attention is right for all of them.
    """
    order = sorted(chosen.tolist(), key=lambda i: -len(data[i][0]))
    out = []
    while order:
        width = len(data[order[0]][0])
        taken, order = order[: max(1, PART_TOKENS // width)], order[max(1, PART_TOKENS // width) :]
        ids, weight = np.zeros((len(taken), width), np.int64), np.zeros((len(taken), width), np.float32)
        for r, i in enumerate(taken):
            n = len(data[i][0])
            ids[r, :n], weight[r, 1:n] = data[i][0], data[i][1][1:]
        out.append((torch.from_numpy(ids), torch.from_numpy(weight)))
    return out


def plan(corpus: Path, steps: int, per_step: int) -> np.ndarray:
    """Episodes of every step, [steps, per_step]: ability first (right habits only), habits after.

    A right transcript teaches what to do; a wrong one teaches how often not to. The first share of the steps
    sees right habits alone, the rest sees the mixture that the model is to have.
    """
    right = np.array([row["right"] for row in rows(corpus)])
    able = round(steps * ABILITY_SHARE) * per_step
    parts_ = []
    for pool, n in ((np.flatnonzero(right), able), (np.arange(len(right)), steps * per_step - able)):
        epochs = [np.random.default_rng(e).permutation(pool) for e in range(-(-n // len(pool)))]
        parts_.append(np.concatenate([*epochs, np.zeros(0, np.int64)])[:n])
    return np.concatenate(parts_).astype(np.int64).reshape(steps, per_step)


def learning_rate(step: int, steps: int) -> float:
    """Factor at a step: linear warm-up, constant, then linear to 0 over the last `DECAY_SHARE` of the steps."""
    decay = (steps - step) / max(1.0, DECAY_SHARE * steps)
    return min(1.0, (step + 1) / WARMUP, decay)


def new_model(mix: Mix, end_id: int) -> Any:
    """The architecture, freshly initialised."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=mix.vocabulary, **{**SHAPE, **mix.shape}, tie_word_embeddings=True, max_position_embeddings=1024,
        rope_parameters={"rope_theta": 10000.0, "rope_type": "default"}, eos_token_id=end_id,
        bos_token_id=None, pad_token_id=0, attn_implementation="sdpa",
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised (Jordan et al. 2024), in float32.

    torch's own iterates in bfloat16, which takes ten times as long on a CPU without it: 1.3 s a step here.
    """

    def __init__(self, params: list[torch.Tensor], lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                kept = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                kept.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(kept, group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)


def orthogonal(matrix: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Nearly the closest matrix with orthonormal rows or columns, by the quintic Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T


def gradients(model: Any, chosen: np.ndarray, data: list[tuple[np.ndarray, np.ndarray]], total: float) -> float:
    """Add the gradient of these episodes' share of the step's loss; returns that share."""
    share = 0.0
    for ids, weight in parts(chosen, data):
        hidden = model.model(input_ids=ids, use_cache=False)
        keep = weight[:, 1:] > 0
        logits = model.lm_head(hidden.last_hidden_state[:, :-1][keep])
        nll = torch.nn.functional.cross_entropy(logits, ids[:, 1:][keep], reduction="none")
        loss = (nll * weight[:, 1:][keep]).sum() / total
        loss.backward()
        share += float(loss.detach())
    return share


def train(rank: int, corpus: Path, out: Path, mix: Mix, steps: int, workers: int) -> None:
    """One of `workers` single-thread processes that share every step; rank 0 saves."""
    keep_freed_memory()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if workers > 1:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29735")
        torch.distributed.init_process_group("gloo", rank=rank, world_size=workers)
    renderer = Renderer.load(out)
    data = encoded(corpus, renderer, mix.context)
    episodes = plan(corpus, steps, mix.per_step)
    model = new_model(mix, renderer.end_ids[0])
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "layers" in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "layers" not in n]
    optimisers = [
        Muon(matrices, lr=LR_MATRIX, momentum=0.95, weight_decay=0.02),
        torch.optim.AdamW(others, lr=LR_REST, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    first, saved = restore(corpus / "train.pt", model, optimisers), time.time()
    if not first and mix.base:
        model.load_state_dict(type(model).from_pretrained(_raised(out, mix.base), dtype=torch.float32).state_dict())
    began, mean, seen = time.time(), 0.0, 0
    for step in range(first, steps):
        for optimiser, lr in zip(optimisers, (LR_MATRIX, LR_REST), strict=True):
            optimiser.param_groups[0]["lr"] = lr * mix.rate * learning_rate(step, steps)
        total = sum(float(data[i][1][1:].sum()) for i in episodes[step])
        seen += sum(len(data[i][0]) for i in episodes[step])
        loss = torch.tensor(gradients(model, episodes[step][rank::workers], data, total))
        if workers > 1:
            flat = torch.nn.utils.parameters_to_vector([p.grad for p in model.parameters()])
            for tensor in (flat, loss):
                torch.distributed.all_reduce(tensor)
            torch.nn.utils.vector_to_parameters(flat, [p.grad for p in model.parameters()])
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
        mean = float(loss) if step == first else 0.95 * mean + 0.05 * float(loss)
        if rank:
            continue
        if step % 20 == 0 or step + 1 == steps:
            print(f"step {step} loss {mean:.4f} {seen / (time.time() - began):.0f} tok/s", flush=True)
        if time.time() - saved > 120 or step + 1 == steps:
            saved = time.time()
            save(corpus / "train.pt", model, optimisers, step + 1)
            model.save_pretrained(out)


def restore(path: Path, model: Any, optimisers: list[torch.optim.Optimizer]) -> int:
    """Load the last checkpoint, if any; returns the step to go on with."""
    if not path.exists():
        return 0
    kept = torch.load(path, weights_only=False)
    model.load_state_dict(kept["model"])
    for optimiser, state in zip(optimisers, kept["optimisers"], strict=True):
        optimiser.load_state_dict(state)
    return int(kept["step"])


def save(path: Path, model: Any, optimisers: list[torch.optim.Optimizer], step: int) -> None:
    """Write the checkpoint aside and rename it."""
    kept = {"model": model.state_dict(), "optimisers": [o.state_dict() for o in optimisers], "step": step}
    torch.save(kept, path.with_suffix(".tmp"))
    path.with_suffix(".tmp").replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["tokenizer", "train"])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--mix", choices=list(MIXES), default="tiny")
    parser.add_argument("--steps", type=int, help="of training; by default the mix's own")
    parser.add_argument("--workers", type=int, default=2, help="single-thread training processes")
    args = parser.parse_args()
    mix = MIXES[args.mix]
    if args.what == "tokenizer" and mix.base:
        take_tokenizer(args.out, mix.base)
    elif args.what == "tokenizer":
        build_tokenizer(args.corpus, args.out, mix)
    else:
        encoded(args.corpus, Renderer.load(args.out), mix.context)  # once, before the workers look for it
        job = (args.corpus, args.out, mix, args.steps or mix.steps, args.workers)
        torch.multiprocessing.spawn(train, job, nprocs=args.workers)


if __name__ == "__main__":
    main()
