"""Go's syntax table."""

from __future__ import annotations

from noria.mutations._syntax.base import Syntax, kinds

SYNTAX = Syntax(
    name="go",
    grammar="tree_sitter_go:language",
    functions=kinds("function_declaration method_declaration"),
    blocks=kinds("statement_list"),
    frozen=kinds(
        "comment package_clause import_declaration type_declaration type_identifier qualified_type pointer_type "
        "slice_type map_type array_type generic_type function_type type_arguments type_parameter_list channel_type"
    ),
    ifs=kinds("if_statement"),
    fors=kinds("for_statement"),
    whiles=frozenset(),
    cases=kinds("expression_case type_case communication_case"),
    binaries=kinds("binary_expression"),
    negations=kinds("unary_expression"),
    calls=kinds("call_expression"),
    arguments=kinds("argument_list"),
    assignments=kinds("assignment_statement"),
    declarations=kinds("short_var_declaration var_declaration const_declaration"),
    statements=kinds("expression_statement"),
    returns=kinds("return_statement"),
    breaks=kinds("break_statement"),
    continues=kinds("continue_statement"),
    integers=kinds("int_literal"),
    floats=kinds("float_literal"),
    strings=kinds("interpreted_string_literal raw_string_literal"),
    contents=kinds("interpreted_string_literal_content raw_string_literal_content"),
    names=kinds("identifier"),
    subscripts=kinds("index_expression"),
    parameters=kinds("parameter_list"),
    null="nil",
    nulls=kinds("nil"),
    stub='panic("not implemented")',
    pairs=(
        ("HasPrefix", "HasSuffix"), ("ToLower", "ToUpper"), ("TrimLeft", "TrimRight"), ("Index", "LastIndex"),
        ("TrimPrefix", "TrimSuffix"), ("Min", "Max"), ("min", "max"), ("Floor", "Ceil"), ("Lock", "RLock"),
        ("Less", "Greater"), ("IsLower", "IsUpper"), ("IsDigit", "IsLetter"), ("IndexByte", "LastIndexByte"),
        ("Split", "SplitAfter"), ("Before", "After"), ("Title", "ToUpper"), ("Unlock", "RUnlock"), ("len", "cap"),
    ),
    wrappers=kinds("Abs Clone TrimSpace ToLower ToUpper Clean"),
)  # fmt: skip
