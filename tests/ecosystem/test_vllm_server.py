"""The served engine against a real vLLM, where there is one: NORIA_VLLM names its command, in a venv of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from noria.core.errors import UserError
from noria.core.protocols import Completion
from noria.engines import served
from noria.tokens.renderer import Renderer
from noria.trainers.local import Config, LocalTrainer
from noria.trainers.rows import Row

VLLM = os.environ.get("NORIA_VLLM", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not VLLM, reason="NORIA_VLLM names no command of vLLM"),
]
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
#: How long vLLM may take to come up, in s.
START_S = float(os.environ.get("NORIA_VLLM_START_S", "600"))


def model_of(seed: int, vocabulary: int) -> Any:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
        head_dim=64, intermediate_size=256, tie_word_embeddings=True, max_position_embeddings=512,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0 if parameter.dim() > 1 else 1.0)
    return model.eval()


@pytest.fixture(scope="module")
def folder(tiny_folder: Path, renderer: Renderer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama with the built-in tokenizer."""
    found = tmp_path_factory.mktemp("llama")
    model_of(0, renderer.vocab_size).save_pretrained(found)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(tiny_folder / name, found / name)
    return found


def started(folder: Path, *more: str) -> Iterator[str]:
    """The root of a vLLM that serves the folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    command = [
        VLLM, "serve", str(folder), "--served-model-name", "policy", "--host", "127.0.0.1", "--port", str(port),
        "--dtype", "float32", "--max-model-len", "256", "--enforce-eager", "--max-num-seqs", "8", *more,
    ]  # fmt: skip
    log = folder / f"vllm-{port}.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    root, deadline = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    try:
        while True:
            try:
                DIRECT.open(f"{root}/health", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"vLLM did not come up: {log.read_text()[-3000:]}")
                time.sleep(1)
        yield root
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


@pytest.fixture(scope="module")
def root(folder: Path) -> Iterator[str]:
    yield from started(folder, "--logprobs-mode", "processed_logprobs")


def engine_of(root: str, folder: Path, room: Path, renderer: Renderer, temperature: float) -> served.ServedEngine:
    config = served.Config(
        base_url=f"{root}/v1", model="policy", server="vllm", weights=str(room), max_tokens=256, proof_diff=1e-3,
        slots=8,
    )  # fmt: skip
    return served.build(config, folder, renderer.end_ids, temperature)


def until(engine: Any, n: int) -> list[Completion]:
    found: list[Completion] = []
    deadline = time.monotonic() + 300
    while len(found) < n and time.monotonic() < deadline:
        found += engine.step()
    return sorted(found, key=lambda completion: completion.seq)


def test_its_tokens_are_the_trainers_before_and_after_new_weights(
    root: str, folder: Path, tmp_path: Path, renderer: Renderer
) -> None:
    engine = engine_of(root, folder, tmp_path, renderer, 0.7)
    prompts = [renderer.encode(text) for text in ("compute 3 + 4 and then the rest of it " * 6, "what is left of 9")]
    observation = renderer.encode(" 17, and then?")
    try:
        for version in range(3):  # the same prompts each time: a prefix cache that stayed would show
            model = model_of(version, renderer.vocab_size)
            tensors = {name: t for name, t in model.state_dict().items() if name != "lm_head.weight"}
            engine.load(tensors, version)
            trainer, full, sampled = LocalTrainer(Config(), model), [list(ids) for ids in prompts], [{}, {}]
            for turn in range(2):
                for seq in range(2):
                    engine.add(seq, observation if turn else prompts[seq], 24, seed=5 + seq)
                    full[seq] += observation if turn else ()
                for found in until(engine, 2):
                    assert not found.fault and set(found.versions) == {version}
                    start = len(full[found.seq])
                    full[found.seq] += found.ids
                    sampled[found.seq] |= {start + k: value for k, value in enumerate(found.logp)}
            for seq in range(2):
                engine.drop(seq)
            rows = [Row.plain(ids, [1] * len(ids)) for ids in full]
            gaps = []
            for row, known in zip(trainer.score(rows, 0.7), sampled, strict=True):
                assert len(known) > 20
                gaps += [abs(value - float(row[position])) for position, value in known.items()]
            print(f"version {version}: largest difference {max(gaps):.2e} of {len(gaps)} tokens")
            assert max(gaps) < 2e-3
    finally:
        engine.close()


def test_one_with_raw_log_probabilities_is_refused(folder: Path, tmp_path: Path, renderer: Renderer) -> None:
    for root in started(folder):
        engine = engine_of(root, folder, tmp_path, renderer, 1.0)
        try:
            with pytest.raises(UserError, match="start vLLM with --logprobs-mode processed_logprobs"):
                engine.load(model_of(0, renderer.vocab_size).state_dict(), 0)
        finally:
            engine.close()
