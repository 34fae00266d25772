"""Format sensitivity: a question asked and answered in one of 26 forms, without the tools of a chat API.

A form says how calls are written, whether they stand in a tag, how functions are described, and the words around them.
The words are the package's own, read from it; how functions are described as XML and Python is written here after the
same rules. Source: https://gorilla.cs.berkeley.edu/blogs/17_bfcl_v4_prompt_variation.html, `bfcl-eval` 2026.3.23.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from noria.bases.package import Package

Written = Literal["python", "json", "verbose_xml", "concise_xml"]
Described = Literal["python", "xml", "json"]
WRITTEN: tuple[Written, ...] = ("python", "json", "verbose_xml", "concise_xml")
DESCRIBED: tuple[Described, ...] = ("python", "xml", "json")
_PYTHON = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"}


@dataclass(frozen=True, slots=True)
class Form:
    """How a question is put."""

    written: Written = "python"
    is_tagged: bool = False
    described: Described = "json"
    words: str = "plaintext"
    style: str = "classic"

    @property
    def name(self) -> str:
        """As the package names it."""
        return (
            f"ret_fmt={self.written}&tool_call_tag={self.is_tagged}&func_doc_fmt={self.described}"
            f"&prompt_fmt={self.words}&style={self.style}"
        )


def forms() -> list[Form]:
    """All of them: four ways to write, with a tag and without, three ways to describe, and two other wordings."""
    found = [Form(each, tagged, told) for each in WRITTEN for tagged in (True, False) for told in DESCRIBED]
    return [*found, Form(words="markdown"), Form(style="experimental")]


def system_of(form: Form, functions: Sequence[Mapping[str, Any]], package: Package) -> str:
    """What the model is told: the package's words, and the functions. Raises UserError: the package lacks the words."""
    words = vars(package.module("constants.default_prompts"))
    style: Mapping[str, str] = words["PROMPT_STYLE_TEMPLATES"][form.style]
    asked = style["tool_call_with_tag" if form.is_tagged else "tool_call_no_tag"].format(
        output_format=words["OUTPUT_FORMAT_MAPPING"][form.written],
        param_types=words["PARAM_TYPE_MAPPING"][form.written],
    )
    template: str = words["PROMPT_TEMPLATE_MAPPING"][form.words]
    return template.format(
        persona=style["persona"], task=style["task"], tool_call_format=asked,
        multiturn_behavior=style["multiturn_behavior"],
        available_tools=style["available_tools"].format(
            format=form.described, functions=described(functions, form.described)
        ),
    )  # fmt: skip


def described(functions: Sequence[Mapping[str, Any]], how: Described) -> str:
    """Functions as JSON, as XML, or as signatures with docstrings."""
    if how == "json":
        return json.dumps(list(functions), indent=4)
    blocks = [(_as_xml if how == "xml" else _as_python)(function) for function in functions]
    return ("\n" if how == "xml" else "\n\n\n\n").join(blocks)


def _as_xml(function: Mapping[str, Any]) -> str:
    schema = function["parameters"]
    inner = "".join(
        _xml_of(name, each, schema.get("required"), 4) for name, each in schema.get("properties", {}).items()
    )
    head = f'<function name="{function["name"]}">\n  <desc>{function.get("description", "")}</desc>\n'
    return f"{head}  <params>\n{inner}  </params>\n</function>\n"


def _xml_of(name: str, meta: Mapping[str, Any], required: Sequence[str] | None, depth: int) -> str:
    pad, kind = " " * depth, str(meta.get("type", "string"))
    within = meta.get("items", meta.get("additionalProperties"))
    if isinstance(within, Mapping) and "type" in within:
        kind = f"{kind}[{within['type']}]"
    needed = "true" if required is None or name in required else "false"
    more = f' default="{meta["default"]!r}"' if "default" in meta else ""
    inner = f"{pad}  <desc>{_told(meta)}</desc>\n"
    if "properties" in meta:
        parts = [_xml_of(key, each, meta.get("required"), depth + 4) for key, each in meta["properties"].items()]
        inner += f"{pad}  <params>\n{''.join(parts)}{pad}  </params>\n"
    return f'{pad}<param name="{name}" type="{kind}" required="{needed}"{more}>\n{inner}{pad}</param>\n'


def _as_python(function: Mapping[str, Any]) -> str:
    lines = [f"# Function: {function['name']}", '    """', f"    {function.get('description', '')}", ""]
    properties = function["parameters"].get("properties", {})
    if properties:
        lines.append("    Args:")
    for name, each in properties.items():
        lines += _python_of(name, each, 8)
    return "\n".join([*lines, '    """', ""])


def _python_of(name: str, meta: Mapping[str, Any], depth: int) -> list[str]:
    default = f", default={meta['default']!r}" if "default" in meta else ""
    lines = [f"{' ' * depth}{name} ({_python_type(meta)}{default}): {_told(meta)}"]
    for key, each in meta.get("properties", {}).items():
        lines += _python_of(key, each, depth + 4)
    return lines


def _python_type(meta: Mapping[str, Any]) -> str:
    kind = str(meta.get("type", "string"))
    if kind in ("array", "list", "tuple") and "items" in meta:
        return f"list[{_python_type(meta['items'])}]"
    if kind in ("object", "dict"):
        within = meta.get("additionalProperties")
        return f"dict[str, {_python_type(within)}]" if isinstance(within, Mapping) else "dict"
    return _PYTHON.get(kind, kind)


def _told(meta: Mapping[str, Any]) -> str:
    enum = f" Enum values: {meta['enum']}." if "enum" in meta else ""
    return f"{meta.get('description', '')}{enum}"
