"""Reading and merging of recipe files: tables merge, lists replace, another `type` replaces its table."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from noria.core.errors import UserError
from noria.core.registry import nearest

_AT = re.compile(r"^(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$", re.DOTALL)
_KEY = re.compile(r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")


def merge_files(files: Sequence[Path], root: type[BaseModel]) -> dict[str, Any]:
    """The merged tables of the files, left to right."""
    if not files:
        raise UserError("a recipe must be given: got no file - name one, as recipes/quickstart.toml")
    data: dict[str, Any] = {}
    for file in files:
        data = merge(data, read_toml(file), root, ())
    return data


def read_toml(file: Path) -> dict[str, Any]:
    """One file as nested dicts.

    Raises:
        UserError: no such file, or not TOML; then with line and column.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig")  # some editors put a mark before the first line
    except FileNotFoundError:
        raise UserError(f"recipe file must exist: got {str(file)!r}{_near_file(file)}") from None
    except IsADirectoryError:
        raise UserError(f"recipe file must be a file: got the folder {str(file)!r}{_near_file(file)}") from None
    except PermissionError:
        raise UserError(f"recipe file must be readable: got {str(file)!r} - change its permissions") from None
    except UnicodeDecodeError as fault:
        raise UserError(f"{file} must be UTF-8: byte {fault.start} is not - save it as UTF-8") from None
    except (OSError, ValueError) as fault:
        raise UserError(f"recipe file must be readable: got {str(file)!r} ({fault}) - correct the path") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise UserError(_toml_fault(file, text, str(fault))) from None
    except (RecursionError, ValueError) as fault:
        said = "its brackets are nested too deeply" if isinstance(fault, RecursionError) else str(fault)
        raise UserError(f"{file} must be valid TOML: {said} - shorten it") from None


def override(data: dict[str, Any], text: str, root: type[BaseModel]) -> dict[str, Any]:
    """Apply one `key.sub=value`; the value is TOML where it parses as TOML, else the text itself.

    Raises:
        UserError: no `=`, or a path that runs through a value that is not a table.
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not _KEY.match(key):
        raise UserError(f"an override must read key.sub=value: got {text!r} - write for example rounds=1")
    parts = key.split(".")
    at: Any = data
    for depth, part in enumerate(parts[:-1], start=1):
        at = at.get(part, {})
        if not isinstance(at, dict):
            path = ".".join(parts[:depth])
            raise UserError(f"{key} cannot be set: {path} is the value {at!r}, not a table - set {path} itself")
    patch: Any = _value(value.strip())
    for part in reversed(parts):
        patch = {part: patch}
    return merge(data, patch, root, ())


def merge(base: dict[str, Any], over: dict[str, Any], root: type[BaseModel], path: tuple[str, ...]) -> dict[str, Any]:
    """`over` laid on `base`; neither is changed."""
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        here = (*path, key)
        if isinstance(old, dict) and isinstance(value, dict):
            replaced = "type" in value and value["type"] != old.get("type", _default_type(root, here))
            out[key] = value if replaced else merge(old, value, root, here)
        else:
            out[key] = value
    return out


def _default_type(root: type[BaseModel], path: tuple[str, ...]) -> Any:
    """The `type` that a table has when the file does not say it, None where the models give none."""
    model: Any = root
    for part in (*path, "type"):
        if not (isinstance(model, type) and issubclass(model, BaseModel)) or part not in model.model_fields:
            return None
        field = model.model_fields[part]
        if part == "type":
            return None if field.default is PydanticUndefined else field.default
        model = field.annotation
    return None


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _toml_fault(file: Path, text: str, message: str) -> str:
    found = _AT.match(message)
    what, line, column = (found["what"], found["line"], found["column"]) if found else (message, None, None)
    if line is None:
        lines = text.split("\n")
        line, column = str(len(lines)), str(len(lines[-1]) + 1)
    twice = " - two keys have one name: rename one, or remove it" if "overwrite" in what or "twice" in what else ""
    return f"{file} must be valid TOML: line {line}, column {column}: {what[:1].lower()}{what[1:]}{twice}"


def _near_file(file: Path) -> str:
    folder = file if file.is_dir() else file.parent
    if not folder.is_dir():
        return f" - the folder {str(folder)!r} does not exist either"
    others = sorted(path.name for path in folder.glob("*.toml"))
    return f"{nearest(file.name, others)} - {str(folder)!r} holds {', '.join(others) or 'no TOML file'}"
