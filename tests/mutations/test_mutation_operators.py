"""Each operator on real-looking code: what it turns a place into, to the letter."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from noria.core.code import Mutation, apply
from noria.mutations import LANGUAGES, operators, propose, within

SAMPLES = Path(__file__).parent / "mutation_samples"


@cache
def sample(language: str) -> bytes:
    return (SAMPLES / f"{language}.txt").read_bytes()


@cache
def all_of(language: str) -> tuple[Mutation, ...]:
    return tuple(propose(language, "a", sample(language), 0, limit=10_000))


@cache
def results(language: str) -> dict[str, set[str]]:
    """The mutated files by operator."""
    found: dict[str, set[str]] = {}
    for mutation in all_of(language):
        after = apply({"a": sample(language)}, mutation.edits)["a"].decode()
        found.setdefault(mutation.operator, set()).add(after)
    return found


PYTHON = [
    ("arguments_swapped", "discount(part, rate)\n    if", "discount(rate, part)\n    if"),
    ("assignment_removed", "        self.total += amount\n", ""),
    ("assignment_removed", "        rate = rate // 2\n", "        pass\n"),
    ("augmented_swapped", "self.total += amount", "self.total -= amount"),
    ("await_removed", "await source.load", "source.load"),
    ("boolean_negated", "reverse=True", "reverse=False"),
    ("boundary_shifted", "if amount < 0", "if amount <= 0"),
    ("branch_removed", '    elif part.kind == "rest":\n        rate = rate // 2\n', ""),
    ("branch_removed", "    else:\n        rate = rate / 3\n", ""),
    (
        "branches_swapped",
        "total = round(total, 2)\n    else:\n        total = float(total)",
        "total = float(total)\n    else:\n        total = round(total, 2)",
    ),
    ("break_continue_swapped", "            continue\n", "            break\n"),
    ("call_removed", "        self.changed()\n", ""),
    ("call_removed", "found.append(prefix)", "pass"),
    ("chain_broken", "part.price * rate / 100", "part.price * rate"),
    ("class_bases_removed", "class Counter(dict):", "class Counter:"),
    ("clause_dropped", "if found and prefix:", "if prefix:"),
    ("comparison_flipped", "if name not in self:", "if name in self:"),
    ("condition_removed", "    if found and prefix:\n        found.append(prefix)\n", "    found.append(prefix)\n"),
    ("constant_changed", "left -= 10", "left -= 9"),
    ("conversion_removed", "math.floor(part.price * rate / 100)", "part.price * rate / 100"),
    ("default_changed", "limit=5", "limit=6"),
    ("exception_changed", "raise KeyError(name)", "raise IndexError(name)"),
    ("exception_changed", "except TypeError:", "except ValueError:"),
    ("fallback_dropped", "self.get(name, 0)", "self.get(name)"),
    ("filter_removed", ' if item.name.startswith("x-")]', "]"),
    ("function_confused", "max(self[name]", "min(self[name]"),
    ("guard_removed", "        if name not in self:\n            raise KeyError(name)\n", ""),
    ("keyword_dropped", "key=len, reverse=True", "key=len"),
    ("keyword_dropped", "key=len, reverse=True", "reverse=True"),
    ("loop_off_by_one", "range(steps - 1)", "range(steps)"),
    ("loop_removed", "    for _ in range(steps - 1):\n        rate = rate * 2\n", ""),
    ("loop_removed", "while left >= 10", "if left >= 10"),
    ("method_removed", "    def changed(self):\n        pass\n", ""),
    ("not_dropped", "if not part.known", "if part.known"),
    ("null_check_removed", 'value is not None and value != ""', 'value != ""'),
    ("null_check_removed", "    if parts is None:\n        return 0\n", ""),
    ("null_returned", "return values", "return None"),
    ("operands_swapped", "self[name] - amount", "amount - self[name]"),
    ("operator_changed", "rate = rate // 2", "rate = rate % 2"),
    ("sign_dropped", "else -rate", "else rate"),
    ("slice_shifted", "found[1:limit]", "found[2:limit]"),
    ("slice_shifted", "found[1:limit]", "found[1:limit - 1]"),
    (
        "statements_swapped",
        "        self.total += amount\n        self.changed()\n",
        "        self.changed()\n        self.total += amount\n",
    ),
    ("string_changed", '"bulk"', '"bluk"'),
    ("ternary_removed", "return total if total > 0 else -rate", "return -rate"),
    ("ternary_swapped", "return total if total > 0 else -rate", "return -rate if total > 0 else total"),
    ("variable_confused", "if name not in self", "if amount not in self"),
    (
        "wrapper_removed",
        "    try:\n        found = sorted(found, key=len, reverse=True)\n    except TypeError:\n"
        "        found = list(found)\n",
        "    found = sorted(found, key=len, reverse=True)\n",
    ),
]
OTHERS = [
    ("javascript", "class_bases_removed", "class Counter extends Map {", "class Counter {"),
    ("javascript", "fallback_dropped", "(this.get(key) ?? 0)", "(this.get(key))"),
    ("javascript", "filter_removed", ".filter((item) => item.name?.startsWith(prefix))", ""),
    ("javascript", "conversion_removed", "item.name.trim()", "item.name"),
    ("javascript", "null_check_removed", "item.name?.starts", "item.name.starts"),
    ("javascript", "branch_removed", "    case 'bulk':\n      return steps;\n", ""),
    ("javascript", "boolean_negated", "if (parts.closed)", "if (!parts.closed)"),
    (
        "javascript",
        "condition_removed",
        "  if (total < 0) {\n    total = -rate;\n    log(total);\n  }\n",
        "  total = -rate;\n  log(total);\n",
    ),
    (
        "javascript",
        "branch_removed",
        " else {\n      total = total + part.price;\n    }",
        "",
    ),
    ("typescript", "default_changed", "amount: number = 1", "amount: number = 2"),
    ("typescript", "class_bases_removed", "Counter extends Map<string, number> {", "Counter {"),
    ("typescript", "variable_confused", "= total - discount(part, rate)", "= total - discount(part, limit)"),
    ("go", "guard_removed", "\tif amount < 0 {\n\t\treturn false\n\t}\n", ""),
    ("go", "loop_off_by_one", "i < len(parts)", "i <= len(parts)"),
    ("go", "function_confused", "strings.ToLower(name)", "strings.ToUpper(name)"),
    ("go", "null_check_removed", "c.counts == nil || !c.Has(name)", "!c.Has(name)"),
    (
        "go",
        "condition_removed",
        "\tif total < limit {\n\t\ttotal = -limit\n\t\treport(total)\n\t}\n",
        "\ttotal = -limit\n\treport(total)\n",
    ),
    ("rust", "null_returned", "    Some(parts[0].price)\n", "    None\n"),
    ("rust", "loop_off_by_one", "0..parts.len()", "0..=parts.len()"),
    ("rust", "fallback_dropped", "unwrap_or(0)", "unwrap_or_default()"),
    ("rust", "branch_removed", "        0 => None,\n", ""),
    ("rust", "assignment_removed", "        self.total += amount;\n", ""),
    ("java", "class_bases_removed", "Counter extends Base implements", "Counter implements"),
    ("java", "fallback_dropped", "counts.getOrDefault(name, 0)", "counts.get(name)"),
    ("java", "exception_changed", "IllegalArgumentException(", "IllegalStateException("),
    ("java", "null_returned", 'return "rest"', "return null"),
    ("java", "filter_removed", ".filter(n -> n.isEmpty())", ""),
    (
        "java",
        "wrapper_removed",
        "        try {\n            name = other.trim();\n        } catch (RuntimeException fault) {\n"
        '            name = "bulk";\n        }\n',
        "        name = other.trim();\n",
    ),
    ("c", "null_returned", "return found;", "return NULL;"),
    ("c", "slice_shifted", "parts[i] > 10", "parts[i + 1] > 10"),
    ("c", "ternary_swapped", "abs(total) : rate", "rate : abs(total)"),
    ("c", "variable_confused", "while (total > limit", "while (i > limit"),
    ("cpp", "class_bases_removed", "class Counter : public Base {", "class Counter {"),
    ("cpp", "default_changed", "int amount = 1", "int amount = 2"),
    ("cpp", "exception_changed", "std::invalid_argument(", "std::out_of_range("),
    (
        "cpp",
        "method_removed",
        "    void drop(const std::string& name, int amount = 1) {\n        try {\n"
        "            counts.at(name) -= amount;\n"
        "        } catch (const std::out_of_range& fault) {\n            total = 0;\n        }\n    }\n",
        "",
    ),
]


@pytest.mark.parametrize(("language", "operator", "old", "new"), [*[("python", *row) for row in PYTHON], *OTHERS])
def test_an_operator_turns_this_into_that(language: str, operator: str, old: str, new: str) -> None:
    source = sample(language).decode()
    assert old in source
    assert source.replace(old, new, 1) in results(language)[operator]


def test_the_table_has_every_operator() -> None:
    assert {row[0] for row in PYTHON} | {"methods_swapped"} == set(operators("python"))


def test_bodies_of_methods_are_exchanged() -> None:
    one, other = (
        sample("python").decode().split(f"def {name}(self, name: str, amount: int = 1) -> None:\n        ")[1]
        for name in ("add", "drop")
    )
    first, second = one.split("\n\n")[0], other.split("\n\n")[0]
    swapped = sample("python").decode().replace(first, "@").replace(second, first).replace("@", second, 1)
    assert swapped in results("python")["methods_swapped"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_operator_of_a_language_finds_something(language: str) -> None:
    assert set(results(language)) == set(operators(language))


@pytest.mark.parametrize("language", LANGUAGES)
def test_only_the_lines_that_are_named_differ(language: str) -> None:
    source = sample(language)
    assert all(within(source, mutation) for mutation in all_of(language))
    after = [apply({"a": source}, mutation.edits)["a"] for mutation in all_of(language)]
    assert len(set(after)) == len(after)
    assert source not in after


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_no_test_sees_is_left_alone(language: str) -> None:
    """Comments, docstrings, imports, types, messages of exceptions; in Rust the tests beside the code."""
    source = sample(language)
    quiet = [b"import", b"use std", b"#include", b"must not be negative", b"/*", b'"""', b"'use strict'"]
    quiet.append(b"# " if language == "python" else b"// ")
    quiet += [b"TYPE_CHECKING", b"let x = 1 + 2", b"#define", b"require("]
    lines = {n for n, line in enumerate(source.split(b"\n"), 1) if any(word in line for word in quiet)}
    whole = {
        "method_removed",
        "methods_swapped",
        "guard_removed",
        "exception_changed",
        "statements_swapped",
        "loop_removed",
    }
    hit = {m.operator for m in all_of(language) if lines & set(m.lines)}
    assert hit <= whole


def test_the_documentation_lists_what_there_is() -> None:
    short = {"Python": "python", "JS": "javascript", "TS": "typescript", "Go": "go", "Rust": "rust", "Java": "java"}
    short |= {"C": "c", "C++": "cpp"}
    page = (Path(__file__).parents[2] / "docs" / "mutations.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    told = {row[0].strip("| `"): {short[word] for word in row[2].split(", ")} for row in rows}
    assert told == {name: {lang for lang in LANGUAGES if name in operators(lang)} for name in operators()}
