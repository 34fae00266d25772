"""A plug-in that one field of a table names: `field = "name"`, or `field = { type = "name", … }` with its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from noria.core import registry
from noria.core.errors import UserError
from noria.core.recipe_report import describe_plugin, unknown_key
from noria.core.recipe_tables import config_class, make_config

#: What such a field holds.
Named = str | dict[str, Any]


def parts(value: Named) -> tuple[str, dict[str, Any]]:
    """The plug-in's name and its options."""
    if isinstance(value, str):
        return value, {}
    return str(value["type"]), {key: option for key, option in value.items() if key != "type"}


def checked(field: str, folder: str, value: Named, more: Mapping[str, Any] | None = None) -> Named:
    """The value with its options filled in, where it has any. `more` are options that stand elsewhere.

    A module that needs a heavy package is read and not imported: of its options only the names are checked.

    Raises:
        ValueError: there is no such plug-in, or it refuses its options.
    """
    if isinstance(value, dict) and not isinstance(value.get("type"), str):
        raise ValueError(f'{field} must name one of the {folder}: got {value!r} - write {field} = {{ type = "…" }}')
    name, options = parts(value)
    try:
        light = registry.is_light(folder, name)
        kind = config_class(folder, name) if light else None
    except UserError as fault:
        raise ValueError(f"{field}.{fault}") from fault
    if kind is None:
        fields = registry.config_fields(folder, name)
        unknown = [unknown_key(key, field, fields) for key in options if fields and key not in fields]
        if unknown:
            raise ValueError("; ".join(unknown))
        return value
    try:
        config = make_config(folder, name, {**(more or {}), **options})
    except ValidationError as fault:
        raise ValueError("; ".join(describe_plugin(fault, field, kind))) from fault
    return value if isinstance(value, str) else {"type": name, **config.model_dump(mode="json")}


def configured(folder: str, value: Named, more: Mapping[str, Any] | None = None) -> tuple[Any, Any]:
    """The plug-in's module, and its `Config` built from the options. Raises UserError and pydantic.ValidationError."""
    name, options = parts(value)
    return registry.resolve(folder, name), make_config(folder, name, {**(more or {}), **options})
