"""reasoning-gym's scorers: none may evaluate what a policy wrote without its having been read."""

from __future__ import annotations

import inspect
import re

import pytest
from reasoning_gym.factory import DATASETS

from noria.envs.problems.gym import REFUSED
from noria.graders._gym import EXPRESSIONS, LISTS, is_harmless, work

#: An answer handed to something that evaluates.
_EVALUATES = re.compile(r"(?<![\w.])eval\((?!entry|exp\b|problem|rng|fraction)|parse_expr\(|sympify\(")


def test_every_scorer_that_evaluates_an_answer_is_known() -> None:
    found = set()
    for name, (dataset, _) in DATASETS.items():
        source = inspect.getsource(dataset.score_answer)
        if _EVALUATES.search(source) or re.search(r"(?<!_)eval\(", source):
            found.add(name)
    assert found - {"propositional_logic"} <= LISTS | EXPRESSIONS
    assert "propositional_logic" in REFUSED and found >= {"n_queens", "countdown", "polynomial_multiplication"}


@pytest.mark.parametrize("dataset", sorted(LISTS | EXPRESSIONS))
@pytest.mark.parametrize(
    "answer",
    [
        "__import__('os').system('id')", "open('x', 'w')", "[].__class__", "exec('1')", "(lambda: 1)()",
        "[x for x in ()]", "Symbol('x').func", "x.subs(1)", "print", "print(1)", "9**9**9**9", "1" * 400 + "**9",
        "f'{1}'", "[*()]",
    ],
)  # fmt: skip
def test_nothing_that_could_do_more_than_compute_reaches_it(dataset: str, answer: str) -> None:
    harmless = answer in ("print", "1" * 400 + "**9", "9**9**9**9") and dataset in LISTS
    assert not is_harmless(dataset, answer) or (harmless and not re.search(r"[(\[_.]", answer))


@pytest.mark.parametrize(
    ("dataset", "answer"),
    [
        ("polynomial_multiplication", "3*x**2 - 2*x + 1"), ("countdown", "(3 + 4)*5"), ("puzzle24", "8/(3 - 8/3)"),
        ("simple_integration", "x**3/3 + C"), ("intermediate_integration", "x*sin(x) + cos(x) + C"),
        ("spiral_matrix", "1 2 3"), ("binary_matrix", "[[0, 1], [1, 0]]"), ("n_queens", "Q _ _\n_ Q _"),
    ],
)  # fmt: skip
def test_honest_answers_reach_it(dataset: str, answer: str) -> None:
    assert is_harmless(dataset, answer)


def test_its_own_answers_earn_full_marks_and_others_do_not() -> None:
    from noria.graders._gym import _scorer

    for name in sorted(LISTS | EXPRESSIONS):
        scorer = _scorer(name)
        entry = scorer[0]
        right = work({"dataset": name, "entry": entry, "answer": str(entry["answer"])})
        assert right == 1.0, (name, entry["answer"])
        assert work({"dataset": name, "entry": entry, "answer": "unknown"}) in (0.0, 0.01, 0.05, "fault")
    assert work({"dataset": "none such", "entry": {}, "answer": "1"}) is None
