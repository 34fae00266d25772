"""Edits of source files and their diffs, against git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.code import Edit, apply, diff


def test_edits_hold_the_offsets_of_the_file_as_it_was() -> None:
    edits = [Edit("a", 4, 5, "-"), Edit("a", 0, 1, "xyz"), Edit("b", 0, 0, "1")]
    assert apply({"a": b"a + b", "b": b"", "c": b"c"}, edits) == {"a": b"xyz + -", "b": b"1"}


@pytest.mark.parametrize(("start", "end"), [(2, 3), (1, 2), (9, 9), (3, 1)])
def test_edits_that_overlap_or_leave_the_file_are_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="edit"):
        apply({"a": b"abcdef"}, [Edit("a", 1, 3, "."), Edit("a", start, end, ".")])


_LINES = st.lists(st.sampled_from(["x = 1", "y = 2", "", "é", " pass\x0c", "a\rb"]), max_size=8)


@given(old=_LINES, new=_LINES, old_end=st.booleans(), new_end=st.booleans())
def test_a_diff_is_what_git_applies(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str], old_end: bool, new_end: bool
) -> None:
    folder: Path = tmp_path_factory.mktemp("diff")
    before = ("\n".join(old) + "\n" * old_end).encode()
    after = ("\n".join(new) + "\n" * new_end).encode()
    (folder / "f.py").write_bytes(before)
    text = diff({"f.py": before}, {"f.py": after})
    if before == after:
        assert text == ""
        return
    subprocess.run(["git", "apply", "-"], input=text.encode(), cwd=folder, check=True)
    assert (folder / "f.py").read_bytes() == after
