"""Calls of an answer in one of the forms of format sensitivity, and such answers. Nothing that was written is run."""

from __future__ import annotations

import ast
import json
import operator
import re
import xml.etree.ElementTree as Tree
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from noria.core.errors import PolicyError
from noria.core.syntax import literal, parse
from noria.envs.bfcl.formats import Form
from noria.envs.bfcl.matching import Made

#: Characters of an answer that are looked at, and the largest number that a sum may come to.
MOST_CHARS, _MOST = 50_000, 1e15
_TAG = ("<TOOLCALL>", "</TOOLCALL>")
_XML = ("<functions>", "</functions>")
_LIST = re.compile(r"\[\s*\{")
_SUMS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_KINDS = {
    "integer": "integer",
    "float": "float",
    "boolean": "boolean",
    "array": "array",
    "tuple": "tuple",
    "dict": "dict",
}


def read(form: Form, text: str) -> list[Made]:
    """The calls of an answer, names and values as they were written.

    Raises:
        PolicyError: it is not in this form.
    """
    text = text[:MOST_CHARS].strip("`\n ")
    if form.is_tagged:
        inside = _between(text, *_TAG)
        if inside is None:
            raise PolicyError("calls must stand between <TOOLCALL> and </TOOLCALL>")
        text = inside.strip()
    try:
        if form.written == "python":
            return _python(text)
        return _json(text) if form.written == "json" else _xml(text, form.written == "verbose_xml")
    except (SyntaxError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError, MemoryError) as fault:
        raise PolicyError(f"calls must be written as {form.written}: {fault}"[:200]) from None


def written(form: Form, calls: Sequence[Made], kinds: Sequence[Mapping[str, str]]) -> str:
    """An answer with these calls; `kinds` are the types of their arguments, as functions describe them."""
    if form.written == "python":
        shown = [f"{name}({', '.join(f'{k}={v!r}' for k, v in given.items())})" for name, given in calls]
        text = f"[{', '.join(shown)}]"
    elif form.written == "json":
        text = json.dumps([{"function": name, "parameters": dict(given)} for name, given in calls])
    else:
        blocks = [
            _block(name, given, kind, form.written == "verbose_xml")
            for (name, given), kind in zip(calls, kinds, strict=True)
        ]
        text = f"<functions>{''.join(blocks)}</functions>"
    return f"<TOOLCALL>{text}</TOOLCALL>" if form.is_tagged else text


def _between(text: str, first: str, last: str) -> str | None:
    """What stands between the first of one mark and the next of the other; in linear time, whatever was written."""
    start = text.find(first)
    end = text.find(last, start + len(first)) if start >= 0 else -1
    return text[start + len(first) : end] if end >= 0 else None


def _python(text: str) -> list[Made]:
    text = text.strip().strip("'")
    text = text if text.startswith("[") else f"[{text}"
    body = parse(text if text.endswith("]") else f"{text}]", "eval").body
    if not isinstance(body, ast.List):
        raise ValueError("no list of calls")
    return [_called(each) for each in body.elts]


def _called(node: ast.expr) -> Made:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        raise ValueError(f"{ast.unparse(node)[:60]} is no call")
    return ast.unparse(node.func), {str(each.arg): _value(each.value) for each in node.keywords}


def _value(node: ast.expr) -> Any:
    """A literal; a name or what else is no value stands for itself as a text, as with variables."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(each) for each in node.elts)
    if isinstance(node, ast.Dict):
        return {_value(k): _value(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
        one, two = _value(node.left), _value(node.right)
        if not all(isinstance(each, int | float) and abs(each) < _MOST for each in (one, two)):
            raise ValueError("a sum must be of numbers")
        return _SUMS[type(node.op)](one, two)
    if isinstance(node, ast.Call) and node.keywords:
        name, given = _called(node)
        return {name: given}
    return ast.unparse(node)


def _json(text: str) -> list[Made]:
    start = _LIST.search(text)
    given = json.loads(text[start.start() : text.rfind("]") + 1] if start else text)
    if not isinstance(given, list):
        raise ValueError("no list of calls")
    calls: list[Made] = [(each["function"], each["parameters"]) for each in given if isinstance(each, dict)]
    if not all(isinstance(name, str) and isinstance(arguments, dict) for name, arguments in calls):
        raise ValueError('each call must be {"function": name, "parameters": {…}}')
    return calls


def _xml(text: str, is_verbose: bool) -> list[Made]:
    inside = _between(text, *_XML)
    if inside is None:
        raise ValueError("calls must stand between <functions> and </functions>")
    calls: list[Made] = []
    for each in Tree.fromstring(inside.join(_XML)).findall("function"):
        inner = each.find("params") if is_verbose else None
        given = {}
        for param in (each if inner is None else inner).findall("param"):
            raw = param.get("value", "") if is_verbose else (param.text or "").strip()
            given[str(param.attrib["name"])] = _typed(raw, param.get("type", "string"))
        calls.append((str(each.attrib["name"]), given))
    return calls


def _typed(raw: str, kind: str) -> Any:
    if kind == "integer":
        return int(raw)
    if kind == "float":
        return float(raw)
    if kind == "boolean":
        return raw.lower() == "true"
    if kind in ("array", "tuple", "object", "dict"):
        return literal(raw)
    return None if kind == "null" else raw


def _block(name: str, given: Mapping[str, Any], kinds: Mapping[str, str], is_verbose: bool) -> str:
    params = []
    for key, value in given.items():
        kind = "string" if isinstance(value, str) else _KINDS.get(kinds.get(key, ""), "string")
        text = value if isinstance(value, str) else str(value)
        head = f'<param name="{key}" type="{kind}"'
        params.append(f"{head} value={quoteattr(text)}/>" if is_verbose else f"{head}>{escape(text)}</param>")
    inner = "".join(params)
    return f'<function name="{name}">{f"<params>{inner}</params>" if is_verbose else inner}</function>'
