"""Reports of one JSON object per line, as the runners of this folder write them. Nothing of them is trusted.

Lines: {"id", "status", "seconds", "said"} per test, {"file", "said"} per file that could not be loaded, {"slow": id or
file} where it took too long.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from noria.languages.base import SLOW, Status

#: What the runners call their report.
NAME = "report.jsonl"
_STATUSES: Mapping[str, Status] = {status: status for status in get_args(Status)}


def lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The objects of a file, whatever else stands in it."""
    for text in data.decode("utf-8", "replace").split("\n"):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line


def unsealed(data: bytes, key: bytes) -> bytes:
    """The lines of a sealed file, each with its number in the order of writing; others are left out.

    A line is `<HMAC-SHA256 of "number:text", in hex> text`. One that is missing takes all that come after it along.
    """
    kept: list[bytes] = []
    for line in data.split(b"\n"):
        code, _, text = line.partition(b" ")
        wanted = hmac.new(key, b"%d:%s" % (len(kept), text), hashlib.sha256).hexdigest().encode()
        if hmac.compare_digest(code, wanted):
            kept.append(text)
    return b"\n".join(kept)


def gathered(data: bytes, key: bytes) -> dict[str, bytes]:
    """The reports that `_collect` has put into its sealed file, by name."""
    found: dict[str, list[str]] = {}
    for text in unsealed(data, key).split(b"\n"):
        if text:
            name, part = json.loads(text)
            found.setdefault(name, []).append(part)
    return {name: "".join(parts).encode("utf-8", "surrogatepass") for name, parts in found.items()}


class Lines:
    """The reading half of a language whose runner writes `report.jsonl`."""

    def status(self, reports: Mapping[str, bytes]) -> dict[str, Status]:
        """Test id -> how it ended; the worst where one is reported more than once."""
        found: dict[str, Status] = {}
        for line in lines(reports.get(NAME, b"")):
            id_, told = line.get("id"), line.get("status")
            status = _STATUSES.get(told) if isinstance(told, str) else None
            if isinstance(id_, str) and id_ and "\n" not in id_ and status is not None:
                found[id_] = status if found.get(id_, "pass") == "pass" else found[id_]
        return found

    def read_said(self, reports: Mapping[str, bytes]) -> Mapping[str, str]:
        """See `Telling`."""
        found: dict[str, str] = {}
        for line in lines(reports.get(NAME, b"")):
            slow, said = line.get("slow"), line.get("said")
            if isinstance(slow, str):
                found[slow] = SLOW
            elif isinstance(said, str) and said:
                found[str(line.get("id", line.get("file")))] = said
        return found

    def read_seconds(self, reports: Mapping[str, bytes]) -> Mapping[str, float]:
        """See `Telling`."""
        found: dict[str, float] = {}
        for line in lines(reports.get(NAME, b"")):
            seconds = line.get("seconds")
            if isinstance(line.get("id"), str) and isinstance(seconds, int | float) and math.isfinite(seconds):
                found[line["id"]] = float(seconds)
        return found
