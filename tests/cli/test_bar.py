"""Long work tells how far it is, also where no bar can be drawn."""

from __future__ import annotations

import pytest

from noria import cli_bar


def test_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli_bar, "LINES_S", 0.0)
    with cli_bar.bars(quiet=False) as shown:
        advance = shown.row("functions", 0)
        advance(3, "of toolz: [first]", 40)
        advance(4)
        shown.row("tasks", 7)(1)
    assert capsys.readouterr().err.splitlines() == [
        "functions of toolz: [first]: 3 of 40",
        "functions: 4 of 40",
        "tasks: 1 of 7",
    ]


def test_they_are_seldom(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 100.0
    monkeypatch.setattr(cli_bar.time, "monotonic", lambda: now)
    with cli_bar.bars(quiet=False) as shown:
        advance = shown.row("tasks", 90)
        for done in range(90):
            now = 100.0 + done
            advance(done)
    assert capsys.readouterr().err.splitlines() == ["tasks: 30 of 90", "tasks: 60 of 90"]


def test_quiet_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli_bar, "LINES_S", 0.0)
    with cli_bar.bars(quiet=True) as shown:
        shown.row("tasks", 7)(1)
    assert capsys.readouterr() == ("", "")
