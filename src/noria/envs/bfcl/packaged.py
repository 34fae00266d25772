"""The package's own AST checker, and its readers of Java and JavaScript literals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from noria.bases.package import Package
from noria.core.errors import boundary
from noria.envs.bfcl.data import Entry
from noria.envs.bfcl.matching import Convert, Made

_CONVERTORS = {"Java": "java", "JavaScript": "js"}


def own_checker(package: Package) -> Callable[[Entry, Sequence[Made]], str]:
    """Grades by the package itself. Raises UserError: it is not installed with all that it needs."""
    check = package.module("eval_checker.ast_eval.ast_checker").ast_checker
    languages = package.module("constants.enums").Language
    models = package.module("constants.model_config").MODEL_CONFIG_MAPPING
    model = next(name for name, config in models.items() if not config.underscore_to_dot)

    def fault(entry: Entry, calls: Sequence[Made]) -> str:
        language = languages[(entry.language or "Python").upper()]
        output = [{name: dict(arguments)} for name, arguments in calls]
        found = check(list(entry.functions), output, list(entry.answer), language, entry.category, model)
        return "" if found["valid"] else str(found.get("error") or found.get("error_type"))

    return fault


def converter(package: Package, language: str) -> Convert | None:
    """Reads literals of an entry's language; what cannot be read stays a text."""
    if language not in _CONVERTORS:
        return None
    name = f"{_CONVERTORS[language]}_type_converter"
    read: Callable[..., Any] = vars(package.module(f"eval_checker.ast_eval.type_convertor.{name}"))[name]
    return lambda text, kind, nested: boundary(lambda: read(text, kind, nested), lambda fault: text)
