"""Models from elsewhere: what is written loads everywhere and is the same model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from architectures import tiny_model

from noria.core.errors import UserError
from noria.models.importer import import_model
from noria.models.load import load_model
from noria.stages.models import resolve_model

TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@pytest.fixture
def sharded(tmp_path: Path, tiny_folder: Path) -> Path:
    """A checkpoint in several files, with the built-in tokenizer."""
    model = tiny_model("llama")
    model.resize_token_embeddings(1024)
    model.save_pretrained(tmp_path / "source", max_shard_size="40KB")
    for name in TOKENIZER:
        shutil.copyfile(tiny_folder / name, tmp_path / "source" / name)
    return tmp_path / "source"


def test_a_folder_becomes_one_file_of_the_same_weights(sharded: Path, tmp_path: Path) -> None:
    facts = import_model(str(sharded), tmp_path / "out")
    assert facts["architecture"] == "LlamaForCausalLM" and facts["vocabulary"] == 1024
    assert resolve_model(str(tmp_path / "out")) == tmp_path / "out"
    assert not list(tmp_path.glob("out.partial"))
    ids = torch.arange(30)[None]
    with torch.no_grad():
        got, want = (load_model(folder)(input_ids=ids).logits for folder in (tmp_path / "out", sharded))
    assert torch.equal(got, want)
    with pytest.raises(UserError, match="FOLDER must be new or empty"):
        import_model(str(sharded), tmp_path / "out")


def test_what_cannot_be_imported_is_refused(sharded: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"SOURCE must be one of smollm2, a \.gguf file or a folder"):
        import_model("nonsense", tmp_path / "out")
    (sharded / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match="tokenizer must have a chat template"):
        import_model(str(sharded), tmp_path / "out")
    assert not (tmp_path / "out").exists()
