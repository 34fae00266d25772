"""Chat templates: ChatML and its kin work append-only; those that would make masks wrong are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from noria.core.errors import UserError
from noria.core.types import Task
from noria.stages.models import BUILTIN
from noria.tokens.renderer import Renderer

START, END = "<|im_start|>", "<|im_end|>"
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
#: Reasoning is a part of its own, shown only after the last message of the user.
LIKE_QWEN3 = (
    "{% set ns = namespace(last=0) %}"
    "{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}{% if m.role == 'assistant' and '</think>' in m.content %}"
    "{% set think = m.content.split('</think>')[0].split('<think>')[-1].strip('\n') %}"
    "{% set rest = m.content.split('</think>')[-1].lstrip('\n') %}<|im_start|>assistant\n"
    "{% if loop.index0 > ns.last %}<think>\n{{ think }}\n</think>\n\n{% endif %}{{ rest }}<|im_end|>\n"
    "{% elif m.role == 'tool' %}<|im_start|>user\n"
    "<tool_response>\n{{ m.content }}\n</tool_response><|im_end|>\n"
    "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FORGETS_REASONING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and not loop.last %}{{ m.content.split('</think>')[-1] }}"
    "{% else %}{{ m.content }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
KEEPS_THE_LAST_REASONING = FORGETS_REASONING.replace("not loop.last", "loop.index0 < messages|length - 2")
NUMBERS_BACKWARDS = CHATML.replace("{{ m.role }}\n", "{{ m.role }} {{ loop.revindex }}\n")
NO_TOOLS = (
    "{% for m in messages %}{% if m.role != 'tool' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
RAISES_ON_TOOLS = (
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}{% endfor %}" + CHATML
)
OPENS_A_THOUGHT = CHATML.replace("<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant\n<think>\n{% endif %}")
SHOUTS = CHATML.replace("{{ m.content }}", "{{ m.content|upper }}")


def tokenizer(template: str | None, eos: str | None = END, bos: str | None = None) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer without merges; with `bos` it puts that token before every text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([START, END, "<s>"])
    if bos:
        inner.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, inner.token_to_id(bos))]
        )
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=eos, bos_token=bos)
    made.chat_template = template
    return made


def conversation(renderer: Renderer, turns: list[tuple[str, str]]) -> tuple[str, str]:
    """Text of the pieces one after the other, and of the template at once."""
    ids = list(renderer.prompt(Task("t", "w", "be brief", "go")).ids)
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "go"}]
    for said, seen in turns:
        ids += [*renderer.message(said), *renderer.observation(seen).ids]
        messages += [{"role": "assistant", "content": said}, {"role": "tool", "content": seen}]
    whole = renderer.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return renderer.tokenizer.decode(ids), whole


def test_chatml_keeps_the_newline_after_the_end_token_as_glue() -> None:
    renderer = Renderer(tokenizer(CHATML))
    pieces, whole = conversation(renderer, [("<think>a</think>b", "c"), ("d", "e\nf")])
    assert pieces == whole
    piece = renderer.observation("seen")
    text = "".join(renderer.tokenizer.decode([i]) for i, r in zip(piece.ids, piece.roles, strict=True) if r == "glue")
    # The sampled turn ends with the end token; the newline behind it was never sampled, so it is glue.
    assert text == f"\n{START}tool\n{END}\n{START}assistant\n"
    assert piece.roles[0] == "glue" and renderer.tokenizer.decode([piece.ids[0]]) == "\n"


def test_a_template_that_formats_reasoning_is_used_in_its_own_form() -> None:
    renderer = Renderer(tokenizer(LIKE_QWEN3))
    pieces, whole = conversation(renderer, [("<think>\na\n</think>\n\nb", "c"), ("<think>\nd\n</think>\n\ne", "f")])
    assert pieces == whole
    assert "<tool_response>\nc\n</tool_response>" in pieces


@pytest.mark.parametrize(
    "template",
    [FORGETS_REASONING, KEEPS_THE_LAST_REASONING, NUMBERS_BACKWARDS, OPENS_A_THOUGHT, SHOUTS],
    ids=["forgets", "forgets-later", "numbers", "opens-a-thought", "shouts"],
)
def test_a_template_that_rewrites_what_was_said_is_refused(template: str) -> None:
    with pytest.raises(UserError, match="chat template must keep .* - put a template .chat_template.jinja. into the"):
        Renderer(tokenizer(template))


@pytest.mark.parametrize("template", [NO_TOOLS, RAISES_ON_TOOLS], ids=["drops", "raises"])
def test_a_template_without_a_form_for_tool_messages_is_refused(template: str) -> None:
    with pytest.raises(UserError, match="chat template must render a tool message"):
        Renderer(tokenizer(template))


def test_a_tokenizer_without_template_or_end_is_refused() -> None:
    with pytest.raises(UserError, match="must have a chat template"):
        Renderer(tokenizer(None))
    with pytest.raises(UserError, match="must name an eos_token"):
        Renderer(tokenizer(CHATML, eos=None))


def test_an_end_token_that_does_not_close_the_turn_is_refused() -> None:
    with pytest.raises(UserError, match="must close an assistant turn with '<s>'"):
        Renderer(tokenizer(CHATML, eos="<s>"))


def test_the_first_token_is_never_doubled() -> None:
    made = tokenizer("{{ bos_token }}" + CHATML, bos="<s>")
    assert made.encode("x")[0] == made.bos_token_id  # the tokenizer itself would add another one
    renderer = Renderer(made)
    ids = renderer.prompt(Task("t", "w", "be brief", "go")).ids
    assert ids[0] == made.bos_token_id and ids.count(made.bos_token_id) == 1
    for piece in (renderer.message("said"), renderer.observation("seen").ids):
        assert made.bos_token_id not in piece


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("tokenizer.json", '{"version": "1.0", "added'),
        ("tokenizer.json", "{}"),
        ("tokenizer_config.json", '{"eos_token": ["a", "b"]}'),
        ("config.json", "[]"),
        ("config.json", "{"),
        ("chat_template.jinja", "\udcff"),
    ],
)
def test_a_damaged_folder_is_refused_with_its_name(tmp_path: Path, file: str, text: str) -> None:
    folder = shutil.copytree(BUILTIN / "tiny", tmp_path / "model")
    (folder / file).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match="model must have a tokenizer that transformers can read: that of .*model"):
        Renderer.load(folder)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_generation_config_is_refused(tmp_path: Path, text: str) -> None:
    folder = shutil.copytree(BUILTIN / "tiny", tmp_path / "model")
    (folder / "generation_config.json").write_text(text)
    with pytest.raises(UserError, match="model must be whole: .*generation_config.json"):
        Renderer.load(folder)


@pytest.mark.parametrize("said", ["m.content + 1", "m.content.no()", "messages[0] / 0", "1 / 0"])
def test_a_template_whose_expressions_fail_is_refused(said: str) -> None:
    with pytest.raises(UserError, match="chat template must render a tool message"):
        Renderer(tokenizer("{% for m in messages %}{{ " + said + " }}{% endfor %}"))
