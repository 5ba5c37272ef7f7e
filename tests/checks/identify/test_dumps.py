"""Tables as programs that reckon in float32 leave them, written here by their formulas."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli


def llama3(frequency: np.ndarray, factor: float, length: int) -> np.ndarray:
    """Meta's formula, with limits of 1 and 4 rotations."""
    smooth = np.clip((length * frequency / (2 * math.pi) - 1) / 3, 0, 1)
    return np.asarray((1 - smooth) * frequency / factor + smooth * frequency)


def yarn(frequency: np.ndarray, base: float, factor: float, length: int, rotations: tuple[int, int]) -> np.ndarray:
    """The paper's ramp over channels, with limits rounded outwards."""
    half = len(frequency)
    low, high = (half * math.log(length / (2 * math.pi * each)) / math.log(base) for each in rotations)
    ramp = np.clip((np.arange(half) - math.floor(low)) / (math.ceil(high) - math.floor(low)), 0, 1)
    return np.asarray(frequency / factor * ramp + frequency * (1 - ramp))


def dumped(frequency: np.ndarray, rows: int, offset: int = 0, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    """Cosines and sines (1, rows, dim) with both halves alike; angles are products in float32."""
    angles = np.arange(offset, offset + rows, dtype=np.float32)[:, None] * frequency.astype(np.float32)
    doubled = np.concatenate([angles, angles], axis=1)[None]
    return {"cos": np.cos(doubled).astype(dtype), "sin": np.sin(doubled).astype(dtype)}


def powers(base: float, half: int) -> np.ndarray:
    return np.asarray(base ** -(np.arange(half) / half))


def test_bfloat16_beyond_the_first_positions() -> None:
    (match,) = pecli.identify(dumped(powers(10000.0, 64), 2048, 17, ml_dtypes.bfloat16)).matches
    assert match.scheme in {
        pecli.Rope(2048, 128, offset=17, layout="halves", dtype="bfloat16", recipe=recipe)
        for recipe in ("exact", "float32")
    }


def test_a_cosine_alone_tells_round_factors() -> None:
    cosine = dumped(llama3(powers(500000.0, 64), 16.0, 8192), 2048)["cos"]
    (match,) = pecli.identify(cosine).matches
    found = match.scheme
    assert isinstance(found, pecli.Rope)
    assert (found.base, found.scaling, found.factor) == (500000.0, "llama3", 16.0)
    assert (found.original_max_position_embeddings, found.layout, found.offset) == (8192, "halves", 0)


def test_yarn_between_other_rotations_is_still_truncated() -> None:
    """64 channels, limits at 64 rotations and 1: no line of a coarse grid."""
    tables = dumped(yarn(powers(10000.0, 64), 10000.0, 4.0, 8192, (64, 1)), 1000, dtype=np.float16)
    (match,) = pecli.identify(tables).matches
    found = match.scheme
    assert isinstance(found, pecli.Rope)
    assert (found.base, found.scaling, found.factor, found.truncate) == (10000.0, "yarn", 4.0, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_divided_frequencies_in_one_tensor(dtype: type) -> None:
    """Cosines beside sines, as vLLM keeps them, with a divisor for each frequency."""
    divisors = np.round(1 + 30 * np.linspace(0, 1, 32) ** 2, 2)
    tables = dumped(powers(10000.0, 32) / divisors, 512)
    cache = np.concatenate([tables["cos"][0, :, :32], tables["sin"][0, :, :32]], axis=1).astype(dtype)
    (match,) = pecli.identify({"cos_sin_cache": cache}).matches
    found = match.scheme
    assert isinstance(found, pecli.Rope)
    assert (found.scaling, found.layout, found.rotary_dim) == ("longrope", "compact", 64)
    expected = powers(10000.0, 32) / divisors
    np.testing.assert_allclose(np.array(found.frequencies().floats())[:16], expected[:16], rtol=1e-5)
    assert match.max_abs_error <= (1e-4 if dtype == np.float32 else 1e-3)


@pytest.mark.parametrize("count", [8, 64])
def test_falling_vectors_are_not_frequencies_yet(count: int) -> None:
    """Short numbers fit into any dtype, which must not make them coarse."""
    place = np.arange(count)
    for vector in (1 - place / count, 1 / (1 + place), (1 - place / count) ** 2, np.cos(place / count)):
        assert not pecli.identify(vector.astype(np.float32)).matches


def test_stripes_and_transforms_are_no_tables() -> None:
    place = np.arange(64)
    stripes = np.repeat(np.cos(place / 4)[:, None], 64, axis=1)
    cosines = np.cos(np.pi * np.outer(place, 2 * place + 1) / 128)
    for table in (stripes, cosines):
        assert not pecli.identify(table.astype(np.float32)).matches
