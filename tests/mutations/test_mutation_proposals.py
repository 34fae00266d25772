"""What is proposed: balanced, reproducible, on the lines asked for, and always a program."""

from __future__ import annotations

import ast
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from noria.core.code import Target, apply
from noria.core.errors import UserError
from noria.mutations import LANGUAGES, combine, operators, propose, stub, targets, within
from noria.mutations._code import read
from noria.mutations._node import faults, parser

SAMPLES = Path(__file__).parent / "mutation_samples"
PLACES = {"python": "*.py", "c": "linux/*.h", "cpp": "c++/*/bits/*.tcc"}


def sample(language: str) -> bytes:
    return (SAMPLES / f"{language}.txt").read_bytes()


def named(language: str) -> list[tuple[str, str, int]]:
    return [(target.name, target.kind, target.complexity) for target in targets(language, "a", sample(language))]


def test_targets_of_python_have_their_complexity() -> None:
    assert named("python") == [
        ("Counter", "class", 3),
        ("Counter.add", "method", 2),
        ("Counter.drop", "method", 2),
        ("Counter.changed", "method", 1),
        ("price", "function", 7),
        ("discount", "function", 5),
        ("names", "function", 4),
        ("fetch", "function", 5),
    ]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("javascript", {"Counter": "class", "Counter.add": "method", "discount": "function", "names": "function"}),
        ("go", {"Counter.Add": "method", "Price": "function"}),
        ("rust", {"Counter": "class", "Counter.add": "method", "first": "function"}),
        ("java", {"Counter": "class", "Counter.price": "method"}),
        ("c", {"price": "function", "kind": "function"}),
        ("cpp", {"Counter": "class", "Counter.drop": "method", "kind": "function"}),
    ],
)
def test_targets_are_named_from_the_top(language: str, expected: dict[str, str]) -> None:
    found = {name: kind for name, kind, _ in named(language)}
    assert expected.items() <= found.items()
    assert "tests.adds" not in found
    assert "adds" not in found


def test_nested_and_decorated_targets() -> None:
    source = b"class A:\n    @property\n    def f(self):\n        def g():\n            return 1\n        return g\n"
    found = targets("python", "a.py", source)
    assert [(t.name, t.kind, t.first_line, t.last_line) for t in found] == [
        ("A", "class", 1, 6),
        ("A.f", "method", 3, 6),
        ("A.f.g", "function", 4, 5),
    ]
    assert source[found[2].start : found[2].end] == b"def g():\n            return 1"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_seed_decides(language: str) -> None:
    first = propose(language, "a", sample(language), 3, limit=30)
    read.cache_clear()
    assert propose(language, "a", sample(language), 3, limit=30) == first
    assert propose(language, "a", sample(language), 4, limit=30) != first


@pytest.mark.parametrize("language", LANGUAGES)
def test_any_prefix_is_balanced_over_operators(language: str) -> None:
    known = operators(language)
    drawn = propose(language, "a", sample(language), 1, limit=len(known))
    assert Counter(m.operator for m in drawn) == dict.fromkeys(known, 1)


def test_an_operator_goes_round_the_targets() -> None:
    drawn = propose("python", "a", sample("python"), 1, operators=["constant_changed"], limit=6)
    assert {m.operator for m in drawn} == {"constant_changed"}
    assert max(Counter(m.target.name for m in drawn).values()) == 1


def test_only_the_lines_asked_for() -> None:
    for wanted in ({23}, {30, 31}, {50, 51, 52}):
        drawn = propose("python", "a", sample("python"), 0, lines=wanted, limit=1000)
        assert drawn
        assert all(wanted & set(m.lines) for m in drawn)
    assert propose("python", "a", sample("python"), 0, lines=set(), limit=10) == []
    assert propose("python", "a", sample("python"), 0, lines=[1, 2, 3], limit=10) == []


def test_wrong_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="language must be one of"):
        targets("perl", "a", b"")
    with pytest.raises(UserError, match="did you mean 'loop_removed'"):
        propose("python", "a", b"", 0, operators=["lop_removed"])
    with pytest.raises(UnicodeDecodeError):
        targets("python", "a", b"\xff = 1\n")


@pytest.mark.parametrize(
    "source", [b"", b"\n", b"def f(:\n  return (\n", b"x = 1\n", b"def f(): return 1", b"\xef\xbb\xbfx = 2\n"]
)
def test_odd_files_bring_little_and_break_nothing(source: bytes) -> None:
    for language in LANGUAGES:
        for mutation in propose(language, "a", source, 0):
            assert within(source, mutation)


def test_crlf_tabs_and_umlauts_stay() -> None:
    source = "def f(a):\r\n\tif a > 1:\r\n\t\treturn 'größer'\r\n\ta += 1\r\n\treturn a\r\n".encode()
    drawn = propose("python", "a", source, 0, limit=100)
    assert len(drawn) > 8
    for mutation in drawn:
        after = apply({"a": source}, mutation.edits)["a"]
        assert after.count(b"\n") == after.count(b"\r\n")
        ast.parse(after)


def test_sets_of_validated_mutations_don_t_overlap() -> None:
    drawn = propose("python", "p/a", sample("python"), 0, limit=60)
    sets = combine(drawn, 0, size=3, limit=10)
    assert len(sets) == 10
    assert sets == combine(drawn, 0, size=3, limit=10)
    for chosen in sets:
        assert len({m.target for m in chosen}) == 3
        edits = [edit for mutation in chosen for edit in mutation.edits]
        ast.parse(apply({"p/a": sample("python")}, edits)["p/a"])
    other = propose("python", "p/b", sample("python"), 0, limit=1)
    assert combine([drawn[0], *other], 0) == []
    assert {m.target.path for m in combine([drawn[0], *other], 0, across=True)[0]} == {"p/a", "p/b"}
    assert combine([], 0) == []


@pytest.mark.parametrize(
    ("language", "name", "old", "new"),
    [
        ("python", "Counter.changed", "        pass\n", "        raise NotImplementedError\n"),
        ("go", "Price", None, 'int {\n\tpanic("not implemented")\n}'),
        ("rust", "last", "    Some(parts[0].price)\n", "    todo!()\n"),
        ("c", "kind", None, "bool known) {\n    abort();\n}"),
        ("java", "Counter.kind", None, 'throw new UnsupportedOperationException("not implemented");\n    }\n}'),
    ],
)
def test_a_stub_keeps_the_signature(language: str, name: str, old: str | None, new: str) -> None:
    source = sample(language)
    target = next(t for t in targets(language, "a", source) if t.name == name)
    mutation = stub(language, "a", source, target)
    after = apply({"a": source}, mutation.edits)["a"].decode()
    assert within(source, mutation)
    assert new in after
    assert old is None or after == source.decode().replace(old, new)


def test_a_stub_keeps_the_docstring_and_refuses_classes() -> None:
    source = b'def f(a):\n    """Doc."""\n    b = a\n    return b\n'
    (target,) = targets("python", "a", source)
    mutation = stub("python", "a", source, target)
    assert apply({"a": source}, mutation.edits)["a"] == b'def f(a):\n    """Doc."""\n    raise NotImplementedError\n'
    assert mutation.lines == (3, 4)
    with pytest.raises(UserError, match="function with a body"):
        stub("python", "a", source, Target("a", "g", "class", 0, 1, 1, 1, 1))


def real(language: str, count: int) -> list[Path]:
    """Files of this machine: the standard library, the headers of C and C++ where there are any."""
    folder = Path(sysconfig.get_path("stdlib")) if language == "python" else Path("/usr/include")
    found = sorted(path for path in folder.glob(PLACES[language]))
    sized = [path for path in found if path.is_file() and 2_000 < path.stat().st_size < 12_000]
    return [path for path in sized if language != "c" or b"inline" in path.read_bytes()][
        :: 7 if language != "c" else 1
    ][:count]


@pytest.mark.parametrize("language", ["python", "c", "cpp"])
def test_real_files_stay_programs(language: str) -> None:
    tried = 0
    for path in real(language, 3):
        source = path.read_bytes()
        code = read(language, path.name, source)
        parses = parser(code.syntax.grammar)
        for mutation in propose(language, path.name, source, 5, limit=25):
            after = apply({path.name: source}, mutation.edits)[path.name]
            assert faults(parses.parse(after)) <= code.faults, mutation
            assert within(source, mutation), mutation
            if language == "python":
                compile(after, path.name, "exec", dont_inherit=True)
            tried += 1
    if not tried:
        pytest.skip(f"no sources of {language} on this machine")
    assert tried > 20 or language != "python"


@pytest.mark.slow
def test_many_files_of_the_standard_library_stay_programs() -> None:
    for path in real("python", 40):
        source = path.read_bytes()
        for mutation in propose("python", path.name, source, 6, limit=400):
            after = apply({path.name: source}, mutation.edits)[path.name]
            assert within(source, mutation), mutation
            compile(after, path.name, "exec", dont_inherit=True)


def test_importing_the_package_loads_no_parser() -> None:
    code = "import sys, noria.mutations; print('tree_sitter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
