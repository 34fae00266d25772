"""New weights for a server at work: only from its folder, only whole, told to whoever samples meanwhile."""

from __future__ import annotations

import hashlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from noria.cli import app
from noria.engines import embedded
from noria.models import weights
from noria.models.load import load_model
from noria.server.build import build
from noria.server.inside import Inside
from noria.tokens.renderer import Renderer
from noria.trainers import local
from noria.trainers.rows import Row

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Server(Inside):
    """A server with a key, and a client of it."""

    def ask(self, path: str, body: Any = None, key: str = "k") -> tuple[int, Any]:  # type: ignore[override]
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        try:
            with DIRECT.open(urllib.request.Request(self.root + path, data, headers), timeout=60) as found:
                return found.status, json.load(found)
        except urllib.error.HTTPError as fault:
            return fault.code, json.load(fault)

    def complete(self, ids: tuple[int, ...], most: int) -> Any:
        asked = {"model": "m", "prompt": list(ids), "max_tokens": most, "seed": 3, "logprobs": 0}
        return self.ask("/v1/completions", {**asked, "return_token_ids": True})[1]["choices"][0]


@pytest.fixture(scope="module")
def room(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints in a folder: `other` has new weights, `small` another shape, `cut` half a file."""
    root = tmp_path_factory.mktemp("updates")
    model = load_model(tiny_folder)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    weights.write(model, root / "other", tiny_folder)
    tensors = {name: tensor[:1].clone() for name, tensor in model.state_dict().items()}
    for name in ("small", "cut"):
        (root / name).mkdir()
        for path in (root / "other").iterdir():
            (root / name / path.name).write_bytes(path.read_bytes())
    from safetensors.torch import save_file

    save_file(tensors, root / "small" / "model.safetensors", metadata={"format": "pt"})
    whole = (root / "other" / "model.safetensors").read_bytes()
    (root / "cut" / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    (root / "hole").mkdir()
    return root


@pytest.fixture
def server(tiny_folder: Path, room: Path) -> Iterator[Server]:
    config = embedded.Config(slots=4, max_tokens=300, prefill_rows=8)
    inside = Server(build("m", tiny_folder, "k", config, 8, 20, updates=room))
    yield inside
    inside.close()


def test_new_weights_are_counted_hashed_and_sampled_from(
    server: Server, room: Path, renderer: Renderer, tiny_folder: Path
) -> None:
    ids = renderer.encode("compute 3 + 4")
    assert server.ask("/v1/weights") == (200, {"version": 0, "sha256": ""})
    before = server.complete(ids, 12)
    sha256 = hashlib.sha256((room / "other" / "model.safetensors").read_bytes()).hexdigest()
    for version in (1, 2):
        found = server.ask("/v1/weights", {"folder": "other", "sha256": sha256})
        assert found == (200, {"version": version, "sha256": sha256})
    after = server.complete(ids, 12)
    for folder, answer, version in ((tiny_folder, before, 0), (room / "other", after, 2)):
        assert answer["versions"] == [version] * len(answer["token_ids"])
        row = Row.plain([*ids, *answer["token_ids"]], [1] * (len(ids) + len(answer["token_ids"])))
        logp = local.build(local.Config(), folder).score([row])[0][len(ids) :]
        assert answer["logprobs"]["token_logprobs"] == pytest.approx(logp.tolist(), abs=1e-4)
    assert before["logprobs"]["token_logprobs"] != pytest.approx(after["logprobs"]["token_logprobs"], abs=1e-2)


WRONG = {
    "nothing there": ({"folder": "none"}, "must be the name of a checkpoint"),
    "no weights in it": ({"folder": "hole"}, "must be the name of a checkpoint"),
    "above the folder": ({"folder": "../other"}, "must be the name of a checkpoint"),
    "the folder itself": ({"folder": "."}, "must be the name of a checkpoint"),
    "an absolute path": ({"folder": "/etc"}, "must be the name of a checkpoint"),
    "below a checkpoint": ({"folder": "hole/../other/.."}, "must be the name of a checkpoint"),
    "a damaged file": ({"folder": "cut"}, "must be a checkpoint that can be read"),
    "another model": ({"folder": "small"}, "must"),
    "another file": ({"folder": "other", "sha256": "0" * 64}, "must be that of model.safetensors: it has"),
    "no name": ({}, "'folder' must be given"),
    "more than is known": ({"folder": "other", "version": 3}, "unknown field 'version'"),
}


def test_what_cannot_be_taken_is_refused_and_the_old_weights_stay(server: Server, renderer: Renderer) -> None:
    ids = renderer.encode("compute 3 + 4")
    before = server.complete(ids, 12)
    for name, (asked, message) in WRONG.items():
        status, answer = server.ask("/v1/weights", asked)
        assert status == 400 and message in answer["error"]["message"], name
    assert server.ask("/v1/weights", {"folder": "other"}, key="other")[0] == 401
    assert server.ask("/v1/weights") == (200, {"version": 0, "sha256": ""})
    after = server.complete(ids, 12)
    assert after["token_ids"] == before["token_ids"] and after["logprobs"] == before["logprobs"]


def test_a_request_at_work_is_told_where_the_weights_changed(
    server: Server, room: Path, renderer: Renderer, tiny_folder: Path
) -> None:
    ids = renderer.encode("compute")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(server.complete(ids, 250)))
    thread.start()
    while server.api.loop.tokens < 3:
        pass
    server.ask("/v1/weights", {"folder": "other"})
    thread.join()
    versions, tokens = found[0]["versions"], found[0]["token_ids"]
    assert versions == sorted(versions) and len(versions) == len(tokens) and versions[0] == 0
    row = Row.plain([*ids, *tokens], [1] * (len(ids) + len(tokens)))
    folders = (tiny_folder, room / "other")
    old, new = (local.build(local.Config(), folder).score([row])[0][len(ids) :].tolist() for folder in folders)
    wanted = [b if version else a for a, b, version in zip(old, new, versions, strict=True)]
    assert found[0]["logprobs"]["token_logprobs"] == pytest.approx(wanted, abs=1e-3)


def test_a_server_without_updates_takes_none(tiny_folder: Path) -> None:
    server = Server(build("m", tiny_folder, "k", embedded.Config(slots=1, max_tokens=64), 8, 20))
    try:
        assert server.ask("/v1/weights")[0] == server.ask("/v1/weights", {"folder": "other"})[0] == 404
    finally:
        server.close()


def test_the_command_refuses_what_does_not_fit(tmp_path: Path) -> None:
    script = tmp_path / "said.jsonl"
    script.write_text('"hello"\n')
    (tmp_path / "file").write_text("")
    for extra, message in (
        (["--updates", str(tmp_path / "w"), "--script", str(script)], "--updates must not go with --script"),
        (["--updates", str(tmp_path / "file")], "--updates must be a folder"),
    ):
        found = CliRunner().invoke(app, ["serve", "builtin:tiny", "--port", "0", *extra])
        assert found.exit_code != 0 and message in str(found.exception)
