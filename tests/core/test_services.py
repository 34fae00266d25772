"""Where services run, as a recipe says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from noria.core import recipe as recipes
from noria.core.errors import UserError

WORLD = 'name = "r"\nenv = { ledger = { type = "ledger" } }\n'


def load(folder: Path, text: str) -> recipes.Recipe:
    (folder / "r.toml").write_text(text + WORLD if text.endswith("\n") else f"{WORLD}{text}\n", encoding="utf-8")
    return recipes.load([folder / "r.toml"])


def test_teachers_have_one_worker_and_the_learner_none_unless_the_recipe_says_so(tmp_path: Path) -> None:
    recipe = load(tmp_path, "")
    assert not isinstance(recipe.scorers, str)
    assert recipe.scorers.config().workers == 1 and recipe.executor.config().workers == 2
    assert recipe.learner == "here"
    recipe = load(tmp_path, 'scorers = "here"\nlearner = { type = "ray", num_gpus = 1.0 }\n')
    assert recipe.scorers == "here" and not isinstance(recipe.learner, str)
    assert recipe.learner.options == {**recipe.learner.options, "num_gpus": 1.0, "workers": 1}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("learner = { workers = 2 }", r"learner\.workers must be 1: got 2, and one process trains - set"),
        ("scorers = { workers = 0 }", r"scorers\.workers must be .*1.*got 0"),
        ("scorers = { type = 'locl' }", r"scorers\.type .*'locl'.*local"),
        ("scorers = 'her'", 'scorers must be "here" or a table: got .her. - write scorers = "here" or'),
        ("learner = { worker = 1 }", r"unknown key 'worker' in \[learner\]: did you mean 'workers'"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load(tmp_path, table + "\n")
