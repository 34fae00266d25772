"""The folder is the registry: `resolve("sandboxes", "bwrap")` is the module `noria.sandboxes.bwrap`.

A name with a dot is the user's own module. Names, docstrings, the fields of a plug-in's `Config` and its
module constants are read from the source without importing it, so listing and checking never need torch.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from noria.core.errors import UserError
from noria.core.syntax import parse

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (
    "envs", "engines", "teachers", "sandboxes", "sources", "signals", "losses", "aggregates", "trainers", "executors",
    "contexts", "graders", "harnesses", "languages", "mutations",
)  # fmt: skip

#: Slow or optional packages: a module that needs one is only read, not run, while a recipe is checked.
HEAVY = frozenset({"torch", "transformers", "vllm", "ray", "peft", "docker", "e2b"})


#: Parts of a folder that can be listed alone: the folder, and the `SLOT` of its files.
PARTS = {
    "advantages": ("signals", "advantage"),
    "weights": ("signals", "weight"),
    "rewards": ("signals", "reward"),
    "transforms": ("signals", "transform"),
    "controllers": ("signals", "controller"),
    "rollouts": ("signals", "rollout"),
    "views": ("signals", "view"),
    "takeovers": ("signals", "takeover"),
    "rewrites": ("signals", "rewrite"),
}


class Entry(NamedTuple):
    """One plug-in of a folder: its name, the first line of its docstring, its file, and where the method is from."""

    name: str
    doc: str
    source: Path
    origin: str = ""


def names(folder: str) -> list[str]:
    """The plug-ins of a folder: modules that bind `build`, or all public ones where none does."""
    found = dict(_modules(folder))
    built = [name for name, path in found.items() if "build" in _bound(path)]
    return sorted(built or found)


def entries(kind: str) -> list[Entry]:
    """What `noria list` shows of a folder, or of a part of one. Reads files only.

    Raises:
        UserError: `kind` is neither one of `FOLDERS` nor of `PARTS`.
    """
    known = (*FOLDERS, *PARTS)
    if kind not in known:
        raise UserError(f"kind must be one of {', '.join(known)}: got {kind!r}{nearest(kind, known)}")
    folder, slot = PARTS.get(kind, (kind, None))
    found = dict(_modules(folder))
    return [
        Entry(name, _first_line(found[name]), found[name], str(constant(folder, name, "SOURCE") or ""))
        for name in names(folder)
        if slot is None or constant(folder, name, "SLOT") == slot
    ]


def of_slot(slot: str) -> list[str]:
    """Names of the signals that fill a slot, as `of_slot("advantage")`. Reads files only."""
    return [name for name in names("signals") if constant("signals", name, "SLOT") == slot]


def resolve(folder: str, name: str) -> ModuleType:
    """Import the module behind `type = name`.

    Raises:
        UserError: no such plug-in (lists what exists and the nearest), or a package it needs is missing.
    """
    target = name if "." in name else f"noria.{folder}.{name}"
    source(folder, name)
    try:
        return importlib.import_module(target)
    except ModuleNotFoundError as fault:
        raise UserError(
            f"type = {name!r} in {folder} needs the package {fault.name!r}, which is missing - install it"
        ) from fault


def source(folder: str, name: str) -> Path:
    """The file of a plug-in.

    Raises:
        UserError: there is none.
    """
    if "." in name:
        found = _find_dotted(name)
        if found is None:
            raise UserError(
                f"type must name a plug-in or an importable module: got {name!r}, which Python cannot find - "
                "check the spelling, or run from the folder that holds it"
            )
        return found
    known = names(folder)
    path = dict(_modules(folder)).get(name)
    if path is None:
        raise UserError(
            f"type must name one of the {folder}: got {name!r}, "
            f"expected {', '.join([*known, 'a dotted name'])}{nearest(name, known)}"
        )
    return path


def is_light(folder: str, name: str) -> bool:
    """Whether the module can be imported without any of the `HEAVY` packages (decided from its source)."""
    return not _needs_heavy(source(folder, name), frozenset())


def constant(folder: str, name: str, key: str) -> object | None:
    """The literal bound to `key` at the top of a plug-in's module, or None. Reads the file only."""
    for node in _tree(source(folder, name)).body:
        target, value = _assignment(node)
        if target == key and value is not None:
            try:
                return ast.literal_eval(value)  # type: ignore[no-any-return]
            except ValueError:
                return None
    return None


def config_fields(folder: str, name: str) -> list[str] | None:
    """Names of the fields of the plug-in's `Config`, read from the source.

    None where that cannot be told from Noria's own source and the plug-in's.
    """
    return _class_fields(source(folder, name), "Config")


def nearest(word: str, known: Iterator[str] | list[str] | tuple[str, ...]) -> str:
    """`, did you mean 'x'?` or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f", did you mean {close[0]!r}?" if close else ""


def _modules(folder: str) -> Iterator[tuple[str, Path]]:
    base = ROOT / folder
    for path in sorted(base.iterdir()) if base.is_dir() else ():
        if path.name.startswith("_"):
            continue
        if path.suffix == ".py":
            yield path.stem, path
        elif (path / "__init__.py").is_file():
            yield path.name, path / "__init__.py"


def _find_dotted(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


@lru_cache(maxsize=256)
def _parse(path: Path, mtime_ns: int) -> ast.Module:
    return parse(path.read_text(encoding="utf-8"), name=str(path))


def _tree(path: Path) -> ast.Module:
    try:
        return _parse(path, path.stat().st_mtime_ns)
    except SyntaxError as fault:
        raise UserError(f"{path} must be valid Python: line {fault.lineno}: {fault.msg}") from fault


def _first_line(path: Path) -> str:
    return (ast.get_docstring(_tree(path)) or "").partition("\n")[0].strip()


def _assignment(node: ast.stmt) -> tuple[str | None, ast.expr | None]:
    """Name and value of `name: type = value` or `name = value`, else (None, None)."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id, node.value
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    return None, None


def _bound(path: Path) -> set[str]:
    """Names that the module's top level binds."""
    bound: set[str] = set()
    for node in _tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound.update(alias.asname or alias.name for alias in node.names)
        else:
            target = _assignment(node)[0]
            if target:
                bound.add(target)
    return bound


def _class_fields(path: Path, name: str) -> list[str] | None:
    """Fields of a pydantic class, its bases' first; follows `from noria… import`. None if one is unknown."""
    if name == "BaseModel":
        return []
    for node in _tree(path).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            fields: list[str] = []
            for base in node.bases:
                inherited = _class_fields(path, base.id) if isinstance(base, ast.Name) else None
                if inherited is None:
                    return None
                fields += inherited
            own = [_assignment(item)[0] for item in node.body if isinstance(item, ast.AnnAssign)]
            return list(dict.fromkeys(fields + [field for field in own if field]))
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                there = _ours(node.module)
                if (alias.asname or alias.name) == name and there:
                    return _class_fields(there, alias.name)
    return None


def _imports(path: Path) -> Iterator[str]:
    """Dotted names that the module's top level imports (not those in a function or below an `if`)."""
    for node in _tree(path).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _needs_heavy(path: Path, seen: frozenset[Path]) -> bool:
    if path in seen:
        return False
    for dotted in _imports(path):
        if dotted.split(".")[0] in HEAVY:
            return True
        ours = _ours(dotted)
        if ours and _needs_heavy(ours, seen | {path}):
            return True
    return False


def _ours(dotted: str) -> Path | None:
    parts = dotted.split(".")
    if parts[0] != "noria":
        return None
    base = ROOT.joinpath(*parts[1:])
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if len(parts) > 1 and path.is_file():
            return path
    return None
