"""Bugs that are no mutations of one place: features removed, commits taken back, and those that a model writes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from small_repos import AREAS, lay, shapes
from typer.testing import CliRunner

from noria.cli import app
from noria.core.code import apply
from noria.core.errors import EngineError
from noria.core.types import Message
from noria.engines.scripted import ScriptedServer
from noria.envs.swe.records import Dataset, Repo
from noria.factory.bugs import KINDS, candidates
from noria.factory.candidate import Site, woven
from noria.factory.commits import Revert, reverts
from noria.factory.features import features
from noria.factory.history import taken_back
from noria.factory.proposed import Proposals, read, written
from noria.factory.repository import Prepared
from noria.languages.base import Language
from noria.languages.python import build

WRONG = AREAS.replace("width * height", "width + height")
STUB = "raise NotImplemented" + "Error"
CIRCLE = AREAS[AREAS.index("def circle") : AREAS.index("def triangle")]
BARE = "def circle(radius):\n    return PI * radius * radius\n\n\n"
RECTANGLE = AREAS[AREAS.index("def rectangle") : AREAS.index("def circle")].strip()


def site(folder: Path, past: tuple[Revert, ...] = ()) -> Site:
    """The small repository, of which nobody knows which lines its tests run."""
    layout = build().detect(Path(shapes(folder)))
    assert layout is not None
    repo = Repo("shapes", "", "", layout, "", "t", (), 1.0)
    return Site(Prepared(repo, cast(Language, build()), None, reverts=past), folder)


def mended(place: Site, edits: Any) -> str:
    """The file after some edits."""
    return apply({"shapes/areas.py": (place.tree / "shapes/areas.py").read_bytes()}, edits)["shapes/areas.py"].decode()


def commit(root: Path, files: dict[str, str], said: str) -> str:
    """Commit these files; the id."""
    lay(root, files)
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", said]):
        subprocess.run([*git, *words], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def past(root: Path) -> list[str]:
    """A repository whose history has a fix with a test, one without, a new file, and one that nothing is left of."""
    early = (Path(shapes(root)) / "tests/test_areas.py").read_text()
    tests = early.replace("    assert circle(0) == 0\n", "    assert circle(0) == circle(-1) == 0\n")
    ids = [commit(root, {"shapes/areas.py": WRONG.replace(CIRCLE, BARE)}, "begin")]
    ids.append(commit(root, {"shapes/areas.py": AREAS.replace(CIRCLE, BARE)}, "mend the rectangle"))
    ids.append(commit(root, {"shapes/areas.py": AREAS, "tests/test_areas.py": tests}, "a circle of nothing"))
    ids.append(commit(root, {"shapes/more.py": "MORE = 1\n"}, "more"))
    return ids


def test_a_feature_is_a_body_or_all_methods_of_a_class(tmp_path: Path) -> None:
    place = site(tmp_path)
    found = {each.target: each for each in features(place)}
    assert set(found) == {f"shapes/areas.py:{name}" for name in ("rectangle", "circle", "Sum", "Sum.add", "Sum.mean")}
    one = mended(place, found["shapes/areas.py:rectangle"].edits)
    assert f'negative sides count as nothing."""\n    {STUB}' in one and "width * height" not in one
    whole = found["shapes/areas.py:Sum"]
    assert whole.missing == "the class `Sum` in `shapes/areas.py`, with `add`, `mean`"
    text = mended(place, whole.edits)
    assert text.count(STUB) == 2 and "self.total = 0" in text and "self.total / self.count" not in text


def test_commits_that_change_sources_are_taken_back_where_nothing_stands_against_it(tmp_path: Path) -> None:
    ids = past(tmp_path)
    found = reverts(tmp_path, ids[-1], ("shapes/areas.py", "shapes/more.py"), ("tests/test_areas.py",), 10)
    assert [(each.commit, each.tested) for each in found] == [(ids[2], True), (ids[1], False)]
    assert dict(found[1].files)["shapes/areas.py"] == WRONG
    assert reverts(tmp_path, ids[-1], ("shapes/areas.py",), (), 1) == (Revert(ids[2], found[0].files, False),)
    (back, other) = taken_back(site(tmp_path / "now", found))
    assert (back.commit, back.target) == (ids[2], "shapes/areas.py:circle")
    assert mended(site(tmp_path / "now"), other.edits) == WRONG and other.target == "shapes/areas.py:rectangle"
    assert [Revert.from_json(each.to_json()) for each in found] == list(found)


def test_kinds_have_their_shares() -> None:
    drawn = list(woven([(0.5, iter("aaaaaaaaaa")), (0.3, iter("bbb")), (0.2, iter("cc")), (0.0, iter("d"))]))
    assert drawn[:10].count("a") == 5 and drawn[:10].count("b") == 3 and drawn[:10].count("c") == 2
    assert drawn[10:] == ["a"] * 5


def test_kinds_and_sizes_take_turns(tmp_path: Path) -> None:
    drawn = list(candidates(site(tmp_path), 0))[:20]
    assert sum(each.operator in KINDS for each in drawn) == 2
    sizes = [each.size for each in drawn if each.operator not in KINDS]
    assert sizes[:8].count("one line") <= 5 and sizes[:8].count("2 to 9 lines") >= 3


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("I cannot.", "an answer without a code block"),
        (f"```python\n{RECTANGLE}\n```", "an answer without a change"),
        ("```\ndef other(width, height):\n    return 1\n```", "an answer with other functions"),
        (f"```\n{RECTANGLE.replace('width * height', 'width + height  # oops')}\n```", "an answer that comments"),
        (f"<think>```no```</think>```py\n@cache\n{RECTANGLE.replace('width * height', 'width + height')}\n```\n", ""),
    ],
)
def test_answers_of_a_model_are_read_strictly(tmp_path: Path, said: str, reason: str) -> None:
    place = site(tmp_path)
    (target,) = [each for each in place.targets("shapes/areas.py", AREAS.encode()) if each.name == "rectangle"]
    candidate, why = read(place, target, AREAS.encode(), said)
    assert why == reason and (candidate is None) == bool(reason)
    if candidate is not None:
        assert mended(place, candidate.edits) == WRONG and candidate.size == "one line"


def test_a_server_that_fails_is_asked_again_some_times_and_answers_are_kept(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(messages: Any) -> str:
        asked.append(messages[-1].content)
        if len(asked) > 2:
            raise EngineError("gone")
        return "no code"

    proposals = Proposals(tmp_path, ask)
    with pytest.raises(EngineError, match="gone"):
        list(written(site(tmp_path / "a"), proposals, 0))
    proposals.close()
    # Questions are asked by threads: of the first four, any two are answered, and an answer begins the count anew.
    assert 5 <= proposals.counts["the server failed"] <= 7 and proposals.counts["an answer without a code block"] == 2
    with (tmp_path / "proposals.jsonl").open("a") as file:
        file.write('{"torn')
    again = Proposals(tmp_path, lambda messages: "no code")
    assert list(written(site(tmp_path / "a"), again, 0)) == []
    again.close()
    lines = [json.loads(line) for line in (tmp_path / "proposals.jsonl").read_text().splitlines()]
    assert len(lines) == len({line["key"] for line in lines}) == again.counts["an answer without a code block"]


def another_sign(request: Mapping[str, Any]) -> str:
    """The function that a request shows, with another sign."""
    code = str(request["messages"][-1]["content"]).split("```")[1]
    code = code.replace(" * height", " - height").replace("+=", "-=").replace("<= 0", "<= 2")
    return f"Here:\n```python{code}```"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(another_sign) as running:
        yield running


def test_all_kinds_go_through_the_same_proof(tmp_path: Path, server: ScriptedServer) -> None:
    ids = past(tmp_path / "repo")
    kinds = [word for kind in KINDS for word in ("--operators", kind)]
    words = ["tasks", "make", "swe", str(tmp_path / "repo"), "--out", str(tmp_path / "out"), "--n", "6",
             "--workers", "1", "--history", "5", "--propose", server.url, "--model", "m", "--json", *kinds]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert report["proposals"]["read"] >= 1
    tasks = {task.id: task for task in Dataset(tmp_path / "out").tasks.values()}
    by_kind = {kind: [task for task in tasks.values() if task.operator == kind] for kind in KINDS}
    assert {task.facts["commit"] for task in by_kind["commit_reverted"]} == {ids[1], ids[2]}
    assert all(task.style == "feature" and "lacks a feature" in task.statement for task in by_kind["feature_removed"])
    assert by_kind["feature_removed"] and by_kind["model_written"]
    assert all("repo" in task.statement for task in tasks.values())  # it has no metadata: it is called like its folder
    asked = len(server.requests)
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 0 and len(server.requests) == asked
    assert set(Dataset(tmp_path / "out").tasks) == set(tasks)


def test_kinds_that_lack_what_they_need_say_so(tmp_path: Path) -> None:
    for kind, wanted in (("model_written", "--propose"), ("commit_reverted", "--history")):
        words = ["tasks", "make", "swe", shapes(tmp_path / "a"), "--out", str(tmp_path / "o"), "--operators", kind]
        done = CliRunner().invoke(app, words)
        assert done.exit_code != 0 and wanted in (done.output + str(done.exception))


def test_a_question_shows_the_function_without_its_indentation(tmp_path: Path) -> None:
    heard: list[list[Message]] = []
    proposals = Proposals(tmp_path, lambda messages: heard.append(list(messages)) or "no")  # type: ignore[func-returns-value]
    list(written(site(tmp_path / "a"), proposals, 1))
    proposals.close()
    shown = [each[1].content for each in heard]
    assert any("```\ndef add(self, area):\n    if area:" in text for text in shown)
    assert len(set(shown)) >= 4 and all(text.startswith("shapes/areas.py\n") for text in shown)
