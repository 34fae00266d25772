"""Tools in words, for chat templates that have no place for them or teach calls in another form."""

from __future__ import annotations

from collections.abc import Sequence

from noria.core.types import Tool
from noria.tokens.calls import Call
from noria.tokens.forms import AUTO, XML, Form, form_named

#: A tool to see what a template makes of tools.
PROBE = Tool("omega", "does nothing")
#: Texts by which templates teach a form of calls that is not Noria's.
FOREIGN = ("<tool_call", "<function=", '"arguments"', "function name", "AVAILABLE_TOOLS")


def shown_well(rendered: str, form: Form = XML) -> bool:
    """Whether a template that rendered `PROBE` named it and taught this form; Noria's own needs no teaching."""
    if PROBE.name not in rendered:
        return False
    return not any(mark in rendered for mark in FOREIGN) if form is XML else form_named(AUTO, rendered) is form


def described(tools: Sequence[Tool], form: Form = XML) -> str:
    """A paragraph that names the tools and shows how each is called, "" without tools."""
    if not tools:
        return ""
    lines = ["Tools, and how to call them:"]
    for tool in tools:
        lines.append(f"{form.write(Call(tool.name, dict.fromkeys(tool.parameters, '…')), None)} {tool.description}")
        lines += [f"  {key}: {text} ({kind})" for key, (kind, text) in tool.parameters.items()]
    return "\n".join(lines)
