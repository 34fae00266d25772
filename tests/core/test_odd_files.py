"""Recipe files as editors, copies and accidents leave them: read where they can be, told of in one line where not."""

from __future__ import annotations

from pathlib import Path

import pytest

from noria.core.errors import UserError
from noria.core.recipe import load

RECIPE = """name = "odd"
[env]
sums = { type = "arithmetic" }
[phase.sft]
signal = "curated"
"""


def write(tmp_path: Path, data: bytes) -> Path:
    file = tmp_path / "odd.toml"
    file.write_bytes(data)
    return file


@pytest.mark.parametrize(
    "data",
    [b"\xef\xbb\xbf" + RECIPE.encode(), RECIPE.replace("\n", "\r\n").encode(), RECIPE.rstrip("\n").encode()],
    ids=["mark", "windows", "no-last-newline"],
)
def test_marks_and_line_ends_change_nothing(tmp_path: Path, data: bytes) -> None:
    plain = load([write(tmp_path, RECIPE.encode())])
    assert load([write(tmp_path, data)]) == plain


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (RECIPE.encode("utf-16"), "odd.toml must be UTF-8: byte 0 is not - save it as UTF-8"),
        ('name = "caf\xe9"'.encode("latin-1"), "odd.toml must be UTF-8: byte 11 is not"),
        (RECIPE.encode() + b'name = "a\x00b"', "must be valid TOML: line 6, column 10: illegal character"),
        (b'name = "a"\nname = "b"', "line 2, column 11: cannot overwrite a value - two keys have one name"),
        (b"[env]\na = 1\n[env]\nb = 1", "two keys have one name: rename one, or remove it"),
        (RECIPE.replace("\n", "\r").encode(), "must be valid TOML: line 1"),
        (b"x = " + b"[" * 5000, "must be valid TOML: its brackets are nested too deeply - shorten it"),
        (b"x = 1" + b"0" * 5000, "must be valid TOML: Exceeds the limit"),
        (RECIPE.replace('"odd"', '"' + "n" * 65 + '"').encode(), "name must have at most 64 letters"),
        (RECIPE.replace("sums", "s" * 300).encode(), r"\[env\] names must have at most 64 letters.*got 300, 'ssss"),
        (RECIPE.replace(".sft", "." + "p" * 300).encode(), r"\[phase\] names must have at most 64 letters"),
        (RECIPE.replace("sums", '"süm"').encode(), r"\[env\] names must begin with a letter and hold letters"),
        (RECIPE.replace("odd", "ödd").encode(), "name must begin with a letter"),
        (RECIPE.replace("odd", "../odd").encode(), "name must begin with a letter"),
        (b"", "name must be given - add `name = "),
    ],
)
def test_what_is_no_recipe_is_told_in_one_line(tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(UserError, match=told):
        load([write(tmp_path, data)])


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop.toml").symlink_to(tmp_path / "loop.toml")
    for path, told in (
        (tmp_path / "loop.toml", "recipe file must be readable: got .*loop.toml.*symbolic links"),
        (tmp_path, "recipe file must be a file: got the folder"),
        (tmp_path / ("x" * 300), "recipe file must be readable: .*too long"),
        (tmp_path / "a\x00b.toml", "recipe file must be readable: .*null"),
        (tmp_path / "none.toml", "recipe file must exist"),
    ):
        with pytest.raises(UserError, match=told):
            load([path])


def test_single_values_may_be_odd_too(tmp_path: Path) -> None:
    file = write(tmp_path, RECIPE.encode())
    for value, told in (("1" * 5000, "seed must be"), ("[" * 5000, "seed must be")):
        with pytest.raises(UserError, match=told):
            load([file], [f"seed={value}"])
