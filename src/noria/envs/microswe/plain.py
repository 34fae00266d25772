"""What a repaired file may hold: the plain Python that functions of this world are made of, and nothing else.

Tests run in one interpreter with the code they test, and too many things lead from code to that interpreter
(`locals()` in a default value is the module, its builtins import anything) for a list of what is forbidden.
"""

from __future__ import annotations

import ast
import builtins
import re

from noria.core.syntax import parse

_NODES = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.For, ast.While, ast.If,
    ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Call,
    ast.keyword, ast.Attribute, ast.Subscript, ast.Slice, ast.Name, ast.Constant, ast.List, ast.Tuple, ast.ListComp,
    ast.GeneratorExp, ast.comprehension, ast.expr_context, ast.boolop, ast.unaryop, ast.cmpop,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor,
    ast.LShift, ast.RShift, ast.Dict, ast.Set, ast.DictComp, ast.SetComp, ast.Delete,
)  # fmt: skip
_BUILTINS = frozenset(
    ("abs", "all", "any", "bin", "bool", "chr", "dict", "divmod", "enumerate", "float", "hex", "int", "len", "list",
     "max", "min", "ord", "pow", "range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip")
)  # fmt: skip
#: `site` adds these, where it is loaded at all.
_SITE = frozenset(("copyright", "credits", "exit", "help", "license", "quit"))
_TAKEN = frozenset(dir(builtins)) | _SITE
_METHODS = frozenset(
    ("add", "append", "capitalize", "copy", "count", "discard", "endswith", "extend", "find", "get", "index", "insert",
     "isalnum", "isalpha", "isdigit", "islower", "isspace", "isupper", "items", "join", "keys", "lower", "lstrip",
     "pop", "remove", "replace", "reverse", "rfind", "rstrip", "setdefault", "sort", "split", "startswith", "strip",
     "swapcase", "title", "update", "upper", "values", "zfill")
)  # fmt: skip
_KEYWORDS = frozenset(("default", "key", "reverse", "start"))
_VALUES = (bool, float, int, str, type(None))
#: Python reads a file anew under the encoding that a comment names; a backslash joins lines.
_READ_ANEW = re.compile(r"coding[:=]|\\")


def plain(text: str) -> bool:
    """Whether running `text` can do no more than compute. Text that is no Python cannot run, so it is plain."""
    if _READ_ANEW.search(text):
        return False
    try:
        tree = parse(text.encode())
    except SyntaxError:
        return True
    except (ValueError, RecursionError, MemoryError):
        return False
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return False
    return all(_allowed(node) for node in ast.walk(tree.body[0]))


def _allowed(node: ast.AST) -> bool:
    match node:
        case ast.FunctionDef(name=name, decorator_list=decorators):
            return not decorators and _own(name)
        case ast.arg(arg=name):
            return _own(name)
        case ast.Name(id=name):
            return name in _BUILTINS or _own(name)
        case ast.Attribute(attr=name, ctx=context):
            return name in _METHODS and isinstance(context, ast.Load)
        case ast.keyword(arg=word):
            return word in _KEYWORDS
        case ast.Constant(value=value):
            return isinstance(value, _VALUES)
        case _:
            return isinstance(node, _NODES)


def _own(name: str) -> bool:
    """Whether the file may give something this name."""
    return name not in _TAKEN and not name.startswith("_")
