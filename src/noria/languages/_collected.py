"""Languages whose tests are programs that know nothing of reports: they run as children of `_collect`, which seals."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from noria.languages import _collect
from noria.languages._lines import gathered
from noria.languages.base import Layout, Step


class Collected:
    """The sealing half of such a plug-in (`Sealing`)."""

    key = _collect.KEY

    def seals(self, layout: Layout) -> bool:
        """See `Sealing`: what seals comes with the step, not with a layer."""
        return True

    def unsealed(self, reports: Mapping[str, bytes], key: bytes) -> Mapping[str, bytes]:
        """See `Sealing`."""
        return gathered(reports.get(_collect.SEALED, b""), key)


def step(report: str, given: Mapping[str, Any], timeout_s: float, env: tuple[tuple[str, str], ...]) -> Step:
    """The step that runs `given`, as `_collect` says it, under the interpreter that the sandbox itself runs."""
    python = os.path.realpath(sys.executable)
    return Step((python, "-I", "-S", "-B", "-c", _text(), report), timeout_s, env, given=json.dumps(given))


@cache
def _text() -> str:
    return Path(_collect.__file__).read_text(encoding="utf-8")
