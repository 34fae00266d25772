"""What of a Python source reaches out of it, into the process that runs its tests: read from its syntax tree.

Printing, leaving the process, signals and files are no such thing: the report of the tests is sealed, and one without
an end counts as failed. What could forge it is code that gets at the runner's objects, or changes modules that it uses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from noria.core.syntax import parse

#: Modules that are the runner, or lead to any object of the process.
MODULES = frozenset({
    "_pytest", "pytest", "pluggy", "unittest", "ctypes", "builtins", "_pytest_runner", "runpy", "marshal",
    "zipimport",
})  # fmt: skip
#: Members of a module by which that is done; "sys" and "gc" as values would hide which.
MEMBERS = {
    "sys": frozenset({
        "modules", "settrace", "setprofile", "_getframe", "_current_frames", "meta_path", "path_hooks", "path",
        "path_importer_cache", "monitoring", "addaudithook", "_current_exceptions",
    }),
    "gc": frozenset({"get_objects", "get_referrers", "get_referents"}),
    "inspect": frozenset({"currentframe", "stack", "trace", "getouterframes", "getinnerframes"}),
    "threading": frozenset({"settrace", "setprofile", "settrace_all_threads", "setprofile_all_threads"}),
}  # fmt: skip
#: Attributes that lead from any object to what is around it.
ATTRIBUTES = frozenset({
    "f_back", "f_globals", "f_locals", "f_builtins", "tb_frame", "gi_frame", "cr_frame", "ag_frame", "__globals__",
    "__builtins__", "__subclasses__",
})  # fmt: skip
#: Functions that run the code of a file, whatever its name is.
LOADERS = frozenset({
    "exec_module", "load_module", "spec_from_file_location", "spec_from_loader", "SourceFileLoader", "run_path",
})  # fmt: skip
NAMES = frozenset({"exec", "eval", "__import__", "__builtins__"})
#: Texts that name one of those, or where a process shows itself.
TEXTS = ATTRIBUTES | {"PYTEST_CURRENT_TEST", "PYTEST_VERSION", "__import__"}
_SHOWN = ("/proc/", "_pytest", "pluggy.")
_CHANGING = frozenset({"setattr", "delattr", "vars"})


def reaches(text: str) -> set[str]:
    """Words for what reaches out. A source that cannot be parsed reaches nothing: it cannot be run either."""
    try:
        tree = parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    nodes = list(ast.walk(tree))
    known = dict(pair for node in nodes for pair in _imported(node))
    named = {name: name for name in MEMBERS} | known
    bases = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update(_of_import(node))
        elif isinstance(node, ast.Attribute):
            found.update(_of_attribute(node, named))
        elif isinstance(node, ast.Name):
            found.update(_of_name(node, known, id(node) in bases))
        elif isinstance(node, ast.Call):
            found.update(_of_call(node, known))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _tells(node.value):
            found.add(node.value[:40])
    return found


def _tells(text: str) -> bool:
    return text in TEXTS or text.startswith(_SHOWN)


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that an import of another package binds, and what they are."""
    if isinstance(node, ast.Import):
        for each in node.names:
            yield each.asname or each.name.partition(".")[0], each.name if each.asname else each.name.partition(".")[0]
    elif isinstance(node, ast.ImportFrom):
        for each in node.names:
            if each.name in MEMBERS:  # of whatever module has it
                yield each.asname or each.name, each.name
            elif not node.level:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def _of_import(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names if each.name.partition(".")[0] in MODULES)
    elif not node.level and node.module is not None:
        if node.module.partition(".")[0] in MODULES:
            yield node.module
        members = MEMBERS.get(node.module, frozenset()) | LOADERS
        yield from (f"{node.module}.{each.name}" for each in node.names if each.name in members)


def _of_attribute(node: ast.Attribute, known: dict[str, str]) -> Iterator[str]:
    if node.attr in ATTRIBUTES or node.attr in LOADERS:
        yield node.attr
    root = node.value
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id not in known:
        return
    module = known[root.id]
    if root is node.value and node.attr in MEMBERS.get(module, ()):
        yield f"{module}.{node.attr}"
    if node.attr in ("sys", "gc", "builtins"):
        yield f"{module}.{node.attr}"
    if not isinstance(node.ctx, ast.Load):
        yield f"{module}.{node.attr} ="
    if node.attr == "__dict__" and root is node.value:
        yield f"{module}.__dict__"


def _of_name(node: ast.Name, known: dict[str, str], is_base: bool) -> Iterator[str]:
    if node.id in NAMES - {"__import__"}:
        yield node.id
    if not is_base and known.get(node.id) in ("sys", "gc") and isinstance(node.ctx, ast.Load):
        yield known[node.id]


def _of_call(node: ast.Call, known: dict[str, str]) -> Iterator[str]:
    called = node.func
    first = node.args[0] if node.args else None
    if isinstance(called, ast.Name) and called.id in _CHANGING and isinstance(first, ast.Name) and first.id in known:
        yield f"{called.id}({known[first.id]})"
    name = called.attr if isinstance(called, ast.Attribute) else ""
    if isinstance(called, ast.Name):
        name = known.get(called.id, called.id).rpartition(".")[2]
    if name in ("__import__", "import_module", "reload"):
        asked = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        if not asked or asked.partition(".")[0] in {*MODULES, *MEMBERS}:
            yield name
