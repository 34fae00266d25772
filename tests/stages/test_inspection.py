"""What `noria check` finds in the files that a recipe names: each fault by field, file and fix."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from noria.core.errors import UserError
from noria.core.recipe import Recipe, load
from noria.stages.inspection import check_files
from noria.stages.models import resolve_model

RECIPE = """
name = "files"
[env]
sums = { type = "arithmetic" }
[phase.sft]
signal = "curated"
"""
#: Closes a turn with a token that the built-in tokenizer does not end with.
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
)
FORGETFUL = CHATML.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")
NO_TOOLS = CHATML.replace("{{ m.content }}", "{% if m.role != 'tool' %}{{ m.content }}{% endif %}")


@pytest.fixture
def copy(tmp_path: Path, tiny_folder: Path) -> Path:
    return Path(shutil.copytree(tiny_folder, tmp_path / "model"))


def recipe(tmp_path: Path, *changes: str) -> Recipe:
    file = tmp_path / "files.toml"
    file.write_text(RECIPE, encoding="utf-8")
    return load([file], changes)


def change(folder: Path, name: str, **values: Any) -> None:
    data = json.loads((folder / name).read_text(encoding="utf-8"))
    (folder / name).write_text(json.dumps(data | values), encoding="utf-8")


def cut(folder: Path, name: str) -> None:
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: len(data) // 2])


def without(folder: Path, part: str) -> None:
    """Take the tensors with `part` in their names out of the weights."""
    raw = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    last = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    kept = {name: entry for name, entry in header.items() if part not in name}
    # Nothing may be missing from the end, or the file would be refused for its length.
    kept["pad"] = {"dtype": "U8", "shape": [0], "data_offsets": [last, last]}
    text = json.dumps(kept).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])


def in_shards(folder: Path, *files: str) -> None:
    (folder / "model.safetensors").rename(folder / files[0])
    index = {"weight_map": {f"tensor.{i}": file for i, file in enumerate(files)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def endless(folder: Path) -> None:
    change(folder, "tokenizer_config.json", eos_token=None)
    (folder / "generation_config.json").unlink()


def template(folder: Path, text: str) -> None:
    (folder / "chat_template.jinja").write_text(text, encoding="utf-8")


def test_whole_files_are_found_whole(tmp_path: Path, copy: Path) -> None:
    check_files(recipe(tmp_path))
    check_files(recipe(tmp_path, f"student.model={copy}"))
    in_shards(copy, "model-00001-of-00001.safetensors")
    assert resolve_model(str(copy)) == copy


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda f: cut(f, "tokenizer.json"), r"must be whole: .*tokenizer\.json' cannot be read .* copy it again"),
        (lambda f: cut(f, "tokenizer_config.json"), r"tokenizer_config\.json' cannot be read"),
        (lambda f: (f / "tokenizer_config.json").write_text("[]"), "it holds no object but list"),
        (lambda f: (f / "chat_template.jinja").write_bytes(b"\xff\xfe{"), r"chat_template\.jinja' cannot be read"),
        (lambda f: (f / "chat_template.jinja").unlink(), "tokenizer must have a chat template"),
        (lambda f: template(f, FORGETFUL), "chat template must keep the prompt and every assistant message"),
        (lambda f: template(f, NO_TOOLS), "chat template must render a tool message: it leaves it out"),
        (lambda f: template(f, "{% for m in messages %}"), "chat template must render a tool message.*Unexpected end"),
        (lambda f: template(f, CHATML), r"chat template must close an assistant turn with '<\|end\|>'"),
        (endless, "tokenizer must name an eos_token"),
        (lambda f: change(f, "generation_config.json", eos_token_id=[1, 99999]), "must hold token ids from 0 to"),
        (lambda f: cut(f, "config.json"), r"config\.json' names no model_type"),
        (lambda f: change(f, "config.json", vocab_size=999), "vocab_size = 999 and the embeddings have 1024 rows"),
        (lambda f: change(f, "config.json", num_hidden_layers=40), "num_hidden_layers = 40 and the weights lack"),
        (lambda f: without(f, "layers.1."), "the weights lack layer 1 - take config.json and weights of one model"),
        (lambda f: cut(f, "model.safetensors"), "its header promises"),
        (lambda f: in_shards(f, "a.safetensors", "b.safetensors"), "lacks 1 of 2 files .* b.safetensors"),
    ],
)  # fmt: skip
def test_what_would_stop_a_run_at_its_start_is_told_with_the_field(
    tmp_path: Path, copy: Path, harm: Any, told: str
) -> None:
    harm(copy)
    with pytest.raises(UserError, match=f"(?s)^student.model.*{told}") as fault:
        check_files(recipe(tmp_path, f"student.model={copy}"))
    assert " - " in str(fault.value) and "\n" not in str(fault.value)


def teacher(folder: Path) -> list[str]:
    return [f'teachers.strong={{type = "frozen", path = "{folder}"}}']


def test_a_frozen_teacher_must_be_there_and_mean_the_same_by_its_ids(tmp_path: Path, copy: Path) -> None:
    check_files(recipe(tmp_path, *teacher(copy)))
    with pytest.raises(UserError, match=r"^teachers.strong.path must be the folder of a checkpoint: .*nowhere' has no"):
        check_files(recipe(tmp_path, *teacher(tmp_path / "nowhere")))
    data = json.loads((copy / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = data["model"]["vocab"]
    first, second = list(vocabulary)[300:302]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (copy / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    told = f"token {first!r} is {vocabulary[second]} for student.model, {vocabulary[first]} in"
    with pytest.raises(UserError, match=r"^teachers.strong.path must have the student's vocabulary") as fault:
        check_files(recipe(tmp_path, *teacher(copy)))
    assert told in str(fault.value)
    cut(copy, "model.safetensors")
    with pytest.raises(UserError, match=r"^teachers.strong.path must be whole"):
        check_files(recipe(tmp_path, *teacher(copy)))


@pytest.mark.parametrize("file", ["vocab.json", "vocab.txt"])
def test_other_files_of_a_tokenizer_tell_a_teachers_vocabulary_too(tmp_path: Path, copy: Path, file: str) -> None:
    tokenizer = json.loads((copy / "tokenizer.json").read_text(encoding="utf-8"))
    found = tokenizer["model"]["vocab"] | {each["content"]: each["id"] for each in tokenizer["added_tokens"]}
    words = sorted(found, key=lambda word: int(found[word]))
    assert [found[word] for word in words] == list(range(len(words)))
    (copy / "tokenizer.json").unlink()

    def write() -> None:
        whole = {word: number for number, word in enumerate(words)}
        (copy / file).write_text(
            json.dumps(whole) if file == "vocab.json" else "\n".join(words) + "\n", encoding="utf-8"
        )

    write()
    check_files(recipe(tmp_path, *teacher(copy)))
    words[300], words[301] = words[301], words[300]
    write()
    with pytest.raises(
        UserError, match=r"^teachers.strong.path must have the student's vocabulary: .* is 300 for .* 301"
    ):
        check_files(recipe(tmp_path, *teacher(copy)))


def test_a_teacher_without_a_tokenizer_must_know_every_id_of_the_student(tmp_path: Path, copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    check_files(recipe(tmp_path, *teacher(copy)))
    # Weights that are in no safetensors tell no shapes; their config still does.
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    change(copy, "config.json", vocab_size=900)
    with pytest.raises(
        UserError, match=r"^teachers.strong.path must have the student's vocabulary: .* is 900 for .* none in"
    ):
        check_files(recipe(tmp_path, *teacher(copy)))


def test_bad_lines_of_data_are_told_by_file_and_line(tmp_path: Path) -> None:
    good = json.dumps({"prompt": "1", "completion": "2"})
    lines = [good, "{", "", good, '{"text": 1}', *["[]"] * 5]
    (tmp_path / "d.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UserError) as fault:
        check_files(recipe(tmp_path, f'phase.sft.data=["{tmp_path}/d.jsonl", "{tmp_path}/none.jsonl"]'))
    told = str(fault.value).split("\n")
    assert [line.partition(" must")[0] for line in told[:5]] == [
        f"phase.sft.data: {tmp_path}/d.jsonl:{number}" for number in (2, 5, 6, 7, 8)
    ]
    assert told[5:] == [f"phase.sft.data: 2 more bad lines in '{tmp_path}/d.jsonl'"]
    with pytest.raises(UserError, match="none.jsonl' cannot be read .No such file"):
        check_files(recipe(tmp_path, f'phase.sft.data=["{tmp_path}/none.jsonl"]'))
    (tmp_path / "d.jsonl").write_text("\n\n")
    with pytest.raises(UserError, match="phase.sft.data must name files with something in them"):
        check_files(recipe(tmp_path, f'phase.sft.data=["{tmp_path}/d.jsonl"]'))
    check_files(recipe(tmp_path, f'phase.sft.data=["{tmp_path}/none.jsonl"]', "phase.sft.steps=0"))


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as fault:
        check_files(recipe(tmp_path, "student.model=nowhere", 'phase.sft.data=["gone.jsonl"]', *teacher(Path("away"))))
    assert [line.split(" ")[0] for line in str(fault.value).split("\n")] == [
        "student.model", "phase.sft.data", "teachers.strong.path",
    ]  # fmt: skip
