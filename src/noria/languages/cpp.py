"""C++: libraries that CMake builds and CTest checks, or a Makefile whose target `check` or `test` prints TAP."""

from __future__ import annotations

from noria.languages._native import HEADERS, Native


class Cpp(Native):
    """The plug-in. GoogleTest's, Catch2's and doctest's cases are single tests where CMake discovers them."""

    name = "cpp"
    suffixes = (".cpp", ".cc", ".cxx", *HEADERS)
    compiler = "g++"


def build() -> Cpp:
    """The plug-in."""
    return Cpp()
