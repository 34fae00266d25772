"""The tokenizer that `noria check` reads without transformers, against transformers' own of the same files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from test_templates import CHATML, LIKE_QWEN3, tokenizer

from noria.core.types import Message, Tool
from noria.tokens.light import LightTokenizer
from noria.tokens.renderer import Renderer

TOOLS = (Tool("get", "finds a thing", {"id": ("string", "which")}),)


@pytest.mark.parametrize("text", [None, CHATML, LIKE_QWEN3], ids=["tiny", "chatml", "like-qwen3"])
def test_it_sees_what_a_run_will_see(tmp_path: Path, tiny_folder: Path, text: str | None) -> None:
    folder = tiny_folder
    if text is not None:
        folder = tmp_path / "model"
        tokenizer(text, bos="<s>").save_pretrained(str(folder))
    heavy, light = Renderer.load(folder), Renderer(LightTokenizer(folder))
    assert light.tokenizer.is_told
    assert (light.end_ids, light.end_text, light.vocab_size) == (heavy.end_ids, heavy.end_text, heavy.vocab_size)
    assert (light._between, light._after, light._shows_tools) == (heavy._between, heavy._after, heavy._shows_tools)
    assert (light._pieces, light._special_ids) == (heavy._pieces, heavy._special_ids)
    messages, tools = heavy.opening([Message("system", "Be brief."), Message("user", "é <|end|> <s>")], TOOLS)
    assert light.text(messages, tools, generate=True) == heavy.text(messages, tools, generate=True)
    assert light.tokenizer.vocabulary() == heavy.tokenizer.get_vocab()


def test_templates_may_mark_what_was_said_leave_loops_and_have_names(tmp_path: Path, tiny_folder: Path) -> None:
    copy = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    text = (copy / "chat_template.jinja").read_text(encoding="utf-8")
    marked = text + "{% generation %}{% endgeneration %}{% for x in [1, 2] %}{% break %}{% endfor %}"
    (copy / "chat_template.jinja").write_text(marked, encoding="utf-8")
    assert Renderer(LightTokenizer(copy)).end_ids == Renderer.load(copy).end_ids
    (copy / "chat_template.jinja").unlink()
    config = json.loads((copy / "tokenizer_config.json").read_text(encoding="utf-8"))
    config["chat_template"] = [{"name": "rag", "template": "x"}, {"name": "default", "template": text}]
    (copy / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert LightTokenizer(copy).chat_template == text == Renderer.load(copy).tokenizer.get_chat_template()


def test_a_family_whose_class_knows_its_end_token_is_not_judged_by_its_files(tmp_path: Path, tiny_folder: Path) -> None:
    copy = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    named = {"bos_token": None, "eos_token": "<|end|>"}
    for config, told in (
        ({"tokenizer_class": "GPT2Tokenizer"}, False), ({"tokenizer_class": "TokenizersBackend"}, True), ({}, False),
        ({"tokenizer_class": "GPT2Tokenizer", **named}, True), ({"eos_token": "<|end|>"}, False), (named, True),
    ):  # fmt: skip
        (copy / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        assert LightTokenizer(copy).is_told is told
