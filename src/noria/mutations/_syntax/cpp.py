"""C++'s syntax table: C's and what classes, templates and exceptions add."""

from __future__ import annotations

from dataclasses import replace

from noria.mutations._syntax.base import Syntax, kinds
from noria.mutations._syntax.c import SYNTAX as C

SYNTAX: Syntax = replace(
    C,
    name="cpp",
    grammar="tree_sitter_cpp:language",
    classes=kinds("class_specifier struct_specifier"),
    frozen=(C.frozen - kinds("struct_specifier linkage_specification"))
    | kinds(
        "using_declaration alias_declaration template_parameter_list template_argument_list concept_definition "
        "placeholder_type_specifier namespace_identifier access_specifier friend_declaration trailing_return_type "
        "virtual_specifier decltype noexcept requires_clause"
    ),
    fors=kinds("for_statement for_range_loop"),
    tries=kinds("try_statement"),
    catches=kinds("catch_clause"),
    defaults=kinds("optional_parameter_declaration"),
    raises=kinds("throw_statement"),
    null="nullptr",
    stub='throw "not implemented";',
    pairs=(
        *C.pairs, ("push_back", "pop_back"), ("front", "back"), ("begin", "end"), ("find", "rfind"), ("min", "max"),
        ("first", "second"), ("find_first_of", "find_last_of"), ("lower_bound", "upper_bound"), ("any_of", "all_of"),
        ("insert", "erase"), ("push_front", "push_back"), ("rbegin", "begin"),
    ),
    faults=(
        ("out_of_range", "invalid_argument"), ("invalid_argument", "out_of_range"), ("runtime_error", "logic_error"),
        ("logic_error", "runtime_error"), ("domain_error", "range_error"), ("length_error", "out_of_range"),
    ),
    wrappers=C.wrappers,
)  # fmt: skip
