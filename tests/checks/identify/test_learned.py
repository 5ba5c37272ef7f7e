"""Drawn tables: seeds that are found again, and distributions that are described."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path

import numpy as np
import pytest

from pecli import LearnedInit, identify
from pecli.engine.schemes import learned_tables

TORCH = json.loads((Path(__file__).parents[2] / "engine" / "schemes" / "torch_normal.json").read_text())["ways"]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("init", ["normal", "trunc-normal", "uniform", "xavier-uniform"])
def test_seed_kind_and_deviation_are_found(init: str, dtype: str) -> None:
    scheme = LearnedInit(100, 24, init=init, std=0.0137, seed=3407, dtype=dtype)
    (match,) = identify(scheme.tables()).matches
    assert match.max_abs_error <= 0.02 * 0.0137
    assert (match.scheme.init, match.scheme.seed, match.scheme.rng) == (init, 3407, "pecli")
    assert math.isclose(match.scheme.std, 0.02 if init == "xavier-uniform" else 0.0137, rel_tol=1e-3)


@pytest.mark.parametrize("rng", ["torch", "torch-avx2"])
def test_what_torch_drew_is_found(rng: str) -> None:
    (case,) = (case for case in TORCH[rng]["cases"] if case["shape"] == [1000, 7])
    table = np.frombuffer(base64.b64decode(case["data"]), "<f4").reshape(1000, 7)
    (match,) = identify(table).matches
    assert match.scheme == LearnedInit(1000, 7, std=case["std"], seed=case["seed"], rng=rng)
    assert match.max_abs_error < 1e-7


def test_leading_axes_of_one_are_said() -> None:
    table = LearnedInit(197, 32, init="trunc-normal", seed=3).single_array().array()[None]
    (match,) = identify(table).matches
    assert match.scheme == LearnedInit(197, 32, init="trunc-normal", seed=3)


def test_zeros() -> None:
    (match,) = identify(np.zeros((50, 20), np.float16)).matches
    assert match.scheme == LearnedInit(50, 20, init="zeros", dtype="float16")


def draws(kind: str, shape: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(12)
    if kind == "normal":
        return rng.normal(0, 0.02, shape)
    if kind == "cut":
        table = rng.normal(0, 0.02, (*shape, 8))
        inside = np.abs(table) < 0.04
        return np.take_along_axis(table, inside.argmax(axis=-1)[..., None], -1)[..., 0]
    return rng.uniform(-1, 1, shape) * math.sqrt(6 / sum(shape))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("normal", "normal, std 0.0"),
        ("cut", "cut at ±2 std"),
        ("xavier", "uniform, from −"),
    ],
)
def test_draws_of_unknown_seeds_are_described(kind: str, words: str) -> None:
    found = identify(draws(kind, (256, 96)).astype(np.float32))
    assert not found.identified
    text = "\n".join(found.description)
    assert "independent draws" in text
    assert words in text


def test_trained_tables_are_not_called_draws() -> None:
    """Rows that have moved towards their neighbours, as training moves them."""
    table = np.random.default_rng(5).normal(0, 0.02, (512, 64))
    table[1:] += 0.5 * table[:-1]
    text = "\n".join(identify(table.astype(np.float32)).description)
    assert "independent" not in text


def test_normal_draws_are_told_by_the_distribution_function() -> None:
    """The engine's own quantiles, evenly spaced, are as normal as numbers can be."""
    even = learned_tables.normal((np.arange(4096) + 0.5) / 4096)
    from pecli.explain.describe import distribution

    assert distribution(np.random.default_rng(1).permutation(even).reshape(64, 64)).startswith("normal, std 0.99")
