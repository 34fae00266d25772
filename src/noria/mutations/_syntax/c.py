"""C's syntax table."""

from __future__ import annotations

from noria.mutations._syntax.base import Syntax, kinds

SYNTAX = Syntax(
    name="c",
    grammar="tree_sitter_c:language",
    functions=kinds("function_definition"),
    blocks=kinds("compound_statement case_statement"),
    frozen=kinds(
        "comment preproc_include preproc_def preproc_function_def preproc_call preproc_arg primitive_type "
        "type_identifier sized_type_specifier type_qualifier struct_specifier enum_specifier union_specifier "
        "type_definition type_descriptor attribute_specifier linkage_specification array_declarator sizeof_expression "
        "system_lib_string static_assert_declaration bitfield_clause gnu_asm_expression"
    ),
    ifs=kinds("if_statement"),
    fors=kinds("for_statement"),
    whiles=kinds("while_statement do_statement"),
    ternaries=kinds("conditional_expression"),
    cases=kinds("case_statement"),
    binaries=kinds("binary_expression"),
    negations=kinds("unary_expression"),
    calls=kinds("call_expression"),
    arguments=kinds("argument_list"),
    assignments=kinds("assignment_expression"),
    declarations=kinds("declaration"),
    statements=kinds("expression_statement"),
    returns=kinds("return_statement"),
    breaks=kinds("break_statement"),
    continues=kinds("continue_statement"),
    integers=kinds("number_literal"),
    strings=kinds("string_literal"),
    contents=kinds("string_content"),
    names=kinds("identifier"),
    subscripts=kinds("subscript_expression"),
    parameters=kinds("parameter_list"),
    null="NULL",
    nulls=kinds("null"),
    stub="abort();",
    pairs=(
        ("strchr", "strrchr"),
        ("tolower", "toupper"), ("isdigit", "isalpha"), ("floor", "ceil"), ("strcmp", "strcasecmp"),
        ("memcpy", "memmove"), ("isupper", "islower"), ("fmin", "fmax"), ("strspn", "strcspn"), ("strcpy", "strcat"),
        ("isspace", "isblank"), ("isalnum", "isalpha"),
    ),
    wrappers=kinds("abs fabs tolower toupper floor ceil labs"),
)  # fmt: skip
