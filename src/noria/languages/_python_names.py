"""What a Python repository needs to run its tests: read from its files, nothing of it is executed."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from noria.core.syntax import parse

#: Modules whose package at the index has another name.
PROJECTS = {
    "yaml": "PyYAML", "dateutil": "python-dateutil", "attr": "attrs", "bs4": "beautifulsoup4", "PIL": "Pillow",
    "sklearn": "scikit-learn", "pkg_resources": "setuptools", "pytest_subtests": "pytest-subtests", "jwt": "PyJWT",
    "OpenSSL": "pyOpenSSL", "Crypto": "pycryptodome", "serial": "pyserial", "zmq": "pyzmq", "git": "GitPython",
    "cv2": "opencv-python-headless", "magic": "python-magic", "docx": "python-docx", "markdown": "Markdown",
}  # fmt: skip
#: Fixtures that a plugin of pytest brings.
FIXTURES = {
    "freezer": "pytest-freezer", "mocker": "pytest-mock", "benchmark": "pytest-benchmark",
    "subtests": "pytest-subtests", "httpserver": "pytest-httpserver", "data_regression": "pytest-regressions",
}  # fmt: skip
MARKS = {"asyncio": "pytest-asyncio", "freeze_time": "pytest-freezer", "anyio": "anyio", "timeout": "pytest-timeout"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def metadata(root: Path) -> dict[str, Any]:
    """`name`, `version` and `requires` (a list) of a repository: PKG-INFO, else pyproject.toml, else its folder."""
    found: dict[str, Any] = {"name": root.name, "version": "0", "requires": [], "extras": []}
    project = settings(root).get("project", {})
    if isinstance(project, dict):
        found["name"] = str(project.get("name", found["name"]))
        found["version"] = str(project.get("version", found["version"]))
        found["requires"] = _texts(project.get("dependencies"))
        extras = project.get("optional-dependencies", {})
        found["extras"] = (
            [text for group in extras.values() for text in _texts(group)] if isinstance(extras, dict) else []
        )
    about = root / "PKG-INFO"
    if about.is_file():
        header = HeaderParser().parsestr(about.read_text(encoding="utf-8", errors="replace"))
        found["name"], found["version"] = header.get("Name", found["name"]), header.get("Version", found["version"])
        listed = [str(each) for each in header.get_all("Requires-Dist", [])]
        if listed:
            found["requires"] = [each for each in listed if "extra ==" not in each]
            found["extras"] = [each.partition(";")[0] for each in listed if "extra ==" in each]
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+!-]*", found["version"]):
        found["version"] = "0"
    if not _NAME.fullmatch(found["name"]):
        found["name"] = "package"
    return found


def settings(root: Path) -> dict[str, Any]:
    """pyproject.toml, {} where there is none or it cannot be read."""
    try:
        return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def needs(root: Path, tests: Iterable[str], local: set[str], about: dict[str, Any]) -> tuple[str, ...]:
    """Requirements of the package and of its tests, pytest first."""
    wanted: dict[str, str] = {"pytest": "pytest"}
    stated = {_key(text): text for text in about["extras"] if _NAME.match(text.strip())}
    for text in about["requires"]:
        if _NAME.match(text.strip()):
            wanted[_key(text)] = text
    for path in tests:
        if not path.endswith(".py"):
            continue
        for project in _wanted_by(root / path, local):
            wanted.setdefault(project.lower(), stated.get(project.lower(), project))
    return tuple(wanted.values())


def _wanted_by(path: Path, local: set[str]) -> list[str]:
    try:
        tree = parse(path.read_text(encoding="utf-8", errors="replace"))
    except (SyntaxError, ValueError, OSError):
        return []
    found: list[str] = []
    for node in _plain(tree.body):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = [node.module]
        for name in names:
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in local and top != "__future__":
                found.append(PROJECTS.get(top, top))
    for inner in ast.walk(tree):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            found += [FIXTURES[each.arg] for each in inner.args.args if each.arg in FIXTURES]
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Attribute) and inner.value.attr == "mark":
            found += [MARKS[inner.attr]] if inner.attr in MARKS else []
    return found


def _plain(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements that run whenever the file is imported: those in `try` and `if` may be spared."""
    return [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]


def _key(text: str) -> str:
    found = _NAME.match(text.strip())
    return found.group().lower().replace("_", "-") if found else text


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
