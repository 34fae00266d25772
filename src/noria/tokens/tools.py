"""Tools in words, for chat templates that have no place for them."""

from __future__ import annotations

from collections.abc import Sequence

from noria.core.types import Tool
from noria.tokens.calls import render_call


def described(tools: Sequence[Tool]) -> str:
    """A paragraph that names the tools and shows how each is called, "" without tools."""
    if not tools:
        return ""
    lines = ["Tools, and how to call them:"]
    for tool in tools:
        lines.append(f"{render_call(tool.name, **dict.fromkeys(tool.parameters, '…'))} {tool.description}")
        lines += [f"  {key}: {text} ({kind})" for key, (kind, text) in tool.parameters.items()]
    return "\n".join(lines)
