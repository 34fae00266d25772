"""The page says what the artifacts say, whatever is missing from the folder and whatever a model wrote."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fabricate import HOSTILE, WORLDS, Maker
from tokenizers import Tokenizer

from noria.core.store import Run
from noria.web.report import write_report

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Checks balance while reading; keeps text by element, attributes, and text of table cells."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.titles: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "title":
            self.titles.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, (tag, self.open, self.getpos())
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        if "title" in self.open:
            self.titles[-1] += data


def page_of(run: Run) -> Page:
    """The parsed report."""
    return Page(write_report(run).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(whole_run: Run) -> Page:
    return page_of(whole_run)


def read(run: Run, name: str) -> object:
    return json.loads((run.path / name).read_text())


def test_scores_equal_the_artifacts(whole_run: Run, page: Page) -> None:
    header = ["round", "model", *WORLDS]
    starts = [i for i, row in enumerate(page.rows) if row == header]
    assert len(starts) == 2  # held-out, then unseen
    tables = {"heldout": page.rows[starts[0] + 1 : starts[1]], "unseen": page.rows[starts[1] + 1 :]}
    checked = 0
    for number in (1, 2):
        for score in read(whole_run, f"round-{number}/evaluate/scores.json"):
            model = "expert:<world>" if score["model"].startswith("expert") else score["model"]
            (row,) = [r for r in tables[score["split"]] if r[:2] == [str(number), model]][:1]
            cell = " ".join(row[2 + WORLDS.index(score["world"])].split())
            low, high = score["ci95"]
            assert cell.startswith(f"{100 * score['pass@1']:.1f} % {100 * low:.1f} to {100 * high:.1f}")
            assert f"n {score['n']}, {score['unknown']} unknown" in cell
            assert f"{score['tokens_per_solve']:.1f} tokens per solve" in cell
            checked += 1
    assert checked == 2 * (3 + 3 + 3 + 2 + 3 + 3 + 3)


def test_the_charts_show_the_same_values(whole_run: Run, page: Page) -> None:
    (score,) = [
        s for s in read(whole_run, "round-2/evaluate/scores.json")
        if (s["model"], s["world"], s["split"]) == ("merged", "ledger", "heldout")
    ]  # fmt: skip
    low, high = score["ci95"]
    interval = f"({100 * low:.0f} % to {100 * high:.0f} %)"
    assert f"round 2, merged: {100 * score['pass@1']:.0f} % {interval} of 119 known" in page.titles


def test_gate_evidence_and_verdicts(whole_run: Run, page: Page) -> None:
    for number in (1, 2):
        verdict = read(whole_run, f"round-{number}/gate/verdict.json")
        assert verdict["reason"] in page.text
        rows = {"all worlds": verdict["evidence"]["overall"], **verdict["evidence"]["worlds"]}
        for name, row in rows.items():
            low, high = row["ci"]
            wanted = [
                str(row["n"]), str(row["won"]), str(row["lost"]), f"{100 * row['gain']:+.1f}",
                f"{100 * low:+.1f} to {100 * high:+.1f}", f"{row['p_better']:.2g}", f"{row['p_worse']:.2g}",
            ]  # fmt: skip
            assert any(cells[0].startswith(name) and cells[1:] == wanted for cells in page.rows)


def test_arms_filters_and_seeds(whole_run: Run, page: Page) -> None:
    arm = read(whole_run, "round-1/resample/arms.json")["hint"]["ledger"]
    assert f"with the hint: {arm['solved']} of {arm['n']} {100 * arm['rate']:.1f} %" in " ".join(page.titles)
    assert "near duplicate: 31" in page.titles
    by_stage = {row[0]: row for row in page.rows if len(row) == 3}
    assert "".join(by_stage["pair"][2].split()) == "pairs9weakalwaysright40noright12"
    weights = whole_run.manifest("round-2/distill")["files"]["model.safetensors"]["sha256"]
    (row,) = [row for row in page.rows if row[0] == "round-2/distill" and len(row) == 5]
    assert row[2] == "13" and row[3].startswith(weights[:16]) and "round-2/curate" in row[4]


def test_key_actions_stand_in_their_place(page: Page, whole_run: Run) -> None:
    text = write_report(whole_run).read_text(encoding="utf-8")
    assert "<mark> + 20 =</mark> 36" in text  # tokens 3 to 8 of the reasoning, in the page's own words
    assert "5 of 8 → 0 of 8" in page.text and "2 of 8 → 7 of 8" in page.text
    assert sum(tag == "details" for tag, _ in page.tags) == 2 * 3 * 3
    assert sum(attrs.get("class") == "flow" for _, attrs in page.tags) == 2 * 3 * 3
    assert "edit(line='3', old='a - b', new='a + b')" in page.text


def test_nothing_is_loaded(page: Page, hostile_run: Run) -> None:
    for found in (page, page_of(hostile_run)):
        assert not {tag for tag, _ in found.tags} & {
            "script",
            "img",
            "link",
            "iframe",
            "object",
            "base",
            "form",
        }
        for tag, attrs in found.tags:
            assert "src" not in attrs and not any(key.startswith("on") for key in attrs), tag
            assert (attrs.get("href") or "#").startswith("#")
            assert not any("url(" in (value or "") or "javascript:" in (value or "") for value in attrs.values())


def test_hostile_text_is_escaped(hostile_run: Run) -> None:
    text = write_report(hostile_run).read_text(encoding="utf-8")
    assert "<script" not in text and "<img" not in text
    assert Page(text).text.count(HOSTILE) > 50


@pytest.mark.parametrize("files", [[], ["recipe.json"]])
def test_a_run_without_rounds(tmp_path: Path, tokenizer: Tokenizer, files: list[str]) -> None:
    run = Maker(tmp_path, tokenizer).run
    for file in files:
        (run.path / file).unlink()
    assert "no round has begun" in page_of(run).text


def test_every_prefix_of_a_round_gives_a_report(tmp_path: Path, whole_run: Run) -> None:
    path = tmp_path / "run"
    shutil.copytree(whole_run.path, path)
    shutil.rmtree(path / "round-2")
    run = Run(path)
    found = {str(m.parent.relative_to(path)): json.loads(m.read_text()) for m in path.rglob("manifest.json")}
    names = sorted(found, key=lambda name: found[name]["created"])
    assert len(names) == 18
    for name in reversed(names):
        shutil.move(run.folder(name), path / (name + ".partial"))  # as a stage that is still at work
        page = page_of(run)
        assert not any(row[0] == name for row in page.rows)
        assert ("Nothing to show yet" in page.text) == (name == names[0])
        if name == "round-1/gate":
            assert "not decided yet" in page.text


def test_a_torn_artifact_is_left_out(tmp_path: Path, whole_run: Run) -> None:
    path = tmp_path / "run"
    shutil.copytree(whole_run.path, path)
    (path / "round-2/gate/verdict.json").write_text('{"promoted": tr')
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"phase": "round-2/sft", "st')
    assert "not decided yet" in page_of(Run(path)).text


def test_pairs_of_another_version_become_a_note(tmp_path: Path, whole_run: Run) -> None:
    path = tmp_path / "run"
    shutil.copytree(whole_run.path, path)
    pairs = path / "round-1/pair/pairs.jsonl"
    pairs.write_text(re.sub('"outcome"', '"results"', pairs.read_text()))
    found = page_of(Run(path))
    assert "The pairs of round 1 can't be read by this version" in found.text
    assert sum(tag == "details" for tag, _ in found.tags) == 3 * 3


def test_the_same_folder_gives_the_same_page(whole_run: Run) -> None:
    first = write_report(whole_run).read_bytes()
    assert write_report(whole_run).read_bytes() == first
    assert not list(whole_run.path.glob(".*.tmp"))
