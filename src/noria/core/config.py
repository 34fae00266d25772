"""The base of everything that a recipe configures: tables, and the `Config` of every plug-in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from annotated_types import Le, Lt
from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

#: Numbers nearer to 0 than this are none that anybody means: they overflow as soon as something is divided by them.
SMALLEST = 1e-30


class Checked(BaseModel):
    """Unknown keys are refused, values stay as they are, numbers are finite, and none is absurd."""

    # A field may allow infinity; saved as JSON, which knows none, it is a text that is read back.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, ser_json_inf_nan="strings")

    @classmethod
    def largest(cls) -> int:
        """The bound of the size of numbers whose field has none of its own."""
        return 10**9

    @field_validator("*")
    @classmethod
    def _is_no_absurd_number(cls, value: Any, info: ValidationInfo) -> Any:
        own = cls.model_fields[str(info.field_name)].metadata
        bounded = any(isinstance(bound, Le | Lt) for bound in own)
        for number in _numbers(value):
            if math.isnan(number):  # also where infinity is allowed: it compares with nothing
                raise PydanticCustomError("not_a_number", "Input should be a number")
            if number > cls.largest() and not bounded:
                raise PydanticCustomError("less_than_equal", "Input should be at most {le}", {"le": cls.largest()})
            if number < -cls.largest():
                least = {"ge": -cls.largest()}
                raise PydanticCustomError("greater_than_equal", "Input should be at least {ge}", least)
            if 0 < abs(number) < SMALLEST:
                raise PydanticCustomError(
                    "too_small", "Input should be 0, or at least {ge} away from it", {"ge": SMALLEST}
                )
        return value


def _numbers(value: Any) -> Iterator[float]:
    """The finite numbers in a value, those in containers of numbers too. Where infinity is allowed it is meant."""
    if type(value) in (int, float):
        if type(value) is int or not math.isinf(value):
            yield value
    elif isinstance(value, Mapping | tuple | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            if type(each) in (int, float):
                yield from _numbers(each)
