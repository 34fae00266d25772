"""Java's syntax table."""

from __future__ import annotations

from noria.mutations._syntax.base import Syntax, kinds

SYNTAX = Syntax(
    name="java",
    grammar="tree_sitter_java:language",
    functions=kinds("method_declaration constructor_declaration"),
    classes=kinds("class_declaration enum_declaration interface_declaration record_declaration"),
    blocks=kinds("block constructor_body switch_block_statement_group"),
    frozen=kinds(
        "line_comment block_comment import_declaration package_declaration marker_annotation annotation modifiers "
        "type_identifier generic_type integral_type floating_point_type boolean_type array_type type_arguments "
        "type_parameters scoped_type_identifier throws super_interfaces void_type annotation_type_declaration "
        "explicit_constructor_invocation"
    ),
    ifs=kinds("if_statement"),
    fors=kinds("for_statement enhanced_for_statement"),
    whiles=kinds("while_statement do_statement"),
    ternaries=kinds("ternary_expression"),
    tries=kinds("try_statement"),
    cases=kinds("switch_label"),
    catches=kinds("catch_clause"),
    binaries=kinds("binary_expression"),
    negations=kinds("unary_expression"),
    calls=kinds("method_invocation"),
    arguments=kinds("argument_list"),
    assignments=kinds("assignment_expression"),
    declarations=kinds("local_variable_declaration"),
    statements=kinds("expression_statement"),
    returns=kinds("return_statement"),
    raises=kinds("throw_statement"),
    breaks=kinds("break_statement"),
    continues=kinds("continue_statement"),
    integers=kinds("decimal_integer_literal"),
    floats=kinds("decimal_floating_point_literal"),
    strings=kinds("string_literal"),
    contents=kinds("string_fragment"),
    names=kinds("identifier"),
    subscripts=kinds("array_access"),
    parameters=kinds("formal_parameters"),
    nulls=kinds("null_literal"),
    stub='throw new UnsupportedOperationException("not implemented");',
    pairs=(
        ("indexOf", "lastIndexOf"), ("startsWith", "endsWith"), ("toLowerCase", "toUpperCase"), ("min", "max"),
        ("addFirst", "addLast"), ("pollFirst", "pollLast"), ("anyMatch", "allMatch"), ("floor", "ceil"),
        ("isLetter", "isDigit"), ("add", "remove"), ("containsKey", "containsValue"), ("keySet", "values"),
        ("equals", "equalsIgnoreCase"), ("isUpperCase", "isLowerCase"), ("getFirst", "getLast"), ("peek", "poll"),
        ("append", "insert"), ("isEmpty", "isBlank"), ("hasNext", "hasPrevious"), ("put", "putIfAbsent"),
    ),
    faults=(
        ("IllegalArgumentException", "IllegalStateException"), ("IllegalStateException", "IllegalArgumentException"),
        ("NullPointerException", "IllegalArgumentException"), ("IndexOutOfBoundsException", "IllegalStateException"),
        ("UnsupportedOperationException", "IllegalStateException"), ("NoSuchElementException", "IllegalStateException"),
        ("RuntimeException", "IllegalStateException"), ("NumberFormatException", "ArithmeticException"),
    ),
    wrappers=kinds("abs trim strip"),
)  # fmt: skip
