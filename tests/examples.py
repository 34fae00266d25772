"""Options for any plug-in, so that a new file is tested unasked: each field without a default brings an example."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


def needed(config: type[BaseModel], **options: Any) -> dict[str, Any]:
    """An example for every field that must be given, and `options`."""
    found: dict[str, Any] = {}
    for name, field in config.model_fields.items():
        if field.is_required() and name not in options:
            assert field.examples, f"{config.__module__}.{name} must be given, so it must have examples = [...]"
            found[name] = field.examples[0]
    return {**found, **options}
