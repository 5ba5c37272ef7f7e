"""Drawn tables are described by their distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pecli import identify
from pecli.engine.schemes import learned


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
    even = learned.normal((np.arange(4096) + 0.5) / 4096)
    from pecli.explain.describe import distribution

    assert distribution(np.random.default_rng(1).permutation(even).reshape(64, 64)).startswith("normal, std 0.99")
