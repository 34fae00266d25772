"""Peak memory of what reads the whole vocabulary, and of its backward pass: in chunks of tokens against the plain path.

    python bench/memory.py [--tokens 8192] [--plain-tokens 2048] [--vocabulary 151936] [--width 128] [--json]
    python bench/memory.py --what kl [--tokens 8192] [--vocabulary 151936] [--repeats 1] [--json]

The first is of log-probabilities and entropies, the second of four divergences from a teacher's states.

Each measurement is a fresh process: resident memory before the call is subtracted from the peak (VmHWM) after the
backward pass. The plain path makes all logits at once and keeps what autograd wants of them; at 8,192 tokens it needs
tens of gigabytes, so both paths are measured at `--plain-tokens` and the chunked one at `--tokens` as well. The hidden
size is small, so that what is seen is the vocabulary's part. The gradients of the hidden states and of the head are
results, not working memory: they are stated, and taken off for the check that what is left is below two chunks of
logits. Values and gradients of both paths are compared on a smaller case first, in float64 and float32.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from noria.core import registry
from noria.losses.base import Batch, Denominators
from noria.losses.logprobs import chunked_logprobs, entropies, shift_logprobs
from noria.losses.states import Head, TeacherStates

MIB = 1 << 20
FLOAT_BYTES = 4
TOLERANCE = 1e-6
#: The divergences of `--what kl`, with their defaults.
DIVERGENCES = ("reverse_kl", "jsd", "forward_kl_topk", "mse_logits")


def inputs(tokens: int, vocabulary: int, width: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Hidden states [T, D] and a head [V, D] with gradients, ids [T], and segments [T] of a quarter of them each."""
    draw = torch.Generator().manual_seed(0)
    hidden = torch.randn(tokens, width, generator=draw, dtype=dtype).requires_grad_()
    weight = torch.randn(vocabulary, width, generator=draw, dtype=dtype).mul_(width**-0.5).requires_grad_()
    ids = torch.randint(vocabulary, (tokens,), generator=draw)
    return hidden, weight, ids, torch.arange(tokens) * 4 // tokens


def both(path: str, given: tuple[torch.Tensor, ...], chunk: int, entropy: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies [T] by one path, the gradients of a weighted sum of them left in the inputs."""
    hidden, weight, ids, segment = given
    if path == "chunked":
        logp, h = chunked_logprobs(hidden, weight, ids, segment, chunk_tokens=chunk)
    else:
        logits = hidden @ weight.t()
        logp, h = shift_logprobs(logits, ids, segment=segment), entropies(logits, segment=segment)
        del logits
    slope = torch.linspace(-1, 1, len(ids), dtype=logp.dtype)
    value = (logp * slope).sum()
    (value + (h * slope.flip(0)).sum() if entropy else value).backward()  # type: ignore[no-untyped-call]
    return logp.detach(), h.detach()


def distilled(
    name: str, given: tuple[torch.Tensor, ...], teacher: tuple[torch.Tensor, ...], chunk: int, cut: bool = True
) -> torch.Tensor:
    """The mean [1] of a weighted divergence from a teacher, its gradients left in the inputs.

    By the term's own path, or with `cut` off by its kernel on all logits.
    """
    (hidden, weight, ids, segment), (states, matrix) = given, teacher
    module = registry.resolve("losses", name)
    term, zero = module.build(module.Config()), hidden.detach().new_zeros(len(ids))
    slope = torch.linspace(0.5, 1.5, len(ids), dtype=hidden.dtype)
    if not cut:
        value: torch.Tensor = (term.kernel(hidden @ weight.t(), states @ matrix.t()) * slope).mean()
        value.backward()  # type: ignore[no-untyped-call]
        return value.detach()[None]
    one = TeacherStates(Head("teacher", lambda: matrix), torch.arange(len(ids)), states, zero + 1)
    batch = Batch(
        logp=zero, logp_old=zero, logp_mu=zero, advantage=zero, weight=slope, mask=zero == 0, segment=segment,
        group=segment, route=segment * 0, hidden=hidden, head=Head("student", lambda: weight, chunk_tokens=chunk),
        teachers=(one,),
    )  # fmt: skip
    value = term(batch, Denominators.of(batch.mask, segment, segment, batch.route)).value
    value.backward()  # type: ignore[no-untyped-call]
    return value.detach()[None]


def teacher_of(given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """States [T, D] and a head [V, D] of a teacher, without gradients."""
    draw = torch.Generator().manual_seed(1)
    hidden, weight = (torch.randn(t.shape, generator=draw, dtype=t.dtype) for t in given[:2])
    return hidden, weight.mul_(hidden.shape[1] ** -0.5)


def divergence_difference(name: str, dtype: torch.dtype) -> dict[str, float]:
    """As `difference`, of a divergence in blocks and of its kernel on all logits."""
    found = []
    for cut in (True, False):
        given = inputs(1000, 5000, 64, dtype)
        value = distilled(name, given, teacher_of(given), 128, cut)
        found.append((value, given[0].grad, given[1].grad))
    return compared(*found)


def difference(dtype: torch.dtype) -> dict[str, float]:
    """Largest differences between the paths on a small case; those of gradients relative to the largest gradient."""
    found = {}
    for path in ("chunked", "plain"):
        given = inputs(300, 5000, 64, dtype)
        logp, h = both(path, given, 128, entropy=True)
        found[path] = (torch.cat([logp, h]), given[0].grad, given[1].grad)
    return compared(found["chunked"], found["plain"])


def compared(mine: tuple[torch.Tensor | None, ...], theirs: tuple[torch.Tensor | None, ...]) -> dict[str, float]:
    """Largest differences of (values, gradient, gradient); those of gradients relative to the largest gradient."""
    assert mine[0] is not None and theirs[0] is not None
    gradients = []
    for a, b in zip(mine[1:], theirs[1:], strict=True):
        assert a is not None and b is not None
        gradients.append(float((a - b).abs().max() / b.abs().max()))
    return {"values": float((mine[0] - theirs[0]).abs().max()), "gradients": max(gradients)}


def resident() -> int:
    """Resident bytes of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    """Most bytes that this process ever had resident; unlike `getrusage`, not those of the process that started it."""
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measured(
    args: argparse.Namespace, given: tuple[torch.Tensor, ...], chunk: int,
    teacher: tuple[torch.Tensor, ...] | None = None,
) -> None:  # fmt: skip
    """What is measured, once."""
    if args.only in DIVERGENCES:
        distilled(args.only, given, teacher or teacher_of(given), chunk)
    else:
        both(args.only, given, chunk, args.entropy)


def only(args: argparse.Namespace) -> dict[str, float]:
    """One measurement, in this process."""
    torch.set_num_threads(args.threads)
    measured(args, inputs(64, 512, args.width, torch.float32), 16)  # allocates what is allocated once
    given = inputs(args.tokens, args.vocabulary, args.width, torch.float32)
    teacher = teacher_of(given) if args.only in DIVERGENCES else None
    before, highest = resident(), peak()
    began = time.perf_counter()
    measured(args, given, args.chunk, teacher)
    seconds = time.perf_counter() - began
    if peak() <= highest:
        raise SystemExit("the peak lies before the measured call: choose more tokens")
    results = sum(g.numel() * g.element_size() for t in given[:2] if (g := t.grad) is not None)
    return {"above": (peak() - before) / MIB, "results": results / MIB, "seconds": seconds}


def child(args: argparse.Namespace, path: str, tokens: int) -> dict[str, float]:
    """One measurement in a fresh process."""
    command = [sys.executable, __file__, "--only", path, "--tokens", str(tokens)]
    command += [] if args.entropy else ["--no-entropy"]
    for name in ("vocabulary", "width", "chunk", "threads"):
        command += [f"--{name}", str(getattr(args, name))]
    # Freed blocks go back at once, so that the peak is what was held and not what the allocator kept.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1048576", "OMP_NUM_THREADS": str(args.threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{path} at {tokens} tokens failed ({done.returncode}):\n{done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--plain-tokens", type=int, default=2048, help="at which the plain path is measured too")
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--width", type=int, default=128, help="hidden size")
    parser.add_argument("--chunk", type=int, default=1024, help="tokens whose logits are held at once")
    parser.add_argument("--no-entropy", dest="entropy", action="store_false", help="no gradient of the entropy")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--what", choices=["logprobs", "kl"], default="logprobs", help="what is measured")
    parser.add_argument("--only", choices=["chunked", "plain", *DIVERGENCES], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(only(args)))
        return
    kl, dtypes = args.what == "kl", (torch.float64, torch.float32)
    small = {str(dtype).removeprefix("torch."): difference(dtype) for dtype in dtypes if not kl}
    if kl:
        small = {f"{name} in float64": divergence_difference(name, torch.float64) for name in DIVERGENCES}
    chunk = args.chunk * args.vocabulary * FLOAT_BYTES / MIB
    cases = [("chunked", args.tokens), ("chunked", args.plain_tokens), ("plain", args.plain_tokens)]
    cases = [(name, args.tokens) for name in DIVERGENCES] if kl else cases
    runs: dict[str, list[dict[str, float]]] = {}
    for _ in range(args.repeats):
        for path, tokens in cases:
            runs.setdefault(f"{path} at {tokens}", []).append(child(args, path, tokens))
    work = {name: max(run["above"] - run["results"] for run in found) / chunk for name, found in runs.items()}
    verdict = {
        "values_equal": all(max(case.values()) <= TOLERANCE for name, case in small.items() if "64" in name),
        "below_two_chunks": all(chunks < 2 for name, chunks in work.items() if "plain" not in name),
    }
    if args.json:
        print(json.dumps({"chunk_mib": chunk, "small": small, "runs": runs, "work_in_chunks": work, **verdict}))
        return
    print(
        f"vocabulary {args.vocabulary}, hidden size {args.width}, float32; "
        f"one chunk is {args.chunk} tokens, {chunk:.0f} MiB"
    )
    for name, case in small.items():
        print(f"{name}: values differ by {case['values']:.1e}, gradients by {case['gradients']:.1e} of the largest")
    for name, found in runs.items():
        above = sorted(run["above"] for run in found)
        seconds = statistics.median(run["seconds"] for run in found)
        print(
            f"{name:>16} tokens: {statistics.median(above):.0f} MiB above the inputs "
            f"({above[0]:.0f} to {above[-1]:.0f}), "
            f"{found[0]['results']:.0f} of it gradients; the rest is {work[name]:.3f} chunks; {seconds:.1f} s"
        )
    print(", ".join(f"{name.replace('_', ' ')}: {'yes' if held else 'NO'}" for name, held in verdict.items()))


if __name__ == "__main__":
    main()
