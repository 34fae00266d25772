"""Near duplicates: shingles, signatures and the index, against exact Jaccard likeness."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from noria.core.errors import UserError
from noria.core.minhash import MinHash, choose_bands, likeness, meeting
from noria.core.near import ExactIndex, KeyTable, NearIndex
from noria.core.shingles import code, jaccard, leaves, of_text, shingles, words


def naive(a: str, b: str, size: int) -> float:
    runs = []
    for text in (a, b):
        tokens = words(text)
        size_ = min(size, len(tokens))
        runs.append({tuple(tokens[i : i + size_]) for i in range(len(tokens) - size_ + 1)})
    return len(runs[0] & runs[1]) / len(runs[0] | runs[1])


def texts(n: int, length: int, seed: int) -> list[str]:
    """Random texts, two in three of them another with some of its words changed."""
    rng = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(2000)]
    out: list[str] = []
    for number in range(n):
        if number % 3 == 0:
            out.append(" ".join(rng.choices(vocabulary, k=length)))
            continue
        chosen = rng.choice(out).split()
        for _ in range(rng.randint(0, 5)):
            chosen[rng.randrange(length)] = rng.choice(vocabulary)
        out.append(" ".join(chosen))
    return out


def test_words_code_and_leaves() -> None:
    assert words("Don't  STOP, x2!") == ["don", "'", "t", "stop", ",", "x2", "!"]
    python = "def f(a):\n    # adds\n    return a + 1.5e3  # one\n"
    c = "int f(char *s) { // text\n  return s[0] == 'a' && strcmp(s, \"# no // comment\");\n}"
    assert code(python) == ["def", "f", "(", "a", ")", ":", "return", "a", "+", "1.5e3"]
    assert code(c)[-5:] == [",", '"# no // comment"', ")", ";", "}"] and "text" not in code(c)
    assert code("x=1") == code("x  =\n1 # one")
    assert list(leaves({"b": [1, {"c": "x"}], "a": None, "d": True})) == ["1", "x", "True"]


def test_shingles_are_sets_with_the_jaccard_of_their_runs() -> None:
    found = texts(12, 20, 1)
    for a in found:
        for b in found:
            assert jaccard(of_text(a, 3), of_text(b, 3)) == pytest.approx(naive(a, b, 3), abs=1e-12)
    assert len(shingles([], 3)) == 1 and len(shingles(["a"], 3)) == 1
    assert jaccard(shingles(["a", "b"], 3), shingles(["b", "a"], 3)) == 0.0
    assert len(shingles(["a"] * 50, 3)) == 1
    assert [int(one) for one in of_text("a b c d", 3)] == [807383459061989803, 17841466464124501007]
    with pytest.raises(ValueError, match="at least 1"):
        shingles(["a"], 0)


def test_bands_come_from_the_threshold() -> None:
    assert choose_bands(0.8, 128, 0.99)[:2] == (21, 6)
    assert choose_bands(0.5, 128, 0.99)[:2] == (42, 3)
    assert choose_bands(1.0, 128, 0.99)[:2] == (1, 128)
    assert choose_bands(0.01, 128, 0.99)[:2] == (128, 1)
    assert meeting(0.8, 21, 6) == pytest.approx(1 - (1 - 0.8**6) ** 21)
    agreeing = np.mean(np.random.default_rng(0).random((20_000, 21, 6)) < 0.8, axis=2) == 1.0
    assert agreeing.any(axis=1).mean() == pytest.approx(meeting(0.8, 21, 6), abs=0.002)


def test_likeness_is_unbiased() -> None:
    rng = random.Random(5)
    pool = [str(number) for number in range(3000)]
    errors = []
    for common in (0, 30, 60, 120, 150):
        for seed in range(12):
            chosen = rng.sample(pool, 300 - common)
            a, b = chosen[:150], chosen[150 - common :][:150]
            exact = jaccard(shingles(a, 1), shingles(b, 1))
            assert exact == pytest.approx(common / (300 - common))
            hasher = MinHash(0.8, seed=seed)
            one, other = hasher(shingles(a, 1)), hasher(shingles(b, 1))
            errors.append(float(likeness(one.signature, other.signature[None])[0]) - exact)
    assert abs(np.mean(errors)) < 3 * 0.044 / np.sqrt(len(errors)) and np.std(errors) < 0.045
    assert likeness(one.signature, one.signature[None])[0] == 1.0


def test_a_long_text_is_hashed_in_blocks() -> None:
    long = shingles([str(number) for number in range(5000)], 1)
    hasher = MinHash(0.8)
    parts = [hasher(long[start : start + 700]).signature for start in range(0, 5000, 700)]
    assert len(long) == 5000 and len(parts) == 8
    assert [int(v) for v in hasher(long).keys] == [int(v) for v in MinHash(0.8)(long[::-1].copy()).keys]
    assert not np.array_equal(hasher(long).signature, MinHash(0.8, seed=1)(long).signature)


def test_the_index_finds_what_all_pairs_find(tmp_path: Path) -> None:
    """600 texts, each compared with all before it by exact likeness: recall, precision and margin of error."""
    found = [of_text(text, 3) for text in texts(600, 40, 2)]
    hasher = MinHash(0.8)
    index = NearIndex(hasher, len(found), tmp_path)
    counts = {(said, true): 0 for said in (False, True) for true in (False, True)}
    margin = []
    for number, hashes in enumerate(found):
        nearest = max((jaccard(hashes, other) for other in found[:number]), default=0.0)
        match = index.nearest(hasher(hashes))
        counts[match is not None, nearest >= 0.8] += 1
        if (match is not None) != (nearest >= 0.8):
            margin.append(nearest)
        if match is not None:
            assert jaccard(hashes, found[match.number]) > 0.8 - 4 * 0.035
        index.add(hasher(hashes))
    assert counts == {(True, True): 126, (True, False): 2, (False, True): 5, (False, False): 467}
    assert all(abs(likeness_ - 0.8) < 0.08 for likeness_ in margin)
    assert list(tmp_path.iterdir()) == []


def test_equal_texts_are_always_found_and_others_never(tmp_path: Path) -> None:
    hasher = MinHash(1.0)
    index = NearIndex(hasher, 200, tmp_path)
    for number in range(200):
        hashed = hasher(of_text(f"task {number} of many", 2))
        assert index.nearest(hashed) is None
        assert index.add(hashed) == number
        match = index.nearest(hashed)
        assert match is not None and match.likeness == 1.0 and match.number == number
    with pytest.raises(UserError, match="capacity must be enough"):
        index.add(hashed)


def test_a_crowded_band_stays_bounded(tmp_path: Path) -> None:
    table = KeyTable(4000, tmp_path)
    for number in range(1000):
        table.put(7, number, 4)
    for number in range(1000, 1010):
        table.put(number << 40 | number, number)
    assert list(table.numbers(np.array([7], np.uint64), 4)) == list(range(32))
    keys = np.array([number << 40 | number for number in range(1000, 1010)], np.uint64)
    assert list(table.numbers(keys)) == list(range(1000, 1010))


def test_exact_membership(tmp_path: Path) -> None:
    index = ExactIndex(3000, tmp_path)
    for number in range(3000):
        key = number << 20  # keys that agree in their lower bits
        assert key not in index
        index.add(key)
    assert all(number << 20 in index for number in range(3000))
    assert not any(number << 20 in index for number in range(3000, 6000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.0}, "threshold must be above 0"), ({"threshold": 1.01}, "threshold must be above 0"),
        ({"threshold": float("nan")}, "threshold"), ({"threshold": 0.8, "permutations": 4}, "permutations must be"),
        ({"threshold": 0.8, "recall": 1.0}, "recall must be"),
    ],
)  # fmt: skip
def test_numbers_out_of_range(options: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        MinHash(**options)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="capacity must be from 1"):
        NearIndex(MinHash(0.8), 0)
