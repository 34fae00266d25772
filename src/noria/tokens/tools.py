"""Tools in words, for chat templates that have no place for them or teach calls in another form."""

from __future__ import annotations

from collections.abc import Sequence

from noria.core.types import Tool
from noria.tokens.calls import render_call

#: A tool to see what a template makes of tools.
PROBE = Tool("omega", "does nothing")
#: Texts by which templates teach a form of calls that is not Noria's.
FOREIGN = ("<tool_call", "<function=", '"arguments"', "function name", "AVAILABLE_TOOLS")


def shown_well(rendered: str) -> bool:
    """Whether a template that rendered `PROBE` named it and taught no other form of calls."""
    return PROBE.name in rendered and not any(mark in rendered for mark in FOREIGN)


def described(tools: Sequence[Tool]) -> str:
    """A paragraph that names the tools and shows how each is called, "" without tools."""
    if not tools:
        return ""
    lines = ["Tools, and how to call them:"]
    for tool in tools:
        lines.append(f"{render_call(tool.name, **dict.fromkeys(tool.parameters, '…'))} {tool.description}")
        lines += [f"  {key}: {text} ({kind})" for key, (kind, text) in tool.parameters.items()]
    return "\n".join(lines)
