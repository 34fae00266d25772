"""Tools of the package as models are shown them."""

from __future__ import annotations

import json
from typing import Any

from noria.core.types import Tool


def tool_of(defined: Any) -> Tool:
    """A tool as the package describes it to models."""
    properties = defined.parameters.properties
    required = set(defined.parameters.required)
    shown = {}
    for key, each in properties.items():
        schema = each.model_dump(exclude_none=True)
        kinds = [schema.get("type"), *(part.get("type") for part in schema.get("anyOf") or ())]
        kind = next((str(k) for k in kinds if k and k != "null"), "string")
        notes = [str(schema.get("description", ""))]
        notes += [f"one of {json.dumps(schema['enum'])}"] if "enum" in schema else []
        notes += ["optional"] if key not in required else []
        shown[key] = (kind, "; ".join(note for note in notes if note))
    return Tool(defined.name, str(defined.description).strip().partition("\n")[0], shown)
