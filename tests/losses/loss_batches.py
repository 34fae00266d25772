"""Builders shared by the loss tests: a seeded global batch and ways of cutting it."""

from __future__ import annotations

import importlib
import pkgutil

import torch
from examples import needed

import noria.losses
from noria.core import registry
from noria.losses.base import Batch, Denominators, Loss
from noria.losses.states import Head, TeacherStates

torch.set_num_threads(1)

VOCAB, WIDTH = 11, 6


def term_names() -> list[str]:
    """Every loss term in the folder: a file with `Config` and `build`."""
    names = [info.name for info in pkgutil.iter_modules(noria.losses.__path__)]
    return [name for name in names if hasattr(importlib.import_module(f"noria.losses.{name}"), "build")]


def make(name: str, **options: object) -> Loss:
    module = importlib.import_module(f"noria.losses.{name}")
    return module.build(module.Config(**options))


def named(aggregate: str) -> dict[str, object]:
    """What a loss is told to aggregate so."""
    return {"aggregate": {"type": aggregate, **needed(registry.resolve("aggregates", aggregate).Config)}}


def global_batch(seed: int = 0, scale: float = 0.3, dtype: torch.dtype = torch.float64) -> Batch:
    """Five rollouts in three groups and two routes, with observation tokens between the action tokens."""
    gen = torch.Generator().manual_seed(seed)
    lengths, groups, routes = [7, 1, 4, 17, 2], [0, 0, 1, 1, 2], [0, 0, 1, 1, 0]
    n = sum(lengths)

    def noise() -> torch.Tensor:
        return torch.randn(n, generator=gen, dtype=torch.float64).to(dtype) * scale

    repeat = torch.tensor(lengths)
    mask = torch.rand(n, generator=gen) < 0.7
    mask[torch.tensor(lengths).cumsum(0) - 1] = True
    logp = noise() - 1.5
    return Batch(
        logp=logp.requires_grad_(),
        logp_old=logp.detach() + noise(),
        logp_mu=logp.detach() + noise(),
        advantage=noise() / scale,
        weight=torch.rand(n, generator=gen, dtype=torch.float64).to(dtype) + 0.5,
        mask=mask,
        segment=torch.arange(5).repeat_interleave(repeat),
        group=torch.tensor(groups).repeat_interleave(repeat),
        route=torch.tensor(routes).repeat_interleave(repeat),
        entropy=(noise() + 2).requires_grad_(),
        logp_ref=logp.detach() + noise(),
        logp_teacher=logp.detach() + noise(),
        position=torch.cat([torch.arange(length) for length in lengths]),
        solved=torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0], dtype=dtype).repeat_interleave(repeat),
        **with_vocabulary(torch.tensor(routes).repeat_interleave(repeat), gen, dtype),
    )


def with_vocabulary(route: torch.Tensor, gen: torch.Generator, dtype: torch.dtype) -> dict[str, object]:
    """The student's states and head, and those of two teachers of another width, one per route."""

    def draw(rows: int, width: int) -> torch.Tensor:
        return torch.randn(rows, width, generator=gen, dtype=torch.float64).to(dtype)

    matrix = draw(VOCAB, WIDTH).requires_grad_()
    teachers = []
    for r in (0, 1):
        at = (route == r).nonzero().squeeze(1)
        other = draw(VOCAB, WIDTH + 2)
        head = Head(f"teacher-{r}", lambda other=other: other)
        teachers.append(TeacherStates(head, at, draw(len(at), WIDTH + 2), torch.ones(len(at), dtype=dtype)))
    hidden = draw(len(route), WIDTH).requires_grad_()
    second = draw(VOCAB, WIDTH + 1).requires_grad_()
    return {
        "hidden": hidden, "head": Head("student", lambda: matrix), "teachers": tuple(teachers),
        "auxiliary": draw(len(route), WIDTH + 1).requires_grad_(), "auxiliary_head": Head("second", lambda: second),
    }  # fmt: skip


def counts(batch: Batch) -> Denominators:
    return Denominators.of(batch.mask, batch.segment, batch.group, batch.route)


def gradients(loss: Loss, whole: Batch, parts: list[Batch], denominators: Denominators) -> tuple[float, torch.Tensor]:
    """Value and gradient (of logp, entropy, states and head, flat) summed over micro-batches cut from `whole`."""
    inputs = [whole.logp, whole.entropy, whole.hidden, whole.head.load()]
    value = sum((loss(part, denominators).value for part in parts), start=whole.logp.new_zeros(()))
    grads = torch.autograd.grad(value, inputs, allow_unused=True)
    filled = [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, grads, strict=True)]
    return float(value.detach()), torch.cat([grad.reshape(-1) for grad in filled])


def of_tokens(flags: torch.Tensor) -> torch.Tensor:
    """Flags of tokens [T] as flags of the entries of a gradient that `gradients` gave; the head is left out."""
    return torch.cat([flags, flags, flags.repeat_interleave(WIDTH), torch.zeros(VOCAB * WIDTH, dtype=torch.bool)])
