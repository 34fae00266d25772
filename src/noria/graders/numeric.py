"""A number, with a tolerance, and in a unit where one is asked for: 36 km/h is 10 m/s."""

from __future__ import annotations

import math
import re

from pydantic import Field, model_validator

from noria.core.config import Checked
from noria.core.types import Outcome
from noria.graders._units import Unit, read_unit
from noria.graders.base import ByBlank, Case, Example, Given, outcome, spec_of
from noria.graders.maths import final

NEEDS: tuple[str, ...] = ()
_NUMBER = re.compile(
    r"""(?P<sign>[-+−]?)\s*(?P<money>[$€£]?)\s*
    (?:(?P<over>\d+)\s*/\s*(?P<under>\d+)
     |(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d*|\.\d+|\d+)
      (?:\s*(?:[eE](?P<e>[-+−]?\d{1,3})|(?:\*|×|x|\\times|\\cdot)\s*10\s*(?:\^|\*\*)\s*[{(]?(?P<ten>[-+−]?\d{1,3})[)}]?))?
    )\s*(?P<unit>.*)""",
    re.VERBOSE | re.DOTALL,
)
_LATEX = re.compile(r"\\(?:d|t)?frac\{(-?\d+)\}\{(\d+)\}")
_WRAPPING = re.compile(r"\\(?:text|mathrm|,|;|!|\s)|[{}]")


class Config(Checked):
    """How a number is read."""

    max_chars: int = Field(default=100, ge=1, description="a longer answer is wrong unread")
    units: bool = Field(default=True, description="whether units are measured; else any that is known may follow")


class Spec(Checked):
    """What a right answer is."""

    value: float = Field(ge=-1e300, le=1e300, description="the number wanted")
    unit: str = Field(default="", description='unit that the number is in, as "m/s"; "" = a pure number')
    unit_needed: bool = Field(
        default=True, description="whether an answer without a unit is wrong where one is asked for"
    )
    rel_tol: float = Field(default=1e-6, ge=0, le=1, description="largest error as a share of the number")
    abs_tol: float = Field(default=0.0, ge=0, description="largest error in units of the number; either may hold")

    @model_validator(mode="after")
    def _has_unit(self) -> Spec:
        if read_unit(self.unit) is None:
            raise ValueError(f"unit must be known: got {self.unit!r}")
        return self


EXAMPLES = (
    Example({"value": 1250.5}, ("1250.5", "1,250.50", "x = 1.2505e3", r"\boxed{1250.5}"), ("1250", "", "1250.5 or 7")),
    Example(
        {"value": 10, "unit": "m/s"},
        ("10 m/s", "36 km/h", "10 m*s^-1", r"10\ \text{m/s}"),
        ("10", "10 km/h", "10 m", "36"),
    ),
    Example({"value": 0.25, "rel_tol": 0.01}, ("1/4", "25%", "0.2501", r"\frac{1}{4}"), ("0.3", "25", "4/1")),
)


class Numeric(ByBlank):
    """See the module."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def grade(self, case: Case) -> Outcome:
        """1 if the number lies within either tolerance and the unit measures the same."""
        spec = spec_of(Spec, case)
        said = final(case.answer)
        if len(said) > self._config.max_chars:
            return outcome(False, f"longer than {self._config.max_chars} characters")
        found = read_number(said if self._config.units else said.removesuffix("%").removesuffix("percent"))
        if found is None:
            return outcome(False, "no single number")
        value, unit = found if self._config.units else (found[0], None)
        wanted = read_unit(spec.unit)
        assert wanted is not None
        if self._config.units and unit is None and spec.unit and spec.unit_needed:
            return outcome(False, f"no unit, wanted {spec.unit}")
        if unit is not None and unit.dimension != wanted.dimension:
            return outcome(False, "a unit of something else")
        if unit is not None:
            value *= unit.factor / wanted.factor
        near = math.isclose(value, spec.value, rel_tol=spec.rel_tol, abs_tol=max(spec.abs_tol, 1e-12))
        return outcome(near, "within tolerance" if near else "another number")

    async def close(self) -> None:
        """Nothing is held."""


def read_number(text: str) -> tuple[float, Unit | None] | None:
    """The number that a text is, and its unit (None: it names none); None where it is no single number."""
    text = _LATEX.sub(r"\1/\2", text.strip().strip("$ "))
    text = _WRAPPING.sub(" ", text.rpartition("=")[2]).strip()
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    if found["over"]:
        if not int(found["under"]):
            return None
        value = int(found["over"]) / int(found["under"])
    else:
        power = (found["e"] or found["ten"] or "0").replace("−", "-")
        value = float(f"{found['digits'].replace(',', '')}e{power}")
    if found["sign"] in ("-", "−"):
        value = -value
    named = found["unit"].strip()
    unit = read_unit(named or ("$" if found["money"] else ""))
    if unit is None:
        return None
    return value, unit if named or found["money"] else None


def build(config: Config, given: Given) -> Numeric:
    """A grader; needs nothing."""
    return Numeric(config)
