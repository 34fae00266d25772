"""What an emitted backend may consist of: allowed nodes of its syntax tree, types everywhere, no dead tool."""

from __future__ import annotations

import ast

from noria.core.syntax import parse

_ALLOWED: frozenset[type[ast.AST]] = frozenset((
    ast.Module, ast.FunctionDef, ast.ClassDef, ast.arguments, ast.arg, ast.keyword, ast.Return, ast.Assign,
    ast.AnnAssign, ast.For, ast.If, ast.Raise, ast.Try, ast.ExceptHandler, ast.Expr, ast.Pass, ast.Import,
    ast.ImportFrom, ast.alias, ast.Name, ast.Load, ast.Store, ast.Constant, ast.Subscript, ast.Slice, ast.Attribute,
    ast.Call, ast.Tuple, ast.List, ast.Dict, ast.Starred, ast.ListComp, ast.GeneratorExp, ast.DictComp,
    ast.comprehension, ast.IfExp, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.BinOp, ast.Add, ast.Sub,
    ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn,
    ast.JoinedStr, ast.FormattedValue,
))  # fmt: skip
_MODULES = {"__future__": {"annotations"}, "typing": {"Any", "Callable"}, "re": set[str]()}
_ATTRIBUTES = frozenset(
    ("get", "items", "values", "join", "setdefault", "append", "strip", "fullmatch", "compile")
)  # fmt: skip
_CALLED = frozenset(
    ("str", "int", "len", "sum", "max", "all", "set", "dict", "list", "isinstance", "ascii", "Refused")
)  # fmt: skip
#: Names that an emitted module may use of Python itself.
BUILTINS = (*sorted(_CALLED - {"Refused"}), "Exception", "bool", "tuple")


def faults_in_source(text: str, tools: list[str]) -> list[str]:
    """What speaks against a backend that should have these tools; [] where nothing does."""
    try:
        tree = parse(text)
    except SyntaxError as fault:
        return [f"does not compile: line {fault.lineno}: {fault.msg}"]
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found: list[str] = []
    callable_names = _CALLED | set(defined)
    for node in ast.walk(tree):
        found += _node(node, callable_names)
    for name, node in defined.items():
        arguments = [*node.args.args, node.args.kwarg]
        if node.returns is None or any(arg is not None and arg.annotation is None for arg in arguments):
            found.append(f"{name} is not fully annotated")
        if not name.startswith("_") and ast.get_docstring(node) is None:
            found.append(f"{name} has no docstring")
    return found + _registered(tree, defined, tools)


def _node(node: ast.AST, callable_names: frozenset[str]) -> list[str]:
    kind = type(node)
    if kind not in _ALLOWED:
        said = f"{kind.__name__} is not allowed"
    elif isinstance(node, ast.Name):
        said = f"name {node.id} is not allowed" if node.id.startswith("__") else ""
    elif isinstance(node, ast.Attribute):
        said = f"attribute {node.attr} is not allowed" if node.attr not in _ATTRIBUTES else ""
    elif isinstance(node, ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        said = f"call of {called} is not allowed" if called and called not in callable_names else ""
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names if alias.name not in _MODULES]
        said = f"import of {', '.join(names)} is not allowed" if names else ""
    elif isinstance(node, ast.ImportFrom):
        allowed = _MODULES.get(node.module or "", set())
        names = [alias.name for alias in node.names if alias.name not in allowed]
        said = f"import of {', '.join(names)} is not allowed" if names else ""
    else:
        return []
    where = f"line {node.lineno}: " if isinstance(node, ast.stmt | ast.expr) else ""
    return [where + said] if said else []


def _registered(tree: ast.Module, defined: dict[str, ast.FunctionDef], tools: list[str]) -> list[str]:
    """That the registry names every tool, each bound to the function of that name."""
    registry: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "TOOLS":
            assert isinstance(node.value, ast.Dict)
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Name):
                    registry[str(key.value)] = value.id
    found = [f"{name} is not in the registry" for name in tools if registry.get(name) != name]
    found += [f"{name} is in the registry and no tool" for name in registry if name not in tools]
    found += [f"{name} is registered and not defined" for name in registry.values() if name not in defined]
    public = {name for name in defined if not name.startswith("_")} - {"call", "validate"}
    return found + [f"{name} is defined and cannot be reached" for name in sorted(public - set(registry.values()))]
