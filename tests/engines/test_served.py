"""Rollouts from a server: the embedded engine's tokens, new weights that are proved, faults that stay unknown."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from faulty import Answer, Faulty

from noria.core.errors import EngineError, UserError
from noria.core.protocols import Completion
from noria.engines import _asking as asking
from noria.engines import embedded, served
from noria.models.load import load_model
from noria.server.build import build as build_server
from noria.server.inside import Inside
from noria.tokens.renderer import Renderer

MODEL = "tiny"
LENGTH = 200


def serving(folder: Path, updates: Path | None, slots: int = 8) -> Inside:
    config = embedded.Config(slots=slots, max_tokens=LENGTH, prefill_rows=8)
    return Inside(build_server(MODEL, folder, "", config, 56, 20, updates=updates))


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("weights")


@pytest.fixture(scope="module")
def server(tiny_folder: Path, room: Path) -> Iterator[Inside]:
    inside = serving(tiny_folder, room)
    yield inside
    inside.close()


@pytest.fixture(scope="module")
def tensors(tiny_folder: Path) -> list[dict[str, torch.Tensor]]:
    """Weights of two policies: those that ship, and others near them."""
    old = {name: tensor.clone() for name, tensor in load_model(tiny_folder).state_dict().items()}
    old.pop("lm_head.weight", None)
    torch.manual_seed(0)
    return [old, {name: tensor + 0.02 * torch.randn_like(tensor) for name, tensor in old.items()}]


@pytest.fixture
def faulty(server: Inside) -> Iterator[Faulty]:
    with Faulty(server.root) as between:
        yield between


@pytest.fixture
def make(tiny_folder: Path, room: Path, renderer: Renderer) -> Iterator[Callable[..., served.ServedEngine]]:
    made: list[served.ServedEngine] = []

    def build(root: str, temperature: float = 1.0, **options: Any) -> served.ServedEngine:
        given = {"base_url": f"{root}/v1", "model": MODEL, "weights": str(room), "max_tokens": LENGTH, **options}
        made.append(served.build(served.Config(**given), tiny_folder, renderer.end_ids, temperature))
        return made[-1]

    yield build
    for engine in made:
        engine.close()


def local(folder: Path, renderer: Renderer, temperature: float = 1.0) -> embedded.EmbeddedEngine:
    return embedded.build(embedded.Config(slots=8, max_tokens=LENGTH), folder, renderer.end_ids, temperature)


def until(engine: Any, n: int = 1) -> list[Completion]:
    """The next `n` completions, by sequence."""
    found: list[Completion] = []
    deadline = time.monotonic() + 60
    while len(found) < n and time.monotonic() < deadline:
        found += engine.step()
    return sorted(found, key=lambda completion: completion.seq)


def converse(engine: Any, prompts: list[tuple[int, ...]], observation: tuple[int, ...]) -> list[Completion]:
    for seq, ids in enumerate(prompts):
        engine.add(seq, ids, 12, seed=100 + seq)
    found = until(engine, len(prompts))
    for seq in range(len(prompts)):
        engine.add(seq, observation, 12, seed=100 + seq)
    found += until(engine, len(prompts))
    for seq in range(len(prompts)):
        engine.drop(seq)
    return found


def same(one: list[Completion], other: list[Completion], version: int) -> None:
    assert [(c.seq, c.ids, c.stop) for c in one] == [(c.seq, c.ids, c.stop) for c in other]
    for mine, its in zip(one, other, strict=True):
        assert mine.logp == pytest.approx(its.logp, abs=1e-4)
        assert set(mine.versions) == {version} and len(mine.versions) == len(mine.ids) and not mine.fault


@pytest.fixture(scope="module")
def prompts(renderer: Renderer) -> list[tuple[int, ...]]:
    texts = ("compute 3 + 4", "compute 12 * 7 - 5", "what is left of 9 after 4", "compute 3 + 4")
    return [renderer.encode(text) for text in texts]


def test_it_samples_what_the_embedded_engine_samples_before_and_after_new_weights(
    make: Any, server: Inside, tensors: Any, prompts: Any, renderer: Renderer, tiny_folder: Path
) -> None:
    engine, own = make(server.root, 0.8), local(tiny_folder, renderer, 0.8)
    observation = renderer.encode(" 17, and then?")
    seen = []
    for version, weights in enumerate(tensors):
        engine.load(weights, version)
        own.load(weights, version)
        seen.append(converse(engine, prompts, observation))
        same(seen[-1], converse(own, prompts, observation), version)
    assert [c.ids for c in seen[0]] != [c.ids for c in seen[1]]
    assert seen[0][0].ids != seen[0][3].ids, "equal prompts must draw numbers of their own"


def test_what_is_on_its_way_ends_under_the_weights_that_it_began_with(
    make: Any, server: Inside, tensors: Any, prompts: Any, renderer: Renderer, tiny_folder: Path
) -> None:
    engine, own = make(server.root), local(tiny_folder, renderer)
    engine.load(tensors[0], 3)
    engine.add(0, prompts[0], 40, seed=5)
    own.add(0, prompts[0], 40, seed=5)
    engine.load(tensors[1], 4)
    same(until(engine), until(own), 3)
    assert engine.version == 4 and server.api.weights is not None
    (held,) = Path(engine.config.weights).glob("served-policy-4-*")
    assert server.api.weights.sha256 == hashlib.sha256((held / "model.safetensors").read_bytes()).hexdigest()


def test_weights_that_do_not_arrive_are_found_out(make: Any, faulty: Faulty, tensors: Any) -> None:
    engine = make(faulty.root)
    engine.load(tensors[0], 0)
    version = {"now": -1}

    def swallow(path: str, asked: Any) -> Answer | None:
        if path != "/v1/weights" or asked is None:
            return None
        return Answer(data={"version": version["now"], "sha256": asked["sha256"]})

    def lie(path: str, asked: Any, answer: Any) -> Any:
        for choice in answer.get("choices", ()):
            choice["versions"] = [version["now"]] * len(choice["token_ids"])
        return answer

    faulty.before, faulty.after = swallow, lie
    engine.load(tensors[0], 1)  # the same weights: there is nothing to find
    with pytest.raises(UserError, match=r"student\.engine must sample from the weights .* nats in the mean"):
        engine.load(tensors[1], 2)


def test_a_server_that_comes_back_with_old_weights_is_given_the_new_ones(
    make: Any, faulty: Faulty, server: Inside, tensors: Any, prompts: Any, renderer: Renderer, tiny_folder: Path,
    room: Path,
) -> None:  # fmt: skip
    engine, own = make(faulty.root), local(tiny_folder, renderer)
    engine.load(tensors[1], 1)
    own.load(tensors[1], 1)
    other = serving(tiny_folder, room)
    try:
        faulty.target = other.root
        engine.add(0, prompts[0], 20, seed=1)  # answered by the other one, and told apart by its version
        own.add(0, prompts[0], 20, seed=1)
        same(until(engine), until(own), 1)
        faulty.target = server.root
        drops = iter([True])
        faulty.before = lambda path, asked: (
            Answer(drops=True) if path == "/v1/completions" and next(drops, False) else None
        )
        engine.add(1, prompts[1], 20, seed=2)
        own.add(1, prompts[1], 20, seed=2)
        same(until(engine), until(own), 1)
    finally:
        other.close()
    assert other.api.weights is not None and other.api.weights.version == 1


def spoil(**changes: Any) -> Callable[[str, Any, Any], Any]:
    def change(path: str, asked: Any, answer: Any) -> Any:
        for choice in answer.get("choices", ()):
            if asked["max_tokens"] > 8:  # not the proofs
                choice |= {key: value(choice) for key, value in changes.items()}
        return answer

    return change


SPOILT = {
    "no ids": (spoil(token_ids=lambda c: None), "no token_ids"),
    "no log-probabilities": (spoil(logprobs=lambda c: None), "no log-probabilities"),
    "one log-probability short": (
        spoil(logprobs=lambda c: {"token_logprobs": c["logprobs"]["token_logprobs"][1:]}), "log-probabilities for"
    ),
    "null for a log-probability": (
        spoil(logprobs=lambda c: {"token_logprobs": [None] * len(c["token_ids"])}), "None as a log-probability"
    ),
    "other ids than the text": (spoil(token_ids=lambda c: [5] * len(c["token_ids"])), "its text"),
    "more than was asked for": (
        spoil(token_ids=lambda c: [5] * 99, logprobs=lambda c: {"token_logprobs": [-1.0] * 99}), "99 tokens of 1 to"
    ),
    "an end for no reason": (spoil(finish_reason=lambda c: None), "ends with None"),
}  # fmt: skip


def test_an_answer_that_lacks_something_is_no_completion(make: Any, faulty: Faulty, tensors: Any, prompts: Any) -> None:
    engine = make(faulty.root, max_retries=1, proof_tokens=4)
    engine.load(tensors[0], 0)
    for case, (spoilt, wanted) in SPOILT.items():
        before = len(faulty.of("/v1/completions"))
        faulty.after = spoilt
        engine.add(0, prompts[0], 20, seed=1)
        (found,) = until(engine)
        assert found.ids == () and found.logp == () and wanted in found.fault, case
        assert len(faulty.of("/v1/completions")) == before + 2, "asked once more, no oftener"
        engine.drop(0)
    faulty.after = lambda path, asked, answer: answer
    engine.add(0, prompts[0], 20, seed=1)
    assert until(engine)[0].ids


def test_a_broken_connection_is_told_once_and_so_is_its_end(
    make: Any, faulty: Faulty, tensors: Any, prompts: Any, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make(faulty.root)
    engine.load(tensors[0], 0)
    drops = [True, True]
    faulty.before = lambda path, asked: Answer(drops=drops.pop()) if drops else None
    engine.add(0, prompts[0], 4, seed=1)
    assert until(engine)[0].ids and not drops
    gone, back = (record.getMessage() for record in caplog.records if record.name == asking.__name__)
    assert "Error at http" in gone and "until its budget is used up" in gone
    assert back == f"student.engine: {faulty.root}/v1 answers again"


def test_a_busy_server_is_waited_for_as_it_wishes(make: Any, faulty: Faulty, tensors: Any, prompts: Any) -> None:
    engine = make(faulty.root)
    engine.load(tensors[0], 0)
    said = [Answer(429, {}, {"retry-after": "0"}), Answer(503, {}, {"retry-after": "0"}), Answer(drops=True)]
    faulty.before = lambda path, asked: said.pop() if path == "/v1/completions" and said else None
    engine.add(0, prompts[0], 20, seed=1)
    (found,) = until(engine)
    assert found.ids and not found.fault and not said


def test_a_server_that_is_gone_ends_the_run_and_one_that_fails_often_too(
    make: Any, faulty: Faulty, tensors: Any, prompts: Any
) -> None:
    engine = make(faulty.root, max_retries=0)
    engine.load(tensors[0], 0)
    faulty.before = lambda path, asked: Answer(500, {"error": "ill"}) if asked and asked["seed"] % 2 else None
    for number in range(served.LEAST - 1):
        engine.add(number, prompts[0], 4, seed=number)
    found = until(engine, served.LEAST - 1)
    assert [bool(completion.fault) for completion in found] == [bool(n % 2) for n in range(served.LEAST - 1)]
    engine.add(99, prompts[0], 4, seed=1)
    with pytest.raises(EngineError, match=r"10 of the last 20 messages .*max_unknown = 0\.2; .* status 500"):
        until(engine)
    engine.close()
    engine = make(faulty.root, budget_s=1.2)
    faulty.before = lambda path, asked: None
    engine.load(tensors[0], 0)
    faulty.before = lambda path, asked: Answer(drops=True)
    engine.add(0, prompts[0], 20, seed=1)
    with pytest.raises(EngineError, match=r"answered nobody for student\.engine\.budget_s = 1\.2 s: .* resume the run"):
        until(engine)


def untempered(path: str, asked: Any, answer: Any) -> Any:
    """Log-probabilities as a server gives them that forgets its temperature: those at 1."""
    for choice in answer.get("choices", ()):
        table = choice["logprobs"]
        rows, heat = table["top_logprobs"], asked["temperature"]
        table["top_logprobs"] = [{name: heat * value for name, value in row.items()} for row in rows]
    return answer


def missing(path: str, status: int = 404) -> Callable[[str, Any], Answer | None]:
    return lambda at, asked: Answer(status, {}) if at.startswith(path) else None


REFUSED = {
    "another model": ({"model": "no"}, None, None, r"student\.engine\.model must be one .* 'no', expected one of tiny"),
    "too short": ({"max_tokens": 4096}, None, None, r"max_tokens must not exceed what .* 4096 and 200"),
    "no updates": ({}, missing("/v1/weights"), None, r"noria serve MODEL --updates"),
    "a key": ({}, missing("/", 401), None, r"api_key_env must name a variable with a valid key"),
    "untempered": ({}, None, untempered, r"those at the sampling temperature: .* processed_logprobs"),
    "no ids": ({"max_retries": 0}, None, lambda p, a, r: r | {"choices": [{}]}, "returns ids and log-probabilities"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_server_that_cannot_be_the_engine_is_refused_before_anything_is_sampled(
    case: str, make: Any, faulty: Faulty, tensors: Any
) -> None:
    options, before, after, message = REFUSED[case]
    if before:
        faulty.before = before
    if after:
        faulty.after = lambda path, asked, answer: after(path, asked, answer) if asked and "prompt" in asked else answer
    with pytest.raises(UserError, match=message):
        make(faulty.root, **options).load(tensors[0], 0)


#: Fields of a completion that vLLM knows and `noria serve` refuses.
OWN = ("top_k", "min_p", "repetition_penalty", "stop_token_ids", "skip_special_tokens", "spaces_between_special_tokens")


def as_vllm(faulty: Faulty) -> None:
    """Let the real server behind this one look like vLLM in development mode."""

    def rewrite(path: str, asked: Any) -> tuple[str, Any]:
        if path == "/collective_rpc":
            return "/v1/weights", {"folder": Path(asked["kwargs"]["weights_path"]).name}
        return path, {key: value for key, value in asked.items() if key not in OWN} if asked else asked

    def after(path: str, asked: Any, answer: Any) -> Any:
        if path == "/collective_rpc":
            return {"results": [None]}
        for choice in answer.get("choices", ()):
            del choice["versions"]
        return answer

    faulty.rewrite, faulty.after = rewrite, after
    faulty.before = lambda path, asked: Answer(data={"success": True}) if path == "/reset_prefix_cache" else None


def test_vllm_reads_the_folder_and_empties_its_prefix_cache_once_after_each_update(
    make: Any, faulty: Faulty, tensors: Any, prompts: Any, renderer: Renderer
) -> None:
    as_vllm(faulty)
    engine = make(faulty.root, 0.7, server="vllm")
    for version, weights in enumerate(tensors):
        engine.load(weights, version)
        asked = [(path, given) for path, given in faulty.asked if path in ("/collective_rpc", "/reset_prefix_cache")]
        assert [path for path, _ in asked] == ["/collective_rpc", "/reset_prefix_cache"] * (version + 1)
        assert asked[-2][1]["method"] == "reload_weights"
        assert Path(asked[-2][1]["kwargs"]["weights_path"]).is_absolute()
    begun = len(faulty.of("/v1/completions"))
    converse(engine, prompts[:2], renderer.encode(" 17"))
    turns = faulty.of("/v1/completions")[begun:]
    assert len({turn["seed"] for turn in turns}) == 4, "a seed begins a stream: two turns must not share one"
    for turn in turns:
        neutral = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "temperature": 0.7}
        assert turn.items() >= neutral.items() and turn["stop_token_ids"] == list(renderer.end_ids)


def test_vllm_without_development_mode_or_with_a_cache_that_stays_is_refused(
    make: Any, faulty: Faulty, tensors: Any
) -> None:
    as_vllm(faulty)
    engine = make(faulty.root, server="vllm", budget_s=0.1)
    faulty.before = missing("/collective_rpc")
    with pytest.raises(UserError, match="VLLM_SERVER_DEV_MODE=1"):
        engine.load(tensors[0], 0)
    faulty.before = lambda path, asked: Answer(data={"success": False}) if path == "/reset_prefix_cache" else None
    with pytest.raises(EngineError, match="the prefix cache was not emptied"):
        engine.load(tensors[0], 0)


def test_nobody_there_and_a_folder_in_use_are_told(
    make: Any, server: Inside, tensors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from noria.engines import _preflight

    monkeypatch.setattr(_preflight, "START_S", 0.1)
    engine = make("http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"base_url must be a server that answers: ConnectError .* --updates"):
        engine.load(tensors[0], 0)
    with pytest.raises(UserError, match=r"student\.engine\.weights must not be worked on twice"):
        make(server.root).load(tensors[0], 0)
    engine.close()
    make(server.root).load(tensors[0], 0)


def test_limits_and_misuse_are_told(make: Any, server: Inside, tensors: Any) -> None:
    engine = make(server.root, slots=1)
    engine.load(tensors[0], 0)
    engine.add(0, [1] * 5, 3, seed=1)
    with pytest.raises(EngineError, match="no free slot"):
        engine.add(1, [1], 3, seed=1)
    with pytest.raises(EngineError, match="no room"):
        engine.add(0, [1] * LENGTH, 3, seed=1)
    with pytest.raises(EngineError, match="don't fit"):
        engine.load({"nonsense": torch.zeros(1)}, 1)
    engine.drop(0)
    engine.drop(99)
    assert engine.free == 1 and engine.step() == []
