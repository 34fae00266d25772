"""JavaScript's syntax table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noria.mutations._syntax.base import Syntax, kinds

if TYPE_CHECKING:
    from noria.mutations._node import Node


def _cold(node: Node, source: bytes) -> bool:
    """Directives such as `'use strict'`, and calls of `require`."""
    text = source[node.start : node.end]
    if node.kind == "expression_statement":
        return text[:1] in {b'"', b"'"} and len(node.parts()) == 1 and node.parts()[0].kind == "string"
    return node.kind == "call_expression" and text.startswith(b"require(")


SYNTAX = Syntax(
    name="javascript",
    grammar="tree_sitter_javascript:language",
    functions=kinds("function_declaration generator_function_declaration method_definition"),
    classes=kinds("class_declaration class"),
    closures=kinds("arrow_function function_expression generator_function"),
    blocks=kinds("statement_block program"),
    frozen=kinds(
        "comment import_statement decorator hash_bang_line type_annotation type_arguments type_parameters "
        "interface_declaration type_alias_declaration implements_clause ambient_declaration regex jsx_opening_element "
        "predefined_type type_identifier enum_declaration"
    ),
    ifs=kinds("if_statement"),
    fors=kinds("for_statement for_in_statement"),
    whiles=kinds("while_statement do_statement"),
    ternaries=kinds("ternary_expression"),
    tries=kinds("try_statement"),
    cases=kinds("switch_case"),
    catches=kinds("catch_clause"),
    binaries=kinds("binary_expression"),
    negations=kinds("unary_expression"),
    calls=kinds("call_expression new_expression"),
    arguments=kinds("arguments"),
    assignments=kinds("assignment_expression"),
    augmented=kinds("augmented_assignment_expression"),
    declarations=kinds("lexical_declaration variable_declaration"),
    statements=kinds("expression_statement"),
    returns=kinds("return_statement"),
    raises=kinds("throw_statement"),
    breaks=kinds("break_statement"),
    continues=kinds("continue_statement"),
    integers=kinds("number"),
    strings=kinds("string"),
    contents=kinds("string_fragment"),
    names=kinds("identifier"),
    subscripts=kinds("subscript_expression"),
    defaults=kinds("assignment_pattern required_parameter"),
    awaits=kinds("await_expression"),
    parameters=kinds("formal_parameters"),
    nulls=kinds("null undefined"),
    typed=False,
    stub="throw new Error('not implemented');",
    cold=_cold,
    pairs=(
        ("indexOf", "lastIndexOf"), ("push", "unshift"), ("pop", "shift"), ("startsWith", "endsWith"),
        ("toLowerCase", "toUpperCase"), ("trimStart", "trimEnd"), ("some", "every"), ("min", "max"), ("floor", "ceil"),
        ("map", "filter"), ("slice", "splice"), ("keys", "values"), ("values", "entries"), ("find", "findIndex"),
        ("add", "delete"), ("padStart", "padEnd"), ("reduce", "reduceRight"), ("replace", "replaceAll"),
        ("round", "floor"), ("slice", "substr"), ("isNaN", "isFinite"), ("all", "race"), ("resolve", "reject"),
    ),
    faults=(
        ("TypeError", "RangeError"), ("RangeError", "TypeError"), ("SyntaxError", "TypeError"), ("Error", "TypeError"),
        ("ReferenceError", "TypeError"),
    ),
    wrappers=kinds("Number String Boolean parseInt parseFloat abs trim round floor ceil freeze from"),
)  # fmt: skip
