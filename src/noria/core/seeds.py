"""Seeds that depend on plain parts alone."""

from __future__ import annotations

import hashlib


def derive(*parts: object) -> int:
    """A 62-bit seed from any plain parts."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2
