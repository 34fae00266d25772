"""C: libraries that CMake builds and CTest checks, or a Makefile whose target `check` or `test` prints TAP."""

from __future__ import annotations

from noria.languages._native import Native


class C(Native):
    """The plug-in. Programs of Unity count as their single tests."""

    name = "c"
    suffixes = (".c", ".h")
    compiler = "gcc"


def build() -> C:
    """The plug-in."""
    return C()
