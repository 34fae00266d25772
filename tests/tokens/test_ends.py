"""The tokens that end a turn, as checkpoints name them: one for the template, perhaps others that stop sampling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_templates import CHATML, END, tokenizer

from noria.core.errors import UserError
from noria.core.types import Task
from noria.tokens.ends import end_ids, read_end_ids
from noria.tokens.renderer import Renderer


def folder_of(path: Path, named: object) -> Path:
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": named}), encoding="utf-8")
    return path


def test_a_folder_names_the_tokenizers_end_and_those_of_its_generation_config(tmp_path: Path) -> None:
    made = tokenizer(CHATML)
    own, other = made.eos_token_id, made.convert_tokens_to_ids("<s>")
    assert read_end_ids(tmp_path, made) == (own,)  # no such file
    for named, want in (
        (None, (own,)),
        (own, (own,)),
        (other, (own, other)),
        ([other, own, other], (own, other)),
        ([], (own,)),
    ):
        assert read_end_ids(folder_of(tmp_path, named), made) == want
    assert read_end_ids(folder_of(tmp_path, other), tokenizer(CHATML, eos=None)) == (other,)


@pytest.mark.parametrize("bad", [-1, 10_000, "stop"])
def test_an_end_that_is_no_token_is_refused(tmp_path: Path, bad: object) -> None:
    with pytest.raises(UserError, match=r"eos_token_id of .*generation_config.json.* must hold token ids .* got"):
        read_end_ids(folder_of(tmp_path, [bad]), tokenizer(CHATML))
    with pytest.raises(UserError, match="tokenizer must name an eos_token"):
        end_ids(tokenizer(CHATML, eos=None))


def test_the_template_says_which_end_closes_a_turn() -> None:
    made = tokenizer(CHATML, eos="<s>")  # the end of a text, which no turn has
    closing = made.convert_tokens_to_ids(END)
    renderer = Renderer(made, (made.eos_token_id, closing))
    assert renderer.end_ids == (closing, made.eos_token_id) and renderer.end_text == END
    said = renderer.message("ok")
    assert said[-1] == closing
    for end in renderer.end_ids:
        assert renderer.decode((*said[:-1], end)) == "ok"
    whole = [*renderer.prompt(Task("t", "w", "s", "u")).ids, *said, *renderer.observation("seen").ids]
    want = made.apply_chat_template(
        [
            {"role": "system", "content": "s"}, {"role": "user", "content": "u"},
            {"role": "assistant", "content": "ok"}, {"role": "tool", "content": "seen"},
        ],
        add_generation_prompt=True, tokenize=False,
    )  # fmt: skip
    assert made.decode(whole) == want
    with pytest.raises(UserError, match="must close an assistant turn with '<s>': got"):
        Renderer(made)


def test_the_built_in_model_ends_with_its_one_token(tiny_folder: Path, renderer: Renderer) -> None:
    assert renderer.end_ids == read_end_ids(tiny_folder, renderer.tokenizer) == (1,)
