"""Python's syntax table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from noria.mutations._syntax.base import Syntax, kinds

if TYPE_CHECKING:
    from noria.mutations._node import Node


def _cold(node: Node, source: bytes) -> bool:
    """Docstrings and other strings that nobody reads, blocks for the type checker, `__slots__` and the like."""
    if node.kind == "expression_statement":
        text = source[node.start : node.end]
        only = node.children[0] if node.children else None
        if only is not None and only.kind in {"string", "concatenated_string"}:
            return True
        return re.match(rb"__\w+__\s*[:=]", text) is not None
    if node.kind == "if_statement":
        condition = node.child("condition")
        return condition is not None and b"TYPE_CHECKING" in source[condition.start : condition.end]
    return node.kind == "call" and source[node.start : node.start + 8] in {b"TypeVar(", b"NewType("}


SYNTAX = Syntax(
    name="python",
    grammar="tree_sitter_python:language",
    functions=kinds("function_definition"),
    classes=kinds("class_definition"),
    closures=kinds("lambda"),
    blocks=kinds("block module"),
    frozen=kinds(
        "comment import_statement import_from_statement future_import_statement type decorator type_alias_statement "
        "global_statement nonlocal_statement type_parameter"
    ),
    ifs=kinds("if_statement elif_clause"),
    fors=kinds("for_statement"),
    whiles=kinds("while_statement"),
    ternaries=kinds("conditional_expression"),
    tries=kinds("try_statement"),
    withs=kinds("with_statement"),
    cases=kinds("case_clause"),
    catches=kinds("except_clause"),
    binaries=kinds("binary_operator boolean_operator comparison_operator"),
    negations=kinds("not_operator"),
    calls=kinds("call"),
    arguments=kinds("argument_list"),
    assignments=kinds("assignment"),
    augmented=kinds("augmented_assignment"),
    statements=kinds("expression_statement"),
    returns=kinds("return_statement"),
    raises=kinds("raise_statement"),
    breaks=kinds("break_statement"),
    continues=kinds("continue_statement"),
    integers=kinds("integer"),
    floats=kinds("float"),
    strings=kinds("string"),
    contents=kinds("string_content"),
    names=kinds("identifier"),
    subscripts=kinds("subscript"),
    defaults=kinds("default_parameter typed_default_parameter"),
    awaits=kinds("await"),
    parameters=kinds("parameters lambda_parameters"),
    booleans=("True", "False"),
    null="None",
    nulls=kinds("none"),
    conjunctions=("and", "or"),
    negated="not ({})",
    braces=False,
    typed=False,
    stub="raise NotImplementedError",
    cold=_cold,
    pairs=(
        ("append", "extend"), ("append", "appendleft"), ("min", "max"), ("any", "all"), ("startswith", "endswith"),
        ("lower", "upper"), ("lstrip", "rstrip"), ("strip", "lstrip"), ("find", "rfind"), ("index", "rindex"),
        ("split", "rsplit"), ("partition", "rpartition"), ("keys", "values"), ("values", "items"), ("add", "discard"),
        ("union", "intersection"), ("update", "setdefault"), ("get", "pop"), ("floor", "ceil"), ("ljust", "rjust"),
        ("match", "search"), ("isdigit", "isalpha"), ("isinstance", "issubclass"), ("pop", "popleft"),
        ("islower", "isupper"), ("hasattr", "callable"), ("group", "groups"), ("issubset", "issuperset"),
        ("heappush", "heappop"), ("bisect_left", "bisect_right"), ("takewhile", "dropwhile"), ("start", "end"),
    ),
    faults=(
        ("ValueError", "TypeError"), ("TypeError", "ValueError"), ("KeyError", "IndexError"),
        ("IndexError", "KeyError"), ("AttributeError", "LookupError"), ("OSError", "RuntimeError"),
        ("RuntimeError", "OSError"), ("NotImplementedError", "ValueError"), ("StopIteration", "IndexError"),
        ("ImportError", "AttributeError"), ("FileNotFoundError", "PermissionError"), ("LookupError", "ValueError"),
        ("ZeroDivisionError", "OverflowError"), ("AssertionError", "ValueError"), ("UnicodeDecodeError", "TypeError"),
        ("OverflowError", "ZeroDivisionError"),
    ),
    wrappers=kinds(
        "list tuple set frozenset dict sorted reversed int str float abs bool round repr "
        "copy deepcopy escape ceil floor"
    ),
)  # fmt: skip
