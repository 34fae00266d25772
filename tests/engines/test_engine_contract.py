"""What every engine that samples must do, for every architecture: probabilities, turns, weights, limits."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from architectures import NAMES, tiny_model

from noria.core.errors import EngineError, UserError
from noria.engines import embedded, transformers
from noria.trainers.local import Config, LocalTrainer
from noria.trainers.rows import Row

END = 7
KINDS = ("embedded", "transformers")


def engine_of(kind: str, model: Any, slots: int = 3, end: tuple[int, ...] = (END,), temperature: float = 1.0) -> Any:
    model = copy.deepcopy(model)
    if kind == "embedded":
        config = embedded.Config(slots=slots, max_tokens=80, prefill_rows=2)
        return embedded.EmbeddedEngine(model, end, config, temperature)
    return transformers.TransformersEngine(model, end, transformers.Config(slots=slots, max_tokens=80), temperature)


def converse(
    engine: Any, prompts: list[list[int]], turns: int, first: int = 0
) -> dict[int, tuple[list[int], dict[int, float]]]:
    """Ids of each conversation, numbered from `first`, and the log-probability of each sampled position."""
    full = {i: list(prompt) for i, prompt in enumerate(prompts, first)}
    sampled: dict[int, dict[int, float]] = {i: {} for i in full}
    left = dict.fromkeys(full, turns)
    waiting = list(full)
    while any(left.values()):
        while waiting and engine.free:
            engine.add(waiting[0], full[waiting[0]], 6, seed=100 + waiting[0])
            waiting.pop(0)
        for found in engine.step():
            seq, start = found.seq, len(full[found.seq])
            full[seq] += found.ids
            sampled[seq] |= {start + k: value for k, value in enumerate(found.logp)}
            left[seq] -= 1
            if left[seq]:
                observation = [3 + seq, 9, 11, 2][: 1 + seq % 4]
                full[seq] += observation
                engine.add(seq, observation, 6, seed=100 + seq)
            else:
                engine.drop(seq)
    return {i: (full[i], sampled[i]) for i in full}


PROMPTS = [[4, 5, 6], [9] * 11, [8, 2], [1, 30, 22, 5, 40]]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_and_the_trainer_agree_on_every_sampled_token(kind: str, name: str) -> None:
    model = tiny_model(name)
    found = converse(engine_of(kind, model, temperature=0.8), PROMPTS, turns=3)
    trainer = LocalTrainer(Config(line_tokens=96), model)
    rows = [Row.plain(ids, [int(t in sampled) for t in range(len(ids))]) for ids, sampled in found.values()]
    for (_, sampled), scores in zip(found.values(), trainer.score(rows, 0.8), strict=True):
        assert len(sampled) > 3
        for position, value in sampled.items():
            assert value == pytest.approx(scores[position], abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_samples_the_same_whatever_stands_beside_it(kind: str, name: str) -> None:
    model = tiny_model(name)
    alone = converse(engine_of(kind, model, slots=1), PROMPTS[:1], turns=2)
    assert converse(engine_of(kind, model), PROMPTS, turns=2)[0][0] == alone[0][0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_of_one_prompt_samples_as_its_members_do_alone(kind: str, name: str) -> None:
    model = tiny_model(name)
    prompts = [[4, 5, 6], [4, 5, 6], [8, 2], [4, 5, 6], [8, 2], [4, 5, 7]]
    together = converse(engine_of(kind, model, slots=len(prompts)), prompts, turns=2)
    for i, prompt in enumerate(prompts):
        ids, logp = converse(engine_of(kind, model, slots=1), [prompt], turns=2, first=i)[i]
        assert together[i][0] == ids
        assert together[i][1] == pytest.approx(logp, abs=1e-4)
    texts = {tuple(ids[: len(prompts[i]) + 2]) for i, (ids, _) in together.items() if prompts[i] == [4, 5, 6]}
    assert len(texts) > 1, "members of a group must draw numbers of their own"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_new_weights_take_effect_in_the_middle_of_a_sequence(kind: str, name: str) -> None:
    before, after = tiny_model(name), tiny_model(name, seed=1)
    engine, out = engine_of(kind, before, end=()), []
    engine.add(0, [4, 5, 6], 8, seed=1)
    for _ in range(3):
        out += engine.step()
    engine.load(after.state_dict(), version=2)
    while not out:
        out += engine.step()
    assert out[0].versions == (0,) * 3 + (2,) * 5
    row = Row.plain([4, 5, 6, *out[0].ids], [0, 0, 0] + [1] * 8)
    old, new = (LocalTrainer(Config(), model).score([row])[0][3:] for model in (before, after))
    assert out[0].logp == pytest.approx([*old[:3], *new[3:]], abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_limits_and_misuse_are_told(kind: str) -> None:
    engine = engine_of(kind, tiny_model("llama"), slots=1)
    engine.add(0, [1] * 5, 3, seed=1)
    with pytest.raises(EngineError, match="no free slot"):
        engine.add(1, [1], 3, seed=1)
    with pytest.raises(EngineError, match="no room"):
        engine.add(0, [1] * 90, 3, seed=1)
    with pytest.raises(EngineError, match="don't fit"):
        engine.load({"nonsense": torch.zeros(1)}, 1)
    engine.drop(0)
    engine.drop(99)
    assert engine.free == 1 and engine.step() == []


def test_what_the_embedded_engine_cannot_hold_is_left_to_the_other() -> None:
    import transformers as hf

    torch.manual_seed(0)
    shape = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 16}
    model = hf.MistralForCausalLM(
        hf.MistralConfig(**shape, num_attention_heads=2, num_key_value_heads=2, head_dim=8, sliding_window=8)
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4.0)
    with pytest.raises(UserError, match="sliding window of 8 tokens"):
        engine_of("embedded", model)
    found = converse(engine_of("transformers", model), PROMPTS[:2], turns=2)
    for ids, sampled in found.values():
        with torch.no_grad():
            logp = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0], -1)
        for position, value in sampled.items():
            assert value == pytest.approx(float(logp[position - 1, ids[position]]), abs=1e-4)
