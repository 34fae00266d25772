"""Small repositories that tests of the factory are made with."""

from __future__ import annotations

from pathlib import Path

AREAS = '''"""Areas of plane shapes."""

PI = 3.0


def rectangle(width, height):
    """Width times height; negative sides count as nothing."""
    if width < 0 or height < 0:
        return 0
    return width * height


def circle(radius):
    """Three times the square of the radius."""
    if radius <= 0:
        return 0
    return PI * radius * radius


def triangle(base, height):
    """Half of the rectangle around it."""
    return rectangle(base, height) / 2


class Sum:
    """Adds up areas."""

    def __init__(self):
        self.total = 0
        self.count = 0

    def add(self, area):
        if area:
            self.total += area
            self.count += 1
        return self

    def mean(self):
        if self.count == 0:
            return 0
        return self.total / self.count
'''
TESTS = """import pytest

from shapes import circle, rectangle, triangle
from shapes.areas import Sum


@pytest.mark.parametrize(("width", "height", "area"), [(2, 3, 6), (0, 5, 0), (-1, 2, 0), (1, 1, 1)])
def test_rectangle(width, height, area):
    assert rectangle(width, height) == area


def test_circle():
    assert circle(2) == 12
    assert circle(0) == 0


def test_triangle():
    assert triangle(4, 3) == 6


class TestSum:
    def test_total(self):
        assert Sum().add(2).add(3).total == 5

    def test_mean(self):
        assert Sum().add(2).add(4).mean() == 3
        assert Sum().mean() == 0
"""
ONE = "def one():\n    return 1\n"
HEAD = "from thing import one\n\n\n"
#: Sources that cannot be used, and what the reason says.
BAD: dict[str, tuple[dict[str, str], str]] = {
    "untested": ({"thing.py": ONE}, "no tests"),
    "failing": (
        {"thing.py": ONE, "test_thing.py": HEAD + "def test_one():\n    assert one() == 2\n"},
        "1 of its 1 tests do not pass on the tree as it is: assert 1 == 2",
    ),
    "uninstallable": (
        {
            "thing.py": ONE,
            "test_thing.py": HEAD + "def test_one():\n    assert one() == 1\n",
            "pyproject.toml": '[project]\nname = "thing"\nversion = "1"\ndependencies = ["no such ~ requirement"]\n',
        },
        "install: ",
    ),
    "endless": (
        {"thing.py": ONE, "test_thing.py": HEAD + "def test_one():\n    while one():\n        pass\n"},
        "its tests do not end: test_thing.py::test_one ran longer than its limit",
    ),
    "straying": (
        {"thing.py": ONE, "test_thing.py": HEAD + "def test_one():\n    open('/usr/x', 'w').write(str(one()))\n"},
        "they write outside of the repository",
    ),
    "dirty": (
        {"thing.py": ONE, "test_thing.py": HEAD + "def test_one():\n    open('thing.py', 'a').write('#')\n"},
        "its tests write into its own sources: thing.py",
    ),
    "unloadable": ({"thing.py": ONE, "test_thing.py": "import no_such_module_anywhere_x\n"}, "install: "),
}


#: Five sound tests among bad ones, and why each of those is left out.
MIXED = {
    "thing.py": "def one():\n    return 1\n\n\ndef two():\n    return one() + 1\n",
    "test_thing.py": "import os\n\nfrom thing import one, two\n\n\ndef test_one():\n    assert one() == 1\n\n\n"
    "def test_endless():\n    while one():\n        pass\n\n\ndef test_deadly():\n    os._exit(0)\n\n\n"
    "def test_two():\n    assert two() == 2\n\n\ndef test_wrong():\n    assert two() == 3\n\n\n"
    "def test_both():\n    assert one() + two() == 3\n\n\ndef test_more():\n    assert two() > one()\n\n\n"
    "def test_same():\n    assert two() - one() == 1\n",
    "test_dirty.py": "import thing\n\n\ndef test_writes():\n    open(thing.__file__, 'a').write('#')\n",
    "test_old.py": "from thing import three\n\n\ndef test_three():\n    assert three() == 3\n",
}
LEFT_OUT = {
    "test_thing.py::test_endless": "it ran longer than its limit",
    "test_thing.py::test_deadly": "it ended the process that runs the tests",
    "test_thing.py::test_wrong": "it fails on the tree as it is",
    "test_dirty.py::test_writes": "it writes into the sources",
    "test_old.py": "it cannot be loaded",
}


def lay(folder: Path, files: dict[str, str]) -> str:
    """Write files below a folder; its path."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return str(folder)


def shapes(folder: Path) -> str:
    """A sound repository, with a history and leftovers that must not come along."""
    return lay(
        folder,
        {
            "shapes/__init__.py": "from shapes.areas import circle, rectangle, triangle\n",
            "shapes/areas.py": AREAS,
            "tests/test_areas.py": TESTS,
            "tests/__pycache__/old.pyc": "x",
            ".hg/history": "the fix",
        },
    )
