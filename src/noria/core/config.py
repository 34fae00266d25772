"""The base of everything that a recipe configures: tables, and the `Config` of every plug-in."""

from __future__ import annotations

from typing import Any

from annotated_types import Le, Lt
from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError


class Checked(BaseModel):
    """Unknown keys are refused, values stay as they are, numbers are finite, and no whole number is absurd."""

    # A field may allow infinity; saved as JSON, which knows none, it is a text that is read back.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, ser_json_inf_nan="strings")

    @classmethod
    def largest(cls) -> int:
        """The bound of whole numbers whose field has none of its own."""
        return 10**9

    @field_validator("*")
    @classmethod
    def _is_no_absurd_number(cls, value: Any, info: ValidationInfo) -> Any:
        if type(value) is int and value > cls.largest():
            own = cls.model_fields[str(info.field_name)].metadata
            if not any(isinstance(bound, Le | Lt) for bound in own):
                raise PydanticCustomError("less_than_equal", "Input should be at most {le}", {"le": cls.largest()})
        return value
