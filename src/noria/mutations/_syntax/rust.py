"""Rust's syntax table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noria.mutations._syntax.base import Syntax, kinds

if TYPE_CHECKING:
    from noria.mutations._node import Node


def _cold(node: Node, source: bytes) -> bool:
    """Tests that stand among the code that they test."""
    if node.kind not in {"function_item", "mod_item"} or node.parent is None:
        return False
    siblings = node.parent.children
    at = node.index() - 1
    while at >= 0 and siblings[at].kind in {"attribute_item", "line_comment", "block_comment"}:
        if siblings[at].kind == "attribute_item" and b"test" in source[siblings[at].start : siblings[at].end]:
            return True
        at -= 1
    return False


SYNTAX = Syntax(
    name="rust",
    grammar="tree_sitter_rust:language",
    functions=kinds("function_item"),
    classes=kinds("impl_item trait_item"),
    blocks=kinds("block"),
    frozen=kinds(
        "line_comment block_comment use_declaration extern_crate_declaration attribute_item inner_attribute_item "
        "token_tree type_identifier primitive_type generic_type reference_type type_arguments type_parameters lifetime "
        "array_type tuple_type pointer_type scoped_type_identifier macro_definition struct_item enum_item type_item "
        "where_clause visibility_modifier function_type"
    ),
    ifs=kinds("if_expression"),
    fors=kinds("for_expression"),
    whiles=kinds("while_expression"),
    cases=kinds("match_arm"),
    binaries=kinds("binary_expression"),
    negations=kinds("unary_expression"),
    calls=kinds("call_expression"),
    arguments=kinds("arguments"),
    assignments=kinds("assignment_expression"),
    augmented=kinds("compound_assignment_expr"),
    declarations=kinds("let_declaration"),
    statements=kinds("expression_statement"),
    returns=kinds("return_expression"),
    breaks=kinds("break_expression"),
    continues=kinds("continue_expression"),
    integers=kinds("integer_literal"),
    floats=kinds("float_literal"),
    strings=kinds("string_literal raw_string_literal"),
    contents=kinds("string_content"),
    names=kinds("identifier"),
    subscripts=kinds("index_expression"),
    awaits=kinds("await_expression"),
    parameters=kinds("parameters"),
    null="None",
    nulls=frozenset(),
    stub="todo!()",
    cold=_cold,
    pairs=(
        ("min", "max"), ("starts_with", "ends_with"), ("any", "all"), ("trim_start", "trim_end"), ("find", "rfind"),
        ("is_some", "is_none"), ("is_ok", "is_err"), ("to_lowercase", "to_uppercase"), ("push_back", "push_front"),
        ("pop_back", "pop_front"), ("first", "last"), ("skip", "take"), ("saturating_add", "saturating_sub"),
        ("wrapping_add", "wrapping_sub"), ("checked_add", "checked_sub"), ("floor", "ceil"), ("split", "rsplit"),
        ("take_while", "skip_while"), ("is_alphabetic", "is_numeric"), ("to_ascii_lowercase", "to_ascii_uppercase"),
        ("or", "and"), ("is_lowercase", "is_uppercase"), ("splitn", "rsplitn"), ("strip_prefix", "strip_suffix"),
    ),
    wrappers=kinds("rev abs trim sorted to_lowercase to_uppercase"),
)  # fmt: skip
