"""Supervised data in Parquet: nested values as structs or JSON texts, and a clear word where the package is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from noria.core.errors import UserError
from noria.core.types import Message, Tool
from noria.stages.lines import Conversation, read_file
from noria.tokens.calls import render_call

CALL = {"function": {"name": "get", "arguments": {"id": "A1"}}}
TALK = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "12"},
    {"role": "assistant", "content": "[12]"},
]
WANTED = Conversation(
    [
        Message("user", "go"), Message("assistant", render_call("get", id="A1")), Message("tool", "12"),
        Message("assistant", "[12]"),
    ],
    [Tool("get", "", {"id": ("string", "")})], [False, True, False, True],
)  # fmt: skip
TOOLS = [{"type": "function", "function": {"name": "get", "parameters": {"properties": {"id": {"type": "string"}}}}}]


def test_a_missing_package_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"data: .*d\.parquet' needs the package 'pyarrow'.*noria\[parquet\]"):
        list(read_file(tmp_path / "d.parquet"))


def test_structs_and_json_texts_are_the_same_rows(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    written = [{"messages": json.dumps(TALK), "tools": json.dumps(TOOLS)}] * 300
    for name, rows in (("text", written), ("struct", [{"messages": TALK, "tools": TOOLS}])):
        parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
        found = list(read_file(tmp_path / f"{name}.parquet"))
        assert [line for _, line in found] == [WANTED] * len(rows)
        assert found[-1][0].endswith(f"{name}.parquet:{len(rows)}")
    rows = [{"prompt": "[sic", "completion": "{no json"}, {"prompt": "[1]", "completion": "2"}]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "sides.parquet")
    sides = [line.messages for _, line in read_file(tmp_path / "sides.parquet") if isinstance(line, Conversation)]
    assert sides == [[Message("user", row["prompt"]), Message("assistant", row["completion"])] for row in rows]
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "text.parquet").read_bytes()[:-30])
    with pytest.raises(UserError, match=r"data must name whole files: .*cut\.parquet' cannot be read"):
        list(read_file(tmp_path / "cut.parquet"))
