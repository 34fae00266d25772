"""Every architecture against transformers itself: losses, packing, gradients, checkpoints, adapters, precision."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from architectures import NAMES, tiny_model

from noria.core import recipe as recipes
from noria.core.errors import UserError
from noria.core.recipe_plugins import check_values
from noria.losses import ce
from noria.models import weights
from noria.models.checkpointing import recompute
from noria.models.traits import probe
from noria.trainers.local import ADAPTER, Config, LocalTrainer, build
from noria.trainers.precision import SmallAdamW
from noria.trainers.rows import Row

CE = {"ce": ce.build(ce.Config())}
ONE = {"ce": 1.0}
SETUP = (1e-2, (0.9, 0.95), 0.0, 0.0)


def some_rows(seed: int, n: int = 5) -> list[Row]:
    rng = np.random.default_rng(seed)
    sizes = [int(rng.integers(3, 20)) for _ in range(n)]
    return [
        Row.plain(rng.integers(0, 50, size).tolist(), [0] + [1] * (size - 1), group=i) for i, size in enumerate(sizes)
    ]


def trainer_of(model: Any, **options: Any) -> LocalTrainer:
    trainer = LocalTrainer(Config(line_tokens=64, chunk_tokens=16, **options), copy.deepcopy(model))
    trainer.configure(*SETUP)
    return trainer


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def stored(model: Any, folder: Path) -> Path:
    """A checkpoint as transformers itself writes it."""
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_loss_and_gradient_of_a_pack_are_those_of_transformers(name: str) -> None:
    model, rows = tiny_model(name), some_rows(1)
    trainer = trainer_of(model)
    assert trainer.traits.packs is (name != "qwen3_5_moe") and trainer.traits.scale == 1.0
    got = trainer.step(rows, CE, ONE, tokens=200)
    # transformers: rows padded on the right, labels -100 on padding.
    width = max(map(len, rows))
    ids, labels = torch.zeros(len(rows), width, dtype=torch.long), torch.full((len(rows), width), -100)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = labels[i, : len(row)] = torch.from_numpy(row.ids)
    theirs = copy.deepcopy(model)
    loss = theirs(input_ids=ids, attention_mask=(labels >= 0).long(), labels=labels).loss
    loss.backward()
    assert got["loss/ce"] == pytest.approx(float(loss), abs=1e-5)
    want, own = gradients(theirs), gradients(trainer.model)
    assert set(own) == set(want)
    for key, value in own.items():
        torch.testing.assert_close(value, want[key], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_packed_rows_score_as_each_alone(name: str) -> None:
    model, rows = tiny_model(name), some_rows(2)
    for row, got in zip(rows, trainer_of(model).score(rows), strict=True):
        with torch.no_grad():
            logp = torch.log_softmax(model(input_ids=torch.from_numpy(row.ids)[None]).logits[0], -1)
        want = [0.0] + [float(logp[t - 1, row.ids[t]]) for t in range(1, len(row))]
        np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_has_the_published_layout(name: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    base = stored(tiny_model(name), tmp_path / "base")
    trainer = build(Config(), base)
    trainer.configure(*SETUP)
    trainer.step(some_rows(3), CE, ONE)
    trainer.save(tmp_path / "out", base)
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (tmp_path / "out", base))
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}
    assert any(not torch.equal(ours[key], theirs[key]) for key in ours)
    loaded = AutoModelForCausalLM.from_pretrained(str(tmp_path / "out"), local_files_only=True, dtype=torch.float32)
    for key, value in loaded.state_dict().items():
        assert torch.equal(value, trainer.model.state_dict()[key]), key
    # What travels to engines and teachers is read from such a folder too.
    other = trainer_of(tiny_model(name, seed=1))
    other.load_weights(weights.read(tmp_path / "out"))
    for a, b in zip(other.score(some_rows(4)), trainer.score(some_rows(4)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_weights_in_several_files_are_read(tmp_path: Path) -> None:
    model = tiny_model("llama")
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert not (tmp_path / "model.safetensors").exists()
    other = trainer_of(tiny_model("llama", seed=1))
    other.load_weights(weights.read(tmp_path))
    assert torch.equal(other.model.lm_head.weight, model.lm_head.weight)
    other.save(tmp_path / "out", tmp_path)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "config.json", "generation_config.json", "model.safetensors",
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["cheap", "all"])
@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_moe"])
def test_checkpointing_changes_no_number(name: str, mode: str) -> None:
    rows, plain, saving = some_rows(5), trainer_of(tiny_model(name)), tiny_model(name)
    recompute(saving, mode)
    # A copy would keep the wrapped layers of the original.
    trainer = LocalTrainer(Config(line_tokens=64, chunk_tokens=16), saving)
    trainer.configure(*SETUP)
    with Products() as once:
        want = plain.step(rows, CE, ONE)
    with Products() as again:
        assert trainer.step(rows, CE, ONE) == pytest.approx(want, abs=1e-6)
    for key, value in gradients(saving).items():
        torch.testing.assert_close(value, gradients(plain.model)[key], atol=1e-7, rtol=1e-5)
    assert again.cheap > once.cheap
    assert (again.costly > once.costly) is (mode == "all")


class Products(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts matrix products and reciprocal roots (one per norm)."""

    def __init__(self) -> None:
        super().__init__()
        self.costly = self.cheap = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.costly += "aten.mm" in str(func) or "aten.addmm" in str(func)
        self.cheap += "rsqrt" in str(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["llama", "qwen3_moe"])
def test_an_adapter_is_trained_merged_and_kept(name: str, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    base = stored(tiny_model(name), tmp_path / "base")
    config = Config(lora_rank=4, lora_alpha=8.0)
    trainer, rows = build(config, base), some_rows(6)
    for a, b in zip(trainer.score(rows), trainer_of(tiny_model(name)).score(rows), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)  # B = 0: the first policy is the base
    trainer.configure(*SETUP)
    before = trainer.step(rows, CE, ONE)["loss/ce"]
    moved = [name for name, p in trainer.model.named_parameters() if p.grad is not None]
    assert moved and all(".lora_" in name for name in moved)
    assert trainer.step(rows, CE, ONE)["loss/ce"] < before
    trainer.save(tmp_path / "out", base)
    ids = torch.arange(30)[None]
    with torch.no_grad():
        want = trainer.model(input_ids=ids).logits
        merged = AutoModelForCausalLM.from_pretrained(str(tmp_path / "out"), local_files_only=True, dtype=torch.float32)
        torch.testing.assert_close(merged(input_ids=ids).logits, want, atol=1e-4, rtol=1e-4)
        plain = AutoModelForCausalLM.from_pretrained(str(base), local_files_only=True, dtype=torch.float32)
        assert not torch.allclose(plain(input_ids=ids).logits, want, atol=1e-2)
        adapted = peft.PeftModel.from_pretrained(plain, str(tmp_path / "out" / ADAPTER))
        torch.testing.assert_close(adapted(input_ids=ids).logits, want, atol=1e-5, rtol=1e-5)
    fresh = build(config, base)
    fresh.load_weights(trainer.weights())
    for a, b in zip(fresh.score(rows), trainer.score(rows), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("options", [{"lora_rank": 2}, {"dtype": "bfloat16"}, {"moments": "bfloat16"}])
def test_a_restored_trainer_of_any_precision_continues_bit_by_bit(options: dict[str, Any], tmp_path: Path) -> None:
    if "lora_rank" in options:
        pytest.importorskip("peft")
    base = stored(tiny_model("llama"), tmp_path / "base")
    whole = build(Config(**options), base)
    whole.configure(*SETUP)
    for seed in (1, 2):
        whole.step(some_rows(seed), CE, ONE)
    torch.save(whole.state(), tmp_path / "state.pt")
    want = [whole.step(some_rows(seed), CE, ONE) for seed in (3, 4)]
    again = build(Config(**options), base)
    again.configure(*SETUP)
    again.restore(torch.load(tmp_path / "state.pt", weights_only=False))
    assert [again.step(some_rows(seed), CE, ONE) for seed in (3, 4)] == want
    assert again.weights() == whole.weights()


def test_bfloat16_weights_take_steps_that_bfloat16_would_lose(tmp_path: Path) -> None:
    base = stored(tiny_model("llama"), tmp_path / "base")
    trainer = build(Config(dtype="bfloat16"), base)
    trainer.configure(1e-4, (0.9, 0.95), 0.0, 0.0)
    start = trainer.model.lm_head.weight.detach().clone()
    for _ in range(12):
        trainer.step(some_rows(7, n=2), CE, ONE, tokens=30)
    exact = trainer_of(tiny_model("llama"))
    exact.configure(1e-4, (0.9, 0.95), 0.0, 0.0)
    for _ in range(12):
        exact.step(some_rows(7, n=2), CE, ONE)
    moved = (exact.model.lm_head.weight - start.float()).detach()
    found = trainer.model.lm_head.weight.detach().float() - start.float()
    # Weights are about 0.1, so bfloat16 steps are about 5e-4; twelve steps of 1e-4 only add up in the copies.
    assert float((moved * found).sum() / (moved.norm() * found.norm())) > 0.8


def test_small_moments_follow_adamw() -> None:
    rng = torch.Generator().manual_seed(0)
    start = torch.randn(200, generator=rng)
    one, two = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    exact = torch.optim.AdamW([one], lr=0.02, betas=(0.9, 0.95), weight_decay=0.1)
    small = SmallAdamW([two], lr=0.02, betas=(0.9, 0.95), weight_decay=0.1)
    for _ in range(30):
        noise = torch.randn(200, generator=rng)
        one.grad, two.grad = one.detach() + noise, two.detach() + noise
        exact.step()
        small.step()
    assert {t.dtype for t in small.state[two].values() if isinstance(t, torch.Tensor)} == {torch.bfloat16}
    assert float((one - start).abs().mean()) > 0.1
    assert float((one - two).abs().mean()) < 0.01 * float((one - start).abs().mean())


def test_what_cannot_be_right_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lora_rank > 0"):
        Config(lora_targets=("q_proj",))
    with pytest.raises(UserError, match="betas must not exceed 0.99"):
        trainer_of(tiny_model("llama"), moments="bfloat16").configure(1e-3, (0.9, 0.999), 0.0, 1.0)
    base = stored(tiny_model("llama"), tmp_path / "base")
    with pytest.raises(UserError, match="lora_targets must name linear layers"):
        build(Config(lora_rank=2, lora_targets=("nowhere",)), base)
    with pytest.raises(UserError, match=r"got \['nowhere', 'lm_head', 'proj'\], expected some of \['down_proj'"):
        build(Config(lora_rank=2, lora_targets=("q_proj", "self_attn.v_proj", "nowhere", "lm_head", "proj")), base)
    for device in ("banana", "cuda:x", "cuda:99", "meta", ""):
        with pytest.raises(UserError, match="device must be cpu, cuda or cuda:N of this machine: got"):
            build(Config(device=device), base)
    shutil.copyfile(base / "config.json", tmp_path / "config.json")
    (tmp_path / "config.json").write_text('{"model_type": "nonsense"}')
    with pytest.raises(UserError, match="model must be a causal LM"):
        build(Config(), tmp_path)


def test_a_value_that_the_trainer_refuses_is_told_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    file.write_text(
        'name = "r"\nenv.a = { type = "arithmetic" }\n'
        'student.trainer = { type = "local", dtype = "float16", lora_targets = ["q_proj"], checkpointing = "some" }\n'
        'student.engine = { type = "embedded", slots = 0 }\n'
    )
    with pytest.raises(UserError) as found:
        check_values(recipes.load([file]))
    for path in ("student.trainer.dtype", "student.trainer.checkpointing", "student.engine.slots"):
        assert path in str(found.value)


def test_logits_that_are_scaled_or_bent_are_noticed() -> None:
    import transformers as hf

    shape = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape["num_key_value_heads"] = 2
    granite = hf.GraniteForCausalLM(hf.GraniteConfig(**shape, intermediate_size=16, logits_scaling=4.0)).eval()
    assert probe(granite).scale == pytest.approx(0.25, rel=1e-4)
    row = Row.plain([3, 4, 5, 6], [0, 1, 1, 1])
    with torch.no_grad():
        want = torch.log_softmax(granite(input_ids=torch.from_numpy(row.ids)[None]).logits[0], -1)
    got = trainer_of(granite).score([row])[0]
    assert got[1:].tolist() == pytest.approx([float(want[t - 1, row.ids[t]]) for t in (1, 2, 3)], abs=1e-5)
    bent = hf.Gemma2ForCausalLM(
        hf.Gemma2Config(**shape, intermediate_size=16, head_dim=8, final_logit_softcapping=0.1, sliding_window=8)
    ).eval()
    with pytest.raises(UserError, match="bends them"):
        probe(bent)
